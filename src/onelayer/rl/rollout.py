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
        self._filled = filled.keys.shape[-2]
        self._buffers = [_enlarged(old, self._filled, self._filled + room) for old in (filled.keys, filled.values)]
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
        if end > self._buffers[0].shape[-2]:
            self._buffers = [_enlarged(buffer, self._filled, 2 * end) for buffer in self._buffers]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, self._filled : end] = new
        self._filled = end
        self._show()
        return self.keys, self.values

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Let go of every row but these."""
        self._buffers = [buffer[rows] for buffer in self._buffers]
        self._show()


def _enlarged(buffer: torch.Tensor, filled: int, room: int) -> torch.Tensor:
    shape = list(buffer.shape)
    shape[-2] = room
    larger = buffer.new_empty(shape)
    larger[:, :, :filled] = buffer[:, :, :filled]
    return larger


def row_streams(seeds: Sequence[int], length: int) -> torch.Tensor:
    """One stream of uniform numbers in [0, 1) a row, from the row's own seed: shape (rows, length), float64."""
    streams = [np.random.Generator(np.random.Philox(seed)).random(length) for seed in seeds]
    return torch.from_numpy(np.stack(streams))


def row_seeds(count: int, *parts: object, first: int = 0) -> list[int]:
    """A seed for each of ``count`` rows, from the parts that name the draw (study seed, run, step).

    ``first`` is the number of the first row, where others of the batch are drawn elsewhere.
    """
    return [derive_seed(*parts, row) for row in range(first, first + count)]


class Conversation:
    """Rows that write and read by turns, on one cache.

    Args:
        model: a causal language model of transformers, in evaluation mode or without dropout.
        prompts: token ids, one prompt a row; equal neighbours are read once.
        decoding: the limits and the temperature of what is written.
        seeds: one a row, by which its tokens are drawn; None where the decoding is greedy.
        turns: how many times the rows may write.
    """

    @torch.inference_mode()
    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        decoding: Decoding,
        seeds: Sequence[int] | None,
        turns: int = 1,
    ) -> None:
        rows_of: list[int] = []
        distinct: list[Sequence[int]] = []
        for prompt in prompts:
            if not distinct or list(prompt) != list(distinct[-1]):
                distinct.append(prompt)
            rows_of.append(len(distinct) - 1)
        self._model = model
        self._decoding = decoding
        spread = torch.tensor(rows_of, device=model.device)
        ids, mask, positions = _left_padded(distinct, decoding.pad_id, model.device)
        cache: Cache = DynamicCache(config=model.config)
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True, logits_to_keep=1
        )
        self._cache = output.cache
        self._cache.batch_select_indices(spread)
        self._cache.layers = [
            _RoomyLayer(layer, decoding.max_tokens) if type(layer) is DynamicLayer else layer
            for layer in self._cache.layers
        ]
        self._logits = output.logits[spread, -1]
        self._mask = None if mask is None else mask[spread]  # None: every row is full so far
        self._width = ids.shape[1]
        self._position = torch.tensor([len(distinct[row]) for row in rows_of], device=model.device)
        self._pending = torch.zeros_like(self._position)  # the last token a row wrote, not yet in the cache
        self._ends = torch.tensor(decoding.end_ids, device=model.device)
        self._drawn = torch.zeros_like(self._position)
        self._streams = None
        if decoding.temperature is not None:
            assert seeds is not None
            assert len(seeds) == len(prompts)
            self._streams = row_streams(seeds, turns * decoding.max_tokens).to(model.device)

    @torch.inference_mode()
    def write(self, last: bool = False) -> list[list[int]]:
        """Draw one answer a row.

        Args:
            last: nothing is read or written after it, so rows that are finished can be let go of.

        Returns:
            The new token ids of each row, the end token included where one was drawn.
        """
        most = self._decoding.max_tokens
        device = self._position.device
        rows = len(self._position)
        answers = torch.full((rows, most), self._decoding.pad_id, device=device)
        lengths = torch.full((rows,), most, device=device)
        active = torch.arange(rows, device=device)  # which answer each row of the cache belongs to
        finished = torch.zeros(rows, dtype=torch.bool, device=device)
        for step in range(most):
            tokens = _draw(self._logits, self._decoding.temperature, self._uniforms())
            going = ~finished
            answers[active[going], step] = tokens[going]
            self._drawn += going
            ended = torch.isin(tokens, self._ends) & going
            lengths[active[ended]] = step + 1
            self._pending = torch.where(going, tokens, self._pending)
            finished |= ended
            if step + 1 == most or bool(finished.all()):
                break
            if last and int(finished.sum()) * 2 >= len(active):  # carry finished rows along until dropping them pays
                kept = (~finished).nonzero()[:, 0]
                active, tokens, finished = active[kept], tokens[kept], finished[kept]
                self.keep(kept)
            # A finished row of a conversation that goes on must not see what stands in for its tokens.
            self._feed(tokens[:, None], None if last or not bool(finished.any()) else (~finished)[:, None])
        return [answer[:length].tolist() for answer, length in zip(answers.cpu(), lengths.tolist(), strict=True)]

    @torch.inference_mode()
    def read(self, tokens: Sequence[Sequence[int]]) -> None:
        """Let every row read what follows the answer it wrote last."""
        chunk = [[last, *following] for last, following in zip(self._pending.tolist(), tokens, strict=True)]
        ids, mask, _ = _left_padded(chunk, self._decoding.pad_id, self._position.device)
        self._feed(ids, None if mask is None else mask.bool())

    @torch.inference_mode()
    def keep(self, rows: torch.Tensor) -> None:
        """Let go of every row but these."""
        for layer in self._cache.layers:
            if isinstance(layer, _RoomyLayer):
                layer.keep_rows(rows)
            else:
                layer.batch_select_indices(rows)
        self._mask = None if self._mask is None else self._mask[rows]
        self._streams = None if self._streams is None else self._streams[rows]
        self._position, self._pending, self._drawn = self._position[rows], self._pending[rows], self._drawn[rows]
        self._logits = self._logits[rows]

    def _uniforms(self) -> torch.Tensor | None:
        if self._streams is None:
            return None
        # A finished row's number is drawn and not used; its count stays where it is.
        return self._streams.gather(1, self._drawn.clamp(max=self._streams.shape[1] - 1)[:, None])[:, 0]

    def _feed(self, ids: torch.Tensor, real: torch.Tensor | None) -> None:
        """Put tokens into the cache; ``real`` says which of them are more than padding (None: all)."""
        rows, count = ids.shape
        if self._mask is None and real is not None:
            self._mask = torch.ones((rows, self._width), dtype=torch.long, device=ids.device)
        taken = torch.ones_like(ids) if real is None else real.long()
        if self._mask is not None:
            self._mask = torch.cat([self._mask, taken], dim=1)
        positions = (self._position[:, None] + taken.cumsum(dim=1) - 1).clamp(min=0)
        self._logits = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        self._width += count
        self._position = self._position + taken.sum(dim=1)


def generate(
    model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding, seeds: Sequence[int] | None
) -> list[list[int]]:
    """Draw one answer a row: a conversation of one turn.

    Returns the new token ids of each row, the end token included where one was drawn.
    """
    return Conversation(model, prompts, decoding, seeds).write(last=True)


def generate_in_batches(
    model: Any,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    seeds: Sequence[int] | None,
    rows_at_once: int | None,
) -> list[list[int]]:
    """Draw one answer a row, so many rows at once (None: all): what bounds the memory of keys and values.

    Prompts of like length go together, so that little of a batch is padding; an answer does not depend on the rows
    beside it.
    """
    if rows_at_once is None or rows_at_once >= len(prompts):
        return generate(model, prompts, decoding, seeds)
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    answers: dict[int, list[int]] = {}
    for start in range(0, len(order), rows_at_once):
        rows = order[start : start + rows_at_once]
        own_seeds = None if seeds is None else [seeds[row] for row in rows]
        made = generate(model, [prompts[row] for row in rows], decoding, own_seeds)
        answers.update(zip(rows, made, strict=True))
    return [answers[row] for row in range(len(prompts))]


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
