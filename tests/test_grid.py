from __future__ import annotations

import pytest

from conftest import TINY, deep_copy
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import (
    Ranked,
    Run,
    all_runs,
    families,
    find_family,
    find_job,
    find_runs,
    jobs,
    search_runs,
    sensitivity_runs,
    setting_name,
    strategy_runs,
)


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


STRATEGIES = {
    "sizes": [1, 2],
    "boost": ["best", "worst"],
    "only": ["best"],
    "middle": True,
    "spread": True,
    "random": 2,
    "factor": 3.0,
}


def deeper(**runs: object) -> Study:
    settings = deep_copy(TINY)
    settings["model"]["layers"] = 6
    settings["runs"] = {"seeds": [0, 1], **runs}
    return Study(name="tiny", **settings)


def test_strategies_come_after_all_else_by_size() -> None:
    plain, more = all_runs(deeper()), all_runs(deeper(strategies=STRATEGIES))
    assert more[: len(plain)] == plain
    assert [run.name for run in more[len(plain) :] if "2-" in run.name] == [
        "boost-best2-s0", "boost-best2-s1", "boost-worst2-s0", "boost-worst2-s1", "only-best2-s0", "only-best2-s1",
        "middle2-s0", "middle2-s1", "spread2-s0", "spread2-s1", "random2-d0-s0", "random2-d1-s1",
    ]  # fmt: skip
    assert len(more) - len(plain) == 2 * 12
    runs = {run.name: run for run in more}
    assert runs["boost-worst2-s1"] == Run("boost-worst2-s1", "boost", seed=1, ranked=Ranked("worst", 2), boost=3.0)
    assert (runs["only-best1-s0"].ranked, runs["only-best1-s0"].boost) == (Ranked("best", 1), None)
    assert (runs["middle2-s0"].layers, runs["spread2-s0"].layers) == ((2, 3), (1, 4))
    drawn = [runs[name].layers for name in ("random2-d0-s0", "random2-d1-s1")]
    assert len(set(drawn)) == 2
    assert all(run.ranked is None for run in more if run.kind in ("middle", "spread", "random"))


def test_strategies_of_their_own_seeds() -> None:
    one = deeper(strategies={"sizes": [2], "middle": True, "random": 3, "seeds": [1]})
    assert [run.name for run in strategy_runs(one)] == [
        "middle2-s1", "random2-d0-s1", "random2-d1-s1", "random2-d2-s1"
    ]  # fmt: skip


def test_rate_sensitivity_takes_layers_one_by_one_from_either_end() -> None:
    one = deeper(rate_sensitivity={"factors": [0.3333, 3], "count": 2, "seeds": [1]})
    runs = sensitivity_runs(one)
    assert [run.name for run in runs] == [
        f"rate-x{factor}-{place}-s1"
        for factor in ("0.3333", "3")
        for place in ("best-1", "best-2", "worst-1", "worst-2")
    ]
    order = (5, 3, 1, 0, 2, 4)
    taken = [run.ranked.of(order) for run in runs[:4] if run.ranked]
    assert taken == [(5,), (3,), (4,), (2,)]
    assert {run.rate_factor for run in runs} == {0.3333, 3.0}
    named = sensitivity_runs(deeper(rate_sensitivity={"factors": [3], "layers": [4, 1], "seeds": [0]}))
    assert [(run.name, run.layers, run.ranked) for run in named] == [
        ("rate-x3-layer-01-s0", (1,), None), ("rate-x3-layer-04-s0", (4,), None)
    ]  # fmt: skip


def test_layers_from_an_end_are_a_set() -> None:
    assert Ranked("best", 2).of((3, 0, 1, 2)) == Ranked("best", 2).of((0, 3, 2, 1)) == (0, 3)
    assert Ranked("worst", 3).of((3, 0, 1, 2)) == (0, 1, 2)


def test_random_draws_of_a_size_share_a_job() -> None:
    one = deeper(strategies={"sizes": [1, 2], "only": ["best"], "random": 3}, rate_sensitivity={"factors": [3]})
    assert [run for job in jobs(one) for run in job.runs] == list(all_runs(one))
    assert [job.name for job in jobs(one) if job.runs[0].kind in ("only", "random", "rate")] == [
        "only-best1-s0+s1", "random1-d0-s0+d1-s1+d2-s0", "only-best2-s0+s1", "random2-d0-s0+d1-s1+d2-s0",
        "rate-x3-best-1-s0+s1", "rate-x3-worst-1-s0+s1",
    ]  # fmt: skip
    for job in jobs(one):
        assert find_job(one, job.name) == job
        assert {setting_name(run.name) for run in job.runs} == {job.runs[0].setting}
