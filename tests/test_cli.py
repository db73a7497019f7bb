"""The command line as its users meet it: messages, exit codes, and nothing changed where it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from conftest import TINY, deep_copy, write_params, write_study
from onelayer.store import exclusive


def onelayer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["onelayer", *arguments], capture_output=True, text=True, check=False)


def refused(*arguments: str) -> str:
    before = sorted(str(path) for path in Path().rglob("*"))
    result = onelayer(*arguments)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert sorted(str(path) for path in Path().rglob("*")) == before
    return result.stderr


@pytest.mark.usefixtures("project")
class TestRefusals:
    def test_settings(self) -> None:
        broken = deep_copy(TINY)
        broken["runs"]["seeds"] = [1, 1]
        write_study("tiny", broken)
        for command in (["plan"], ["prepare", "tiny"], ["base", "tiny"], ["train", "tiny", "full-s0"], ["status"]):
            assert refused(*command) == (
                "error: studies/tiny.yaml: runs.seeds: expected each value once, found 1 more than once\n"
            )

    def test_names(self) -> None:
        assert "studies/none.yaml: not found" in refused("plan", "none")
        assert "run 'full-s9': not in study tiny; it has base, full-s0" in refused("train", "tiny", "full-s9")
        assert "job 'x': not in study tiny" in refused("train", "tiny", "--job", "x")
        assert "expected runs or --job JOB, found neither" in refused("train", "tiny")
        assert "expected runs or --job JOB, found both" in refused("evaluate", "tiny", "base", "--job", "base")
        assert "run 'x': not in study" in refused("export", "tiny", "x", "out")
        assert "baseline 'lora-r16': not in study tiny; it has none" in refused(
            "choose-rate", "tiny", "--baseline", "lora-r16"
        )

    def test_order(self) -> None:
        assert "data/tiny/runs/base: no base yet; `onelayer base tiny` makes it" in refused(
            "export", "tiny", "full-s0", "out"
        )
        assert "tiny/base: no valid records (waits for its training)" in refused("analyze", "tiny")
        assert "data/tiny/analysis.json: not found; `onelayer analyze tiny` makes it" in refused("compare")
        assert "data/tiny/analysis.json: not found" in refused("report")
        assert "reports/metrics.json: not found" in refused("summary")
        assert "layer-00-s0/records.parquet: no records yet; `onelayer evaluate tiny layer-00-s0` makes" in refused(
            "rank", "tiny"
        )

    def test_more_problems_than_there_are(self) -> None:
        greedy = deep_copy(TINY)
        greedy["task"]["sizes"]["select"] = 100_000
        write_study("tiny", greedy)
        result = onelayer("prepare", "tiny")
        assert result.returncode == 2
        assert "task.sizes.select: found 100000, expected at most" in result.stderr
        assert not Path("data/tiny").exists()


@pytest.mark.usefixtures("project")
class TestOverview:
    def test_plan_of_a_fresh_project(self) -> None:
        output = onelayer("plan").stdout
        assert "tiny: would train 4 runs: base, full-s0, layer-00-s0, layer-01-s0" in output
        assert "would train: new" in output
        assert "would train: waits for the base" in output
        assert not Path("data").exists()

    def test_status_of_a_run_at_work_and_of_one_interrupted(self) -> None:
        folder = Path(".work/tiny/full-s0/0123456789abcdef")
        folder.mkdir(parents=True)
        progress = {"pid": 1, "step": 3, "steps": 9, "reward": 0.25, "seconds_left": 12.0}
        (folder / "progress.json").write_text(json.dumps(progress))
        shown = onelayer("status").stdout
        assert "stopped: training" in shown
        assert "3/9" in shown
        assert "0.250" in shown
        with exclusive("tiny", "full-s0"):
            shown = onelayer("status").stdout
            assert "at work: training" in shown
            assert "12 s" in shown
        with exclusive("tiny", "base"):
            assert "at work: starting" in onelayer("status").stdout
        assert "tiny: 0 of 4 runs are trained and evaluated" in onelayer("status").stdout

    def test_prepare_twice(self) -> None:
        first = onelayer("prepare", "tiny")
        assert "data/tiny/problems/train.jsonl: 30 problems" in first.stdout
        times = {path: path.stat().st_mtime_ns for path in Path("data/tiny").rglob("*")}
        assert "the problems are there already" in onelayer("prepare", "tiny").stdout
        assert {path: path.stat().st_mtime_ns for path in Path("data/tiny").rglob("*")} == times
        Path("data/tiny/problems/train.jsonl").write_text("{}\n")
        assert "data/tiny/problems/train.jsonl: 30 problems" in onelayer("prepare", "tiny").stdout

    def test_a_row_of_the_problems_that_is_not_ours(self) -> None:
        from onelayer.config import load_study
        from onelayer.errors import UserError
        from onelayer.prepare import read_problems

        onelayer("prepare", "tiny")
        path = Path("data/tiny/problems/report.jsonl")
        path.write_text(path.read_text() + "{}\n")
        with pytest.raises(UserError, match=r"report\.jsonl: row 15: .*`onelayer prepare tiny` makes it anew"):
            read_problems(load_study("tiny"), "report")


@pytest.mark.usefixtures("project")
def test_several_studies() -> None:
    write_params(["tiny", "other"])
    write_study("other", TINY)
    output = onelayer("plan").stdout
    assert "tiny: would train 4 runs" in output
    assert "other: would train 4 runs" in output
    assert "tiny" not in onelayer("plan", "other").stdout


def test_help_names_every_command() -> None:
    listed = onelayer("--help").stdout
    for command in [
        "plan",
        "status",
        "prepare",
        "base",
        "train",
        "evaluate",
        "weigh",
        "suite",
        "choose-rate",
        "rank",
        "analyze",
        "compare",
        "report",
        "summary",
        "verify",
        "export",
        "contribution",
    ]:
        assert command in listed
