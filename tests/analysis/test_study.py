"""The analysis of a study, on records made by hand instead of by sampling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import TINY, deep_copy, write_study
from onelayer.analysis.study import analyze
from onelayer.compare import compare, headlines
from onelayer.config import ReportOptions, Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, evaluated_splits
from onelayer.grid import BASE, all_runs
from onelayer.manifest import EVALUATION_MANIFEST, write_manifest
from onelayer.prepare import prepare, read_problems
from onelayer.records import read_records, summarize, write_records
from onelayer.report.html import write_report
from onelayer.search import choose_rate
from onelayer.state import StudyState
from onelayer.store import ADAPTED, HISTORY, RECORDS, SCORES, run_folder, write_json


def make_run(study: Study, run: Any, chance: float, clipped: bool = False, checkpoint: bytes | None = None) -> None:
    """Leave what training and evaluating a run leaves, with answers that are right by a given chance."""
    folder = run_folder(study.name, run.name)
    folder.mkdir(parents=True, exist_ok=True)
    name = "model.safetensors" if run is BASE else ADAPTED
    (folder / name).write_bytes(checkpoint or run.name.encode())
    write_json(folder / HISTORY, [{"step": step, "reward": chance} for step in (1, 2, 3)])
    payload = StudyState(study).expected_training(run)
    assert not isinstance(payload, str), payload
    files = [folder / name, folder / HISTORY]
    write_manifest(folder, study.name, run.name, payload, files, 1.0, 10**6, {"moved": chance > 0, "path": str(folder)})
    rng = np.random.default_rng(len(run.name) + int(1000 * chance))
    rows = []
    for split in evaluated_splits(run):
        for problem in read_problems(study, split):
            for decoding, sample in [("sample", 0), ("sample", 1), ("greedy", 0)]:
                right = bool(rng.random() < chance)
                rows.append(
                    {"run": run.name, "split": split, "problem": problem.id, "decoding": decoding, "sample": sample,
                     "completion": "x", "extracted": "x" if right else None, "correct": right, "tokens": 2,
                     "clipped": clipped, "status": "ok"}
                )  # fmt: skip
    write_records(folder / RECORDS, rows)
    write_json(folder / SCORES, summarize(read_records(study.name, run.name)))
    expected = StudyState(study).expected_evaluation(run)
    assert not isinstance(expected, str), expected
    write_manifest(
        folder, study.name, run.name, expected, [folder / RECORDS, folder / SCORES], 1.0, 1, {},
        name=EVALUATION_MANIFEST,
    )  # fmt: skip


def make_study(chances: dict[str, float], rates: tuple[float, ...] = (0.001,), clipped: bool = False) -> Study:
    """A whole study whose runs are right by the chance of their kind or layer."""
    settings = deep_copy(TINY)
    settings["training"]["learning_rates"] = list(rates)
    settings["task"]["sizes"] = {"train": 30, "select": 60, "report": 200}
    settings["task"]["operations"] = ["+", "#"]
    settings["runs"]["seeds"] = [0, 1]
    write_study("tiny", settings)
    study = load_study("tiny")
    prepare(study)
    chosen = False
    for run in all_runs(study):
        if run.kind not in ("base", "search") and not chosen:
            choose_rate(study)
            chosen = True
        key = run.name if run.name in chances else run.name.rpartition("-")[0] if run.kind != "base" else "base"
        make_run(study, run, chances[key], clipped)
    return study


CLEAR = {"base": 0.2, "full": 0.8, "layer-00": 0.3, "layer-01": 0.7}


@pytest.mark.usefixtures("project")
class TestAnalysis:
    def test_a_clear_study(self) -> None:
        result = analyze(make_study(CLEAR))
        assert result["defined"]
        assert result["problems"] == 200
        scores = {name: summary["report"]["score"] for name, summary in result["summaries"].items()}
        base, full = scores["base"], (scores["full-s0"] + scores["full-s1"]) / 2
        assert result["gain"]["value"] == pytest.approx(full - base)
        for row, name in zip(result["layers"], ("layer-00", "layer-01"), strict=True):
            score = (scores[f"{name}-s0"] + scores[f"{name}-s1"]) / 2
            assert row["contribution"]["value"] == pytest.approx((score - base) / (full - base))
            assert row["per_seed"] == pytest.approx(
                [(scores[f"{name}-s{seed}"] - base) / (full - base) for seed in (0, 1)]
            )
            assert row["contribution"]["low"] < row["contribution"]["value"] < row["contribution"]["high"]
        assert result["best_layer"]["layer"] == 1
        assert [row["rank"] for row in result["layers"]] == [2, 1]
        assert any("do not overlap" in note for note in result["notes"])
        assert sum("held no answer" in note for note in result["notes"]) > 0

    def test_a_layer_is_ranked_on_select_and_reported_on_report(self) -> None:
        study = make_study({**CLEAR, "layer-00": 0.5, "layer-01": 0.5})
        result = analyze(study)
        best = max(result["layers"], key=lambda row: row["select_score"])
        assert result["best_layer"]["layer"] == best["layer"]
        assert any("cannot be told apart" in note for note in result["notes"])
        run = f"layer-0{best['layer']}"
        on_report = np.mean([result["summaries"][f"{run}-s{seed}"]["report"]["score"] for seed in (0, 1)])
        assert result["best_layer"]["score"]["value"] == pytest.approx(on_report)

    def test_only_a_layer_that_surely_beats_full_is_said_to(self) -> None:
        result = analyze(make_study({"base": 0.2, "full": 0.5, "layer-00": 0.9, "layer-01": 0.5}))
        scores = [row["score"]["value"] - result["full"]["value"] for row in result["layers"]]
        versus = [row["versus_full"] for row in result["layers"]]
        assert [one["difference"] for one in versus] == pytest.approx(scores)
        assert versus[0]["low"] > 0
        assert versus[0]["p_adjusted"] == pytest.approx(2 * versus[0]["p"])
        assert versus[1]["p_adjusted"] == versus[1]["p"] > 0.05
        beats = [note for note in result["notes"] if "beats full training" in note]
        assert len(beats) == 1
        assert beats[0].startswith(f"Layer 0 beats full training by {scores[0]:.3f} (")
        assert beats[0].endswith("corrected for 2 layers).")

    def test_no_gain_no_number(self) -> None:
        study = make_study({**CLEAR, "full": 0.2})
        result = analyze(study)
        assert not result["defined"]
        assert [row["contribution"] for row in result["layers"]] == [None, None]
        assert any("contributions are undefined and none is given" in note for note in result["notes"])
        compare(["tiny"])
        metrics = json.loads(Path("reports/metrics.json").read_text())["tiny"]
        assert metrics["contribution"] == {"layer-00": None, "layer-01": None}
        assert metrics["best_layer"]["contribution"] is None
        assert metrics["full"]["gain_low"] <= 0
        assert "contributions are undefined" in headlines()[0]
        page = write_report(["tiny"], ReportOptions()).read_text()
        assert "No contribution can be given" in page
        assert "undefined" in page

    def test_metrics_and_headline(self) -> None:
        result = analyze(make_study(CLEAR))
        compare(["tiny"])
        metrics = json.loads(Path("reports/metrics.json").read_text())["tiny"]
        assert metrics["base"] == {"score": result["base"]["value"]}
        assert metrics["full"].keys() == {"score", "gain", "gain_low", "gain_high"}
        assert metrics["best_layer"].keys() == {"layer", "score", "contribution", "low", "high"}
        assert metrics["contribution"].keys() == {"layer-00", "layer-01"}
        assert headlines()[0].startswith("tiny: full gain 0.")
        assert "layer 1 alone carries" in headlines()[0]

    def test_the_search_chooses_on_select_and_says_when_it_is_at_the_edge(self) -> None:
        chances = {**CLEAR, "search-0.001": 0.4, "search-0.01": 0.9, "search-0.1": 0.3}
        study = make_study(chances, rates=(0.1, 0.01, 0.001))
        chosen = choose_rate(study)
        assert chosen["learning_rate"] == 0.01
        assert not chosen["at_edge"]
        by_rate = {row["learning_rate"]: row["select_score"] for row in chosen["search"]}
        assert by_rate[0.01] == max(by_rate.values())
        assert by_rate[0.01] == summarize(read_records("tiny", "search-0.01-s0"))["select"]["score"]
        chances |= {"search-0.1": 1.0}
        study = make_study(chances, rates=(0.1, 0.01, 0.001))
        result = analyze(study)
        assert result["search"]["learning_rate"] == 0.1
        assert "The chosen learning rate 0.1 is at the edge of those tried." in result["notes"]

    def test_what_a_score_hides_is_said(self) -> None:
        result = analyze(make_study({"base": 0.0, "full": 0.8, "layer-00": 0.0, "layer-01": 0.7}, clipped=True))
        notes = "\n".join(result["notes"])
        assert "The base's score is 0" in notes
        assert "base, layer-00-s0, layer-00-s1: nothing moved" in notes
        assert "full-s0 on report: 100.0% of the sampled answers ran into the token limit." in notes

    def test_missing_and_stale_records(self) -> None:
        study = make_study(CLEAR)
        path = Path("data/tiny/runs/layer-01-s1/evaluation.json")
        kept = path.read_text()
        path.unlink()
        with pytest.raises(UserError, match=r"tiny/layer-01-s1: no valid records \(new\)"):
            analyze(study)
        path.write_text(kept.replace(json.loads(kept)["fingerprint"], digest({})))
        with pytest.raises(UserError, match="no valid records"):
            analyze(study)
        path.write_text(kept)
        (path.parent / RECORDS).write_bytes(b"PAR1 not")
        with pytest.raises(UserError, match="expected Parquet"):
            analyze(study)

    def test_the_same_records_give_the_same_analysis(self) -> None:
        study = make_study(CLEAR)
        analyze(study)
        first = Path("data/tiny/analysis.json").read_bytes()
        analyze(study)
        assert Path("data/tiny/analysis.json").read_bytes() == first


@pytest.mark.usefixtures("project")
def test_the_report_is_self_contained_and_whole() -> None:
    analyze(make_study({**CLEAR, "search-0.01": 0.9, "search-0.001": 0.5}, rates=(0.001, 0.01)))
    options = ReportOptions(title="A title & more", decimals=2)
    page = write_report(["tiny"], options).read_text()
    for figure in ("contributions", "learning_rates", "curve_ends"):
        assert page.count(f'<figure id="tiny-{figure}">') == 1
    assert "A title &amp; more" in page
    for outside in ('src="http', 'href="http', "@import", "<script src", "url(http"):
        assert outside not in page
    assert write_report(["tiny"], options).read_text() == page
    assert Path("reports/tables/contributions.csv").read_text().count("\n") == 3
    assert Path("reports/tables/learning_rates.csv").read_text().count("\n") == 3
    assert Path("reports/tables/curves.csv").read_text().count("\n") == 1 + 3 * 8
