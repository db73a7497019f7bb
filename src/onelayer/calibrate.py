"""Measure this machine's constants for the model of cost: real steps of small models, and the fit to them."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from scipy.optimize import nnls
from transformers import PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from onelayer.adaptation import apply_adaptation
from onelayer.cost import Phase, rollout_phase, training_phase
from onelayer.grid import Run
from onelayer.lengths import Lengths
from onelayer.machine import Machine, Rates
from onelayer.models import make_micro_tokenizer
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config
from onelayer.shape import Shape
from onelayer.store import write_json
from onelayer.training import Workplace
from onelayer.training_settings import Training

# Characters that stand for the tokens of a model which says nothing.
_FIRST_CHARACTER = 0x4E00
_STEPS = 3


@dataclass(frozen=True)
class Trial:
    """One small GRPO training that is timed: a model, a batch, and what trains.

    Attributes:
        shape: the model's sizes.
        prompts: of a batch.
        group: answers to each.
        prompt: tokens of a prompt.
        response: tokens of an answer, every one.
        layer: the block that trains; None for all parameters.
        microbatch: answers in one forward and backward pass.
    """

    shape: Shape
    prompts: int
    group: int
    prompt: int
    response: int
    layer: int | None = None
    microbatch: int | None = None

    @property
    def run(self) -> Run:
        """What trains, as a run of a study."""
        if self.layer is None:
            return Run("full", "full", seed=0)
        return Run("layer", "layer", layers=(self.layer,), seed=0)

    @property
    def settings(self) -> Training:
        """Of one optimizer step after another, each on answers of its own."""
        return Training(
            learning_rates=(1e-6,),
            steps=_STEPS + 1,
            prompts_per_batch=self.prompts,
            group_size=self.group,
            microbatch=self.microbatch,
            max_tokens=self.response,
            kl=0.0,
        )

    @property
    def work(self) -> tuple[Phase, Phase]:
        """What one step asks for: sampling and training."""
        settings = self.settings.model_copy(update={"steps": 1})
        lengths = Lengths(self.prompt, self.response, self.response, "set")
        return rollout_phase(settings, self.shape, lengths), training_phase(settings, self.shape, self.run, lengths)


@dataclass(frozen=True)
class Timing:
    """The median seconds of a trial's step: sampling and scoring, and all the rest of it."""

    trial: Trial
    sampling: float
    training: float


def _qwen(layers: int, width: int, vocabulary: int) -> Shape:
    heads = max(2, width // 64)
    return Shape(
        layers=layers,
        width=width,
        intermediate=3 * width,
        heads=heads,
        kv_heads=heads,
        vocabulary=vocabulary,
        tied=True,
    )


# Small batches of wide models show what arithmetic and memory cost, and tiny models what is left when these are next
# to nothing.
CPU_TRIALS = (
    Trial(_qwen(8, 64, 32), 32, 8, 6, 4),
    Trial(_qwen(8, 64, 32), 32, 8, 6, 4, layer=7),
    Trial(_qwen(4, 64, 64), 8, 8, 40, 24, microbatch=16),
    Trial(_qwen(4, 256, 1024), 8, 4, 24, 24),
    Trial(_qwen(4, 256, 1024), 8, 4, 24, 24, layer=3),
    Trial(_qwen(3, 512, 4096), 4, 4, 32, 32),
    Trial(_qwen(3, 512, 4096), 4, 4, 32, 32, layer=1),
    Trial(_qwen(3, 512, 4096), 8, 2, 96, 4, microbatch=8),
    Trial(_qwen(2, 768, 16384), 2, 4, 32, 24),
    Trial(_qwen(2, 768, 16384), 2, 4, 32, 24, layer=1),
)

# On a GPU these models take no time that could be measured; wider ones stand beside them there.
GPU_TRIALS = (
    *CPU_TRIALS,
    Trial(_qwen(4, 2048, 16384), 16, 8, 128, 64, microbatch=64),
    Trial(_qwen(4, 2048, 16384), 16, 8, 128, 64, layer=2, microbatch=64),
    Trial(_qwen(2, 4096, 16384), 32, 8, 256, 16, microbatch=64),
)


def time_trial(trial: Trial, threads: int) -> Timing:
    """Train a model of random weights for a few steps on this machine, and time them."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    shape = trial.shape
    characters = "".join(chr(_FIRST_CHARACTER + index) for index in range(shape.vocabulary - 2))
    context = trial.prompt + trial.response
    tokenizer = make_micro_tokenizer(characters, context)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.width,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.attention_width // shape.heads,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    draw = torch.randint(0, len(characters), (64, trial.prompt), generator=torch.Generator().manual_seed(1))
    prompts = ["".join(characters[index] for index in row) for row in draw.tolist()]
    workplace = Workplace("calibration", 0, "run", "0", 1e9)
    with tempfile.TemporaryDirectory() as folder:
        args = grpo_config(trial.settings, 1e-6, workplace, "bfloat16" if torch.cuda.is_available() else "float32")
        args.output_dir = folder
        trainer = OneLayerGRPOTrainer(
            model=model,
            args=args,
            reward_funcs=_reward,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
            trained_names=apply_adaptation(model, trial.run),
            workplace=workplace,
        )
        trainer.eos_token_ids = [-1]  # no answer ends before its limit
        clock = _Clock(trainer)
        trainer.add_callback(clock)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    sampling = statistics.median(clock.sampling[1:])
    return Timing(trial, sampling, statistics.median(clock.steps[1:]) - sampling)


def _reward(completions: list[str], **_: Any) -> list[float]:
    return [float(ord(text[0]) % 2) for text in completions]


class _Clock(TrainerCallback):  # type: ignore[misc]
    """Times every step of a trainer, and what of it is sampling and scoring."""

    def __init__(self, trainer: OneLayerGRPOTrainer) -> None:
        self.sampling: list[float] = []
        self.steps: list[float] = []
        self._begun = 0.0
        sample = trainer._generate_and_score_completions

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = _now()
            result = sample(*args, **kwargs)
            self.sampling.append(_now() - start)
            return result

        trainer._generate_and_score_completions = timed

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._begun = _now()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Stop it."""
        self.steps.append(_now() - self._begun)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def fit(phases: Sequence[Phase], seconds: Sequence[float]) -> Rates:
    """The constants that explain the measured seconds best, none below 0 (relative least squares).

    Args:
        phases: the work of each trial's step.
        seconds: what it took.
    """
    work = np.array([[phase.passes, phase.flops, phase.bytes, phase.steps] for phase in phases], dtype=np.float64)
    relative = work / np.array(seconds)[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0  # work that no trial has any of
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    return Rates(*(found / scale).tolist())


def write_calibration(threads: Sequence[int], path: Path) -> list[Machine]:
    """Measure this machine, and write what `onelayer.machine` reads.

    Args:
        threads: that torch may use, a measurement each; none of them: one, and every core; on a GPU, one.
        path: where it is written.
    """
    machines = []
    cores = 1 if torch.cuda.is_available() else os.cpu_count() or 1
    for count in threads or sorted({1, cores}):
        machines.append(calibrate(count))
    write_json(path, [machine.as_row() for machine in machines])
    return machines


def calibrate(threads: int) -> Machine:
    """Measure this machine with a number of threads that torch may use; a line a trial says how far it is."""
    name, kind = device()
    trials = GPU_TRIALS if kind == "GPU" else CPU_TRIALS
    timings = []
    for number, trial in enumerate(trials, start=1):
        timing = time_trial(trial, threads)
        timings.append(timing)
        print(
            f"{threads} threads, trial {number} of {len(trials)}, {trial.shape.layers} layers of width"
            f" {trial.shape.width}: sampling {timing.sampling:.3f} s, training {timing.training:.3f} s a step",
            flush=True,
        )
    work = [timing.trial.work for timing in timings]
    sampling = fit([sampled for sampled, _ in work], [timing.sampling for timing in timings])
    training = fit([trained for _, trained in work], [timing.training for timing in timings])
    ratios = [
        (sampling.seconds(sampled) + training.seconds(trained)) / (timing.sampling + timing.training)
        for (sampled, trained), timing in zip(work, timings, strict=True)
    ]
    return Machine(
        name,
        kind,
        threads,
        sampling,
        training,
        _start_seconds(),
        f"measured: {min(ratios):.2f} to {max(ratios):.2f} of the seconds of each of {len(ratios)} trials",
    )


def device() -> tuple[str, str]:
    """What training would use, by name, and whether it is a ``GPU`` or a ``CPU``; of a processor, with its cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name(), "GPU"
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    return f"{name}, {os.cpu_count()} cores", "CPU"


def _start_seconds() -> float:
    """Seconds until a process has imported what training needs."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import onelayer.train"], check=True)
    return time.perf_counter() - start
