"""How fast a machine is: constants that turn counted work into hours. Pure; no torch.

A phase takes the sum of its passes, FLOPs, bytes and steps, each times the seconds that one of it takes. These
constants are measured (onelayer.calibrate) or, for a GPU that is not at hand, taken from its published peaks.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from onelayer.cost import Phase, RunCost
from onelayer.errors import UserError

CALIBRATION = Path("calibration.json")


@dataclass(frozen=True)
class Rates:
    """The constants of one kind of work.

    Attributes:
        pass_seconds: of a pass through one block, beside its arithmetic.
        flop_seconds: of one multiplication or addition.
        byte_seconds: of one byte moved from or to memory.
        step_seconds: of an optimizer step or a batch of answers, beside its passes.
    """

    pass_seconds: float
    flop_seconds: float
    byte_seconds: float
    step_seconds: float

    def seconds(self, phase: Phase) -> float:
        """How long a phase takes."""
        return (
            phase.passes * self.pass_seconds
            + phase.flops * self.flop_seconds
            + phase.bytes * self.byte_seconds
            + phase.steps * self.step_seconds
        )


@dataclass(frozen=True)
class Machine:
    """A machine, as the model of cost sees it.

    Attributes:
        name: the processor or accelerator.
        kind: what its hours are of.
        threads: of the processor, that its constants hold for; 1 of a GPU.
        sampling: the constants of sampling.
        training: the constants of training.
        start_seconds: until a process has imported what it needs.
        source: where the constants come from, in words.
    """

    name: str
    kind: str
    threads: int
    sampling: Rates
    training: Rates
    start_seconds: float
    source: str

    def seconds(self, cost: RunCost) -> float:
        """How long a run takes, training and evaluation, its share of a job's start left out."""
        return (
            self.sampling.seconds(cost.sampling)
            + self.training.seconds(cost.training)
            + self.sampling.seconds(cost.evaluation)
        )

    def as_row(self) -> dict[str, Any]:
        """The machine as JSON holds it."""
        return asdict(self)


_MACHINES = TypeAdapter(list[Machine])


def _read(text: str, path: Path | str) -> list[Machine]:
    try:
        return _MACHINES.validate_python(json.loads(text))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: expected JSON, found: {error}; `onelayer calibrate` makes it anew") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}; `onelayer calibrate` makes it anew") from None


def reference_machines() -> list[Machine]:
    """The processor whose constants come with the package, for each number of threads."""
    name = "reference_cpu.json"
    return _read(files("onelayer").joinpath(name).read_text(), name)


def calibrated() -> list[Machine]:
    """This machine, as `onelayer calibrate` found it, for each number of threads; empty where it has not run.

    Raises UserError where the file is not what that command writes.
    """
    return _read(CALIBRATION.read_text(), CALIBRATION) if CALIBRATION.is_file() else []


def find_machine(device: str | None, threads: int, precision: str) -> Machine:
    """The machine to count hours of.

    Args:
        device: the name of a GPU of the table, such as ``h100``; None for this machine, and where it was never
            calibrated, the reference processor.
        threads: of the processor, that a run uses; the nearest calibrated number is taken.
        precision: of the arithmetic; a GPU's peak depends on it.

    Raises UserError where the device is none of the table.
    """
    if device is None:
        own = calibrated() or reference_machines()
        return min(own, key=lambda machine: (abs(machine.threads - threads), machine.threads))
    if device not in GPUS:
        raise UserError(f"device {device!r}: expected one of {', '.join(GPUS)}, or none for this machine")
    return _from_peaks(device, precision)


@dataclass(frozen=True)
class _Peaks:
    """Published peaks of a GPU, in FLOP and bytes a second, without sparsity."""

    bfloat16: float
    float32: float
    memory: float


# NVIDIA's data sheets: A100 80 GB SXM, H100 SXM, H200 SXM.
GPUS = {
    "a100": _Peaks(312e12, 19.5e12, 2.039e12),
    "h100": _Peaks(989e12, 67e12, 3.35e12),
    "h200": _Peaks(989e12, 67e12, 4.8e12),
}
# What of the peaks is supposed to be reached. Well-tuned pre-training reaches 0.38 to 0.46 of the arithmetic (PaLM,
# arXiv 2204.02311, section 4.1; Llama 3, arXiv 2407.21783, section 3.3.2); a small model in a plain loop reaches less.
_ARITHMETIC_SHARE = 0.3
_MEMORY_SHARE = 0.5
# What starting the kernels of one block costs, and what a step or batch costs beside: ours, measured nowhere.
_GPU_PASS_SECONDS = 2e-4
_GPU_STEP_SECONDS = 0.1
_GPU_START_SECONDS = 30.0


def _from_peaks(device: str, precision: str) -> Machine:
    peaks = GPUS[device]
    rates = Rates(
        _GPU_PASS_SECONDS,
        1 / (_ARITHMETIC_SHARE * (peaks.bfloat16 if precision == "bfloat16" else peaks.float32)),
        1 / (_MEMORY_SHARE * peaks.memory),
        _GPU_STEP_SECONDS,
    )
    return Machine(
        device.upper(),
        "GPU",
        1,
        rates,
        rates,
        _GPU_START_SECONDS,
        f"an estimate: {_ARITHMETIC_SHARE:.0%} of the published {precision} peak, {_MEMORY_SHARE:.0%} of the memory's",
    )
