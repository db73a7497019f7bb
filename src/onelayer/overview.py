"""The plan of studies, as tables; files are read, nothing is changed, no torch is imported."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from onelayer.config import Study
from onelayer.console import console
from onelayer.grid import Ranked, Run, all_runs, is_weighed
from onelayer.state import StudyState
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
        to_weigh = [run.name for run in all_runs(study) if is_weighed(run) and not state.weighing(run).done]
        out.print(f"{study.name}: would weigh {_listed(to_weigh)}", highlight=False)
        if scored:
            out.print(f"{study.name}: would score on the suite {_listed(to_score)}", highlight=False)


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
