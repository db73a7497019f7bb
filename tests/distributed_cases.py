"""Trainings that one process and a group of processes do alike; as a script, the group's part of them.

The script is given a folder. It takes the base from there, and the first process leaves what came of each case:
``<case>.safetensors`` with the trained tensors, and ``<case>.json``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, gather_object
from datasets import Dataset
from safetensors.torch import save_file
from transformers import PrinterCallback

sys.path.append(str(Path(__file__).parent / "rl"))

from test_agents import PROBLEMS, TetheredTask, study_of
from test_agents import TOKENIZER as AGENT_TOKENIZER

from onelayer.adaptation import AdaptationError, apply_adaptation, check_moved, check_trainable, tensor_hashes
from onelayer.baseline_settings import LoraRuns
from onelayer.grid import Run
from onelayer.lora import base_name, peft_config
from onelayer.model_settings import MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.rl.agents import AgentTrainer
from onelayer.rl.episodes import Arena
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config, prompt_dataset
from onelayer.training import Workplace
from onelayer.training_settings import Training
from training_probes import gradient_asks

PROCESSES = 2
TOKENIZER = make_micro_tokenizer("0123456789=#", 16)
MODEL = MicroModel(
    kind="micro", layers=4, width=16, intermediate=32, heads=2, kv_heads=1, context=16, pretraining={"steps": 1}
)
FULL, LAYER = Run("full-s0", "full", seed=0), Run("layer-02-s0", "layer", layers=(2,), seed=0)
AGENT_LAYER = Run("layer-01-s0", "layer", layers=(1,), seed=0)
ADAPTERS = Run("lora-r2-s0", "lora", seed=0, lora=LoraRuns(rank=2))


@dataclass(frozen=True)
class Case:
    """A training: by which strategy a group does it, what trains, and with which settings."""

    name: str
    strategy: str
    run: Run
    training: dict[str, Any] = field(default_factory=dict)
    precision: str = "float32"
    episodes: bool = False


MINIBATCHES = {"prompts_per_minibatch": 1, "inner_epochs": 2, "microbatch": 2, "steps": 6}

# Three prompts of four answers each: the second prompt's group lies half with the one process, half with the other.
CASES = (
    Case("ddp-layer", "ddp", LAYER, {"microbatch": 6}),
    Case("ddp-full", "ddp", FULL, {"kl": 0.1}),
    Case("ddp-adapters", "ddp", ADAPTERS, {"kl": 0.1}),
    Case("ddp-gigpo", "ddp", FULL, episodes=True),
    Case("fsdp-layer", "fsdp", LAYER, {"microbatch": 6, "gradient_checkpointing": True}),
    Case("fsdp-full", "fsdp", FULL, {"kl": 0.1}),
    Case("ddp-minibatches", "ddp", FULL, MINIBATCHES),
    Case("fsdp-minibatches", "fsdp", FULL, MINIBATCHES),
    Case("fsdp-bfloat16", "fsdp", LAYER, {"kl": 0.1}, precision="bfloat16"),
    Case("fsdp-gigpo", "fsdp", AGENT_LAYER, episodes=True),
)


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(set(text)) > 2) for text in completions]


def save_base(folder: Path) -> None:
    """Where a reference model is read from."""
    make_micro_model(MODEL, TOKENIZER, 0).save_pretrained(folder / "base")


@contextmanager
def trainer_of(case: Case, folder: Path, processes: int) -> Iterator[OneLayerGRPOTrainer]:
    """A trainer for one process or a group's member, before it trains."""
    defaults = {"steps": 2, "prompts_per_batch": 3, "group_size": 4, "max_tokens": 3, "kl": 0.0}
    workplace = Workplace("study", 0, case.run.name, "f", 1e9)
    study = study_of("gigpo", **{**defaults, **case.training}) if case.episodes else None
    settings = Training(learning_rates=(1e-3,), **{**defaults, **case.training}) if study is None else study.training
    tokenizer = TOKENIZER if study is None else AGENT_TOKENIZER
    model = make_micro_model(MODEL if study is None else study.model, tokenizer, 0)  # type: ignore[arg-type]
    model.config._name_or_path = str(folder / "base")
    algorithm, turns = ("grpo", 1) if study is None else ("gigpo", TetheredTask.max_turns)
    args = grpo_config(settings, 1e-3, workplace, case.precision, algorithm, turns, processes=processes)  # type: ignore[arg-type]
    args.output_dir = str(folder / "work" / case.name)
    common: dict[str, Any] = {
        "model": model,
        "args": args,
        "processing_class": tokenizer,
        "trained_names": apply_adaptation(model, case.run),
        "workplace": workplace,
        "sharded": processes > 1 and case.strategy == "fsdp",
        "peft_config": None if case.run.lora is None else peft_config(case.run.lora),
    }
    if study is None:
        prompts = [f"{a}#{b}=" for a in range(1, 9) for b in range(4)]
        yield OneLayerGRPOTrainer(reward_funcs=reward, train_dataset=Dataset.from_dict({"prompt": prompts}), **common)
        return
    with closing(Arena(TetheredTask(), 4, study.grading)) as arena:  # type: ignore[arg-type]
        yield AgentTrainer(
            train_dataset=prompt_dataset(PROBLEMS), study=study, arena=arena, problems=PROBLEMS, **common
        )


def train(case: Case, folder: Path, processes: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Do a case; returns the trained tensors, and all else that is compared."""
    answers: list[Any] = []
    with trainer_of(case, folder, processes) as trainer:
        model = trainer.model
        names = trainer.trained_names
        hashes = tensor_hashes(model)
        plain = {name: sha for name, sha in hashes.items() if name not in trainer.adapters_at_start}
        blocks = model.base_model.model.model.layers if case.run.lora else model.model.layers
        asks = gradient_asks(blocks)
        original = trainer._generate_and_score_completions

        def noted(inputs: Any) -> Any:
            output = original(inputs)
            rows = zip(output["completion_ids"].tolist(), output["completion_mask"].tolist(), strict=True)
            answers.append(gather_object([[token for token, real in zip(*row, strict=True) if real] for row in rows]))
            return output

        trainer._generate_and_score_completions = noted
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        member = trainer.accelerator.unwrap_model(trainer.model)
        check_trainable(member, trainer.optimizer, names)
        base = {base_name(name): sha for name, sha in plain.items()}
        moved = check_moved(member, base, trainer.optimizer, names, trainer.adapters_at_start)
        tensors = {k: v.detach().cpu().clone() for k, v in trainer.plain_model().named_parameters() if k in names}
        found = {
            "answers": answers,
            "asks": [sorted(asked) for asked in asks],
            "moved": moved,
            "caught": _caught(member, base, trainer) if case.run is LAYER else None,
            "history": [
                {
                    key: row[key]
                    for key in ("reward", "kl", "entropy", "grad_norm", "success", "num_tokens")
                    if key in row
                }
                for row in trainer.state.log_history
                if "reward" in row
            ],
        }
    return tensors, found


def _caught(member: Any, base: dict[str, str], trainer: OneLayerGRPOTrainer) -> bool:
    """Whether a frozen tensor that changed is found out, also where this process holds no changed part of it."""
    frozen = member.model.layers[0].mlp.up_proj.weight
    own = frozen.to_local() if hasattr(frozen, "to_local") else frozen
    with torch.no_grad():
        if not trainer.args.process_index:
            own[0] += 1
    try:
        check_moved(member, base, trainer.optimizer, trainer.trained_names)
    except AdaptationError as error:
        return "model.layers.0.mlp.up_proj.weight: frozen" in str(error)
    return False


def _member(folder: Path) -> None:
    for case in CASES:
        # Each case as a process of its own would find it.
        os.environ.pop("ACCELERATE_USE_FSDP", None)
        AcceleratorState._reset_state()
        if PartialState._shared_state:
            PartialState._shared_state["distributed_type"] = DistributedType.MULTI_CPU
        tensors, found = train(case, folder, PROCESSES)
        assert PartialState().num_processes == PROCESSES
        caught = gather_object([found["caught"]])
        if PartialState().is_main_process:
            found["caught"] = caught
            save_file({k: v.contiguous() for k, v in tensors.items()}, folder / f"{case.name}.safetensors")
            (folder / f"{case.name}.json").write_text(json.dumps(found))
    PartialState().destroy_process_group()


if __name__ == "__main__":
    _member(Path(sys.argv[1]))
