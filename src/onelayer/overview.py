"""The plan and the status of studies, as tables; files are read, nothing is changed, no torch is imported."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table

from onelayer.config import Study
from onelayer.console import console
from onelayer.grid import Ranked, Run, all_runs
from onelayer.records import read_scores
from onelayer.state import StudyState
from onelayer.store import PROGRESS, is_held, work_folder
from onelayer.suite.scores import read_suite_scores
from onelayer.suite.standing import SuiteState, scored_runs


def print_plan(studies: Sequence[Study]) -> None:
    """Print every run of the studies: what is done and what would run."""
    out = console()
    for study in studies:
        state = StudyState(study, preview=True)
        suite, scored = SuiteState(study, state), scored_runs(study)
        columns = ("run", "layers", "training", "evaluation", *(("suite",) if scored else ()))
        table = Table(*columns, title=f"{study.name} ({study.algorithm})")
        to_train, to_evaluate, to_score = [], [], []
        for run in all_runs(study):
            training, evaluation = state.training(run), state.evaluation(run)
            if not training.done:
                to_train.append(run.name)
            if not evaluation.done:
                to_evaluate.append(run.name)
            row = [
                run.name,
                _layers(run, state.order),
                "done" if training.done else f"would train: {training.reason}",
                "done" if evaluation.done else f"would sample: {evaluation.reason}",
            ]
            if run in scored:
                standing = suite.run(run)
                row.append("done" if standing.done else f"would score: {standing.reason}")
                if not standing.done:
                    to_score.append(run.name)
            table.add_row(*row)
        out.print(table)
        out.print(f"{study.name}: would train {_listed(to_train)}", highlight=False)
        out.print(f"{study.name}: would sample {_listed(to_evaluate)}", highlight=False)
        if scored:
            out.print(f"{study.name}: would score on the suite {_listed(to_score)}", highlight=False)


def print_status(studies: Sequence[Study]) -> None:
    """Print where every run of the studies stands."""
    out = console()
    for study in studies:
        state = StudyState(study)
        suite, scored = SuiteState(study, state), scored_runs(study)
        table = Table("run", "state", "select", "report", *(("suite",) if scored else ()), title=study.name)
        finished = 0
        runs = all_runs(study)
        for run in runs:
            select = report = ""
            if state.evaluation(run).done:
                finished += 1
                scores = read_scores(study.name, run.name)
                select = f"{scores['select']['score']:.3f}"
                report = f"{scores['report']['score']:.3f}" if "report" in scores else "not sampled"
            row = [run.name, _state_of(study, state, run), select, report]
            if scored:
                row.append(_suite_of(study, suite, run) if run in scored else "not scored")
            table.add_row(*row)
        out.print(table)
        out.print(f"{study.name}: {finished} of {len(runs)} runs are trained and evaluated", highlight=False)


def _suite_of(study: Study, suite: SuiteState, run: Run) -> str:
    """How many benchmarks a run is scored on, and, of all, its composites."""
    done = sum(suite.benchmark(run, benchmark).done for benchmark in study.suite)
    if not suite.run(run).done:
        return f"{done} of {len(study.suite)} benchmarks"
    figures = read_suite_scores(study.name, run.name)["composites"]
    found = [f"{name} {row['score']:.3f}" for name, row in figures.items() if row["score"] is not None]
    return ", ".join(found) or f"{done} benchmarks"


def _layers(run: Run, order: Sequence[int] | None) -> str:
    if run.kind == "base":
        return "none"
    if run.lora is not None:
        return f"adapters of rank {run.lora.rank}"
    chosen = ", ".join(map(str, run.layers))
    if run.ranked is not None:
        place = _place(run.ranked)
        chosen = place if order is None else f"{', '.join(map(str, run.ranked.of(order)))} ({place})"
    if run.boost is not None:
        return f"all, at {run.boost:g} × the rate {chosen}"
    if run.rate_factor is not None:
        return f"{chosen} at {run.rate_factor:g} × the rate"
    return chosen or "all parameters"


def _place(ranked: Ranked) -> str:
    """Where layers stand in the ranking: ``best on select``, ``worst 5 on select``, ``best but 1 on select``."""
    count = f" {ranked.count}" if ranked.count > 1 else ""
    after = f" but {ranked.after}" if ranked.after else ""
    return f"{ranked.end}{count}{after} on select"


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
