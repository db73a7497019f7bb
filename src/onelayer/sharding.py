"""FSDP, version 2: weights in training, gradients and the optimizer's state are shared out among a run's processes.

PyTorch's ``fully_shard`` does it, block by block, as accelerate prepares it. What is added here:

- Sampling. Processes decode different numbers of tokens, and every pass through a shared-out model needs them all; so
  each samples from a whole copy, whose trained tensors are gathered before each batch of answers (no other can have
  changed).
- Precision. Weights are gathered in float32, and autocast does the rest, as in one process: accelerate's own policy
  would round norms and gradients to bfloat16, and the policy that learns would not be the one that sampled.
- Saves hold whole tensors, named and laid out as those of one process: a run may go on with another number of
  processes, or another strategy.
- A CPU. accelerate keeps FSDP for accelerators, though ``fully_shard`` itself works over gloo; its state is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from accelerate import FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType, convert_outputs_to_fp32
from safetensors.torch import load_file
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from onelayer.adaptation import block_prefixes, check_trainable, whole
from onelayer.store import ADAPTED
from onelayer.training import ResumableMixin


class ShardableMixin(ResumableMixin):
    """A Trainer whose model can be shared out among processes.

    Args:
        model: of transformers, plain; all of its parameters are of one number format.
        sharded: whether it is shared out; else this adds nothing to its parents.
    """

    def __init__(self, model: Any, *args: Any, sharded: bool = False, **kwargs: Any) -> None:
        self._sharded = sharded
        # Taken before any trainer puts its own hands on the model.
        self._whole_copy = deepcopy(model).requires_grad_(False) if sharded else None
        self._plugin = _plugin(model) if sharded else None
        super().__init__(model, *args, **kwargs)
        reference = getattr(self, "ref_model", None)
        if sharded and reference is not None:
            self._autocast(reference)

    def plain_model(self) -> Any:
        """The model with whole tensors; where it is shared out, a copy brought up to date, for which all must ask."""
        model = super().plain_model()
        if self._whole_copy is None:
            return model
        self._whole_copy.to(self.accelerator.device)
        own = dict(self._whole_copy.named_parameters())
        with torch.no_grad():
            for name, tensor in whole_tensors(model, self.trained_names):
                own[name].copy_(tensor)
        return self._whole_copy

    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        found: dict[str, Any] = super()._build_accelerator_args(**kwargs)
        return found | {"fsdp_plugin": self._plugin} if self._sharded else found

    def create_accelerator_and_postprocess(self) -> None:
        """Make the accelerator, and have it share the model out on a CPU too."""
        super().create_accelerator_and_postprocess()
        if not self._sharded:
            return
        state = self.accelerator.state
        if state.distributed_type == DistributedType.MULTI_CPU:
            state.fsdp_plugin = self._plugin
            state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        self.is_fsdp_enabled = True
        # TRL would let transformers spread the reference model over all devices that it sees.
        self.args.model_init_kwargs = {"device_map": None}

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._prepare_for_training(*args, **kwargs)
        model = self.accelerator.unwrap_model(self.model)
        if self._sharded:
            self._autocast(model)
        check_trainable(model, self.optimizer, self.trained_names)
        return prepared

    def _autocast(self, model: Any) -> None:
        """Run a model's passes in the study's precision, as accelerate does where nothing is shared out."""
        if self.accelerator.mixed_precision == "bf16":
            context = torch.autocast(self.accelerator.device.type, dtype=torch.bfloat16)
            model.forward = MethodType(convert_outputs_to_fp32(context(model.forward.__func__)), model)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save what trains, and nothing else."""
        self._save(output_dir)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self._sharded:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        state = whole_state(self.optimizer)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not self._sharded:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        tensors = load_file(Path(resume_from_checkpoint) / ADAPTED)
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in tensors.items():
                parameters[name].copy_(_shared_out(tensor, parameters[name]))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not self._sharded or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        read = {
            name: torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME)
        }
        load_whole_state(self.optimizer, read[OPTIMIZER_NAME])
        self.lr_scheduler.load_state_dict(read[SCHEDULER_NAME])


def _plugin(model: nn.Module) -> FullyShardedDataParallelPlugin:
    """accelerate's settings of ``fully_shard``: each decoder block by itself, and the rest."""
    blocks = {type(model.get_submodule(prefix.removesuffix("."))).__name__ for prefix in block_prefixes(model)}
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=True,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=sorted(blocks),
        mixed_precision_policy=MixedPrecisionPolicy(),
        cpu_ram_efficient_loading=False,
    )


def whole_tensors(model: nn.Module, names: frozenset[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Gather some parameters of a shared-out model, one by one; every process must ask for the same ones."""
    for module in model.modules():
        if isinstance(module, FSDPModule):  # what a pass left whole may be older than the shards
            module.reshard()
    for name, parameter in model.named_parameters():
        if name in names:
            yield name, whole(parameter.detach())


def whole_state(optimizer: Any) -> dict[str, Any]:
    """An optimizer's state with whole tensors, on the CPU; every process must ask for it."""
    state: dict[str, Any] = optimizer.state_dict()
    return state | {
        "state": {
            index: {key: whole(value).cpu() if isinstance(value, torch.Tensor) else value for key, value in of.items()}
            for index, of in state["state"].items()
        }
    }


def load_whole_state(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Give an optimizer a state of whole tensors; each process keeps its share."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shared = {
        index: {
            key: _shared_out(value, parameters[index]) if value.shape == parameters[index].shape else value
            for key, value in of.items()
        }
        for index, of in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": shared})


def _shared_out(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The share of a whole tensor that this process holds of a parameter."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
