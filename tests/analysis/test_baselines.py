"""Baselines from search to report, on records made by hand instead of by sampling."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.test_study import make_run
from conftest import TINY, deep_copy, write_study
from onelayer import phases
from onelayer.analysis.study import analyze
from onelayer.compare import compare
from onelayer.config import ReportOptions, Study, load_study
from onelayer.errors import UserError
from onelayer.grid import Run, all_runs, families, find_family, find_runs
from onelayer.overview import print_plan
from onelayer.prepare import prepare
from onelayer.report.html import write_report
from onelayer.search import choose_rate, rank_layers
from onelayer.state import StudyState

CHANCES = {
    "base": 0.2,
    "full": 0.8,
    "layer-00": 0.3,
    "layer-01": 0.6,
    "search-lora-r2-0.01": 0.9,
    "search-lora-r2-0.1": 0.3,
    "lora-r2": 0.7,
    "search-tuned-best-0.004": 0.4,
    "search-tuned-best-0.002": 0.8,
    "tuned-best": 0.75,
}


def settings(baselines: bool = True) -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["task"]["sizes"] = {"train": 30, "select": 60, "report": 200}
    changed["task"]["operations"] = ["+", "#"]
    changed["runs"]["seeds"] = [0, 1]
    if baselines:
        changed["runs"]["lora"] = {"rank": 2, "learning_rates": [0.01, 0.1]}
        changed["runs"]["tuned_layers"] = {"learning_rates": [0.002, 0.004]}
    return changed


def setting_of(run: Run) -> str:
    return run.name.removesuffix(f"-s{run.seed}")


def make_study(chances: dict[str, float], baselines: bool = True) -> Study:
    """A study with its searches and its ranking, whose runs are right by the chance of their setting."""
    write_study("tiny", settings(baselines))
    study = load_study("tiny")
    prepare(study)
    for run in all_runs(study):
        choose_for(study, run)
        make_run(study, run, chances[setting_of(run)])
    return study


def choose_for(study: Study, run: Run) -> None:
    """Choose what a run needs, as the graph does before it."""
    if run.kind == "full":
        choose_rate(study)
    if run.ranked is not None:
        rank_layers(study)
    if run.family is not None and run.kind != "search":
        choose_rate(study, find_family(study, run.family))


@pytest.mark.usefixtures("project")
class TestSearch:
    def test_each_baseline_takes_the_best_of_its_own_rates_on_select(self) -> None:
        study = make_study(CHANCES)
        state = StudyState(study)
        lora, best = families(study)
        assert state.family_rate(lora) == 0.01
        assert state.family_rate(best) == 0.002
        assert state.chosen_rate == 0.001  # the study's own, which no baseline touches
        chosen = json.loads(Path("data/tiny/rates/lora-r2.json").read_text())
        assert [row["run"] for row in chosen["search"]] == ["search-lora-r2-0.01-s0", "search-lora-r2-0.1-s0"]
        assert chosen["at_edge"] is True
        for run in find_runs(study, ["search-lora-r2-0.01-s0", "search-tuned-best-0.002-s0"]):
            assert "report" not in json.loads(Path(f"data/tiny/runs/{run.name}/scores.json").read_text())
        assert "records" not in json.loads(Path("data/tiny/learning_rate.json").read_text())

    def test_of_equal_rates_the_smaller(self) -> None:
        study = make_study(CHANCES | {"search-lora-r2-0.01": 1.0, "search-lora-r2-0.1": 1.0})
        assert choose_rate(study, find_family(study, "lora-r2"))["learning_rate"] == 0.01

    def test_the_best_layer_is_the_analysis_own(self) -> None:
        study = make_study(CHANCES)
        assert StudyState(study).order == (1, 0)
        assert analyze(study)["best_layer"]["layer"] == 1
        payload = StudyState(study).expected_training(find_runs(study, ["tuned-best-s0"])[0])
        assert not isinstance(payload, str)
        assert payload["layers"] == [1]
        assert payload["learning_rate"] == 0.002

    def test_another_best_layer_is_another_run(self) -> None:
        study = make_study(CHANCES)
        runs = find_runs(study, ["layer-00-s0", "layer-00-s1"])
        best, searched = find_runs(study, ["tuned-best-s0", "search-tuned-best-0.002-s0"])
        assert StudyState(study).training(best).done
        for run in runs:
            make_run(study, run, 0.9)
        assert StudyState(study).order is None
        assert StudyState(study).training(best).reason == "waits for the ranking of the layers"
        rank_layers(study)
        assert StudyState(study).order == (0, 1)
        # The run's rate was searched on the other layer's: the search comes first.
        assert StudyState(study).training(searched).reason == "layers [1] → [0]"
        assert StudyState(study).training(best).reason == "layers [1] → [0]"
        make_run(study, searched, 0.5)
        assert StudyState(study).training(best).reason == "waits for the learning-rate search"

    def test_what_no_longer_follows_from_the_records_is_taken_back(self) -> None:
        study = make_study(CHANCES)
        state = StudyState(study)
        assert state.void_choices() == []
        phases.verify(study, thorough=False)
        assert Path("data/tiny/ranking.json").exists()
        for run in find_runs(study, ["layer-00-s0", "search-lora-r2-0.1-s0"]):
            make_run(study, run, 0.95)
        gone = [Path("data/tiny/ranking.json"), Path("data/tiny/rates/lora-r2.json")]
        assert StudyState(study).void_choices() == gone
        phases.verify(study, thorough=False)
        assert not any(path.exists() for path in gone)
        assert Path("data/tiny/rates/tuned-best.json").exists()

    def test_a_file_that_is_none_of_ours_is_no_choice(self) -> None:
        study = make_study(CHANCES)
        for text in ("{}", "[]", "{"):
            Path("data/tiny/ranking.json").write_text(text)
            assert StudyState(study).order is None

    def test_the_plan_says_which_layer(self, capsys: pytest.CaptureFixture[str]) -> None:
        study = make_study(CHANCES)
        print_plan([study])
        shown = capsys.readouterr().out
        assert re.search(r"tuned-best-s0 +│ 1 \(best on select\) +│ done", shown)
        assert re.search(r"lora-r2-s0 +│ adapters of rank 2", shown)
        Path("data/tiny/ranking.json").unlink()
        print_plan([study])
        assert re.search(r"tuned-best-s0 +│ best on select +│ would train: waits for the rank", capsys.readouterr().out)


@pytest.mark.usefixtures("project")
class TestAnalysis:
    def test_baselines_stand_beside_full_and_the_best_layer(self) -> None:
        result = analyze(make_study(CHANCES))
        rows = {row["name"]: row for row in result["baselines"]}
        assert list(rows) == ["full", "layer-01", "lora-r2", "tuned-best"]
        scores = {name: summary["report"]["score"] for name, summary in result["summaries"].items()
                  if "report" in summary}  # fmt: skip
        base, full = scores["base"], (scores["full-s0"] + scores["full-s1"]) / 2
        for name, row in rows.items():
            seeds = [scores[f"{name}-s{seed}"] for seed in (0, 1)]
            assert row["score_per_seed"] == seeds
            assert row["score"]["value"] == pytest.approx(np.mean(seeds))
            assert row["score_deviation"] == pytest.approx(abs(seeds[0] - seeds[1]) / np.sqrt(2))
            assert row["contribution"]["value"] == pytest.approx((np.mean(seeds) - base) / (full - base))
            assert row["peak_memory_bytes"] == 10**6
            assert row["train_seconds"] == 1.0
        assert rows["full"]["contribution"] == {"value": 1.0, "low": 1.0, "high": 1.0}
        assert rows["layer-01"]["contribution"] == result["best_layer"]["contribution"]
        assert rows["lora-r2"]["contribution"]["low"] < rows["lora-r2"]["contribution"]["value"]
        assert [rows[name]["learning_rate"] for name in rows] == [0.001, 0.001, 0.01, 0.002]
        assert [rows[name]["search_seconds"] for name in rows] == [0, 0, 4.0, 4.0]
        assert "The learning rate 0.01 chosen for lora-r2 is at the edge of those tried." in result["notes"]

    def test_baselines_change_no_figure_of_the_layers(self) -> None:
        with_them = analyze(make_study(CHANCES))
        without = analyze(make_study(CHANCES, baselines=False))
        assert without["baselines"] == []
        for key in ("layers", "base", "full", "gain", "best_layer", "search"):
            assert with_them[key] == without[key], key

    def test_no_gain_no_share(self) -> None:
        result = analyze(make_study(CHANCES | {"full": 0.2}))
        assert [row["contribution"] for row in result["baselines"]] == [None] * 4
        compare(["tiny"])
        found = json.loads(Path("reports/metrics.json").read_text())["tiny"]["baselines"]
        assert found["lora-r2"]["share_of_gain"] is None
        assert found["lora-r2"]["score"] > 0.5
        page = write_report(["tiny"], ReportOptions()).read_text()
        assert "it is undefined here, as C is" in page
        assert pd.read_csv("reports/tables/baselines.csv")["share_of_gain"].isna().all()

    def test_tables_metrics_and_page(self) -> None:
        result = analyze(make_study(CHANCES))
        compare(["tiny"])
        found = json.loads(Path("reports/metrics.json").read_text())["tiny"]["baselines"]
        assert found.keys() == {"lora-r2", "tuned-best"}
        assert found["lora-r2"].keys() == {"score", "share_of_gain", "low", "high"}
        page = write_report(["tiny"], ReportOptions()).read_text()
        assert "Beside the baselines" in page
        assert "Every setting" in page
        assert "there was no search of it" in page
        for table in ("learning_rates", "baselines", "curve_ends", "settings"):
            shown = page.partition(f'<figure id="tiny-{table}"')[2].partition("</figure>")[0]
            assert "<td class=t>tuned-best</td>" in shown, table
        assert page.count("LoRA") == 1  # in the figure of the training curves
        table = pd.read_csv("reports/tables/baselines.csv").set_index("runs")
        assert list(table.index) == ["full", "layer-01", "lora-r2", "tuned-best"]
        assert table.loc["lora-r2", "share_of_gain"] == pytest.approx(found["lora-r2"]["share_of_gain"])
        settings = pd.read_csv("reports/tables/settings.csv").set_index("setting")
        assert list(settings.index) == ["full", "layer-00", "layer-01", "lora-r2", "tuned-best"]
        for name, row in settings.iterrows():
            assert row["mean"] == pytest.approx(row[["s0", "s1"]].mean())
            assert row["deviation"] == pytest.approx(row[["s0", "s1"]].std())
            assert row["low"] < row["mean"] < row["high"], name
        assert result["full"]["deviation"] == pytest.approx(settings.loc["full", "deviation"])
        rates = pd.read_csv("reports/tables/learning_rates.csv")
        assert set(rates["searched_on"]) == {"lora-r2", "tuned-best"}  # the study itself has one rate, and no search
        assert sorted(rates[rates["chosen"]]["learning_rate"]) == [0.002, 0.01]

    def test_of_one_seed_there_is_no_deviation(self) -> None:
        changed = settings()
        changed["runs"]["seeds"] = [0]
        write_study("tiny", changed)
        study = load_study("tiny")
        prepare(study)
        for run in all_runs(study):
            choose_for(study, run)
            make_run(study, run, CHANCES[setting_of(run)])
        result = analyze(study)
        assert result["full"]["deviation"] is None
        assert {row["score_deviation"] for row in result["baselines"]} == {None}
        page = write_report(["tiny"], ReportOptions()).read_text()
        assert "standard deviation 0" not in page

    def test_missing_records(self) -> None:
        study = make_study(CHANCES)
        Path("data/tiny/runs/lora-r2-s1/evaluation.json").unlink()
        with pytest.raises(UserError, match=r"tiny/lora-r2-s1: no valid records \(new\)"):
            analyze(study)
        Path("data/tiny/runs/layer-00-s1/evaluation.json").unlink()
        with pytest.raises(UserError, match="tiny/layer-00-s1: records without a manifest"):
            rank_layers(study)
