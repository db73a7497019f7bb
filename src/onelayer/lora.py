"""LoRA, a baseline: adapters over a frozen base, which parameters they are, and how they are laid over it.

Hu et al. 2021, *LoRA: Low-Rank Adaptation of Large Language Models* (arXiv 2106.09685, section 4.1), as PEFT computes
it: a target's weight W acts as W + (alpha / rank) B A, with A of shape (rank, in) drawn at random and B of shape
(out, rank) zero, so that training starts from the base. A checkpoint holds A and B alone, named as in PEFT's own files;
what else it takes to rebuild the adapters stands in the file's metadata.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.pytorch_utils import Conv1D

from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.store import replacing

# GPT-2 keeps its weights transposed; PEFT sees that for itself and says so.
warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")

# PEFT wraps the model twice, names its one adapter so, and keeps a target's own weight under this name.
_WRAPPED = "base_model.model."
_ADAPTER = ".default"
_KEPT = ".base_layer."
_METADATA = "lora"


def linear_modules(model: nn.Module) -> tuple[str, ...]:
    """The names of the modules that adapters can stand on: every linear map of the model but its head."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head and name
    )


def targeted(model: nn.Module, lora: LoraRuns) -> tuple[str, ...]:
    """The linear modules that the settings name: all of them, or those whose names end in a target."""
    linear = linear_modules(model)
    if lora.targets == "all-linear":
        return linear
    return tuple(name for name in linear if any(_is_named(name, target) for target in lora.targets))


def _is_named(module: str, target: str) -> bool:
    """PEFT's rule for a target: the whole name of a module, or its last parts."""
    return module == target or module.endswith(f".{target}")


def check_targets(study: Study, model: nn.Module) -> None:
    """See that every target of the study's adapters names linear modules of this model and nothing else.

    Raises UserError otherwise; also for the head, whose weights TRL multiplies by without asking the module.
    """
    lora = study.runs.lora
    if lora is None or lora.targets == "all-linear":
        return
    linear = set(linear_modules(model))
    for index, target in enumerate(lora.targets):
        named = [name for name, _ in model.named_modules() if _is_named(name, target)]
        if not named or not linear.issuperset(named):
            last_parts = sorted({name.rpartition(".")[2] for name in linear})
            raise UserError(
                f"{study_file(study.name)}: runs.lora.targets[{index}]: found {target!r}, which names"
                f" {'no module' if not named else 'modules that are not linear, or the head'}; expected names of linear"
                f" modules of this model: {', '.join(last_parts)}"
            )


def adapter_names(model: nn.Module, lora: LoraRuns) -> frozenset[str]:
    """The parameters that adapters add to a plain model, by the names they have once PEFT has wrapped it."""
    return frozenset(
        f"{_WRAPPED}{name}.lora_{half}{_ADAPTER}.weight" for name in targeted(model, lora) for half in "AB"
    )


def base_name(name: str) -> str:
    """The name that a parameter of a wrapped model has in the base; any other name stays as it is."""
    return name.removeprefix(_WRAPPED).replace(_KEPT, ".")


def peft_config(lora: LoraRuns) -> LoraConfig:
    """PEFT's settings for ours."""
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.adapter_alpha,
        lora_dropout=0.0,
        target_modules=lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        bias="none",
        task_type="CAUSAL_LM",
    )


def save_adapters(model: nn.Module, names: frozenset[str], lora: LoraRuns, path: Path) -> None:
    """Write a wrapped model's adapters, atomically, with the settings that rebuild them."""
    tensors = {
        name.replace(_ADAPTER, ""): parameter.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        if name in names
    }
    metadata = {"format": "pt", _METADATA: lora.model_dump_json(include={"rank", "alpha", "targets"})}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def read_lora(path: Path) -> LoraRuns | None:
    """The settings of the adapters that a checkpoint holds; None where it holds whole tensors."""
    with safe_open(path, framework="pt") as handle:
        metadata: dict[str, str] = handle.metadata() or {}
    return LoraRuns(**json.loads(metadata[_METADATA])) if _METADATA in metadata else None


def merge_adapters(model: Any, lora: LoraRuns, path: Path) -> None:
    """Add a checkpoint's adapters to a base's weights, in place and in the weights' own number format (float32).

    Raises UserError where the file's tensors are not exactly those that the adapters have on this base.
    """
    tensors = load_file(path)
    expected = {name.replace(_ADAPTER, "") for name in adapter_names(model, lora)}
    if tensors.keys() != expected:
        odd = sorted(tensors.keys() ^ expected)
        raise UserError(
            f"{path}: expected adapters for this base, found missing or without a place: {', '.join(odd[:3])}"
        )
    wrapped = get_peft_model(model, peft_config(lora))
    parameters = dict(wrapped.named_parameters())
    for name, tensor in tensors.items():
        place = parameters[name.removesuffix(".weight") + f"{_ADAPTER}.weight"]
        if place.shape != tensor.shape:
            raise UserError(
                f"{path}: tensor {name} of shape {list(tensor.shape)} has no place in this base; found"
                f" {list(place.shape)}"
            )
    set_peft_model_state_dict(wrapped, tensors)
    with torch.no_grad():
        wrapped.merge_and_unload()
    model.requires_grad_(True)  # as before: PEFT froze the base to wrap it
