"""The comparison of studies, on records made by hand instead of by sampling."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.test_study import make_run
from conftest import TINY, deep_copy, write_params, write_study
from onelayer.analysis.coefficients import pearson, permutation_p
from onelayer.analysis.study import analyze
from onelayer.compare import compare, headlines, read_analysis, read_correlations
from onelayer.config import ReportOptions, Study, load_study
from onelayer.errors import UserError
from onelayer.grid import all_runs
from onelayer.pairs import _kind, correlations
from onelayer.prepare import prepare
from onelayer.report.html import write_report
from onelayer.report.sections.agreement import reading
from onelayer.search import choose_rate
from onelayer.task_settings import QuestionsTask

RISING = (0.3, 0.4, 0.5, 0.6, 0.7)
FALLING = RISING[::-1]


def make(name: str, levels: tuple[float, ...] = RISING, full: float = 0.9, **changes: Any) -> Study:
    """An analysed study of one layer a level; ``changes`` overrides top-level settings."""
    settings = deep_copy(TINY)
    settings["model"]["layers"] = len(levels)
    settings["task"]["sizes"] = {"train": 30, "select": 20, "report": 150}
    settings["task"]["operations"] = ["+", "#"]
    settings["runs"]["seeds"] = [0, 1]
    write_study(name, settings | changes)
    study = load_study(name)
    prepare(study)
    for run in all_runs(study):
        if run.kind == "full":
            choose_rate(study)
        chance = {"base": 0.2, "full": full}[run.kind] if run.kind != "layer" else levels[run.layers[0]]
        make_run(study, run, chance)
    analyze(study)
    return study


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("reports/metrics.json").read_text())
    return found


@pytest.mark.usefixtures("project")
class TestPairs:
    def test_figures_of_every_pair(self) -> None:
        for name, levels, seed in (("up", RISING, 0), ("again", RISING, 1), ("down", FALLING, 2)):
            make(name, levels, seed=seed)
        compare(["up", "again", "down"])
        found = metrics()["correlations"]
        assert list(found) == ["up~again", "up~down", "again~down"]
        assert (found["up~again"]["low"], found["up~down"]["high"]) > (0.5, 0)
        assert found["up~down"]["high"] < -0.5
        for name, figures in found.items():
            c = [list(metrics()[study]["contribution"].values()) for study in name.split("~")]
            assert figures["spearman"] == pytest.approx(stats.spearmanr(*c).statistic)
            assert figures["kendall"] == pytest.approx(stats.kendalltau(*c).statistic)
            assert figures["layers"] == 5
            assert figures["kind"] == "same domain and algorithm"
            assert figures["reliability"].keys() == set(name.split("~"))
            assert figures["shared_problems"] < 150
            assert (figures["paired"], figures["same_base"], figures["reason"]) == (False, False, None)
        first = Path("reports/metrics.json").read_bytes()
        compare(["up", "again", "down"])
        assert Path("reports/metrics.json").read_bytes() == first
        # Neither another study nor the order of the two moves a pair's figures.
        assert correlations(["again", "up"])["again~up"]["low"] == found["up~again"]["low"]

    def test_the_same_problems_are_drawn_together(self) -> None:
        make("one")
        make("other")
        figures = correlations(["one", "other"])["one~other"]
        assert figures["shared_problems"] == 150
        assert figures["paired"]
        assert figures["same_base"]

    def test_a_study_stays_where_it_was(self) -> None:
        make("one")
        compare(["one"])
        assert metrics().keys() == {"one", "correlations"}
        assert metrics()["correlations"] == {}
        assert len(headlines()) == 1

    def test_headlines(self) -> None:
        for name, full in (("one", 0.9), ("other", 0.9), ("none", 0.2)):
            make(name, full=full)
        compare(["one", "other", "none"])
        lines = headlines()
        assert [line.partition(":")[0] for line in lines] == [
            "one", "other", "none", "one~other", "one~none", "other~none",
        ]  # fmt: skip
        assert "same domain and algorithm, Spearman 1.00 (" in lines[3]
        assert "over 5 layers, p 0.0" in lines[3]
        assert "no rank correlation: contributions are undefined in none" in lines[4]

    def test_a_study_cannot_take_the_name(self) -> None:
        with pytest.raises(UserError, match=r"studies/correlations.yaml: found a study named 'correlations'"):
            compare(["correlations"])


@pytest.mark.usefixtures("project")
class TestExclusions:
    def test_every_pair_is_listed_with_a_reason(self) -> None:
        make("five")
        make("undefined", full=0.2)
        make("three", RISING[:3])
        make("two", runs={"seeds": [0, 1], "layers": [0, 1]})
        compare(["five", "undefined", "three", "two"])
        found = metrics()["correlations"]
        assert len(found) == 6
        assert "contributions are undefined in undefined" in found["five~undefined"]["reason"]
        assert "differ in depth (5 and 3 layers)" in found["five~three"]["reason"]
        assert found["five~two"]["reason"] == "the studies share 2 scanned layers, fewer than 3"
        for figures in found.values():
            assert figures["reason"]
            assert {figures[name] for name in ("spearman", "low", "high", "p", "kendall", "ceiling")} == {None}
        page = write_report(["five", "undefined", "three", "two"], ReportOptions()).read_text()
        assert page.count("no correlation is given") == 6
        assert "C in five" not in page
        table = Path("reports/tables/correlations.csv").read_text()
        assert table.count("\n") == 7
        assert "differ in depth" in table

    def test_only_the_shared_layers_count(self) -> None:
        make("five")
        make("four", runs={"seeds": [0, 1], "layers": [0, 2, 3, 4]}, levels=FALLING)
        figures = correlations(["five", "four"])["five~four"]
        assert figures["layers"] == 4
        assert figures["spearman"] == pytest.approx(-1)

    def test_layers_that_all_score_alike(self) -> None:
        make("one")
        make("flat", (1.0,) * 5, full=1.0)
        figures = correlations(["one", "flat"])["one~flat"]
        assert figures["reason"] == "all layers score alike in flat, so there is no ranking"
        assert figures["spearman"] is None

    def test_records_without_their_problems(self) -> None:
        make("one")
        make("other")
        path = Path("data/one/problems/report.jsonl")
        path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")
        with pytest.raises(UserError, match=r"report.jsonl: expected the problems of the records, found none"):
            correlations(["one", "other"])


@pytest.mark.usefixtures("project")
class TestReport:
    def test_the_section_reads_the_pairs(self) -> None:
        for name, levels, seed in (
            ("up", RISING, 0),
            ("again", RISING, 1),
            ("flat", (0.5, 0.501, 0.502, 0.503, 0.504), 2),
        ):
            make(name, levels, seed=seed)
        names = ["up", "again", "flat"]
        compare(names)
        page = write_report(names, ReportOptions()).read_text()
        assert page.count('aria-label="Contributions in') == 3
        assert page.count('aria-label="Correlations of the layers') == 1
        assert "Do the layers agree?" in page
        assert "They rank the layers alike: the interval lies above 0" in page
        assert "The interval includes 0" in page
        assert "start from different bases" in page
        for first, second in combinations(names, 2):
            assert f"<p>{first} and {second}: " in page
        assert Path("reports/tables/correlations.csv").read_text().count("\n") == 4
        assert write_report(names, ReportOptions()).read_text() == page

    def test_one_study_has_no_section(self) -> None:
        make("one")
        assert "Do the layers agree?" not in write_report(["one"], ReportOptions()).read_text()
        assert Path("reports/tables/correlations.csv").read_text().startswith("first,second,kind,layers,spearman")

    def test_figures_of_other_studies_will_not_do(self) -> None:
        make("one")
        make("other")
        with pytest.raises(UserError, match=r"metrics.json: not found; `onelayer compare one other` makes it"):
            write_report(["one", "other"], ReportOptions())
        compare(["one"])
        with pytest.raises(UserError, match="found no figures of one~other; `onelayer compare one other` makes them"):
            read_correlations(["one", "other"])


FIGURES: dict[str, Any] = {
    "kind": "cross-domain", "layers": 8, "spearman": 0.5, "low": 0.1, "high": 0.8, "p": 0.01, "ceiling": 0.95,
    "reliability": {"a": 0.4, "b": 0.9}, "confidence": 0.95, "shared_problems": 0, "paired": False, "same_base": True,
    "reason": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "0.80, p 0.01). They rank the layers alike: the interval lies above 0, and few orders at random"),
        ({"p": 0.2}, "The interval lies above 0, yet with so few layers an order at random often goes as far"),
        ({"low": -0.8, "high": -0.1}, "They rank the layers in opposite ways: the interval lies below 0"),
        ({"low": -0.1}, "The interval includes 0: neither agreement nor its absence is shown."),
        ({"low": 0.0}, "The interval includes 0"),
        ({"ceiling": 0.6}, "ceiling of a's own ranking is 0.40, so two studies of one true ranking would be expected"),
        ({"same_base": False}, "The two start from different bases"),
        ({"shared_problems": 9, "paired": True}, "The problems are the same"),
        ({"shared_problems": 9}, "9 problems are in both; the interval takes them as apart."),
    ],
)
def test_readings(changes: dict[str, Any], said: str) -> None:
    text = reading(("a", "b"), FIGURES | changes)
    assert said in text
    assert ("ceiling" in text) == ("ceiling" in changes)
    assert text.startswith("a and b: cross-domain, 8 layers: Spearman 0.50 (95% interval")


@pytest.mark.usefixtures("project")
def test_kinds() -> None:
    write_params(["tiny"])
    one = load_study("tiny")
    splits = ("train", "select", "report")
    task = QuestionsTask.model_validate(
        {"kind": "questions", "sources": dict.fromkeys(splits, "a.jsonl"), "sizes": dict.fromkeys(splits, 1)}
    )
    other_task = one.model_copy(update={"task": task})
    other_algorithm = one.model_copy(update={"algorithm": "another"})
    both = other_task.model_copy(update={"algorithm": "another"})
    assert _kind(one, one) == "same domain and algorithm"
    assert _kind(one, other_task) == "cross-domain"
    assert _kind(one, other_algorithm) == "cross-algorithm"
    assert _kind(one, both) == "cross-domain and cross-algorithm"
    assert _kind(both, one) == _kind(one, both)


@pytest.mark.usefixtures("project")
class TestMoreThanRanks:
    def test_every_coefficient_of_a_pair(self) -> None:
        rising = (0.3, 0.4, 0.45, 0.5, 0.6, 0.7)
        make("one", rising)
        make("other", rising, seed=1)
        figures = correlations(["one", "other"])["one~other"]
        c = [[row["contribution"]["value"] for row in read_analysis(name)["layers"]] for name in ("one", "other")]
        assert figures["pearson"]["value"] == pytest.approx(stats.pearsonr(*c).statistic)
        assert figures["pearson"]["low"] <= figures["pearson"]["high"]
        assert figures["pearson"]["p"] == pytest.approx(permutation_p(*map(np.array, c), 0, pearson))
        depths = np.arange(6) / 5
        left = [one - np.polyval(np.polyfit(depths, one, 2), depths) for one in c]
        assert figures["partial_pearson"]["value"] == pytest.approx(stats.pearsonr(*left).statistic)
        ranked = [stats.rankdata(one) for one in c]
        left = [one - np.polyval(np.polyfit(depths, one, 2), depths) for one in ranked]
        expected = stats.pearsonr(*left).statistic if min(map(np.ptp, left)) > 1e-6 else 0
        assert figures["partial_spearman"]["value"] == pytest.approx(expected)
        assert 0 < figures["kendall_p"] <= 1
        assert figures["over_depth"] is None
        assert figures["seed_to_seed"] == {
            name: read_analysis(name)["seed_agreement"]["mean"]["spearman"] for name in ("one", "other")
        }

    def test_four_layers_leave_no_partial_correlation(self) -> None:
        make("one", RISING[:4])
        make("other", RISING[:4])
        figures = correlations(["one", "other"])["one~other"]
        assert figures["pearson"]["value"] > 0.9
        assert figures["partial_pearson"] is figures["partial_spearman"] is None

    def test_models_of_different_depth(self) -> None:
        make("five")
        make("nine", (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7))
        make("some", (0.3, 0.5, 0.6, 0.7, 0.6, 0.5, 0.4), runs={"seeds": [0, 1], "layers": [1, 3, 6]})
        make("end", (*RISING[::-1], 0.5), runs={"seeds": [0, 1], "layers": [4, 5]})
        found = correlations(["five", "nine", "some", "end"])
        figures = found["five~nine"]
        assert figures["spearman"] is None
        over = figures["over_depth"]
        assert (over["points"], over["from_depth"], over["to_depth"], over["shallow"]) == (5, 0, 1, "five")
        assert over["partial_scans"] == []
        # Relative depths 0, 1/4, … of five layers are layers 0, 2, … of nine.
        c = [[row["contribution"]["value"] for row in read_analysis(name)["layers"]] for name in ("five", "nine")]
        assert over["spearman"] == pytest.approx(stats.spearmanr(c[0], c[1][::2]).statistic)
        assert over["pearson"]["value"] == pytest.approx(stats.pearsonr(c[0], c[1][::2]).statistic)
        assert over["low"] > 0
        partial = found["five~some"]["over_depth"]
        assert partial["partial_scans"] == ["some"]
        assert partial["points"] == 4  # depth 0 lies below the scanned range
        assert partial["from_depth"] == 0.25
        assert found["nine~end"]["over_depth"]["reason"] == (
            "2 scanned layers of end lie in the scanned range of nine, fewer than 3"
        )


@pytest.mark.usefixtures("project")
class TestSeeds:
    def test_each_pair_of_seeds(self) -> None:
        make("one", runs={"seeds": [0, 1, 2], "layers": "all"})
        found = read_analysis("one")["seed_agreement"]
        layers = read_analysis("one")["layers"]
        assert [pair["seeds"] for pair in found["pairs"]] == [[0, 1], [0, 2], [1, 2]]
        for pair in found["pairs"]:
            c = [[row["per_seed"][seed] for row in layers] for seed in pair["seeds"]]
            assert pair["spearman"] == pytest.approx(stats.spearmanr(*c).statistic)
            assert pair["kendall"] == pytest.approx(stats.kendalltau(*c).statistic)
            assert pair["pearson"] == pytest.approx(stats.pearsonr(*c).statistic)
        assert found["mean"]["pearson"] == pytest.approx(np.mean([pair["pearson"] for pair in found["pairs"]]))
        assert found["reliability"] > 0.5
        assert found["reason"] is None

    def test_one_seed(self) -> None:
        make("one", runs={"seeds": [0], "layers": "all"})
        found = read_analysis("one")["seed_agreement"]
        assert found["pairs"] == []
        assert found["mean"] == {"spearman": None, "kendall": None, "pearson": None}
        assert found["reliability"] is None
        assert found["reason"] == "there is one seed, so none to compare it with"

    def test_two_layers(self) -> None:
        make("one", RISING[:2])
        found = read_analysis("one")["seed_agreement"]
        assert found["pairs"][0]["reason"] == "both trained 2 layers, fewer than 3"
        assert found["reason"] == "no two seeds can be compared"
