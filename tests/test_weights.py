"""How far a run moved the weights: the figures of a tensor, where a base's come from, and the phase."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file
from safetensors.torch import save_file as save_torch_file

import onelayer.weights as weights
from analysis.test_study import make_run
from conftest import TINY, deep_copy, write_study
from onelayer import models, phases
from onelayer.analysis.study import analyze
from onelayer.analysis.weights import kind_of
from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import all_runs, find_runs
from onelayer.manifest import Manifest
from onelayer.overview import print_plan
from onelayer.prepare import prepare
from onelayer.search import choose_rate
from onelayer.state import StudyState
from onelayer.store import WEIGHTS, job_receipt, read_json, run_folder
from onelayer.weights import Base, effective_rank, tensor_change, weigh

SHAPES = st.sampled_from([(5,), (1, 7), (7, 3), (3, 8), (2, 4, 3), (6, 6)])


def by_svd(delta: np.ndarray) -> float:
    """The effective rank written again, from the singular values of the matrix itself."""
    singular = np.linalg.svd(delta, compute_uv=False)
    shares = singular[singular > 0] / singular.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


class TestTensor:
    @given(SHAPES, st.integers(0, 1000))
    def test_equals_numpys_norms_and_svd(self, shape: tuple[int, ...], seed: int) -> None:
        rng = np.random.default_rng(seed)
        before = rng.normal(size=shape).astype(np.float32)
        after = before + rng.normal(size=shape).astype(np.float32) * (rng.random(shape) < 0.6)
        delta = after.astype(np.float64) - before
        found = tensor_change(before, after)
        assert found["l2"] == pytest.approx(np.linalg.norm(delta))
        assert found["base_l2"] == pytest.approx(np.linalg.norm(before.astype(np.float64)))
        assert found["changed"] == np.count_nonzero(after != before) / before.size
        matrices = list(delta.reshape(-1, *shape[-2:])) if len(shape) > 1 else []
        expected = [by_svd(one) for one in matrices if one.any()]
        assert found["effective_rank"] == (pytest.approx(np.mean(expected), rel=1e-6) if expected else None)

    def test_by_hand(self) -> None:
        """Singular values 3 and 1 have the shares ¾ and ¼: exp(−¾ ln ¾ − ¼ ln ¼) = 4 / 3^¾."""
        found = tensor_change(np.zeros((2, 3), np.float32), np.array([[3, 0, 0], [0, 1, 0]], np.float32))
        assert found["effective_rank"] == pytest.approx(4 / 3**0.75)
        assert found["l2"] == pytest.approx(np.sqrt(10))
        assert found["changed"] == pytest.approx(1 / 3)
        assert effective_rank(np.ones(5)) == pytest.approx(5)
        assert effective_rank(np.array([0.0, 0.0, 2.0])) == pytest.approx(1)

    def test_a_matrix_of_low_rank_is_not_filled_up_by_rounding(self) -> None:
        rng = np.random.default_rng(0)
        low = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 200))
        assert tensor_change(np.zeros((300, 200)), low)["effective_rank"] == pytest.approx(by_svd(low), rel=1e-3)
        assert by_svd(low) < 4.001

    def test_in_slices_and_as_a_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(1)
        for shape in ((50, 7), (7, 50)):
            before, after = rng.normal(size=(2, *shape))
            whole = tensor_change(before, after)
            with monkeypatch.context() as patch:
                patch.setattr(weights, "_ROWS", 8)
                assert tensor_change(before, after) == pytest.approx(whole)

    def test_nothing_moved(self) -> None:
        same = np.ones((3, 3), np.float32)
        assert tensor_change(same, same) == {"l2": 0, "base_l2": 3, "changed": 0, "effective_rank": None}


def base_in(folder: Path, **details: Any) -> Base:
    return Base(Manifest.model_construct(study="s", details={"path": str(folder), **details}))


class TestBase:
    def test_bfloat16_holds_the_same_numbers(self, tmp_path: Path) -> None:
        tensor = torch.tensor([[1.0, -2.5], [3.0e-8, 4.0]]).bfloat16()
        save_torch_file({"w": tensor}, tmp_path / "model.safetensors")
        found = base_in(tmp_path).tensor("w")
        assert found is not None
        assert found.dtype == np.float32
        assert (found == tensor.float().numpy()).all()

    def test_shards(self, tmp_path: Path) -> None:
        for number in (1, 2):
            save_file({f"w{number}": np.full(2, number, np.float16)}, tmp_path / f"model-{number}.safetensors")
        base = base_in(tmp_path)
        for number in (1, 2):
            found = base.tensor(f"w{number}")
            assert found is not None
            assert (found == number).all()

    def test_other_names_than_transformers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """GPT-2's files lack the first part of its parameters' names: the model is loaded, once."""
        save_file({"h.0.w": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
        loaded = []

        def load(_: Manifest) -> Any:
            loaded.append(True)
            return SimpleNamespace(named_parameters=lambda: [("transformer.h.0.w", torch.ones(2))])

        monkeypatch.setattr(models, "load_base", load)
        base = base_in(tmp_path, blocks=["transformer.h.0", "transformer.h.1"])
        found = base.tensor("transformer.h.0.w")
        assert found is not None
        assert (found == 1).all()
        assert base.tensor("nothing") is None
        assert loaded == [True]
        assert base.layer_of("transformer.h.1.w") == 1
        assert base.layer_of("transformer.h.10.w") is None
        assert base.layer_of("transformer.ln_f.weight") is None

    def test_a_tensor_without_a_place(self, tmp_path: Path) -> None:
        save_file({"w": np.zeros((2, 3), np.float32)}, tmp_path / "model.safetensors")
        trained = tmp_path / "run" / "adapted.safetensors"
        trained.parent.mkdir()
        save_file({"w": np.zeros((3, 2), np.float32)}, trained)
        with pytest.raises(UserError, match=r"tensor w of shape \[3, 2\] has no place in this base; found \[2, 3\]"):
            weigh(trained, base_in(tmp_path))


class TestAdapters:
    def test_equals_the_product_of_the_factors(self, tmp_path: Path) -> None:
        """Of the one map, also where the base keeps its weight transposed."""
        rng = np.random.default_rng(2)
        a, b = rng.normal(size=(2, 5)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)
        prefix = "base_model.model.model.layers.1.mlp.up_proj"
        lora = LoraRuns(rank=2, alpha=6)
        path = tmp_path / "run" / "adapted.safetensors"
        path.parent.mkdir()
        save_file(
            {f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b},
            path,
            metadata={"lora": lora.model_dump_json(include={"rank", "alpha", "targets"})},
        )
        name = "model.layers.1.mlp.up_proj.weight"
        before = rng.normal(size=(7, 5)).astype(np.float32)
        for kept in (before, before.T):
            save_file({name: np.ascontiguousarray(kept)}, tmp_path / "model.safetensors")
            found = weigh(path, base_in(tmp_path))
            change = found["tensors"][name]
            delta = 3 * b.astype(np.float64) @ a
            assert change["l2"] == pytest.approx(np.linalg.norm(delta))
            assert change["base_l2"] == pytest.approx(np.linalg.norm(before))
            assert change["effective_rank"] == pytest.approx(by_svd(delta))
            assert (change["layer"], change["changed"], found["left_out"]) == (1, None, {})

    def test_adapters_of_several_matrices_are_left_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(models, "load_base", lambda _: SimpleNamespace(named_parameters=list))
        save_file({"other": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
        prefix = "base_model.model.model.layers.0.mlp.experts"
        path = tmp_path / "run" / "adapted.safetensors"
        path.parent.mkdir()
        save_file(
            {f"{prefix}.lora_A.weight": np.zeros((2, 4)), f"{prefix}.lora_B.weight": np.zeros((4, 2))},
            path,
            metadata={"lora": LoraRuns(rank=2).model_dump_json(include={"rank", "alpha", "targets"})},
        )
        found = weigh(path, base_in(tmp_path))
        assert found["tensors"] == {}
        assert list(found["left_out"]) == ["model.layers.0.mlp.experts.weight"]


def tensors(rng: np.random.Generator, layers: range) -> dict[str, np.ndarray]:
    shapes = {"input_layernorm.weight": (4,), "self_attn.q_proj.weight": (4, 6), "mlp.up_proj.weight": (8, 4)}
    found = {
        f"model.layers.{layer}.{name}": rng.normal(size=shape).astype(np.float32)
        for layer in layers
        for name, shape in shapes.items()
    }
    return found | (
        {"model.embed_tokens.weight": rng.normal(size=(5, 4)).astype(np.float32)} if len(layers) > 1 else {}
    )


def make_weighable(depth: int = 6, full: float = 0.9) -> Study:
    """A study whose checkpoints are real, small files: layer k alone moves k + 1 times as far as in full training."""
    settings = deep_copy(TINY)
    settings["model"]["layers"] = depth
    settings["task"]["sizes"] = {"train": 30, "select": 20, "report": 150}
    settings["task"]["operations"] = ["+", "#"]
    settings["runs"]["seeds"] = [0, 1]
    write_study("tiny", settings)
    study = load_study("tiny")
    prepare(study)
    base = tensors(np.random.default_rng(0), range(depth))
    for run in all_runs(study):
        if run.kind == "full":
            choose_rate(study)
        moved = {
            name: value + np.float32(0.01 * (run.layers[0] + 1 if run.layers else 1))
            for name, value in base.items()
            if not run.layers or f"layers.{run.layers[0]}." in name
        }
        chance = {"base": 0.2, "full": full}.get(run.kind, 0.3 + 0.5 * (run.layers or (0,))[0] / depth)
        make_run(study, run, chance, checkpoint=save(base if run.kind == "base" else moved))
    return study


@pytest.mark.usefixtures("project")
class TestPhase:
    def test_a_run_is_weighed_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        study = make_weighable()
        print_plan([study])
        assert "tiny: would weigh 14 runs: full-s0, full-s1, layer-00-s0" in " ".join(capsys.readouterr().out.split())
        runs = find_runs(study, ["layer-02-s0"])
        phases.weigh_phase(study, runs, "layer-02-s0")
        found = read_json(run_folder("tiny", "layer-02-s0") / WEIGHTS, "")["tensors"]
        change = found["model.layers.2.self_attn.q_proj.weight"]
        assert change["l2"] == pytest.approx(0.03 * np.sqrt(24), rel=1e-5)
        assert change["effective_rank"] == pytest.approx(1, abs=1e-3)
        assert change["layer"] == 2
        assert {one["layer"] for one in found.values()} == {2}
        receipt = job_receipt("tiny", "layer-02-s0", "weighed")
        assert read_json(receipt, "").keys() == {"layer-02-s0"}
        capsys.readouterr()
        before = (run_folder("tiny", "layer-02-s0") / WEIGHTS).stat().st_mtime_ns
        phases.weigh_phase(study, runs, None)
        assert "already weighed" in capsys.readouterr().out
        assert (run_folder("tiny", "layer-02-s0") / WEIGHTS).stat().st_mtime_ns == before

    def test_other_weights_are_weighed_anew(self) -> None:
        study = make_weighable()
        run = find_runs(study, ["full-s0"])[0]
        phases.weigh_phase(study, [run], None)
        assert StudyState(study).weighing(run).done
        make_run(study, run, 0.9, checkpoint=save(tensors(np.random.default_rng(9), range(6))))
        assert StudyState(study).weighing(run).reason == "weights changed"
        phases.weigh_phase(study, [run], None)
        assert StudyState(study).weighing(run).done

    def test_verify_takes_back_a_damaged_one(self) -> None:
        study = make_weighable()
        runs = find_runs(study, ["full-s0", "full-s1"])
        phases.weigh_phase(study, runs, "full-s0+s1")
        receipt = job_receipt("tiny", "full-s0+s1", "weighed")
        assert receipt.exists()
        assert phases.verify(study, thorough=True) == []
        assert receipt.exists()
        path = run_folder("tiny", "full-s1") / WEIGHTS
        path.write_text(path.read_text().replace("0.01", "0.02"))
        assert [str(path) in line for line in phases.verify(study, thorough=True)] == [True]
        assert not receipt.exists()

    def test_what_is_not_weighed(self) -> None:
        study = make_weighable()
        with pytest.raises(UserError, match="tiny/base: the base and the search's runs are not weighed"):
            phases.weigh_phase(study, find_runs(study, ["base"]), None)

    def test_other_fingerprints_stay(self) -> None:
        study = make_weighable()
        before = {run.name: StudyState(study).evaluation(run) for run in all_runs(study)}
        phases.weigh_phase(study, find_runs(study, ["full-s0"]), None)
        assert {run.name: StudyState(study).evaluation(run) for run in all_runs(study)} == before


@pytest.mark.usefixtures("project")
class TestAnalysis:
    def test_full_beside_single(self) -> None:
        study = make_weighable()
        phases.weigh_phase(study, [run for run in all_runs(study) if run.kind in ("full", "layer")], None)
        found = analyze(study)["weights"]
        json.dumps(found, allow_nan=False)
        assert (found["reason"], found["missing"], found["left_out"]) == (None, {}, {})
        for row in found["layers"]:
            # 4 + 24 + 32 entries, each moved as far.
            assert row["full"]["l2"] == pytest.approx(0.01 * np.sqrt(60), rel=1e-4)
            assert row["single"]["l2"] == pytest.approx(0.01 * (row["layer"] + 1) * np.sqrt(60), rel=1e-4)
            assert row["full"]["changed"] == 1
            assert row["full"]["rank_share"] == pytest.approx(1 / 4, abs=1e-3)
            assert row["single"]["per_seed"] == pytest.approx([row["single"]["l2"]] * 2)
            assert [one["matrix"] for one in row["matrices"]] == [
                "input_layernorm", "mlp.up_proj", "self_attn.q_proj",
            ]  # fmt: skip
            assert sum(one["full"]["l2"] ** 2 for one in row["matrices"]) == pytest.approx(row["full"]["l2"] ** 2)
        assert [one["tensor"] for one in found["outside"]] == ["model.embed_tokens.weight"]
        assert found["spread"]["full"]["variation"] == pytest.approx(0, abs=1e-3)
        assert found["spread"]["single"]["most"] == pytest.approx(6 * found["spread"]["single"]["least"], rel=1e-3)
        # C rises with the layer, and so does the single layers' change.
        single = found["correlations"]["single"]
        assert single["pearson"]["value"] > 0.9
        assert single["pearson"]["low"] > 0.5
        assert single["spearman"]["p"] < 0.05
        assert len(found["runs"]) == 14

    def test_what_is_missing_is_said(self) -> None:
        study = make_weighable()
        nothing = analyze(study)["weights"]
        assert "no run is weighed" in nothing["reason"]
        assert nothing["layers"] == []
        phases.weigh_phase(study, find_runs(study, ["full-s0", "layer-01-s0"]), None)
        some = analyze(study)["weights"]
        assert some["reason"] is None
        assert len(some["missing"]) == 12
        assert some["missing"]["layer-01-s1"] == "new"
        assert [row["layer"] for row in some["layers"] if row["single"]] == [1]
        assert some["correlations"]["single"]["reason"] == "1 layers have both figures, fewer than 3"

    def test_without_a_gain(self) -> None:
        study = make_weighable(depth=3, full=0.2)
        phases.weigh_phase(study, [run for run in all_runs(study) if run.kind != "base"], None)
        found = analyze(study)["weights"]
        assert found["layers"][2]["single"]["l2"] > 0
        assert "contributions are undefined" in found["correlations"]["single"]["reason"]
        assert found["correlations"]["single"]["pearson"] is None


def test_kinds() -> None:
    assert kind_of("model.layers.3.self_attn.q_proj.weight") == "self_attn.q_proj"
    assert kind_of("transformer.h.11.attn.c_attn.bias") == "attn.c_attn.bias"
    assert kind_of("model.layers.3.mlp.experts.5.up_proj.weight") == "mlp.experts.5.up_proj"
