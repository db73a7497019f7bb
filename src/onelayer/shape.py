"""The shape of a decoder-only transformer: what its cost follows from. Pure; no torch, nothing downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from onelayer.errors import UserError
from onelayer.gguf_file import open_gguf
from onelayer.settings import PositiveInt, Settings


class Shape(Settings):
    """Sizes of a decoder-only transformer, under the names that its configuration gives them elsewhere.

    Attributes:
        layers: decoder blocks.
        width: of the residual stream (``hidden_size``).
        intermediate: of the MLP; of one expert, where there are several.
        heads: of attention's queries.
        kv_heads: of its keys and values; as many as ``heads`` where not given.
        head_dim: width ÷ heads where not given.
        vocabulary: rows of the embedding table.
        tied: whether the head shares the embedding table.
        gated: whether the MLP has three matrices (SwiGLU and the like) instead of two.
        experts: MLPs in a block.
        active_experts: of these, how many a token passes.
    """

    layers: PositiveInt
    width: PositiveInt
    intermediate: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    vocabulary: PositiveInt
    tied: bool = False
    gated: bool = True
    experts: PositiveInt = 1
    active_experts: PositiveInt = Field(1)

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.head_dim is None and self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads, found {self.heads}; or give head_dim")
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads, found {self.kv_heads}")
        if self.active_experts > self.experts:
            raise ValueError(f"active_experts must be at most experts ({self.experts}), found {self.active_experts}")
        return self

    @property
    def attention_width(self) -> int:
        """Width of all queries together."""
        return self.heads * (self.head_dim or self.width // self.heads)

    @property
    def kv_width(self) -> int:
        """Width of all keys, or of all values, together."""
        return self.attention_width * (self.kv_heads or self.heads) // self.heads

    @property
    def block_weights(self) -> int:
        """Weights of one block's matrices; norms and biases are left out, well under 1 % of it."""
        return self._attention_weights + self.experts * self._expert_weights + self._router_weights

    @property
    def active_block_weights(self) -> int:
        """Of these, those that one token passes."""
        return self._attention_weights + self.active_experts * self._expert_weights + self._router_weights

    @property
    def block_edges(self) -> int:
        """Inputs and outputs of a block's matrices, added up: adapters of rank r have r times as many weights."""
        attention = 4 * self.width + 2 * self.attention_width + 2 * self.kv_width
        mlps = self.experts * (3 if self.gated else 2) * (self.width + self.intermediate)
        router = self.width + self.experts if self.experts > 1 else 0
        return attention + mlps + router

    @property
    def table_weights(self) -> int:
        """Weights of the embedding table, and of the head where it is not tied to it: of each one."""
        return self.vocabulary * self.width

    @property
    def weights(self) -> int:
        """Weights of the whole model."""
        return self.layers * self.block_weights + self.table_weights * (1 if self.tied else 2)

    @property
    def _attention_weights(self) -> int:
        return self.width * (2 * self.attention_width + 2 * self.kv_width)

    @property
    def _expert_weights(self) -> int:
        return (3 if self.gated else 2) * self.width * self.intermediate

    @property
    def _router_weights(self) -> int:
        return self.width * self.experts if self.experts > 1 else 0


# Classes of transformers by what their configuration leaves to its defaults.
_TIED_UNLESS_SAID = ("gpt2", "gpt_neo", "opt", "gemma", "gemma2", "gemma3", "gemma3_text")
_TWO_MATRICES = ("gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "phi", "bloom", "falcon", "starcoder2")


def read_config(path: Path) -> Shape:
    """Read the shape from a Hugging Face model's config.json.

    Raises UserError where the file cannot be read or lacks a size.
    """
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: not found; the cost follows from the sizes that it states") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected JSON, found {error}") from None
    return from_config(config, path)


def from_config(config: dict[str, Any], path: Path) -> Shape:
    """The shape that a configuration of transformers states. Raises UserError where it lacks a size."""
    config = config.get("text_config") or config
    kind = str(config.get("model_type", ""))

    def size(*names: str, default: int | None = None) -> int:
        for name in names:
            if isinstance(config.get(name), int):
                return int(config[name])
        if default is None:
            raise UserError(f"{path}: expected {' or '.join(names)}, found neither; model.shape can state the sizes")
        return default

    width, heads = size("hidden_size", "n_embd"), size("num_attention_heads", "n_head")
    experts = size("num_local_experts", "num_experts", "n_routed_experts", default=1)
    inner = ("moe_intermediate_size", "intermediate_size") if experts > 1 else ("intermediate_size", "n_inner")
    return Shape(
        layers=size("num_hidden_layers", "n_layer"),
        width=width,
        intermediate=size(*inner, default=4 * width),
        heads=heads,
        kv_heads=size("num_key_value_heads", default=heads),
        head_dim=size("head_dim", default=width // heads),
        vocabulary=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", kind in _TIED_UNLESS_SAID)),
        gated=kind not in _TWO_MATRICES,
        experts=experts,
        active_experts=size("num_experts_per_tok", default=min(2, experts)),
    )


def read_gguf(path: Path) -> Shape:
    """Read the shape from the metadata of a GGUF file, whose tensors are not read.

    Raises UserError where the file cannot be read, lacks a size, or the package gguf is missing.
    """
    reader = open_gguf(path)
    architecture = reader.fields["general.architecture"].contents()
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def size(name: str, default: int | None = None) -> int:
        field = reader.fields.get(f"{architecture}.{name}")
        if field is not None:
            return int(field.contents())
        if default is None:
            raise UserError(f"{path}: expected {architecture}.{name} in its metadata, found none")
        return default

    width, heads = size("embedding_length"), size("attention.head_count")
    experts = size("expert_count", 1)
    return Shape(
        layers=size("block_count"),
        width=width,
        intermediate=size("expert_feed_forward_length", size("feed_forward_length"))
        if experts > 1
        else size("feed_forward_length"),
        heads=heads,
        kv_heads=size("attention.head_count_kv", heads),
        head_dim=size("attention.key_length", width // heads),
        # GGUF writes a matrix's shape the other way round: columns first.
        vocabulary=int(tensors["token_embd.weight"].shape[1]),
        tied="output.weight" not in tensors,
        gated="blk.0.ffn_gate.weight" in tensors or experts > 1,
        experts=experts,
        active_experts=size("expert_used_count", 1),
    )
