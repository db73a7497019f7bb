"""Sampling from a causal language model: the one sampler of training and evaluation.

It differs from transformers' ``generate`` in three ways. The cache writes into room made beforehand where
DynamicCache copies itself at every token, a prompt that is answered several times is read once, and every
row draws from its own stream of uniform numbers, so that an answer does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from onelayer.seeds import derive_seed


@dataclass(frozen=True)
class Decoding:
    """How answers are drawn: the limit in tokens, the ids that end one, and the temperature (None is greedy)."""

    max_tokens: int
    end_ids: tuple[int, ...]
    pad_id: int
    temperature: float | None


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A cache layer with room for what is to come; ``keys`` and ``values`` are views of the filled part."""

    def __init__(self, filled: DynamicLayer, room: int) -> None:
        super().__init__()
        self._buffers: list[torch.Tensor] = []
        self._filled = filled.keys.shape[-2]
        for old in (filled.keys, filled.values):
            shape = list(old.shape)
            shape[-2] += room
            buffer = old.new_empty(shape)
            buffer[:, :, : self._filled] = old
            self._buffers.append(buffer)
        self.dtype, self.device = filled.keys.dtype, filled.keys.device
        self.is_initialized = True
        self._show()

    def _show(self) -> None:
        self.keys, self.values = (buffer[:, :, : self._filled] for buffer in self._buffers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new states behind the old ones."""
        end = self._filled + key_states.shape[-2]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, self._filled : end] = new
        self._filled = end
        self._show()
        return self.keys, self.values

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Let go of every row but these."""
        self._buffers = [buffer[rows] for buffer in self._buffers]
        self._show()


def row_streams(seeds: Sequence[int], length: int) -> torch.Tensor:
    """One stream of uniform numbers in [0, 1) a row, from the row's own seed: shape (rows, length), float64."""
    streams = [np.random.Generator(np.random.Philox(seed)).random(length) for seed in seeds]
    return torch.from_numpy(np.stack(streams))


def row_seeds(count: int, *parts: object) -> list[int]:
    """A seed for each of ``count`` rows, from the parts that name the draw (study seed, run, step)."""
    return [derive_seed(*parts, row) for row in range(count)]


@torch.inference_mode()
def generate(
    model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding, seeds: Sequence[int] | None
) -> list[list[int]]:
    """Draw one answer a row.

    Args:
        model: a causal language model of transformers, in evaluation mode or without dropout.
        prompts: token ids, one prompt a row; equal neighbours are read once.
        decoding: limits and temperature.
        seeds: one a row, by which its tokens are drawn; None where the decoding is greedy.

    Returns:
        The new token ids of each row, the end token included where one was drawn.
    """
    rows_of: list[int] = []
    distinct: list[Sequence[int]] = []
    for prompt in prompts:
        if not distinct or list(prompt) != list(distinct[-1]):
            distinct.append(prompt)
        rows_of.append(len(distinct) - 1)
    device = model.device
    spread = torch.tensor(rows_of, device=device)
    ids, mask, positions = _left_padded(distinct, decoding.pad_id, device)
    cache: Cache = DynamicCache(config=model.config)
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    cache = output.cache
    cache.batch_select_indices(spread)
    cache.layers = [
        _RoomyLayer(layer, decoding.max_tokens) if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    logits = output.logits[spread, -1]
    if mask is not None:
        mask = torch.cat([mask[spread], mask.new_ones(len(rows_of), decoding.max_tokens)], dim=1)
    position = torch.tensor([len(distinct[row]) for row in rows_of], device=device)
    streams = None
    if decoding.temperature is not None:
        assert seeds is not None
        assert len(seeds) == len(prompts)
        streams = row_streams(seeds, decoding.max_tokens).to(device)
    ends = torch.tensor(decoding.end_ids, device=device)
    width = ids.shape[1]

    answers = torch.full((len(rows_of), decoding.max_tokens), decoding.pad_id, device=device)
    lengths = torch.full((len(rows_of),), decoding.max_tokens, device=device)
    active = torch.arange(len(rows_of), device=device)  # which answer each row of the cache belongs to
    for step in range(decoding.max_tokens):
        tokens = _draw(logits, decoding.temperature, None if streams is None else streams[active, step])
        answers[active, step] = tokens
        ended = torch.isin(tokens, ends)
        lengths[active[ended]] = torch.minimum(lengths[active[ended]], torch.tensor(step + 1, device=device))
        finished = lengths[active] <= step + 1
        if step + 1 == decoding.max_tokens or bool(finished.all()):
            break
        if int(finished.sum()) * 2 >= len(active):  # carry finished rows along until dropping them pays
            kept = (~finished).nonzero()[:, 0]
            active, tokens, position = active[kept], tokens[kept], position[kept]
            mask = mask if mask is None else mask[kept]
            for layer in cache.layers:
                if isinstance(layer, _RoomyLayer):
                    layer.keep_rows(kept)
                else:
                    layer.batch_select_indices(kept)
        logits = model(
            input_ids=tokens[:, None],
            attention_mask=None if mask is None else mask[:, : width + step + 1],
            position_ids=position[:, None],
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        position = position + 1
    return [answer[:length].tolist() for answer, length in zip(answers.cpu(), lengths.tolist(), strict=True)]


def _left_padded(
    prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Ids, mask and positions of left-padded prompts; no mask where all are of one length."""
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad_id, device=device)
    mask = torch.zeros((len(prompts), width), dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(list(prompt), device=device)
        mask[row, width - len(prompt) :] = 1
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    return ids, None if bool(mask.all()) else mask, positions


def _draw(logits: torch.Tensor, temperature: float | None, uniforms: torch.Tensor | None) -> torch.Tensor:
    """The likeliest token of each row, or the one that its uniform number falls on."""
    if temperature is None or uniforms is None:
        return logits.argmax(dim=-1)
    cumulative = torch.softmax(logits.double() / temperature, dim=-1).cumsum(dim=-1)
    target = uniforms * cumulative[:, -1]
    return torch.searchsorted(cumulative, target[:, None], right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
