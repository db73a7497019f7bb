from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, TINY, deep_copy, write_study
from onelayer.config import load_study
from onelayer.cost_table import grand_total, study_cost
from onelayer.errors import UserError

HUB = {
    "kind": "hub", "id": "some/model", "revision": "0" * 40, "layers": 28, "precision": "bfloat16",
    "shape": {
        "layers": 28, "width": 2048, "intermediate": 6144, "heads": 16, "kv_heads": 8, "head_dim": 128,
        "vocabulary": 151936, "tied": True,
    },
}  # fmt: skip
ROWS = {
    "kind": "questions",
    "sources": dict.fromkeys(("train", "select", "report"), "data/sources/none.jsonl"),
    "sizes": {"train": 1000, "select": 100, "report": 200},
}


def real_study(**model: object) -> None:
    settings = deep_copy(TINY) | {"model": {**deep_copy(HUB), **model}, "task": ROWS}
    settings["training"] |= {"prompts_per_batch": 32, "max_tokens": 512, "kl": 0.001}
    write_study("real", settings)


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from onelayer.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules\n"
    command = [sys.executable, "-c", code, "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("project")
class TestCommand:
    def test_json_adds_up_and_needs_no_torch(self) -> None:
        real_study()
        result = plan("tiny", "real", "--cost", "--json", "--device", "h100")
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
        tiny, real = found["studies"]
        for one in (tiny, real):
            for key in ("runs", "flops", "device_hours", "checkpoint_bytes"):
                assert sum(row[key] for row in one["kinds"].values()) == pytest.approx(one["total"][key])
        assert tiny["kinds"]["layer"]["runs"] == 2
        assert real["kinds"]["layer"]["runs"] == 28
        assert real["weights"] == pytest.approx(1.72e9, rel=0.01)
        assert real["kinds"]["full"]["checkpoint_bytes"] == 4 * real["weights"]
        assert found["total"]["runs"] == tiny["total"]["runs"] + real["total"]["runs"] == 34
        assert real["machine"]["kind"] == "GPU"

    def test_tables_print_every_kind_and_a_total(self) -> None:
        real_study()
        result = plan("tiny", "real", "--cost")
        assert result.returncode == 0, result.stderr
        for text in (
            "tiny:",
            "real: 1.72 G weights",
            "base",
            "full",
            "layer",
            "process starts",
            "2 studies",
            "CPU hours",
        ):
            assert text in result.stdout
        assert "responses 512 tokens" not in result.stdout.partition("real:")[0]
        assert "responses 512 tokens" in result.stdout

    def test_a_shape_that_is_nowhere_is_asked_for(self) -> None:
        real_study(shape=None)
        result = plan("real", "--cost")
        assert result.returncode == 2
        assert result.stderr.startswith("error: studies/real.yaml: model.shape: missing, and the local cache has no")

    def test_options_without_cost_are_refused(self) -> None:
        result = plan("tiny", "--device", "a100")
        assert result.returncode == 2
        assert "belong to --cost" in result.stderr


@pytest.mark.usefixtures("project")
class TestStudies:
    def test_a_shape_of_another_depth_is_refused(self) -> None:
        real_study(layers=27)
        with pytest.raises(UserError, match=r"studies/real\.yaml: model\.shape\.layers: found 28, expected 27"):
            study_cost(load_study("real"))

    def test_a_stated_device_is_taken_unless_another_is_asked_for(self) -> None:
        settings = deep_copy(TINY) | {"cost": {"device": "a100"}}
        write_study("tiny", settings)
        study = load_study("tiny")
        assert study_cost(study).machine.name == "A100"
        assert study_cost(study, device="h200").machine.name == "H200"

    def test_threads_cost_their_cores(self) -> None:
        write_study("tiny", deep_copy(TINY) | {"resources": {"threads": 4, "base_threads": 4}})
        cost = study_cost(load_study("tiny"))
        assert cost.total.device_hours == pytest.approx(4 * cost.total.seconds / 3600)

    def test_longer_responses_cost_more(self) -> None:
        real_study()
        study = load_study("real")
        short, long = (study_cost(study, "h100", tokens) for tokens in (100, 200))
        assert long.total.flops > 1.2 * short.total.flops
        assert grand_total([short, long]).runs == 2 * short.total.runs


def test_every_study_of_the_project_has_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names = [path.stem for path in Path("studies").glob("*.yaml")]
    assert len(names) >= 5
    for name in names:
        study = load_study(name)
        if study.model.kind == "gguf":
            continue  # its package may not be installed
        assert study_cost(study).total.device_hours > 0, name
