"""The whole graph on the real engines, with a tiny study: what runs, and what does not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from graph_project import (
    RUNS,
    _untraced,
    everything,
    finished,
    here,
    metrics,
    run,
    settings,
    snakemake,
    trained,
)

from conftest import write_params, write_study

__all__ = ["_untraced", "finished", "here"]  # fixtures, by their names

pytestmark = pytest.mark.graph


@pytest.mark.usefixtures("here")
class TestViews:
    def test_dvc_shows_and_compares_plots_metrics_and_experiments(self) -> None:
        output = run("dvc", "exp", "run", "-n", "finer", "-S", "studies/tiny.yaml:analysis.resamples=400")
        assert trained(output) == set()
        assert "Ran experiment(s): finer" in output
        assert "tiny.full.gain_low" in run("dvc", "metrics", "diff")
        shown = run("dvc", "exp", "show", "--no-pager", "--csv")
        assert [line.split(",")[0] for line in shown.splitlines()[1:]] == ["", "", "finer"]
        for command in (("show",), ("diff", "HEAD", "workspace")):
            run("dvc", "plots", *command, "-o", "plots")
            page = Path("plots/index.html").read_text()
            for title in ("Contribution by layer", "Score of every setting", "Training curves"):
                assert page.count(f'"text": "{title}"') == 1
            assert ('"rev": "HEAD"' in page) == (command[0] == "diff")

    def test_snakemake_reports(self) -> None:
        assert "Report created" in snakemake("--report", "made.html")
        page = Path("made.html").read_text()
        for name in ("report.html", "metrics.json", "analysis.json"):
            assert name in page


@pytest.mark.usefixtures("here")
class TestNothingToDo:
    def test_repro_again(self) -> None:
        before = everything()
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert "Nothing to be done" in snakemake("-n")
        assert everything() == before
        assert run("git", "status", "--porcelain") == ""

    def test_touching_every_file_trains_nothing(self) -> None:
        for path in Path().rglob("*"):
            if path.is_file() and ".git" not in path.parts and ".dvc" not in path.parts:
                path.touch()
        assert trained(snakemake()) == set()
        assert "Data and pipelines are up to date" in run("dvc", "repro")

    def test_a_report_option_writes_the_report_alone(self) -> None:
        write_params(["tiny"], report={"title": "Another title", "decimals": 2})
        before = everything()
        output = run("dvc", "repro")
        assert trained(output) == set()
        assert "rule evaluate" not in output
        assert "<title>Another title</title>" in Path("reports/report.html").read_text()
        assert everything() == before

    def test_an_analysis_setting_trains_and_samples_nothing(self) -> None:
        changed = settings()
        changed["analysis"]["resamples"] = 300
        write_study("tiny", changed)
        before = everything()
        assert trained(run("dvc", "repro")) == set()
        assert everything() == before

    def test_a_comment_in_the_settings_trains_nothing(self) -> None:
        path = Path("studies/tiny.yaml")
        path.write_text("# a thought\n" + path.read_text())
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert "Nothing to be done" in snakemake("-n")

    def test_plan_imports_no_torch(self) -> None:
        code = (
            "import sys; from onelayer.cli import app\n"
            "try: app(['plan'])\nexcept SystemExit: pass\n"
            "sys.exit(bool({'torch', 'transformers', 'trl'} & set(sys.modules)))"
        )
        output = run("python", "-c", code)
        assert "tiny: would train nothing" in output
        assert "tiny: would sample nothing" in output


class TestChanges:
    """Exactly the runs that a change touches train, and the plan says so beforehand."""

    def changed(self, there: str, expected: set[str], commit: bool = False, engine: str = "dvc") -> None:
        plan = run("onelayer", "plan")
        planned = re.search(r"tiny: would train \d+ runs: (.*?)\ntiny:", plan, re.DOTALL)
        assert planned, plan
        assert set(planned[1].replace("\n", "").replace(" ", "").split(",")) == expected
        if engine == "dvc":
            assert trained(run("dvc", "repro")) == expected
            assert "Nothing to be done" in snakemake("-n")
        else:
            assert trained(snakemake()) == expected
            run("dvc", "commit", "-q", "-f")
            assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert there in run("onelayer", "status")
        if commit:
            run("git", "tag", "first")
            run("git", "commit", "-qam", "larger")
            run("git", "tag", "larger")
            run("git", "checkout", "-q", "first")
        # and back again
        run("git", "checkout", "-q", ".")
        run("dvc", "checkout", "-q")
        assert "would train nothing" in run("onelayer", "plan")
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert trained(snakemake()) == set()

    def test_a_seed_by_snakemake_alone_then_dvc_commit(self, here: Path) -> None:
        more = settings()
        more["runs"]["seeds"] = [0, 1]
        write_study("tiny", more)
        before = everything()
        self.changed("layer-01-s1", {"full-s1", "layer-00-s1", "layer-01-s1"}, engine="snakemake")
        assert everything() == before

    def test_a_layer(self, here: Path) -> None:
        fewer = settings()
        fewer["runs"]["layers"] = [1]
        write_study("tiny", fewer)
        shutil.rmtree("data/tiny/runs/layer-00-s0")
        shutil.rmtree("data/tiny/jobs")
        assert trained(run("dvc", "repro")) == set()
        assert "A partial scan: 1 of 2 layers were trained." in Path("reports/report.html").read_text()
        assert "layer-00" not in metrics()["tiny"]["contribution"]
        run("git", "commit", "-qam", "one layer")
        write_study("tiny", settings())
        self.changed("layer-00-s0", {"layer-00-s0"})

    def test_the_size_of_the_training_set_and_a_search(self, here: Path) -> None:
        larger = settings()
        larger["task"]["sizes"]["train"] = 300
        larger["training"]["learning_rates"] = [0.003, 1e-6]
        write_study("tiny", larger)
        assert "waits for the learning-rate search" in run("onelayer", "plan")
        before = Path("data/tiny/runs/base/records.parquet").stat().st_mtime_ns
        search = {"search-0.003-s0", "search-1e-06-s0"}
        self.changed("full-s0", search | RUNS - {"base"}, commit=True)
        assert Path("data/tiny/runs/base/records.parquet").stat().st_mtime_ns == before
        shown = json.loads(run("dvc", "metrics", "diff", "first", "larger", "--json"))
        moved = shown.get("diff", shown)["reports/metrics.json"]
        assert "tiny.full.score" in moved
        assert not any(key.startswith("tiny.base") for key in moved)
        run("git", "checkout", "-q", "larger")
        run("dvc", "checkout", "-q")
        chosen = json.loads(Path("data/tiny/learning_rate.json").read_text())
        assert {row["run"] for row in chosen["search"]} == search


def test_bad_settings_stop_every_engine_before_anything_runs(here: Path) -> None:
    bad = settings()
    bad["runs"]["layers"] = [5]
    write_study("tiny", bad)
    before = {str(path): path.stat().st_mtime_ns for path in Path("data").rglob("*")}
    message = "studies/tiny.yaml: runs.layers[0]: found layer 5, expected 0 to 1 (the model has 2 layers)"
    for command, code in (
        (("onelayer", "plan"), 2),
        (("onelayer", "train", "tiny", "full-s0"), 2),
        (("snakemake", "--cores", "1"), 2),
    ):
        output = run(*command, expect=code)
        assert message in output
        assert "Traceback" not in output
    assert message in subprocess.run(["dvc", "repro"], capture_output=True, text=True, check=False).stderr
    assert {str(path): path.stat().st_mtime_ns for path in Path("data").rglob("*")} == before
