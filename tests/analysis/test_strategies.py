"""Strategies and rate sensitivity from ranking to page, on records made by hand instead of by sampling."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.test_study import make_run
from conftest import TINY, deep_copy, new_project, write_study
from onelayer import phases
from onelayer.analysis.comparison import compare_arms
from onelayer.analysis.contribution import Bootstrap
from onelayer.analysis.evidence import gather
from onelayer.analysis.problem_sets import ProblemSets
from onelayer.analysis.study import analyze
from onelayer.compare import study_metrics
from onelayer.config import Study, load_study
from onelayer.grid import BASE, all_runs, find_runs
from onelayer.overview import print_plan
from onelayer.prepare import prepare
from onelayer.report import tables
from onelayer.report.html import write_study_page
from onelayer.report.sections import sensitivity as sensitivity_page
from onelayer.report.sections import strategies as strategies_page
from onelayer.search import rank_layers
from onelayer.state import StudyState

CHANCES = {
    "base": 0.2,
    "full": 0.7,
    "layer-00": 0.3,
    "layer-01": 0.4,
    "layer-02": 0.6,
    "layer-03": 0.5,
    "boost-best2": 0.9,
    "boost-worst2": 0.7,
    "only-best2": 0.75,
    "only-worst2": 0.3,
    "middle2": 0.55,
    "spread2": 0.45,
    "random2": 0.5,
    "rate-x0.5-best-1": 0.5,
    "rate-x0.5-worst-1": 0.25,
    "rate-x3-best-1": 0.62,
    "rate-x3-worst-1": 0.75,
}
STRATEGIES = {
    "sizes": [2],
    "boost": ["best", "worst"],
    "only": ["best", "worst"],
    "middle": True,
    "spread": True,
    "random": 3,
    "factor": 4.0,
}


def settings(strategies: bool = True) -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["model"]["layers"] = 4
    changed["task"]["sizes"] = {"train": 30, "select": 60, "report": 200}
    changed["task"]["operations"] = ["+", "#"]
    changed["runs"]["seeds"] = [0, 1]
    if strategies:
        changed["runs"]["strategies"] = STRATEGIES
        changed["runs"]["rate_sensitivity"] = {"factors": [0.5, 3], "seeds": [1]}
    return changed


def make_study(chances: dict[str, float] = CHANCES, strategies: bool = True) -> Study:
    """A study whose runs are right by the chance of their setting; its layers are ranked 2, 3, 1, 0."""
    write_study("tiny", settings(strategies))
    study = load_study("tiny")
    prepare(study)
    for run in all_runs(study):
        if run.kind == "boost" and not Path("data/tiny/ranking.json").exists():
            rank_layers(study)
        make_run(study, run, chances[run.setting])
    return study


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the study, with its analysis."""
    folder = tmp_path_factory.mktemp("strategies")
    with new_project(folder):
        analyze(make_study())
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A copy of that project, as the current folder."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return load_study("tiny")


@pytest.fixture
def result(made: Path) -> dict[str, Any]:
    """Its analysis."""
    found: dict[str, Any] = json.loads((made / "data/tiny/analysis.json").read_text())
    return found


class TestLayersOfARanking:
    def test_each_end_takes_its_own(self, study: Study) -> None:
        state = StudyState(study)
        assert state.order == (2, 3, 1, 0)
        found = {}
        for run in all_runs(study):
            payload = state.expected_training(run)
            assert isinstance(payload, dict)
            found[run.setting] = (payload.get("layers"), payload.get("boost"), payload.get("learning_rate"))
        assert found["boost-best2"] == ([2, 3], 4.0, 0.001)
        assert found["boost-worst2"] == ([0, 1], 4.0, 0.001)
        assert found["only-worst2"] == ([0, 1], None, 0.001)
        assert found["middle2"] == ([1, 2], None, 0.001)
        assert found["spread2"] == ([1, 3], None, 0.001)
        assert found["rate-x3-best-1"] == ([2], None, 0.003)
        assert found["rate-x0.5-worst-1"] == ([0], None, 0.0005)
        assert found["full"] == ([], None, 0.001)

    def test_another_ranking_is_another_run_where_the_set_changes(self, study: Study) -> None:
        make_run(study, find_runs(study, ["layer-00-s0"])[0], 0.99)
        make_run(study, find_runs(study, ["layer-00-s1"])[0], 0.99)
        waiting = StudyState(study)
        kinds = {run.kind for run in all_runs(study) if "waits for the ranking" in waiting.training(run).reason}
        assert kinds == {"boost", "only", "rate"}
        assert waiting.void_choices() == [Path("data/tiny/ranking.json")]
        rank_layers(study)
        state = StudyState(study)
        assert state.order == (0, 2, 3, 1)
        reasons = {run.setting: state.training(run).reason for run in all_runs(study)}
        assert reasons["boost-best2"] == reasons["only-best2"] == "layers [2, 3] → [0, 2]"
        assert reasons["boost-worst2"] == reasons["only-worst2"] == "layers [0, 1] → [1, 3]"
        assert reasons["rate-x3-best-1"] == "layers [2] → [0]"
        assert {reasons[name] for name in ("middle2", "spread2", "random2", "full")} == {"done"}

    def test_layers_that_change_places_within_a_set_train_nothing(self, study: Study) -> None:
        for seed in (0, 1):
            make_run(study, find_runs(study, [f"layer-03-s{seed}"])[0], 0.95)
        rank_layers(study)
        state = StudyState(study)
        assert state.order == (3, 2, 1, 0)
        assert {run.setting for run in all_runs(study) if not state.training(run).done} == {
            "rate-x0.5-best-1", "rate-x3-best-1"
        }  # fmt: skip

    def test_another_factor_trains_the_boosts_alone(self, study: Study) -> None:
        changed = settings()
        changed["runs"]["strategies"] = STRATEGIES | {"factor": 2.0}
        write_study("tiny", changed)
        study = load_study("tiny")
        state = StudyState(study)
        reasons = {run.setting: state.training(run).reason for run in all_runs(study)}
        assert {name for name, reason in reasons.items() if reason != "done"} == {"boost-best2", "boost-worst2"}
        assert reasons["boost-best2"] == "boost 4.0 → 2.0"

    def test_the_plan_says_which_layers(self, study: Study, capsys: pytest.CaptureFixture[str]) -> None:
        Path("data/tiny/ranking.json").unlink()
        print_plan([study])
        shown = capsys.readouterr().out
        assert re.search(
            r"boost-best2-s0 +│ all, at 4 × the rate best 2 on select +│ would train: waits for the", shown
        )
        assert re.search(r"middle2-s0 +│ 1, 2 +│ done", shown)
        rank_layers(study)
        print_plan([study])
        shown = capsys.readouterr().out
        assert re.search(r"only-worst2-s0 +│ 0, 1 \(worst 2 on select\) +│ done", shown)
        assert re.search(r"rate-x3-best-1-s1 +│ 2 \(best on select\) at 3 × the rate +│ done", shown)
        assert phases.verify(study, thorough=True) == []


class TestAnalysis:
    def test_rows_by_hand(self, result: dict[str, Any]) -> None:
        scores = {name: one["report"]["score"] for name, one in result["summaries"].items()}

        def mean(setting: str) -> float:
            return float(np.mean([score for name, score in scores.items() if name.startswith(f"{setting}-")]))

        rows = {row["name"]: row for row in result["strategies"]}
        assert list(rows) == [
            "boost-best2", "boost-worst2", "only-best2", "only-worst2", "middle2", "spread2", "random2"
        ]  # fmt: skip
        for name, row in rows.items():
            assert row["score"]["value"] == pytest.approx(mean(name))
            share = (mean(name) - scores["base"]) / (mean("full") - scores["base"])
            assert row["contribution"]["value"] == pytest.approx(share)
            assert row["contribution"]["low"] < share < row["contribution"]["high"]
            against = {"full", "layer-02"} | (set() if name == "random2" else {"random2"})
            assert row["against"].keys() == against
            for other, found in row["against"].items():
                assert found["difference"] == pytest.approx(mean(name) - mean(other))
            assert (row["size"], row["train_seconds"], row["peak_memory_bytes"]) == (2, 1.0, 10**6)
        assert (rows["boost-best2"]["kind"], rows["boost-best2"]["end"], rows["boost-best2"]["factor"]) == (
            "boost", "best", 4.0
        )  # fmt: skip
        assert [rows[name]["layers"] for name in list(rows)[:6]] == [[2, 3], [0, 1], [2, 3], [0, 1], [1, 2], [1, 3]]
        assert rows["middle2"]["seeds"] == [0, 1]

    def test_random_layers_are_one_row_of_several_draws(self, result: dict[str, Any]) -> None:
        row = result["strategies"][-1]
        assert row["layers"] is None
        assert row["seeds"] == [0, 1, 0]
        assert [draw["draw"] for draw in row["draws"]] == [0, 1, 2]
        assert len({tuple(draw["layers"]) for draw in row["draws"]}) == 3
        names = ["random2-d0-s0", "random2-d1-s1", "random2-d2-s0"]
        assert [draw["score"] for draw in row["draws"]] == [
            result["summaries"][name]["report"]["score"] for name in names
        ]
        assert row["score_deviation"] == pytest.approx(np.std([draw["score"] for draw in row["draws"]], ddof=1))

    def test_all_comparisons_are_corrected_together(self, study: Study, result: dict[str, Any]) -> None:
        found = [one for row in result["strategies"] for one in row["against"].values()]
        assert len(found) == 6 * 3 + 2
        order = sorted(found, key=lambda one: one["p"])
        naive = [min(1.0, (len(order) - place) * one["p"]) for place, one in enumerate(order)]
        for place, one in enumerate(order):
            assert one["p_adjusted"] == pytest.approx(max(naive[: place + 1]))
        assert all(first["p_adjusted"] <= second["p_adjusted"] for first, second in pairwise(order))
        evidence = gather(study)
        bootstrap = Bootstrap(ProblemSets.of_ids(list(evidence.means["report"][BASE.name].index)), 200, 0.95, 1)
        first, second = (
            evidence.matrix("report", find_runs(study, [f"{name}-s0", f"{name}-s1"])) for name in ("only-best2", "full")
        )
        alone = compare_arms(first, second, bootstrap)
        row = next(row for row in result["strategies"] if row["name"] == "only-best2")["against"]["full"]
        assert row["difference"] == pytest.approx(alone.difference.value)
        assert row["low"] == pytest.approx(alone.difference.low, abs=0.02)  # other draws

    def test_rate_sensitivity_by_hand(self, result: dict[str, Any]) -> None:
        scores = {name: one["report"]["score"] for name, one in result["summaries"].items()}
        found = result["rate_sensitivity"]
        assert found["learning_rate"] == 0.001
        rows = {row["name"]: row for row in found["rows"]}
        assert list(rows) == ["rate-x0.5-best-1", "rate-x0.5-worst-1", "rate-x3-best-1", "rate-x3-worst-1"]
        gain = (scores["full-s0"] + scores["full-s1"]) / 2 - scores["base"]
        for name, row in rows.items():
            at_one = (scores[f"layer-0{row['layer']}-s0"] + scores[f"layer-0{row['layer']}-s1"]) / 2
            assert row["score_at_one"]["value"] == pytest.approx(at_one)
            assert row["move"] == pytest.approx((scores[f"{name}-s1"] - at_one) / gain)
            assert row["against_one"]["difference"] == pytest.approx(scores[f"{name}-s1"] - at_one)
            assert row["among"] == 2
        assert [(row["layer"], row["end"], row["factor"]) for row in found["rows"]] == [
            (2, "best", 0.5), (0, "worst", 0.5), (2, "best", 3.0), (0, "worst", 3.0)
        ]  # fmt: skip
        # At 3 times the rate layer 0 passes layer 2.
        assert [(row["rank"], row["rank_at_one"]) for row in found["rows"]] == [(1, 1), (2, 2), (2, 1), (1, 2)]
        assert found["largest_move"] == max(abs(row["move"]) for row in found["rows"])
        smallest = min(row["against_one"]["p"] for row in found["rows"])
        assert min(row["against_one"]["p_adjusted"] for row in found["rows"]) == pytest.approx(4 * smallest)

    @pytest.mark.usefixtures("project")
    def test_they_change_no_other_figure(self, result: dict[str, Any]) -> None:
        without = analyze(make_study(strategies=False))
        assert (without["strategies"], without["rate_sensitivity"]) == ([], None)
        for key in ("layers", "base", "full", "gain", "best_layer", "baselines", "search"):
            assert result[key] == json.loads(json.dumps(without))[key], key
        assert "strategies" not in study_metrics(without)
        assert "rate_sensitivity" not in study_metrics(without)
        assert strategies_page.section(without) is None
        assert sensitivity_page.section(without) is None

    def test_metrics(self, result: dict[str, Any]) -> None:
        found = study_metrics(result)
        row = result["strategies"][0]
        assert found["strategies"].keys() == {row["name"] for row in result["strategies"]}
        assert found["strategies"]["boost-best2"] == {
            "score": row["score"]["value"],
            "share_of_gain": row["contribution"]["value"],
            "low": row["contribution"]["low"],
            "high": row["contribution"]["high"],
        }
        assert found["rate_sensitivity"] == {"largest_move": result["rate_sensitivity"]["largest_move"]}

    def test_of_what_is_there(self, study: Study) -> None:
        for name in ("random2-d1-s1", "only-best2-s0", "spread2-s0", "spread2-s1", "rate-x3-best-1-s1"):
            Path(f"data/tiny/runs/{name}/evaluation.json").unlink()
        result = analyze(study, partial=True)
        rows = {row["name"]: row for row in result["strategies"]}
        assert "spread2" not in rows
        assert [draw["draw"] for draw in rows["random2"]["draws"]] == [0, 2]
        assert rows["only-best2"]["seeds"] == [1]
        assert [row["name"] for row in result["rate_sensitivity"]["rows"]] == [
            "rate-x0.5-best-1", "rate-x0.5-worst-1", "rate-x3-worst-1"
        ]  # fmt: skip
        assert result["rate_sensitivity"]["rows"][-1]["among"] == 1
        assert any(note.startswith("random2 rests on 2 of 3 draws: random2-d1-s1 (new)") for note in result["notes"])
        assert write_study_page("tiny").exists()

    def test_without_the_runs_at_one_there_is_no_move(self, study: Study) -> None:
        for seed in (0, 1):
            Path(f"data/tiny/runs/layer-01-s{seed}/evaluation.json").unlink()
        result = analyze(study, partial=True)  # the ranking is void, and all that follows from it with it
        assert [row["name"] for row in result["strategies"]] == ["middle2", "spread2", "random2"]
        assert result["rate_sensitivity"] == {"learning_rate": 0.001, "rows": [], "largest_move": None}
        assert sensitivity_page.section(result) is None


class TestPage:
    def test_it_claims_what_holds_after_correction(self, result: dict[str, Any]) -> None:
        section = strategies_page.section(result)
        assert section is not None
        words = {text.partition(".")[0]: text for text in section.paragraphs}
        against_full = words["Against full training"]
        assert re.search(r"Above it: Boost best 2 \(\+0\.\d{3}, \+0\.\d{3} to \+0\.\d{3}\)", against_full)
        assert re.search(r"Below it: .*Only worst 2 \(-0\.\d{3}", against_full)
        assert re.search(r"Not told apart from it: .*Boost worst 2", against_full)
        assert "Against the best single layer (2)" in words
        assert "Random 2" not in words["Against as many random layers"]
        rows = {row["name"]: row["against"]["full"] for row in result["strategies"]}
        rows["boost-best2"]["p_adjusted"] = 0.06
        again = strategies_page.section(result)
        assert again is not None
        assert not any("Above it: Boost best 2" in text for text in again.paragraphs if "full training" in text)

    def test_figure_and_tables(self, result: dict[str, Any]) -> None:
        section = strategies_page.section(result)
        assert section is not None
        scores, comparisons = section.exhibits
        assert scores.svg is not None
        for text in ("Boost best 2", "Only worst 2", "Middle 2", "share of the full gain", "full training"):
            assert text in scores.svg
        assert scores.table is not None
        assert list(scores.table["setting"]) == [row["name"] for row in result["strategies"]]
        assert scores.table["rate_of_these"][0] == "4 ×"
        assert comparisons.table is not None
        assert len(comparisons.table) == 20
        assert set(tables.settings(result)["setting"]) >= {"boost-best2", "rate-x3-best-1"}
        rates = sensitivity_page.section(result)
        assert rates is not None
        assert "ranks move: layer 2 from 1 to 2, layer 0 from 2 to 1" in rates.paragraphs[-1]
        assert "At 0.5 times the rate, of 2 layers, they keep their order." in rates.paragraphs
        assert re.search(
            r"the score differs from that at 1 for .*layer 0 at 3 times \(\+0\.\d+, of one seed\)", rates.paragraphs[0]
        )
        assert rates.exhibits[0].svg is not None
        assert "layer 2" in rates.exhibits[0].svg
        assert rates.exhibits[0].table is not None
        assert list(rates.exhibits[0].table["rank"]) == [1, 2, 2, 1]

    @pytest.mark.usefixtures("project")
    def test_no_gain_no_share(self) -> None:
        result = analyze(make_study(CHANCES | {"full": 0.2}))
        assert not result["defined"]
        assert {row["contribution"] for row in result["strategies"]} == {None}
        assert result["rate_sensitivity"]["largest_move"] is None
        section, rates = strategies_page.section(result), sensitivity_page.section(result)
        assert section is not None
        assert rates is not None
        assert "share of the full gain" not in str(section.exhibits[0].svg)
        assert "Contributions are undefined, so scores are compared." in rates.paragraphs[0]
        assert json.dumps(study_metrics(result)["strategies"]["middle2"]["share_of_gain"]) == "null"
