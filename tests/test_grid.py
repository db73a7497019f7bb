from __future__ import annotations

import pytest

from conftest import TINY, deep_copy
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import Ranked, all_runs, families, find_family, find_job, find_runs, jobs, search_runs


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


BASELINES = {
    "lora": {"rank": 8},
    "tuned_layers": {"layers": [1], "learning_rates": [0.001, 0.01]},
}


def test_baselines_come_last_each_with_its_own_search() -> None:
    plain, more = all_runs(study()), all_runs(study(**BASELINES))
    assert more[: len(plain)] == plain
    assert [run.name for run in more[len(plain) :]] == [
        "search-lora-r8-0.001-s0",  # ten times the rates of the full run
        "search-lora-r8-5e-05-s0",
        "lora-r8-s0",
        "lora-r8-s1",
        "search-tuned-layer-01-0.001-s0",
        "search-tuned-layer-01-0.01-s0",
        "tuned-layer-01-s0",
        "tuned-layer-01-s1",
    ]
    assert {run.learning_rate for run in more if run.family == "lora-r8"} == {0.001, 5e-5, None}
    for run in more:
        assert (run.lora is not None) == (run.family == "lora-r8")
        assert (run.layers == (1,)) == (run.name.startswith(("layer-01", "tuned", "search-tuned")))


def test_the_studys_search_is_not_a_baselines() -> None:
    one = study(**BASELINES)
    assert [run.name for run in search_runs(one)] == ["search-0.0001-s0", "search-5e-06-s0"]
    assert [family.name for family in families(one)] == ["lora-r8", "tuned-layer-01"]
    assert find_family(one, "lora-r8").rates == (0.001, 5e-5)
    assert find_family(study(lora={"learning_rates": [0.5]}), "lora-r16").rates == (0.5,)
    assert find_family(study(lora={"rate_factor": 3}), "lora-r16").rates == (0.0003, 1.5e-5)
    with pytest.raises(UserError, match=r"baseline 'lora-r4': not in study tiny; it has lora-r8, tuned-layer-01"):
        find_family(one, "lora-r4")


def test_of_one_rate_a_baseline_has_no_search() -> None:
    one = study(tuned_layers={"layers": "all", "learning_rates": [0.01]})
    assert [run.name for run in all_runs(one) if run.family] == [
        "tuned-layer-00-s0", "tuned-layer-00-s1", "tuned-layer-01-s0", "tuned-layer-01-s1"
    ]  # fmt: skip


def test_the_best_layer_is_named_before_it_is_known() -> None:
    runs = [run for run in all_runs(study(tuned_layers={"learning_rates": [0.001, 0.01]})) if run.family]
    assert [run.name for run in runs] == [
        "search-tuned-best-0.001-s0", "search-tuned-best-0.01-s0", "tuned-best-s0", "tuned-best-s1"
    ]  # fmt: skip
    assert all(run.ranked == Ranked("best") and run.layers == () for run in runs)


def test_a_job_holds_no_two_baselines() -> None:
    one = study(**BASELINES)
    assert [run for job in jobs(one) for run in job.runs] == list(all_runs(one))
    for job in jobs(one):
        assert len({(run.kind, run.family, run.learning_rate) for run in job.runs}) == 1


def test_unknown_names() -> None:
    with pytest.raises(UserError, match="run 'layer-09-s0': not in study tiny"):
        find_runs(study(), ["layer-09-s0"])
    with pytest.raises(UserError, match="job 'x': not in study tiny"):
        find_job(study(), "x")
