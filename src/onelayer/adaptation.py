"""Which parameters a run trains, and the proof that it trained those and no others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from onelayer.grid import Run
from onelayer.lora import adapter_names, base_name


class AdaptationError(RuntimeError):
    """A run trained something other than its adaptation says; its result must not be kept."""


def block_prefixes(model: nn.Module) -> tuple[str, ...]:
    """Find the decoder blocks: the one list of modules as long as the configuration's number of layers.

    Returns the parameter-name prefix of each block, such as ``model.layers.7.``, by layer.
    Raises AdaptationError where there is no such list or more than one.
    """
    depth = model.config.get_text_config().num_hidden_layers  # type: ignore[union-attr,operator]
    found = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == depth and any(True for _ in module.parameters())
    ]
    # A list inside a block (experts, say) may be as long by chance; the blocks are the outermost.
    outermost = [name for name in found if not any(name.startswith(other + ".") for other in found)]
    if len(outermost) != 1:
        raise AdaptationError(f"expected one list of {depth} decoder blocks, found {outermost or 'none'}")
    return tuple(f"{outermost[0]}.{layer}." for layer in range(depth))


def trained_names(model: nn.Module, run: Run) -> frozenset[str]:
    """The names of the parameters that a run trains: every one, or those of its layers (attention, MLP, norms).

    Of a LoRA run, those of the adapters that the trainer will put on the model.
    """
    if run.lora is not None:
        return adapter_names(model, run.lora)
    if run.best and not run.layers:
        raise AdaptationError(f"{run.name}: its layer is not known yet")
    names = frozenset(name for name, _ in model.named_parameters())
    if not run.layers:
        return names
    prefixes = block_prefixes(model)
    chosen = tuple(prefixes[layer] for layer in run.layers)
    return frozenset(name for name in names if name.startswith(chosen))


def apply_adaptation(model: nn.Module, run: Run) -> frozenset[str]:
    """Freeze all but the run's parameters, and return the names of those that train.

    With the embeddings frozen, no activation below the lowest trained layer asks for a gradient, so the
    backward pass ends there.
    """
    names = trained_names(model, run)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in names)
    return names


def check_trainable(model: nn.Module, optimizer: torch.optim.Optimizer, names: frozenset[str]) -> None:
    """Assert, before a run trains, that the model's and the optimizer's parameters are exactly the adaptation's.

    Raises AdaptationError otherwise, also for an optimizer that holds nothing, which would train "successfully".
    """
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    optimized = {name for name, parameter in model.named_parameters() if id(parameter) in held}
    for what, found in (("trainable", trainable), ("in the optimizer", optimized)):
        if found != names:
            raise AdaptationError(
                f"{what}: missing {sorted(names - found)[:5]}, unexpected {sorted(found - names)[:5]}"
            )


def has_gradient_history(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> bool:
    """Tell whether a parameter ever had a gradient other than zero, by Adam's second moment."""
    second_moment = optimizer.state.get(parameter, {}).get("exp_avg_sq")
    return second_moment is not None and bool(second_moment.any())


def check_moved(
    model: nn.Module,
    base_files: list[Path],
    optimizer: torch.optim.Optimizer,
    names: frozenset[str],
    added: Mapping[str, torch.Tensor] | None = None,
) -> bool:
    """Assert, after a run, that what should move moved and that every other tensor is bit-for-bit the base's.

    ``added`` are parameters that the base lacks (adapters), as they were before the first step.

    Returns whether anything moved. A run whose every reward was equal within each group has no gradient and
    moves nothing: that is a finding, not an error. Raises AdaptationError where a frozen tensor changed, or
    a trained one stayed although it had a gradient (a rate below the number format's resolution, say).
    """
    base = BaseTensors(base_files)
    added = added or {}
    moved = False
    for name, parameter in model.named_parameters():
        start = added[name] if name in added else base[base_name(name)]
        same = torch.equal(parameter.detach().cpu(), start.to(parameter.dtype))
        if name not in names and not same:
            raise AdaptationError(f"{name}: frozen, yet it differs from the base")
        if name in names and same and has_gradient_history(optimizer, parameter):
            raise AdaptationError(
                f"{name}: it had a gradient, yet it did not move; the learning rate is too small for {parameter.dtype}"
            )
        moved |= not same
    for name, buffer in model.named_buffers():
        theirs = base_name(name)
        if theirs in base and not torch.equal(buffer.detach().cpu(), base[theirs].to(buffer.dtype)):
            raise AdaptationError(f"{name}: a buffer, yet it differs from the base")
    return moved


class BaseTensors:
    """The base's tensors by name, read from its safetensors files one at a time."""

    def __init__(self, files: list[Path]) -> None:
        self._where = {}
        for path in files:
            with safe_open(path, framework="pt") as handle:
                self._where.update(dict.fromkeys(handle.keys(), path))

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def __getitem__(self, name: str) -> torch.Tensor:
        with safe_open(self._where[name], framework="pt") as handle:
            tensor: torch.Tensor = handle.get_tensor(name)
        return tensor
