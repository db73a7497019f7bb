"""What several tests do to a run at work: stop it at a step, and see which blocks' inputs ask for a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from onelayer import training


@contextmanager
def interrupted_at(step: int) -> Iterator[None]:
    """The training within stops before this step, as a kill would stop it."""
    original = training.WorkplaceCallback.on_step_begin

    def interrupt(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        original(self, args, state, control, **kwargs)
        if state.global_step == step:
            raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.WorkplaceCallback, "on_step_begin", interrupt)
        with pytest.raises(InterruptedError):
            yield


def gradient_asks(blocks: Iterable[nn.Module]) -> list[set[bool]]:
    """By block, whether its input asked for a gradient in the passes that had any; filled as the model runs."""
    asks: list[set[bool]] = []
    for block in blocks:
        asked: set[bool] = set()
        block.register_forward_pre_hook(
            lambda _m, args, asked=asked: asked.add(args[0].requires_grad) if torch.is_grad_enabled() else None
        )
        asks.append(asked)
    return asks
