"""What every trainer here shares: small resume saves, a seed a step, progress that others can read.

A run's unfinished work lies in ``.work/<study>/<run>/<fingerprint>/``. A save there holds only the tensors
that train, the optimizer's state and the trainer's; it counts once its marker is written, last.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import (
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from onelayer.interruption import InterruptedWorkError, reason_to_stop
from onelayer.manifest import Meter
from onelayer.models import adapt, save_adapted
from onelayer.ownership import check_ownership
from onelayer.progress import tell
from onelayer.seeds import derive_seed
from onelayer.store import ADAPTED, WORK, disk_errors, write_json

_MARKER = "complete.json"
_SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True)
class Workplace:
    """Where and as what a run trains: its folder for unfinished work, and the names its draws are seeded by."""

    study: str
    study_seed: int
    run: str
    fingerprint: str
    save_every_seconds: float

    @property
    def folder(self) -> Path:
        """The folder of this run's unfinished work, of this fingerprint alone."""
        return WORK / self.study / self.run / self.fingerprint[:16]

    def seed(self, *parts: object) -> int:
        """The seed of a draw of this run."""
        return derive_seed(self.study_seed, self.run, *parts)

    def discard(self) -> None:
        """Remove all unfinished work of the run, whatever its fingerprint: it is finished."""
        shutil.rmtree(self.folder.parent, ignore_errors=True)


def last_save(workplace: Workplace) -> Path | None:
    """The newest whole save of a run; None where it starts from the beginning."""
    saves = sorted(
        (path for path in workplace.folder.glob("checkpoint-*") if (path / _MARKER).is_file()),
        key=lambda path: int(path.name.rpartition("-")[2]),
    )
    return saves[-1] if saves else None


class ResumableMixin(Trainer):  # type: ignore[misc]
    """A Trainer whose saves hold only what trains."""

    trained_names: frozenset[str]

    def plain_model(self) -> Any:
        """The model itself, out of whatever the trainer wrapped it in."""
        return self.accelerator.unwrap_model(self.model)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: a resume save is no model to publish."""

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        model = self.plain_model()
        if self.args.should_save:
            save_adapted(model, self.trained_names, folder / ADAPTED)

    def _save_rng_state(self, output_dir: str) -> None:
        if self.args.should_save:  # every step seeds its generators anew, so one process's say all
            super()._save_rng_state(output_dir)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        adapt(model or self.model, Path(resume_from_checkpoint) / ADAPTED)


class WorkplaceCallback(TrainerCallback):  # type: ignore[misc]
    """Seeds each step, saves on a time budget and before the process is stopped, and tells how far the run is.

    Saves fall only between rollouts (every ``steps_per_rollout`` steps), so that no sampled batch has to be
    kept: the batch that follows is drawn anew from its step's seed. Whether to stop is asked there too, in time for
    one more rollout and its save.
    """

    def __init__(self, workplace: Workplace, meter: Meter, steps_per_rollout: int, watched: str) -> None:
        self._workplace = workplace
        self._meter = meter
        self._steps_per_rollout = steps_per_rollout
        self._watched = watched
        self._last_save = self._last_line = self._last_rollout = time.monotonic()
        self._longest_rollout = self._longest_save = 0.0
        self._stopping: str | None = None
        self._first_step = 0
        save = last_save(workplace)
        earlier = json.loads((save / _MARKER).read_text()) if save else {}
        self._earlier_seconds: float = earlier.get("wall_seconds", 0.0)
        self._earlier_peak: int = earlier.get("peak_memory_bytes", 0)

    @property
    def wall_seconds(self) -> float:
        """Seconds over every start of the run, what was lost between a save and a kill excepted."""
        return self._earlier_seconds + self._meter.seconds

    @property
    def peak_memory_bytes(self) -> int:
        """The peak over every start of the run."""
        return max(self._earlier_peak, self._meter.peak_memory_bytes)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say where the run starts."""
        self._first_step = state.global_step
        how = f"goes on from step {state.global_step}" if state.global_step else "starts"
        if state.is_world_process_zero:
            self._say(f"{how}, {state.max_steps} steps")
        self._last_rollout = time.monotonic()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Seed every generator by the step, so that a resumed step draws what an uninterrupted one draws."""
        set_seed(self._workplace.seed("step", state.global_step))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for a save where one is due. Raises OwnershipLostError where another process took the run over."""
        check_ownership()
        if state.global_step % self._steps_per_rollout or state.global_step >= state.max_steps:
            return control
        now = time.monotonic()
        self._longest_rollout = max(self._longest_rollout, now - self._last_rollout)
        self._last_rollout = now
        due = now - self._last_save >= self._workplace.save_every_seconds
        # Twice, for answers get longer as a run goes on.
        stopping = reason_to_stop(2 * (self._longest_rollout + self._longest_save))
        # Saving takes every process, so what the first one knows decides for all.
        due, self._stopping = broadcast_object_list([due, stopping])
        control.should_save |= due or self._stopping is not None
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Mark the save as whole: its files first reach the disk, then the marker does.

        Raises InterruptedWorkError, in every process, where the run should stop.
        """
        if state.is_world_process_zero:
            self._mark(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        self._last_save = time.monotonic()
        self._longest_save = max(self._longest_save, self._last_save - self._last_rollout)
        if self._stopping is not None:
            raise InterruptedWorkError(
                f"{self._workplace.study}/{self._workplace.run}: stopped after step {state.global_step} of"
                f" {state.max_steps}, for {self._stopping}; it was saved and goes on from there"
            )

    def _mark(self, folder: Path) -> None:
        for path in folder.iterdir():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())
        write_json(
            folder / _MARKER,
            {"wall_seconds": self.wall_seconds, "peak_memory_bytes": self.peak_memory_bytes},
        )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print a line now and then, and leave the figures for `onelayer status`."""
        value = (logs or {}).get(self._watched)
        now = time.monotonic()
        last = state.global_step >= state.max_steps
        if value is None or (now - self._last_line < _SECONDS_BETWEEN_LINES and not last):
            return
        if not state.is_world_process_zero:
            return
        self._last_line = now
        done = max(state.global_step - self._first_step, 1)
        left = self._meter.seconds / done * (state.max_steps - state.global_step)
        self._say(f"step {state.global_step}/{state.max_steps}, {self._watched} {value:.3f}, {left:.0f} s left")
        tell(
            self._workplace.folder,
            "training",
            state.global_step,
            state.max_steps,
            left,
            learning_rate=(logs or {}).get("learning_rate"),
            memory_bytes=self.peak_memory_bytes,
            **{self._watched: value},
        )

    def _say(self, text: str) -> None:
        print(f"{self._workplace.study}/{self._workplace.run}: {text}", flush=True)


def run_trainer(trainer: ResumableMixin, workplace: Workplace) -> None:
    """Train to the end, from the newest whole save where there is one.

    Raises UserError where the disk is full, InterruptedWorkError where the process should stop, and
    OwnershipLostError where another one took the run over.
    """
    save = last_save(workplace)
    trainer.remove_callback(PrinterCallback)  # the workplace's own lines say more, and less often
    with disk_errors(workplace.folder):
        workplace.folder.mkdir(parents=True, exist_ok=True)
        trainer.train(resume_from_checkpoint=str(save) if save else None)


def use_threads(count: int) -> None:
    """Let torch use this many threads: runs that share a machine must share its cores."""
    torch.set_num_threads(count)
