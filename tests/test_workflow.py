"""The graph of a study with baselines, as a dry run shows it: what waits for what."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, TINY, deep_copy, write_study


def dry_run(settings: dict[str, Any], *arguments: str, expect: int = 0) -> str:
    write_study("tiny", settings)
    command = ["snakemake", "-n", "--cores", "1", *arguments]
    shown = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )
    assert shown.returncode == expect, shown.stdout[-3000:]
    return shown.stdout


def planned(settings: dict[str, Any]) -> dict[str, set[str]]:
    """By output, what each job of the tiny study's graph takes in."""
    pairs = re.findall(r"^    input: (.+)\n    output: (.+)$", dry_run(settings), re.MULTILINE)
    return {output: set(inputs.split(", ")) for inputs, output in pairs}


@pytest.fixture
def graph(project: Path) -> Path:
    for name in ("workflow", "profiles", "slurm", "workstation"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copy(ROOT / "Snakefile", project)
    return project


@pytest.mark.usefixtures("graph")
def test_what_waits_for_what() -> None:
    settings = deep_copy(TINY)
    settings["training"]["learning_rates"] = [0.001, 0.002]
    settings["runs"]["lora"] = {"rank": 2}
    settings["runs"]["tuned_layers"] = {"learning_rates": [0.003, 0.01]}
    jobs = planned(settings)
    ready = {"data/tiny/problems.json", "data/tiny/jobs/base.trained.json"}

    def trained(run: str) -> set[str]:
        return jobs[f"data/tiny/jobs/{run}.trained.json"] - ready

    def evaluated(*runs: str) -> set[str]:
        return {f"data/tiny/jobs/{run}.evaluated.json" for run in runs}

    # A search waits for nothing but the base, unless its layer must be known first.
    assert trained("search-0.001-s0") == trained("search-lora-r2-0.01-s0") == set()
    assert trained("search-tuned-best-0.003-s0") == {"data/tiny/ranking.json"}
    # Every run takes the rate of its own search.
    assert trained("full-s0") == trained("layer-01-s0") == {"data/tiny/learning_rate.json"}
    assert trained("lora-r2-s0") == {"data/tiny/rates/lora-r2.json"}
    assert trained("tuned-best-s0") == {"data/tiny/rates/tuned-best.json", "data/tiny/ranking.json"}
    # Which follows from that search's records alone.
    assert jobs["data/tiny/learning_rate.json"] == evaluated("search-0.001-s0", "search-0.002-s0")
    assert jobs["data/tiny/rates/lora-r2.json"] == evaluated("search-lora-r2-0.01-s0", "search-lora-r2-0.02-s0")
    assert jobs["data/tiny/ranking.json"] == evaluated("layer-00-s0", "layer-01-s0")
    assert evaluated("lora-r2-s0", "tuned-best-s0") < jobs["data/tiny/analysis.json"]
    # So does the analysis of every run's change of weights, which waits for its training alone; not of the search's.
    weighed = {name for name in jobs["data/tiny/analysis.json"] if name.endswith(".weighed.json")}
    names = ("full-s0", "layer-00-s0", "layer-01-s0", "lora-r2-s0", "tuned-best-s0")
    assert weighed == {f"data/tiny/jobs/{name}.weighed.json" for name in names}
    assert jobs["data/tiny/jobs/full-s0.weighed.json"] == {
        "data/tiny/jobs/base.trained.json", "data/tiny/jobs/full-s0.trained.json",
    }  # fmt: skip


@pytest.mark.usefixtures("graph")
def test_without_baselines_there_is_nothing_of_them() -> None:
    outputs = planned(deep_copy(TINY))
    assert "data/tiny/jobs/layer-01-s0.trained.json" in outputs
    assert not [name for name in outputs if "rates/" in name or "ranking" in name or "lora" in name]


@pytest.mark.usefixtures("graph")
def test_only_what_the_ranking_chooses_waits_for_it() -> None:
    settings = deep_copy(TINY)
    settings["training"]["learning_rates"] = [0.001, 0.002]
    settings["runs"]["strategies"] = {
        "sizes": [1], "boost": ["best"], "only": ["worst"], "middle": True, "spread": True, "random": 2
    }  # fmt: skip
    settings["runs"]["rate_sensitivity"] = {"factors": [3], "layers": ["best"]}
    jobs = planned(settings)
    ready = {"data/tiny/problems.json", "data/tiny/jobs/base.trained.json", "data/tiny/learning_rate.json"}
    waiting = {
        job.rpartition("/")[2].removesuffix(".trained.json"): inputs - ready
        for job, inputs in jobs.items()
        if job.endswith(".trained.json") and ready < inputs
    }
    assert waiting.keys() == {"boost-best1-s0", "only-worst1-s0", "rate-x3-best-1-s0"}
    assert all(inputs == {"data/tiny/ranking.json"} for inputs in waiting.values())
    for job in ("middle1-s0", "spread1-s0", "random1-d0-s0+d1-s0"):
        assert jobs[f"data/tiny/jobs/{job}.trained.json"] == ready
    for job in (*waiting, "middle1-s0", "random1-d0-s0+d1-s0"):
        assert f"data/tiny/jobs/{job}.evaluated.json" in jobs["data/tiny/analysis.json"]


def asked(output: str, rule: str) -> dict[str, str]:
    """What the one job of a rule asks for, as a dry run shows it."""
    found = re.findall(rf"^(?:local)?rule {rule}:\n(?:    .*\n)*?    resources: (.*)$", output, re.MULTILINE)
    return dict(pair.split("=", 1) for pair in found[0].split(", "))


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("profile", ["slurm", "workstation"])
def test_profiles_ask_for_what_the_study_says(profile: str) -> None:
    settings = deep_copy(TINY)
    settings["resources"] |= {
        "gpus": 1,
        "memory_mb": 5000,
        "cluster": {"partition": "gpu", "minutes": 90, "evaluate": {"gpus": 2, "cpus": 3, "minutes": 10}},
    }
    shown = dry_run(settings, "--profile", profile)
    train = asked(shown, "train")
    assert {"gpu": "1", "slurm_partition": "gpu", "mem_mb": "5000", "runtime": "90", "cpus_per_task": "1"}.items() <= (
        train.items()
    )
    evaluate = asked(shown, "evaluate")
    assert {"gpu": "2", "runtime": "10", "cpus_per_task": "3"}.items() <= evaluate.items()
    assert "gpu" not in asked(shown, "prepare")
    assert "slurm_partition" not in asked(shown, "choose_rate")  # seconds of work, done where the driver is


@pytest.mark.usefixtures("graph")
def test_arrays_that_would_lose_jobs_are_refused_before_any_is_sent() -> None:
    write_study("tiny", deep_copy(TINY))
    command = ["snakemake", "--cores", "1", "--profile", "slurm", "--slurm-array-jobs", "train", "--jobs", "2"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 2, result.stderr[-3000:]
    assert "error: --slurm-array-jobs train: found --jobs 2, expected at least the studies' 4" in result.stderr
    assert not Path("data").exists()
