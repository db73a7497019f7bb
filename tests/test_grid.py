from __future__ import annotations

import pytest

from conftest import TINY, deep_copy
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import all_runs, find_job, find_runs, jobs


def study(**runs: object) -> Study:
    settings = deep_copy(TINY)
    settings["training"]["learning_rates"] = [0.0001, 5e-6]
    settings["runs"] = {"seeds": [0, 1], **runs}
    return Study(name="tiny", **settings)


def test_runs_of_a_study() -> None:
    assert [run.name for run in all_runs(study(search_seeds=[3]))] == [
        "base",
        "search-0.0001-s3",
        "search-5e-06-s3",
        "full-s0",
        "full-s1",
        "layer-00-s0",
        "layer-00-s1",
        "layer-01-s0",
        "layer-01-s1",
    ]


def test_one_rate_needs_no_search() -> None:
    assert not [run for run in all_runs(Study(name="tiny", **TINY)) if run.kind == "search"]


def test_only_the_search_knows_its_rate_beforehand() -> None:
    assert {run.kind for run in all_runs(study()) if run.learning_rate is not None} == {"search"}


def test_a_job_holds_seeds_of_one_adaptation() -> None:
    one = study()
    assert [job.name for job in jobs(one)][-2:] == ["layer-00-s0+s1", "layer-01-s0+s1"]
    for job in jobs(one):
        assert len({(run.kind, run.layers, run.learning_rate) for run in job.runs}) == 1
    assert [run for job in jobs(one) for run in job.runs] == list(all_runs(one))


def test_partial_scan() -> None:
    layers = [run.layers for run in all_runs(study(layers=[1])) if run.kind == "layer"]
    assert layers == [(1,), (1,)]


def test_unknown_names() -> None:
    with pytest.raises(UserError, match="run 'layer-09-s0': not in study tiny"):
        find_runs(study(), ["layer-09-s0"])
    with pytest.raises(UserError, match="job 'x': not in study tiny"):
        find_job(study(), "x")
