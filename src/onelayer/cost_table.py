"""What studies cost, as tables or JSON: runs, tokens, FLOPs, hours and bytes, by kind of run and in all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.table import Table

from onelayer.config import Study
from onelayer.console import console
from onelayer.cost import RunCost, run_cost
from onelayer.grid import BASE, all_runs, jobs
from onelayer.lengths import Lengths, expected_lengths
from onelayer.machine import Machine, find_machine
from onelayer.model_shape import model_shape
from onelayer.shape import Shape


@dataclass(frozen=True)
class Row:
    """Runs of one kind, or all of them.

    Attributes:
        what: the kind.
        runs: how many.
        sampled: tokens that pass the model while answers are sampled in training.
        trained: tokens of its forward and backward passes.
        evaluated: tokens that pass it in evaluation.
        flops: of all of these.
        seconds: if one run went after another.
        device_hours: GPU hours, or hours of a processor's core.
        checkpoint_bytes: what stays on the disk.
        memory_bytes: the largest peak of any run's training.
    """

    what: str
    runs: int = 0
    sampled: float = 0.0
    trained: float = 0.0
    evaluated: float = 0.0
    flops: float = 0.0
    seconds: float = 0.0
    device_hours: float = 0.0
    checkpoint_bytes: int = 0
    memory_bytes: float = 0.0

    def plus(self, other: Row) -> Row:
        """Both together, under this row's name."""
        return Row(
            self.what,
            self.runs + other.runs,
            self.sampled + other.sampled,
            self.trained + other.trained,
            self.evaluated + other.evaluated,
            self.flops + other.flops,
            self.seconds + other.seconds,
            self.device_hours + other.device_hours,
            self.checkpoint_bytes + other.checkpoint_bytes,
            max(self.memory_bytes, other.memory_bytes),
        )


@dataclass(frozen=True)
class StudyCost:
    """What a study costs, and what that was counted with."""

    study: str
    shape: Shape
    lengths: Lengths
    machine: Machine
    rows: tuple[Row, ...]
    total: Row = field(default_factory=lambda: Row("all"))


def study_cost(study: Study, device: str | None = None, response_tokens: float | None = None) -> StudyCost:
    """Count every run of a study.

    Args:
        study: its settings.
        device: the machine, where it is not the study's own or this one.
        response_tokens: mean tokens of a response, where it is not what is measured, stated or supposed.

    Raises UserError where the model's shape is stated nowhere within reach, or the device is unknown.
    """
    shape = model_shape(study)
    lengths = expected_lengths(study, response_tokens)
    device = device or study.cost.device
    machine = find_machine(device, study.resources.threads, study.model.precision)
    base_machine = find_machine(device, study.resources.base_threads, study.model.precision)
    rows: dict[str, Row] = {}
    for run in all_runs(study):
        is_base = run == BASE
        threads = study.resources.base_threads if is_base else study.resources.threads
        row = _row(run_cost(study, shape, run, lengths), base_machine if is_base else machine, threads)
        rows[run.kind] = rows.get(run.kind, Row(run.kind)).plus(row)
    # Every job is a process for its training and one for its evaluation.
    starts = 2 * len(jobs(study)) * machine.start_seconds
    hours = starts / 3600 * _cores(machine, study.resources.threads)
    rows["starts"] = Row("process starts", seconds=starts, device_hours=hours)
    total = Row("all")
    for row in rows.values():
        total = total.plus(row)
    return StudyCost(study.name, shape, lengths, machine, tuple(rows.values()), total)


def _cores(machine: Machine, threads: int) -> int:
    return threads if machine.kind == "CPU" else 1


def _row(cost: RunCost, machine: Machine, threads: int) -> Row:
    seconds = machine.seconds(cost)
    return Row(
        cost.run.kind,
        1,
        cost.sampling.tokens,
        cost.training.tokens,
        cost.evaluation.tokens,
        cost.flops,
        seconds,
        seconds / 3600 * _cores(machine, threads),
        cost.checkpoint_bytes,
        cost.memory_bytes,
    )


def print_costs(costs: Sequence[StudyCost]) -> None:
    """Print a table a study, and all studies' total where there are several."""
    out = console()
    for cost in costs:
        table = _table(f"{cost.study}: {_count(cost.shape.weights)} weights", cost.machine.kind)
        for row in cost.rows:
            _add(table, row)
        table.add_section()
        _add(table, cost.total)
        out.print(table)
        out.print(
            f"lengths: prompts {cost.lengths.prompt:.0f}, responses {cost.lengths.response:.0f} tokens,"
            f" {cost.lengths.evaluated:.0f} in evaluation ({cost.lengths.source})",
            highlight=False,
        )
        out.print(f"machine: {cost.machine.name} ({cost.machine.source})\n", highlight=False)
    if len(costs) > 1:
        kinds = sorted({cost.machine.kind for cost in costs})
        table = _table(f"{len(costs)} studies", " and ".join(kinds))
        for cost in costs:
            _add(table, replace(cost.total, what=cost.study))
        table.add_section()
        _add(table, grand_total(costs))
        out.print(table)
    out.print("What is counted, and what is left out: docs/method.md, Cost.", highlight=False)


def grand_total(costs: Sequence[StudyCost]) -> Row:
    """All studies together."""
    total = Row("all")
    for cost in costs:
        total = total.plus(cost.total)
    return total


def print_costs_json(costs: Sequence[StudyCost]) -> None:
    """Print the same figures as JSON."""
    print(json.dumps({"studies": [_as_json(cost) for cost in costs], "total": _figures(grand_total(costs))}, indent=2))


def _as_json(cost: StudyCost) -> dict[str, Any]:
    return {
        "study": cost.study,
        "weights": cost.shape.weights,
        "lengths": vars(cost.lengths),
        "machine": {"name": cost.machine.name, "kind": cost.machine.kind, "source": cost.machine.source},
        "kinds": {row.what: _figures(row) for row in cost.rows},
        "total": _figures(cost.total),
    }


def _figures(row: Row) -> dict[str, float]:
    return {key: value for key, value in vars(row).items() if key != "what"}


def _table(title: str, kind: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("runs", "sampled", "trained", "evaluated", "FLOPs", f"{kind} hours", "one by one", "disk", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _add(table: Table, row: Row) -> None:
    table.add_row(
        row.what,
        str(row.runs) if row.runs else "",
        *(_count(tokens) if tokens else "" for tokens in (row.sampled, row.trained, row.evaluated)),
        f"{row.flops:.2e}" if row.flops else "",
        _hours(row.device_hours),
        _duration(row.seconds),
        _bytes(row.checkpoint_bytes) if row.checkpoint_bytes else "",
        _bytes(row.memory_bytes) if row.memory_bytes else "",
    )


def _count(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def _bytes(value: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.3g} s"
