"""Where every run stands, once or live: files alone are read, so it works beside a cluster; no torch is imported."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from onelayer.config import Study
from onelayer.console import console
from onelayer.grid import Run, all_runs, is_weighed
from onelayer.progress import Failure, Progress, read_failure, read_progress
from onelayer.records import read_scores
from onelayer.state import StudyState
from onelayer.store import is_held
from onelayer.suite.scores import read_suite_scores
from onelayer.suite.standing import SuiteState, scored_runs

_UNFINISHED = ("at work", "stopped", "trained", "waiting")
_COLUMNS = ("run", "state", "step", "reward", "rate", "left", "job", "memory", "select", "report")


@dataclass(frozen=True)
class Standpoint:
    """Where one run stands.

    Attributes:
        kind: ``done``, ``at work``, ``stopped``, ``waiting`` (to be trained) or ``trained`` (to be evaluated).
        text: the same in the words of the table.
        progress: what was last said of its unfinished work.
        failure: how its last start failed, where nothing has been at work on it since.
    """

    run: Run
    kind: str
    text: str
    progress: Progress | None = None
    failure: Failure | None = None


def print_status(studies: Sequence[Study]) -> None:
    """Print where every run of the studies stands."""
    out = console()
    for study in studies:
        for part in _study(study, everything=True):
            out.print(part, highlight=False)


def watch_status(studies: Sequence[Study], seconds: float, out: Console | None = None) -> None:
    """Show, anew every so many seconds until interrupted, the runs at work and those that stopped or failed."""
    out = out or console()
    with Live(_view(studies), console=out, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(seconds)
                live.update(_view(studies), refresh=True)
        except KeyboardInterrupt:
            return


def _view(studies: Sequence[Study]) -> RenderableType:
    shown = [part for study in studies for part in _study(study, everything=False)]
    return Group(*shown, Text(f"{datetime.now():%H:%M:%S}, ends with Ctrl-C", style="dim"))


def _study(study: Study, everything: bool) -> Iterator[RenderableType]:
    """A study's table, its failures and how many runs stand where; else only the runs at work, stopped or failed."""
    state = StudyState(study)
    suite, scored = SuiteState(study, state), scored_runs(study)
    points = [standpoint(study, state, run) for run in all_runs(study)]
    shown = [point for point in points if everything or point.kind in ("at work", "stopped") or point.failure]
    rows = [_cells(study, point) for point in shown]
    # A column that would stay empty is left out.
    columns = [name for name in _COLUMNS if name in ("run", "state") or any(cells[name] for cells in rows)]
    table = Table(Column("run", no_wrap=True), *columns[1:], *(["suite"] if scored else []), title=study.name)
    for point, cells in zip(shown, rows, strict=True):
        row = [cells[name] for name in columns]
        if scored:
            row.append(_suite_of(study, suite, point.run) if point.run in scored else "not scored")
        table.add_row(*row)
    if shown:
        yield table
    for point in shown:
        if point.failure is not None:
            yield Text(f"{study.name}/{point.run.name}: {_failed(point.failure)}")
    counts = Counter(point.kind for point in points)
    others = "".join(f", {counts[kind]} {kind}" for kind in _UNFINISHED if counts[kind])
    yield Text(f"{study.name}: {counts['done']} of {len(points)} runs are trained and evaluated{others}")
    if everything:
        weighed = [state.weighing(point.run).done for point in points if is_weighed(point.run)]
        yield Text(f"{study.name}: {sum(weighed)} of {len(weighed)} runs are weighed")


def standpoint(study: Study, state: StudyState, run: Run) -> Standpoint:
    """Where a run stands: by its manifests, by who holds it, and by what was last said of it."""
    training = state.training(run)
    if training.done and state.evaluation(run).done:
        return Standpoint(run, "done", "done")
    progress = read_progress(study.name, run.name)
    # Whoever holds a run lives: a process that was killed, or a machine that is gone, holds none.
    if is_held(study.name, run.name):
        if progress is None:
            return Standpoint(run, "at work", "at work: evaluation" if training.done else "at work: starting")
        silent = progress.silent_for()
        quiet = "" if silent is None else f", silent for {_duration(silent)}"
        return Standpoint(run, "at work", f"at work: {progress.phase}{quiet}", progress)
    failure = read_failure(study.name, run.name)
    if progress is not None:
        return Standpoint(run, "stopped", f"stopped: {progress.phase}", progress, failure)
    if training.done:
        return Standpoint(run, "trained", "trained", failure=failure)
    return Standpoint(run, "waiting", f"not trained: {training.reason}", failure=failure)


def _cells(study: Study, point: Standpoint) -> dict[str, str]:
    cells = dict.fromkeys(_COLUMNS, "") | {"run": point.run.name, "state": point.text}
    if point.progress is not None:
        of = point.progress
        cells |= {
            "step": f"{of.step}/{of.steps}",
            "reward": ", ".join(
                f"{value:.3f}" if name == "reward" else f"{name} {value:.3f}" for name, value in of.watched.items()
            ),
            "rate": "" if of.learning_rate is None else f"{of.learning_rate:.3g}",
            "left": _duration(of.seconds_left) if point.kind == "at work" else "",
            "job": " on ".join(part for part in (of.job, of.host) if part),
            "memory": "" if of.memory_bytes is None else f"{of.memory_bytes / 1e9:.2f} GB",
        }
    if point.kind == "done":
        scores = read_scores(study.name, point.run.name)
        cells["select"] = f"{scores['select']['score']:.3f}"
        cells["report"] = f"{scores['report']['score']:.3f}" if "report" in scores else "not sampled"
    return cells


def _failed(failure: Failure) -> str:
    job = f"job {failure.job} on " if failure.job else ""
    return f"failed at {datetime.fromtimestamp(failure.at):%Y-%m-%d %H:%M} ({job}{failure.host}): {failure.message}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _suite_of(study: Study, suite: SuiteState, run: Run) -> str:
    """How many benchmarks a run is scored on, and, of all, its composites."""
    done = sum(suite.benchmark(run, benchmark).done for benchmark in study.suite)
    if not suite.run(run).done:
        return f"{done} of {len(study.suite)} benchmarks"
    figures = read_suite_scores(study.name, run.name)["composites"]
    found = [f"{name} {row['score']:.3f}" for name, row in figures.items() if row["score"] is not None]
    return ", ".join(found) or f"{done} benchmarks"
