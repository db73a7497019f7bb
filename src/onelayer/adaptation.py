"""Which parameters a run trains, and the proof that it trained those and no others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from onelayer.grid import Run
from onelayer.lora import adapter_names, base_name


class AdaptationError(RuntimeError):
    """A run trained something other than its adaptation says; its result must not be kept."""


@dataclass(frozen=True)
class Anatomy:
    """Where the parts of a decoder-only model are, found and not assumed.

    Attributes:
        blocks: the parameter-name prefix of each decoder block, such as ``model.layers.7.``, by layer.
        embeddings: the names of the token embeddings' parameters.
        head: the names of the head's own parameters; none where it is tied to the embeddings.
        others: every other parameter outside the blocks: the final norm, learned positions.
    """

    blocks: tuple[str, ...]
    embeddings: frozenset[str]
    head: frozenset[str]
    others: frozenset[str]


def find_anatomy(model: nn.Module) -> Anatomy:
    """Find a model's parts, and prove that every parameter belongs to exactly one.

    Raises AdaptationError where the blocks cannot be told, are empty, or share a parameter with anything else: then no
    layer could be trained alone.
    """
    blocks = block_prefixes(model)
    owners: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = next((prefix for prefix in blocks if name.startswith(prefix)), "what lies outside the blocks")
        owners.setdefault(id(parameter), set()).add(owner)
    shared = next((sorted(found) for found in owners.values() if len(found) > 1), None)
    if shared:
        raise AdaptationError(f"expected blocks with parameters of their own, found one shared by {', '.join(shared)}")
    empty = sorted(set(blocks) - set().union(*owners.values()))
    if empty:
        raise AdaptationError(f"expected a parameter in every block, found none in {', '.join(empty)}")
    outside = {id(p): name for name, p in model.named_parameters() if not name.startswith(blocks)}
    parts = []
    for part in (model.get_input_embeddings(), model.get_output_embeddings()):  # type: ignore[operator]
        own = [] if part is None else [id(parameter) for parameter in part.parameters()]
        parts.append(frozenset(outside.pop(one) for one in own if one in outside))
    embeddings, head = parts
    if not embeddings:
        raise AdaptationError("expected token embeddings outside the blocks, found none")
    return Anatomy(blocks, embeddings, head, frozenset(outside.values()))


def block_prefixes(model: nn.Module) -> tuple[str, ...]:
    """Find the decoder blocks: the one list of modules as long as the configuration's number of layers.

    Returns the parameter-name prefix of each block, such as ``model.layers.7.``, by layer.
    Raises AdaptationError where there is no such list or more than one.
    """
    depth = getattr(model.config.get_text_config(), "num_hidden_layers", None)  # type: ignore[union-attr,operator]
    if not isinstance(depth, int):
        raise AdaptationError(f"expected num_hidden_layers in the model's configuration, found {depth}")
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
    if run.ranked is not None and not run.layers:
        raise AdaptationError(f"{run.name}: its layers are not known yet")
    if run.boost is not None or not run.layers:
        return frozenset(name for name, _ in model.named_parameters())
    return _names_of(model, run.layers)


def boosted_names(model: nn.Module, run: Run) -> frozenset[str]:
    """The names of the parameters that train at a multiple of the rate: those of a boost's layers, else none."""
    return frozenset() if run.boost is None else _names_of(model, run.layers)


def _names_of(model: nn.Module, layers: Sequence[int]) -> frozenset[str]:
    prefixes = block_prefixes(model)
    chosen = tuple(prefixes[layer] for layer in layers)
    return frozenset(name for name, _ in model.named_parameters() if name.startswith(chosen))


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


def boost_rates(model: nn.Module, optimizer: torch.optim.Optimizer, boosted: frozenset[str], factor: float) -> None:
    """Give parameters a multiple of the rate: each group of the optimizer keeps the others, and a new one takes them.

    A new group has its old group's other settings, weight decay among them. A schedule that is made afterwards scales
    every group from its own rate.

    Args:
        model: whose parameters the optimizer holds.
        optimizer: before its first step, and before its schedule is made.
        boosted: the parameters' names.
        factor: of the rate (arXiv 2607.01232, the strategy Boost: 2).
    """
    chosen = {id(parameter) for name, parameter in model.named_parameters() if name in boosted}
    for group in list(optimizer.param_groups):
        faster = [parameter for parameter in group["params"] if id(parameter) in chosen]
        if faster:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in chosen]
            optimizer.add_param_group({**group, "params": faster, "lr": group["lr"] * factor})


def check_rates(
    model: nn.Module, optimizer: torch.optim.Optimizer, rate: float, boosted: frozenset[str], factor: float
) -> dict[str, int]:
    """Assert, before a run trains, that every parameter's rate is the one that the adaptation says.

    Args:
        model: whose parameters the optimizer holds.
        optimizer: before its schedule is made.
        rate: of all parameters but the boosted.
        boosted: the names of those at a multiple of it.
        factor: the multiple.

    Returns how many weights train at each rate. Raises AdaptationError where a parameter has another.
    """
    rates = {id(parameter): group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    weights: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if id(parameter) not in rates:
            continue
        found, expected = rates[id(parameter)], rate * factor if name in boosted else rate
        if found != expected:
            raise AdaptationError(f"{name}: found the learning rate {found:g}, expected {expected:g}")
        weights[f"{found:g}"] = weights.get(f"{found:g}", 0) + parameter.numel()
    return weights


def has_gradient_history(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> bool:
    """Tell whether a parameter ever had a gradient other than zero, by Adam's second moment."""
    second_moment = optimizer.state.get(parameter, {}).get("exp_avg_sq")
    return second_moment is not None and bool(whole(second_moment).any())


def tensor_hashes(model: nn.Module) -> dict[str, str]:
    """The content hash (sha256) of every parameter and every buffer that a checkpoint keeps, by name.

    Names and layout are the model's own, for those of its files can be others (experts are one tensor in the model and
    many in a file, say). A tied tensor counts once.
    """
    kept = model.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
    return {name: _hash(tensor) for name, tensor in {**dict(model.named_parameters()), **buffers}.items()}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it is; gathered from all processes, who must all ask for it, where each holds a share of it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _hash(tensor: torch.Tensor) -> str:
    plain = whole(tensor.detach()).cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(plain.numpy()).hexdigest()  # type: ignore[arg-type]


def check_moved(
    model: nn.Module,
    base: Mapping[str, str],
    optimizer: torch.optim.Optimizer,
    names: frozenset[str],
    added: Mapping[str, str] | None = None,
) -> bool:
    """Assert, after a run, that what should move moved and that every other tensor is bit-for-bit the base's.

    Args:
        model: the trained model.
        base: `tensor_hashes` of the base as it was loaded.
        optimizer: what trained it.
        names: the parameters that were to train.
        added: the hashes of the parameters that the base lacks (adapters), as they were before the first step.

    Returns whether anything moved. A run whose every reward was equal within each group has no gradient and
    moves nothing: that is a finding, not an error. Raises AdaptationError where a frozen tensor changed, or
    a trained one stayed although it had a gradient (a rate below the number format's resolution, say).
    """
    parameters = dict(model.named_parameters())
    found = tensor_hashes(model)
    start = {name: sha for name in found if (sha := (added or {}).get(name, base.get(base_name(name))))}
    odd = (found.keys() ^ start.keys()) | (base.keys() - {base_name(name) for name in found})
    if odd:
        raise AdaptationError(f"tensors that only the model or only the base has: {sorted(odd)}")
    changed = {name for name, sha in found.items() if sha != start[name]}
    for name in sorted(changed - names):
        what = "frozen" if name in parameters else "a buffer"
        raise AdaptationError(f"{name}: {what}, yet it differs from the base")
    for name in sorted(names - changed):
        if has_gradient_history(optimizer, parameters[name]):
            raise AdaptationError(
                f"{name}: it had a gradient, yet it did not move; the learning rate is too small for"
                f" {parameters[name].dtype}"
            )
    return bool(changed)
