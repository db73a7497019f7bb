"""Whole runs that ask for vLLM: trained, evaluated and scored through a stand-in of its contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from test_vllm_backend import CopyEngine

from conftest import TINY, deep_copy, write_study
from onelayer import evaluate, phases, train
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import find_runs
from onelayer.manifest import read_manifest
from onelayer.records import read_records
from onelayer.store import run_folder


def vllm_study() -> Study:
    write_study("tiny", deep_copy(TINY) | {"generation": {"backend": "vllm", "max_logprob_difference": 1e-4}})
    return load_study("tiny")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[CopyEngine]:
    """Every engine that is opened: each a copy of the model it is opened beside."""
    opened: list[CopyEngine] = []

    def open_engine(
        settings: Any, model: Any, accelerator: Any, tokenizer: Any, prompts: list[list[int]], limit: int
    ) -> CopyEngine:
        assert Path(model.name_or_path).joinpath("model.safetensors").is_file()  # what vLLM would start from
        assert prompts
        assert limit == 3
        opened.append(CopyEngine(model))
        return opened[-1]

    for module in (train, evaluate):
        monkeypatch.setattr(module, "check_vllm", lambda where: None)
        monkeypatch.setattr(module, "open_engine", open_engine)
    return opened


@pytest.mark.usefixtures("project")
def test_a_run_is_trained_and_evaluated_through_the_engine(engines: list[CopyEngine]) -> None:
    write_study("tiny", TINY)
    plain = load_study("tiny")
    phases.prepare_phase(plain)
    phases.base_phase(plain)
    runs = find_runs(plain, ["layer-01-s0"])
    folder = run_folder("tiny", "layer-01-s0")
    phases.train_phase(plain, runs, None)
    phases.evaluate_phase(plain, runs, None)
    records = read_records("tiny", "layer-01-s0")
    assert not engines

    study = vllm_study()
    phases.train_phase(study, runs, None)  # another sampler: trained again
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.settings["backend"] == "vllm"
    trained = frozenset(load_file(folder / "adapted.safetensors"))
    everything, *later = engines[0].loads
    assert everything > trained
    assert later == [trained, trained]

    phases.evaluate_phase(study, runs, None)
    assert len(engines) == 2
    assert engines[1].loads == [everything]
    # The stand-in draws as ours does, so the answers are the same ones.
    assert read_records("tiny", "layer-01-s0").equals(records)


@pytest.mark.usefixtures("project")
def test_without_vllm_nothing_is_trained_and_nothing_changed() -> None:
    write_study("tiny", TINY)
    plain = load_study("tiny")
    phases.prepare_phase(plain)
    phases.base_phase(plain)
    before = sorted(Path("data").rglob("*"))
    with pytest.raises(UserError, match=r"^tiny: generation\.backend: found vllm, which "):
        phases.train_phase(vllm_study(), find_runs(plain, ["full-s0"]), None)
    assert sorted(Path("data").rglob("*")) == before
