"""The rules that hold for every run, on real training of a tiny study."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from conftest import TINY, deep_copy, new_project, write_study
from onelayer import phases
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import find_runs
from onelayer.manifest import read_manifest
from onelayer.models import export_model
from onelayer.records import read_records, summarize
from onelayer.state import StudyState
from training_probes import interrupted_at


def train(study: Study, *names: str) -> None:
    phases.train_phase(study, find_runs(study, list(names)), None)


def tensors(study: str, run: str) -> dict[str, torch.Tensor]:
    # Cloned, for a loaded file is mapped into memory, and tests write to files in place.
    loaded = load_file(f"data/{study}/runs/{run}/adapted.safetensors")
    return {name: tensor.clone() for name, tensor in loaded.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tiny study, prepared, with a base, a full run and a layer run."""
    folder = tmp_path_factory.mktemp("trained")
    with new_project(folder):
        study = load_study("tiny")
        phases.prepare_phase(study)
        phases.base_phase(study)
        train(study, "full-s0", "layer-01-s0")
    return folder


@pytest.fixture
def study(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A copy of the trained study, as the current project."""
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return load_study("tiny")


def test_a_checkpoint_holds_only_what_was_trained(study: Study) -> None:
    base = load_file("data/tiny/runs/base/model.safetensors")
    layer = tensors("tiny", "layer-01-s0")
    assert {name.rsplit(".", 1)[0].split(".")[2] for name in layer} == {"1"}
    assert tensors("tiny", "full-s0").keys() == base.keys()
    assert all(not torch.equal(base[name], tensor) for name, tensor in layer.items())  # all moved
    manifest = read_manifest(Path("data/tiny/runs/layer-01-s0"))
    assert manifest is not None
    assert manifest.details["trained_parameters"] == sum(t.numel() for t in layer.values())
    assert manifest.details["moved"] is True
    assert manifest.wall_seconds > 0
    assert manifest.peak_memory_bytes > 1e8
    assert manifest.settings["learning_rate"] == 0.001


def test_outside_the_layer_the_exported_model_is_the_base_bit_for_bit(study: Study) -> None:
    export_model(study, "layer-01-s0", Path("out"))
    exported = AutoModelForCausalLM.from_pretrained("out")
    base = AutoModelForCausalLM.from_pretrained("data/tiny/runs/base")
    trained = tensors("tiny", "layer-01-s0")
    for (name, one), (_, other) in zip(exported.named_parameters(), base.named_parameters(), strict=True):
        assert torch.equal(one, trained.get(name, other)), name
    with pytest.raises(UserError, match="expected a new or empty folder"):
        export_model(study, "layer-01-s0", Path("out"))
    with pytest.raises(UserError, match="not trained yet"):
        export_model(study, "layer-00-s0", Path("other"))
    assert not Path("other").exists()


def test_all_layers_of_a_seed_weigh_no_more_than_the_base(study: Study) -> None:
    train(study, "layer-00-s0")
    layers = sum(Path(f"data/tiny/runs/layer-0{k}-s0/adapted.safetensors").stat().st_size for k in (0, 1))
    assert layers <= 1.1 * Path("data/tiny/runs/base/model.safetensors").stat().st_size


def test_a_done_run_is_not_trained_again(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("data/tiny/runs/full-s0/manifest.json").read_bytes()
    train(study, "full-s0")
    assert "tiny/full-s0: already trained" in capsys.readouterr().out
    assert Path("data/tiny/runs/full-s0/manifest.json").read_bytes() == before


def test_training_again_gives_the_same_to_the_last_bit(study: Study) -> None:
    first, history = tensors("tiny", "full-s0"), Path("data/tiny/runs/full-s0/history.json").read_bytes()
    shutil.rmtree("data/tiny/runs/full-s0")
    train(study, "full-s0")
    assert same(first, tensors("tiny", "full-s0"))
    assert Path("data/tiny/runs/full-s0/history.json").read_bytes() == history


@pytest.mark.parametrize("run", ["full-s0", "layer-01-s0"])
def test_an_interrupted_run_resumes_to_the_same_result(
    study: Study, capsys: pytest.CaptureFixture[str], run: str
) -> None:
    whole, history = tensors("tiny", run), Path(f"data/tiny/runs/{run}/history.json").read_bytes()
    shutil.rmtree(f"data/tiny/runs/{run}")
    with interrupted_at(2):
        train(study, run)
    assert not Path(f"data/tiny/runs/{run}/manifest.json").exists()
    saves = sorted(Path(".work/tiny", run).glob("*/checkpoint-*"))
    assert [save.name for save in saves] == ["checkpoint-1", "checkpoint-2"]
    assert {path.suffix for path in saves[0].iterdir()} <= {".safetensors", ".pt", ".pth", ".json"}
    capsys.readouterr()
    (saves[1] / "complete.json").unlink()  # as if the kill had come before the save was whole
    train(study, run)
    assert f"tiny/{run}: goes on from step 1, 3 steps" in capsys.readouterr().out
    assert same(whole, tensors("tiny", run))
    assert Path(f"data/tiny/runs/{run}/history.json").read_bytes() == history
    assert not Path(".work/tiny", run).exists()


def test_the_base_resumes_too(study: Study) -> None:
    before = Path("data/tiny/runs/base/model.safetensors").read_bytes()
    content = read_manifest(Path("data/tiny/runs/base"))
    shutil.rmtree("data/tiny/runs/base")
    with interrupted_at(31):
        phases.base_phase(study)
    phases.base_phase(study)
    assert Path("data/tiny/runs/base/model.safetensors").read_bytes() == before
    again = read_manifest(Path("data/tiny/runs/base"))
    assert again is not None
    assert content is not None
    assert again.content == content.content  # so that no run is trained again for it


def test_a_damaged_checkpoint_is_trained_again(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tensors("tiny", "layer-01-s0")
    path = Path("data/tiny/runs/layer-01-s0/adapted.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="sha256 is not the one its manifest records"):
        export_model(study, "layer-01-s0", Path("out"))
    with pytest.raises(UserError, match=r"adapted\.safetensors: its sha256"):
        phases.evaluate_phase(study, find_runs(study, ["layer-01-s0"]), None)
    train(study, "layer-01-s0")
    out = capsys.readouterr().out
    assert "layer-01-s0: to be trained (damaged: data/tiny/runs/layer-01-s0/adapted.safetensors: its sha256" in out
    assert same(whole, tensors("tiny", "layer-01-s0"))


def test_a_damaged_base_is_said_and_made_again(study: Study) -> None:
    path = Path("data/tiny/runs/base/model.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    Path("data/tiny/runs/full-s0/manifest.json").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: its sha256 .*\n`onelayer base tiny` makes the base anew"):
        train(study, "full-s0")
    phases.base_phase(study)
    assert path.read_bytes() == whole


def test_a_job_leaves_its_receipt_and_verify_takes_it_back(study: Study) -> None:
    phases.base_phase(study)
    phases.train_phase(study, find_runs(study, ["layer-01-s0"]), "layer-01-s0")
    receipt = Path("data/tiny/jobs/layer-01-s0.trained.json")
    assert json.loads(receipt.read_text()).keys() == {"layer-01-s0"}
    assert phases.verify(study, thorough=True) == []
    assert receipt.exists()
    Path("data/tiny/runs/layer-01-s0/adapted.safetensors").write_bytes(b"")
    assert phases.verify(study, thorough=True) == [
        "tiny/layer-01-s0: data/tiny/runs/layer-01-s0/adapted.safetensors: its sha256 is not the one its manifest"
        " records"
    ]
    assert not receipt.exists()
    assert Path("data/tiny/jobs/base.trained.json").exists()


def standing(settings: dict[str, Any]) -> dict[str, str]:
    """What would train, and why, under other settings."""
    write_study("tiny", settings)
    study = load_study("tiny")
    state = StudyState(study, preview=True)
    runs = find_runs(study, ["base", "full-s0", "layer-01-s0"])
    return {run.name: state.training(run).reason for run in runs if not state.training(run).done}


def test_only_what_decides_a_result_decides_its_fingerprint(study: Study) -> None:
    assert standing(TINY) == {}
    harmless = deep_copy(TINY)
    harmless["resources"] = {"threads": 2, "seeds_per_job": 1}
    harmless["analysis"] = {"resamples": 300}
    harmless["evaluation"]["samples"] = 3
    harmless["runs"] = {"seeds": [0, 5], "layers": [1]}
    harmless["task"]["sizes"]["report"] = 15
    harmless["training"]["clip"] = 0.2  # its default, said aloud
    assert standing(harmless) == {}

    steps = deep_copy(TINY)
    steps["training"]["steps"] = 4
    why = "training.steps 3 → 4"
    assert standing(steps) == {"full-s0": why, "layer-01-s0": why}
    data = deep_copy(TINY)
    data["task"]["sizes"]["train"] = 31
    assert standing(data) == {"full-s0": "train split changed", "layer-01-s0": "train split changed"}
    rate = deep_copy(TINY)
    rate["training"]["learning_rates"] = [0.002]
    why = "learning_rate 0.001 → 0.002"
    assert standing(rate) == {"full-s0": why, "layer-01-s0": why}
    base = deep_copy(TINY)
    base["model"]["pretraining"]["steps"] = 61
    assert standing(base) == {
        "base": "model.pretraining.steps 60 → 61",
        "full-s0": "waits for the base",
        "layer-01-s0": "waits for the base",
    }


def test_without_problems_or_base_nothing_starts(project: Path) -> None:
    study = load_study("tiny")
    with pytest.raises(UserError, match="waits for the base"):
        train(study, "full-s0")
    with pytest.raises(UserError, match="waits for its training"):
        phases.evaluate_phase(study, find_runs(study, ["full-s0"]), None)
    assert not Path("data").exists()


def test_equal_rewards_move_nothing_and_it_is_said(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("onelayer.train.make_reward", lambda *_: lambda completions, **_kw: [0.0] * len(completions))
    shutil.rmtree("data/tiny/runs/layer-01-s0")
    train(study, "layer-01-s0")
    assert "nothing moved" in capsys.readouterr().out
    manifest = read_manifest(Path("data/tiny/runs/layer-01-s0"))
    assert manifest is not None
    assert manifest.details["moved"] is False


def test_evaluation_records(study: Study) -> None:
    phases.evaluate_phase(study, find_runs(study, ["base", "full-s0"]), None)
    records = read_records("tiny", "full-s0")
    assert len(records) == (8 + 14) * (2 + 1)
    assert set(records["split"]) == {"select", "report"}
    assert set(records["run"]) == {"full-s0"}
    answers = {json.loads(line)["id"]: json.loads(line)["answer"]
               for name in ("select", "report")
               for line in Path(f"data/tiny/problems/{name}.jsonl").read_text().splitlines()}  # fmt: skip
    for row in records.itertuples():
        assert row.correct == (row.completion == answers[row.problem])
        assert 1 <= row.tokens <= 3
        assert row.clipped or row.tokens >= len(row.completion) + 1  # the end token counts as one
        assert row.tokens == 3 or not row.clipped
    scores = json.loads(Path("data/tiny/runs/full-s0/scores.json").read_text())
    assert scores == summarize(records)
    first = Path("data/tiny/runs/full-s0/records.parquet").read_bytes()
    phases.evaluate_phase(study, find_runs(study, ["full-s0"]), None)
    assert Path("data/tiny/runs/full-s0/records.parquet").read_bytes() == first
    shutil.rmtree("data/tiny/runs/full-s0")
    train(study, "full-s0")
    batch = deep_copy(TINY)
    batch["evaluation"]["batch_size"] = 7  # memory only: the same answers
    write_study("tiny", batch)
    phases.evaluate_phase(load_study("tiny"), find_runs(study, ["full-s0"]), None)
    assert read_records("tiny", "full-s0").equals(records)
