"""LoRA, a baseline: adapters over a frozen base, which parameters they are, and how they are laid over it.

Hu et al. 2021, *LoRA: Low-Rank Adaptation of Large Language Models* (arXiv 2106.09685, section 4.1), as PEFT computes
it: a target's weight W acts as W + (alpha / rank) B A, with A of shape (rank, in) drawn at random and B of shape
(out, rank) zero, so that training starts from the base. A checkpoint holds A and B alone, named as in PEFT's own files;
what else it takes to rebuild the adapters stands in the file's metadata.
"""

from __future__ import annotations

import json
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.pytorch_utils import Conv1D

from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.store import replacing

# PEFT sees for itself that GPT-2 keeps its weights transposed and a mixture its experts in one tensor; it says so.
warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")
warnings.filterwarnings("ignore", message="The following (rank|alpha)_pattern keys did not match")

# PEFT wraps the model twice, names its one adapter so, and keeps a target's own weight under this name.
_WRAPPED = "base_model.model."
_ADAPTER = ".default"
_KEPT = ".base_layer"
_METADATA = "lora"


def linear_modules(model: nn.Module) -> tuple[str, ...]:
    """The names of a model's linear maps but its head: what adapters can stand on."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head and name
    )


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
    """The parameters that adapters add to a plain model, by the names they have once PEFT has wrapped it.

    Found on a copy of the model without content, so that they are known before the run's own model is touched.
    """
    base = {name for name, _ in model.named_parameters()}
    with torch.device("meta"):
        copy = type(model)(deepcopy(model.config))
    wrapped = get_peft_model(copy, peft_config(lora))
    return frozenset(name for name, _ in wrapped.named_parameters() if base_name(name) not in base)


def base_name(name: str) -> str:
    """The name that a parameter of a wrapped model has in the base; any other name stays as it is."""
    return name.removeprefix(_WRAPPED).replace(_KEPT, "")


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
    wrapped = get_peft_model(model, peft_config(lora))
    places = {
        name.replace(_ADAPTER, ""): parameter
        for name, parameter in wrapped.named_parameters()
        if parameter.requires_grad
    }
    if tensors.keys() != places.keys():
        odd = sorted(tensors.keys() ^ places.keys())
        raise UserError(
            f"{path}: expected adapters for this base, found missing or without a place: {', '.join(odd[:3])}"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            if places[name].shape != tensor.shape:
                raise UserError(
                    f"{path}: tensor {name} of shape {list(tensor.shape)} has no place in this base; found"
                    f" {list(places[name].shape)}"
                )
            places[name].copy_(tensor)
        wrapped.merge_and_unload()
    model.requires_grad_(True)  # as before: PEFT froze the base to wrap it
