from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from onelayer.errors import UserError
from onelayer.model_settings import MicroModel
from onelayer.models import adapt, make_micro_model, make_micro_tokenizer, save_adapted

ALPHABET = "0123456789=+-#"
SETTINGS = MicroModel(
    kind="micro", layers=2, width=16, intermediate=32, heads=2, kv_heads=1, context=16,
    pretraining={"steps": 1},
)  # fmt: skip


@given(st.text(alphabet=ALPHABET, min_size=1, max_size=30))
def test_tokenizer_round_trip(text: str) -> None:
    tokenizer = make_micro_tokenizer(ALPHABET, 16)
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text)
    assert tokenizer.decode([*ids, tokenizer.eos_token_id, tokenizer.pad_token_id], skip_special_tokens=True) == text


def test_saved_and_loaded_as_any_other(tmp_path: Path) -> None:
    tokenizer = make_micro_tokenizer(ALPHABET, 16)
    model = make_micro_model(SETTINGS, tokenizer, 3)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded).__name__ == "Qwen3ForCausalLM"
    for (name, one), (_, other) in zip(model.named_parameters(), loaded.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("12+3=")["input_ids"] == tokenizer("12+3=")["input_ids"]
    assert (again.pad_token, again.eos_token, again.padding_side) == ("<pad>", "<end>", "left")


def test_the_seed_decides_the_weights() -> None:
    tokenizer = make_micro_tokenizer(ALPHABET, 16)
    one, same, other = (make_micro_model(SETTINGS, tokenizer, seed).lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_adapted_file_holds_only_what_trained_and_gives_it_back(tmp_path: Path) -> None:
    tokenizer = make_micro_tokenizer(ALPHABET, 16)
    model = make_micro_model(SETTINGS, tokenizer, 1)
    names = frozenset(n for n, _ in model.named_parameters() if n.startswith("model.layers.1."))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in names:
                parameter += 1
    save_adapted(model, names, tmp_path / "adapted.safetensors")
    assert load_file(tmp_path / "adapted.safetensors").keys() == names
    fresh = make_micro_model(SETTINGS, tokenizer, 1)
    adapt(fresh, tmp_path / "adapted.safetensors")
    for (name, one), (_, other) in zip(model.named_parameters(), fresh.named_parameters(), strict=True):
        assert torch.equal(one, other), name


def test_tensors_of_another_model_are_refused(tmp_path: Path) -> None:
    model = make_micro_model(SETTINGS, make_micro_tokenizer(ALPHABET, 16), 1)
    save_file({"model.norm.weight": torch.ones(7)}, tmp_path / "a.safetensors")
    with pytest.raises(UserError, match=r"model\.norm\.weight of shape \[7\] has no place"):
        adapt(model, tmp_path / "a.safetensors")
    save_file({"other": torch.ones(7)}, tmp_path / "a.safetensors")
    with pytest.raises(UserError, match="found no such tensor"):
        adapt(model, tmp_path / "a.safetensors")
