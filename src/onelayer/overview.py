"""The plan and the status of studies, as tables; files are read, nothing is changed, no torch is imported."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table

from onelayer.config import Study
from onelayer.console import console
from onelayer.grid import Run, all_runs
from onelayer.records import read_scores
from onelayer.state import StudyState
from onelayer.store import PROGRESS, is_held, work_folder


def print_plan(studies: Sequence[Study]) -> None:
    """Print every run of the studies: what is done and what would run."""
    out = console()
    for study in studies:
        state = StudyState(study, preview=True)
        table = Table("run", "layers", "training", "evaluation", title=f"{study.name} ({study.algorithm})")
        to_train, to_evaluate = [], []
        for run in all_runs(study):
            training, evaluation = state.training(run), state.evaluation(run)
            if not training.done:
                to_train.append(run.name)
            if not evaluation.done:
                to_evaluate.append(run.name)
            table.add_row(
                run.name,
                _layers(run),
                "done" if training.done else f"would train: {training.reason}",
                "done" if evaluation.done else f"would sample: {evaluation.reason}",
            )
        out.print(table)
        out.print(f"{study.name}: would train {_listed(to_train)}", highlight=False)
        out.print(f"{study.name}: would sample {_listed(to_evaluate)}", highlight=False)


def print_status(studies: Sequence[Study]) -> None:
    """Print where every run of the studies stands."""
    out = console()
    for study in studies:
        state = StudyState(study)
        table = Table("run", "state", "select", "report", title=study.name)
        finished = 0
        runs = all_runs(study)
        for run in runs:
            select = report = ""
            if state.evaluation(run).done:
                finished += 1
                scores = read_scores(study.name, run.name)
                select = f"{scores['select']['score']:.3f}"
                report = f"{scores['report']['score']:.3f}" if "report" in scores else "not sampled"
            table.add_row(run.name, _state_of(study, state, run), select, report)
        out.print(table)
        out.print(f"{study.name}: {finished} of {len(runs)} runs are trained and evaluated", highlight=False)


def _layers(run: Run) -> str:
    if run.kind == "base":
        return "none"
    return ", ".join(map(str, run.layers)) or "all parameters"


def _listed(names: list[str]) -> str:
    return f"{len(names)} runs: {', '.join(names)}" if names else "nothing"


def _state_of(study: Study, state: StudyState, run: Run) -> str:
    at_work = is_held(study.name, run.name)
    training = state.training(run)
    if training.done:
        if state.evaluation(run).done:
            return "done"
        return "at work: being evaluated" if at_work else "trained"
    progress = sorted(work_folder(study.name, run.name).glob(f"*/{PROGRESS}"), key=lambda p: p.stat().st_mtime)
    if not progress:
        return "at work: starting" if at_work else f"not trained: {training.reason}"
    figures = json.loads(progress[-1].read_text())
    step = f"step {figures['step']}/{figures['steps']}"
    watched = "".join(f", {key} {figures[key]:.3f}" for key in ("reward", "loss") if key in figures)
    if at_work:
        return f"at work: {step}{watched}, {figures['seconds_left']:.0f} s left"
    return f"interrupted at {step}{watched}"
