"""The suite phase on a tiny study: what is sampled, what is left alone, and what is written about it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, new_project, write_study
from onelayer import phases
from onelayer.analysis.sampling import describe
from onelayer.analysis.study import analyze
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import BASE, all_runs, find_runs
from onelayer.manifest import read_manifest
from onelayer.report.html import write_study_page
from onelayer.state import StudyState
from onelayer.store import job_receipt, read_json, suite_folder, suite_scores_file
from onelayer.suite.scores import read_benchmark_records, read_suite_scores
from onelayer.suite.standing import SuiteState

GSM8K = {
    "benchmark": "gsm8k",
    "path": "data/sources/gsm8k.jsonl",
    "samples": 3,
    "max_tokens": 3,
    "prompt": "{question}",
}
AMC = {
    "benchmark": "amc", "source": {"path": "data/sources/amc.jsonl"}, "grading": "number", "samples": 2,
    "max_tokens": 3, "prompt": "{question}",
}  # fmt: skip


def write_rows() -> None:
    Path("data/sources").mkdir(parents=True, exist_ok=True)
    rows = [
        {"question": f"{a}#{b}=", "answer": f"so #### {str(max(a, b))[::-1]}"} for a in (10, 35) for b in (21, 42, 63)
    ]
    Path("data/sources/gsm8k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"question": f"{a}#{a}=", "answer": a} for a in (11, 22, 33, 44)]
    Path("data/sources/amc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def settings_with(suite: list[Any]) -> dict[str, Any]:
    settings = deep_copy(TINY)
    settings["evaluation"]["suite"] = suite
    return settings


def study_with(suite: list[Any]) -> Study:
    write_study("tiny", settings_with(suite))
    return load_study("tiny")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny study, trained and evaluated before it had a suite."""
    folder = tmp_path_factory.mktemp("suite")
    with new_project(folder):
        write_rows()
        study = load_study("tiny")
        phases.prepare_phase(study)
        phases.base_phase(study)
        phases.train_phase(study, all_runs(study)[1:], None)
        phases.evaluate_phase(study, all_runs(study), None)
    return folder


@pytest.fixture
def project(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def times(study: Study, run: str) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in suite_folder(study.name, run).iterdir()}


@pytest.mark.usefixtures("project")
def test_records_scores_and_provenance(capsys: pytest.CaptureFixture[str]) -> None:
    study = study_with([GSM8K])
    state = StudyState(study, thorough=True)
    assert all(state.evaluation(run).done for run in all_runs(study))  # naming a suite makes nothing else again
    phases.suite_phase(study, [BASE], None)
    assert "tiny/base: to be scored on the suite (gsm8k: new)" in capsys.readouterr().out
    records = read_benchmark_records("tiny", "base", "gsm8k")
    assert len(records) == 6 * 3
    assert set(records["split"]) == {"gsm8k"}
    assert set(records["problem"]) == {f"gsm8k:{row}" for row in range(1, 7)}
    manifest = read_manifest(suite_folder("tiny", "base"), "gsm8k.json")
    assert manifest is not None
    assert {key: manifest.details[key] for key in ("k", "temperature", "max_tokens", "prompt", "seed", "records")} == {
        "k": 3, "temperature": 1.0, "max_tokens": 3, "prompt": "{question}", "seed": 0, "records": 18,
    }  # fmt: skip
    assert "onelayer" in manifest.details["graders"]
    assert "torch" in manifest.versions
    scores = read_suite_scores("tiny", "base")
    row = scores["benchmarks"]["gsm8k"]
    assert {key: row[key] for key in describe(records)} == describe(records)
    assert (row["made"]["k"], row["made"]["prompt"], row["fingerprint"]) == (3, "{question}", manifest.fingerprint)
    # Three of the four math sets are not in this suite, so there is no math score, and none overall.
    assert scores["composites"]["math"] == {"score": None, "se": None, "missing": ["math500", "olympiadbench", "amc"]}
    assert scores["composites"]["overall"]["score"] is None
    assert "code" not in scores["composites"]


@pytest.mark.usefixtures("project")
def test_one_more_benchmark_samples_that_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    phases.suite_phase(study_with([GSM8K]), [BASE], None)
    before = times(load_study("tiny"), "base")
    records = read_benchmark_records("tiny", "base", "gsm8k")
    capsys.readouterr()
    study = study_with([GSM8K, AMC])
    phases.suite_phase(study, [BASE], None)
    output = capsys.readouterr().out
    assert "tiny/base: to be scored on the suite (amc: new)" in output
    assert "gsm8k: 18 answers" not in output
    after = times(study, "base")
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"amc.parquet", "amc.json"}
    # What was sampled alone is what would be sampled beside another.
    shutil.rmtree(suite_folder("tiny", "base"))
    phases.suite_phase(study, [BASE], None)
    assert read_benchmark_records("tiny", "base", "gsm8k").equals(records)
    phases.suite_phase(study, [BASE], None)
    assert "tiny/base: already scored on the suite" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_what_makes_a_benchmark_be_sampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_with([GSM8K, AMC])
    phases.suite_phase(study, [BASE], None)

    def standing(study: Study) -> str:
        return SuiteState(study, StudyState(study, thorough=True)).run(BASE).reason

    assert standing(study) == "done"
    assert standing(study_with([GSM8K, {**AMC, "samples": 5}])) == "amc: benchmark.samples 2 → 5"
    study = study_with([GSM8K, AMC])
    scores = suite_scores_file("tiny", "base")
    kept = scores.read_text()
    for text, reason in (
        ("{", f"damaged: {scores}: not the scores of its benchmarks"),
        ('{"benchmarks": {}}', "the scores are to be added up"),
    ):
        scores.write_text(text)
        assert standing(study) == reason
        with monkeypatch.context() as patch:
            patch.setattr("onelayer.suite.run.load_run", None)  # nothing is sampled for it
            phases.suite_phase(study, [BASE], None)
        assert scores.read_text() == kept
    records = suite_folder("tiny", "base") / "amc.parquet"
    records.write_bytes(records.read_bytes()[:-1] + b"?")
    assert standing(study).startswith(f"amc: damaged: {records}")
    rows = Path("data/sources/gsm8k.jsonl")
    rows.write_text(rows.read_text().replace("63#", "62#").replace("35#21=", "36#21="))
    assert standing(study) == "gsm8k: rows changed"
    rows.unlink()
    assert standing(study) == f"gsm8k: {rows}: not found; the benchmark gsm8k is read from it"


@pytest.mark.usefixtures("project")
class TestRefusals:
    """Nothing is sampled where a later benchmark could not be."""

    def refused(self, suite: list[Any]) -> str:
        study = study_with(suite)
        with pytest.raises(UserError) as caught:
            phases.suite_phase(study, [BASE], None)
        assert not suite_folder("tiny", "base").exists()
        return str(caught.value)

    def test_no_suite(self) -> None:
        assert self.refused([]) == "tiny: evaluation.suite names no benchmark, so there is nothing to score a run on"

    def test_rows(self) -> None:
        assert "gsm8k: nowhere.jsonl: not found" in self.refused([AMC, {"benchmark": "gsm8k", "path": "nowhere.jsonl"}])
        path = Path("data/sources/gsm8k.jsonl")
        for text, expected in (
            ("", "gsm8k.jsonl: expected rows, found none"),
            ('{"question": "1#2="}\n', "row 1: expected a value in 'answer'"),
            ('{"question": "1#2=", "answer": "2"}\n', "row 1: expected '####' in 'answer'"),
            ("[]\n", "row 1: expected a JSON object, found list"),
            ("{\n", "row 1: expected a JSON object, found:"),
        ):
            path.write_text(text)
            assert expected in self.refused([AMC, GSM8K])

    def test_a_search_run(self) -> None:
        settings = settings_with([GSM8K])
        settings["training"]["learning_rates"] = [0.001, 0.002]
        write_study("tiny", settings)
        study = load_study("tiny")
        with pytest.raises(UserError, match="the search's runs choose a rate and are not scored"):
            phases.suite_phase(study, find_runs(study, ["search-0.001-s0"]), None)


@pytest.mark.usefixtures("project")
def test_analysis_and_page_show_the_suite() -> None:
    study = study_with([GSM8K, AMC])
    with pytest.raises(
        UserError, match=r"tiny/base: not scored on the suite \(gsm8k: new\); `onelayer suite tiny base`"
    ):
        analyze(study)
    for name in ("base", "full-s0", "layer-00-s0", "layer-01-s0"):
        phases.suite_phase(study, find_runs(study, [name]), name)
    receipt = read_json(job_receipt("tiny", "full-s0", "suite"), "")
    assert set(receipt["full-s0"]) == {"gsm8k", "amc"}
    analysis = analyze(study)
    suite = analysis["suite"]
    assert set(suite["scores"]) == {"base", "full-s0", "layer-00-s0", "layer-01-s0"}
    assert suite["scores"]["base"]["benchmarks"]["gsm8k"]["score"] == pytest.approx(
        read_suite_scores("tiny", "base")["benchmarks"]["gsm8k"]["score"]
    )
    assert any("math is undefined: math500, olympiadbench" in note for note in suite["notes"])
    assert any("gsm8k was read from data/sources/gsm8k.jsonl" in note for note in suite["notes"])
    page = write_study_page("tiny").read_text()
    assert "Evaluation suite" in page
    assert "gsm8k" in page
    # Without a suite neither has a word of it.
    plain = load_study_without_suite()
    assert "suite" not in analyze(plain)
    assert "Evaluation suite" not in write_study_page("tiny").read_text()


def load_study_without_suite() -> Study:
    write_study("tiny", TINY)
    return load_study("tiny")


@pytest.mark.usefixtures("project")
def test_verify_takes_back_what_is_not_true() -> None:
    study = study_with([GSM8K])
    jobs = ("base", "full-s0", "layer-00-s0", "layer-01-s0")
    for name in jobs:
        phases.suite_phase(study, find_runs(study, [name]), name)
    receipt = job_receipt("tiny", "full-s0", "suite")
    phases.verify(study, thorough=True)
    assert receipt.exists()
    records = suite_folder("tiny", "full-s0") / "gsm8k.parquet"
    records.write_bytes(b"none")
    found = phases.verify(study, thorough=True)
    assert [line for line in found if str(records) in line]
    assert not receipt.exists()
    assert job_receipt("tiny", "base", "suite").exists()
