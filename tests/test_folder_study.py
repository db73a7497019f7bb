"""A study of a model folder and JSON Lines: nothing is tied to the micro model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from conftest import TINY, deep_copy, write_params, write_study
from onelayer import phases
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.grid import find_runs
from onelayer.models import make_micro_tokenizer
from onelayer.records import read_records
from onelayer.state import StudyState


def settings() -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["model"] = {"kind": "folder", "path": "data/sources/model"}
    sources = dict.fromkeys(("train", "select", "report"), "data/sources/rows.jsonl")
    changed["task"] = {"kind": "questions", "sources": sources, "sizes": {"train": 20, "select": 4, "report": 6},
                       "prompt": "{question}=", "answer_after": "####"}  # fmt: skip
    changed["training"]["weight_decay"] = 0.1
    return changed


@pytest.fixture
def folder_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_params(["tiny"])
    write_study("tiny", settings())
    tokenizer = make_micro_tokenizer("0123456789=+", 16)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32, pad_token_id=0, eos_token_id=1,
            bos_token_id=None,
        )
    )  # fmt: skip
    model.save_pretrained("data/sources/model")
    tokenizer.save_pretrained("data/sources/model")
    rows = [{"question": f"{a}+{b}", "answer": f"#### {a + b}"} for a in range(2, 9) for b in range(1, 6)]
    Path("data/sources/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_from_pinning_to_records(folder_project: Path) -> None:
    study = load_study("tiny")
    phases.prepare_phase(study)
    phases.base_phase(study)
    assert not list(Path("data/tiny/runs/base").glob("*.safetensors"))  # used where it lies
    runs = find_runs(study, ["base", "full-s0", "layer-01-s0"])
    phases.train_phase(study, runs[1:], None)
    phases.evaluate_phase(study, runs, None)
    trained = load_file("data/tiny/runs/layer-01-s0/adapted.safetensors")
    assert all(name.startswith("model.layers.1.") for name in trained)
    assert "lm_head.weight" in load_file("data/tiny/runs/full-s0/adapted.safetensors")  # untied: it trains too
    assert len(read_records("tiny", "full-s0")) == 10 * 3

    # Elsewhere, the base is pinned anew, and no run trains again for it.
    shutil.move(folder_project / "project", folder_project / "moved")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder_project / "moved")
        phases.base_phase(study)
        state = StudyState(study, thorough=True)
        assert all(state.evaluation(run).done for run in runs)

        precise = settings()
        precise["model"]["precision"] = "bfloat16"
        write_study("tiny", precise)
        study = load_study("tiny")
        state = StudyState(study)
        assert state.training(runs[0]).done
        assert state.training(runs[1]).reason == "precision default → bfloat16"
        phases.train_phase(study, runs[2:], None)
        phases.evaluate_phase(study, runs[2:], None)
        half = load_file("data/tiny/runs/layer-01-s0/adapted.safetensors")
        assert {tensor.dtype for tensor in half.values()} == {torch.float32}

        # Another model under the same name is another base.
        model = LlamaForCausalLM.from_pretrained("data/sources/model")
        with torch.no_grad():
            model.lm_head.weight += 1
        model.save_pretrained("data/sources/model")
        assert not StudyState(study, thorough=True).training(runs[0]).done
        phases.base_phase(study)
        assert StudyState(study).training(runs[2]).reason == "base changed"


def test_a_changed_row_is_seen(folder_project: Path) -> None:
    study = load_study("tiny")
    phases.prepare_phase(study)
    path = Path("data/sources/rows.jsonl")
    path.write_text(path.read_text().replace('"#### 3"', '"#### 4"'))
    from onelayer.prepare import is_prepared

    assert not is_prepared(study)
    path.unlink()
    with pytest.raises(UserError, match=r"rows\.jsonl: not found; the study tiny takes problems from it"):
        phases.prepare_phase(study)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("*.safetensors", "expected model.safetensors"), ("tokenizer*", "expected a tokenizer")],
)
def test_an_incomplete_folder_is_refused(folder_project: Path, pattern: str, message: str) -> None:
    for path in Path("data/sources/model").glob(pattern):
        path.unlink()
    with pytest.raises(UserError, match=message):
        phases.base_phase(load_study("tiny"))
    assert not Path("data/tiny").exists()


def test_a_target_that_the_model_lacks_is_refused_with_the_base(folder_project: Path) -> None:
    asked = settings()
    asked["runs"]["lora"] = {"targets": ["c_attn"]}
    write_study("tiny", asked)
    with pytest.raises(UserError, match=r"runs\.lora\.targets\[0\]: found 'c_attn', which names no module"):
        phases.base_phase(load_study("tiny"))
    assert not Path("data/tiny").exists()
