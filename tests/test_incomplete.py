"""Studies that are not whole, from their records to the page: what is there is said, and nothing is made up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.test_study import make_run
from conftest import TINY, deep_copy, write_study
from onelayer.analysis.study import analyze
from onelayer.compare import compare, headlines
from onelayer.config import ReportOptions, Study, load_study
from onelayer.grid import all_runs
from onelayer.manifest import EVALUATION_MANIFEST
from onelayer.prepare import prepare
from onelayer.report.html import write_report, write_study_page
from onelayer.search import choose_rate
from onelayer.store import run_folder

LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7)


def make(
    lost: Iterable[str] = (),
    name: str = "tiny",
    levels: tuple[float, ...] = LEVELS,
    base: float = 0.2,
    full: float = 0.8,
    **runs: Any,
) -> Study:
    """A study of one layer a level, but for the runs that are lost."""
    settings = deep_copy(TINY)
    settings["model"]["layers"] = len(levels)
    settings["task"]["sizes"] = {"train": 30, "select": 40, "report": 150}
    settings["task"]["operations"] = ["+", "#"]
    settings["runs"] = {"seeds": [0, 1]} | runs
    write_study(name, settings)
    study = load_study(name)
    prepare(study)
    choose_rate(study)
    for run in all_runs(study):
        if run.name not in lost:
            make_run(study, run, {"base": base, "full": full}.get(run.kind) or levels[run.layers[0]])
    return study


def said(study: Study) -> tuple[dict[str, Any], str, dict[str, Any], str]:
    """The analysis of what is there, the page, the metrics and the headline."""
    result = analyze(study, partial=True)
    compare([study.name])
    page = write_report([study.name], ReportOptions()).read_text()
    assert "nan" not in page.replace("nance", "").lower()  # provenance is a word of the page
    assert write_study_page(study.name).read_text().endswith("</html>")
    metrics = json.loads(Path("reports/metrics.json").read_text())[study.name]
    return result, page, metrics, headlines()[0]


@pytest.mark.usefixtures("project")
class TestOneStudy:
    def test_partly_done(self) -> None:
        lost = ["layer-03-s0", "layer-03-s1", "layer-04-s0", "layer-04-s1"]
        result, page, metrics, headline = said(make(lost))
        assert [row["layer"] for row in result["layers"]] == [0, 1, 2]
        assert result["missing"].keys() == set(lost)
        assert "Not finished: 4 of 13 runs are missing, and the figures rest on the others." in page
        assert "A partial scan: 3 of 5 layers were trained." in page
        assert "layer-03 is left out: layer-03-s0 (waits for its training), layer-03-s1 (waits" in page
        assert "grpo, 3 of 5 layers, 2 seeds" in page
        assert metrics["contribution"].keys() == {"layer-00", "layer-01", "layer-02"}
        assert metrics["missing_runs"] == 4
        assert headline.startswith("tiny (4 runs missing): full gain 0.")

    def test_failed_in_one_run(self) -> None:
        result, page, metrics, _ = said(make(["layer-04-s1"]))
        row = result["layers"][4]
        assert (row["seeds"], row["score_deviation"]) == ([0], None)
        alone = result["summaries"]["layer-04-s0"]["report"]["score"]
        base, full = result["base"]["value"], result["full"]["value"]
        assert row["score"]["value"] == pytest.approx(alone)
        assert metrics["contribution"]["layer-04"] == pytest.approx((alone - base) / (full - base))
        table = pd.read_csv("reports/tables/contributions.csv")
        assert table["contribution_s1"].isna().tolist() == [False] * 4 + [True]
        assert "layer-04 rests on 1 of 2 seeds: layer-04-s1 (waits for its training) missing." in page

    def test_failed_in_a_full_run(self) -> None:
        result, page, _, _ = said(make(["full-s1"]))
        assert result["full"]["value"] == result["summaries"]["full-s0"]["report"]["score"]
        assert (result["full"]["seeds"], result["full"]["deviation"]) == ([0], None)
        assert "full rests on 1 of 2 seeds" in page
        assert "standard deviation" not in page.partition("<nav")[0]

    def test_no_layer_yet(self) -> None:
        lost = [f"layer-{layer:02d}-s{seed}" for layer in range(5) for seed in (0, 1)]
        result, page, metrics, headline = said(make(lost))
        assert (result["layers"], result["best_layer"]) == ([], None)
        assert "No layer is done yet." in page
        assert "No layer is recommended: " in page
        assert set(metrics["best_layer"].values()) == {None}
        assert metrics["contribution"] == {}
        assert headline.endswith("no layer is done yet")
        assert (
            Path("reports/tables/contributions.csv").read_text().startswith("study,layer,depth,rank,contribution,low")
        )
        assert 'id="tiny-contributions"' not in page
        assert 'id="tiny-curve_ends"' in page  # of the full runs

    def test_one_seed(self) -> None:
        result, page, _, _ = said(make(seeds=[0]))
        assert "One seed: the intervals cover the choice of problems, not the luck of training." in page
        assert [row["score_deviation"] for row in result["layers"]] == [None] * 5
        assert pd.read_csv("reports/tables/settings.csv")["deviation"].isna().all()

    def test_two_layers(self) -> None:
        result, page, _, headline = said(make(levels=(0.3, 0.7)))
        assert result["best_layer"]["layer"] == 1
        assert "apart from every other." in page
        assert "layer 1 alone carries" in headline

    def test_one_layer(self) -> None:
        result, page, _, _ = said(make(layers=[4]))
        assert [row["depth"] for row in result["layers"]] == [1.0]
        assert "the only layer there is" in page

    @pytest.mark.parametrize(("base", "full"), [(0.4, 0.4), (0.6, 0.2)])
    def test_no_gain(self, base: float, full: float) -> None:
        result, page, metrics, headline = said(make(base=base, full=full))
        assert not result["defined"]
        assert set(metrics["contribution"].values()) == {None}
        assert "No contribution can be given: the full gain is not clearly above zero." in page
        assert "alone carries" not in page
        assert "contributions are undefined" in headline
        table = pd.read_csv("reports/tables/contributions.csv")
        assert table[["contribution", "low", "high", "contribution_s0"]].isna().all(axis=None)
        assert table["score"].notna().all()

    def test_no_gain_and_no_layer(self) -> None:
        lost = [f"layer-{layer:02d}-s{seed}" for layer in range(5) for seed in (0, 1)]
        _, _, metrics, headline = said(make(lost, full=0.2))
        assert metrics["best_layer"]["layer"] is None
        assert headline.endswith("contributions are undefined")


@pytest.mark.usefixtures("project")
class TestPairs:
    def test_layers_that_lack_a_seed_are_not_correlated(self) -> None:
        analyze(make(name="whole"))
        analyze(make(["layer-02-s1"], name="partly"), partial=True)
        compare(["whole", "partly"])
        found = json.loads(Path("reports/metrics.json").read_text())["correlations"]["whole~partly"]
        assert (found["layers"], found["reason"]) == (4, None)
        assert found["spearman"] == pytest.approx(1.0, abs=0.21)
        page = write_report(["whole", "partly"], ReportOptions()).read_text()
        assert "whole and partly: same domain and algorithm, 4 layers" in page

    def test_too_few_are_left(self) -> None:
        analyze(make(name="whole"))
        analyze(make([f"layer-{layer:02d}-s1" for layer in (0, 1, 2)], name="partly"), partial=True)
        compare(["whole", "partly"])
        found = json.loads(Path("reports/metrics.json").read_text())["correlations"]["whole~partly"]
        assert found["spearman"] is None
        assert "share 2 scanned layers (those that lack a seed's run not counted)" in found["reason"]
        assert "no correlation is given" in write_report(["whole", "partly"], ReportOptions()).read_text()


@pytest.mark.usefixtures("project")
def test_a_run_whose_records_are_of_other_settings_counts_as_missing() -> None:
    study = make()
    path = run_folder("tiny", "layer-00-s0") / EVALUATION_MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"fingerprint": "0" * 64}))
    result = analyze(study, partial=True)
    assert result["missing"].keys() == {"layer-00-s0"}
    assert result["layers"][0]["seeds"] == [1]
