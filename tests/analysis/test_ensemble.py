"""The ensemble against an enumeration of every way to answer, and what it says where the records do not tell."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from analysis.made_evidence import Answer, make_evidence, make_study
from onelayer.analysis.ensemble import ensemble
from onelayer.config import Study

Problems = list[list[Answer]]


def drawn(seed: int, samples: int = 2, problems: int = 40, chance: float = 0.5) -> Problems:
    """Samples of which the right ones say ``r``, the others one of two wrong answers, or nothing."""
    rng = np.random.default_rng(seed)
    wrong = ["v", "w", None]
    return [
        [("r", True) if rng.random() < chance else (wrong[rng.integers(3)], False) for _ in range(samples)]
        for _ in range(problems)
    ]


def study_of(voters: int, seeds: int, asked: int = 7) -> Study:
    return make_study(layers=voters, seeds=seeds, analysis={"resamples": 200, "ensemble": {"layers": asked}})


def made(voters: int = 3, seeds: int = 2, samples: int = 2) -> dict[str, Problems]:
    answers = {"base": drawn(0, samples, chance=0.2)}
    for seed in range(seeds):
        answers[f"full-s{seed}"] = drawn(10 + seed, samples, chance=0.7)
        for layer in range(voters):
            answers[f"layer-{layer:02d}-s{seed}"] = drawn(100 + 10 * layer + seed, samples)
    return answers


def figures(found: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row for row in found["figures"]}


def majority(voters: tuple[Answer, ...], ranked: bool) -> float:
    counted = Counter(text for text, _ in voters if text is not None)
    if not counted:
        return 0.0
    top = [text for text in counted if counted[text] == max(counted.values())]  # in the order of the voters
    return float(top[0] == "r") if ranked else sum(text == "r" for text in top) / len(top)


def mean(parts: list[float]) -> float:
    return float(np.mean(parts))


def test_the_vote_and_the_oracle_by_hand() -> None:
    answers = made()
    found = figures(ensemble(make_evidence(study_of(3, 2), answers), [2, 0, 1]))
    votes = [
        majority(tuple(answers[f"layer-{layer:02d}-s{seed}"][problem][sample] for layer in (2, 0, 1)), ranked=True)
        for seed, problem, sample in product(range(2), range(40), range(2))
    ]
    assert found["vote"]["score"]["value"] == pytest.approx(mean(votes))
    oracle = [
        any(right for _, right in choice)
        for seed, problem in product(range(2), range(40))
        for choice in product(*(answers[f"layer-{layer:02d}-s{seed}"][problem] for layer in range(3)))
    ]
    assert found["oracle"]["score"]["value"] == pytest.approx(mean(oracle))
    best = [right for seed in range(2) for problem in answers[f"layer-02-s{seed}"] for _, right in problem]
    assert found["best"]["score"]["value"] == pytest.approx(mean(best))
    assert found["vote"]["teams"] == 2
    assert found["vote"]["score"]["low"] < found["vote"]["score"]["value"] < found["vote"]["score"]["high"]


def test_as_many_samples_of_one_setting_by_hand() -> None:
    """Three of the four samples that two runs have together, for neither has three."""
    answers = made()
    found = figures(ensemble(make_evidence(study_of(3, 2), answers), [2, 0, 1]))
    both = [answers["full-s0"][problem] + answers["full-s1"][problem] for problem in range(40)]
    votes = [mean([majority(choice, ranked=False) for choice in combinations(one, 3)]) for one in both]
    passed = [mean([any(right for _, right in choice) for choice in combinations(one, 3)]) for one in both]
    assert found["full_vote"]["score"]["value"] == pytest.approx(mean(votes))
    assert found["full_pass"]["score"]["value"] == pytest.approx(mean(passed))
    assert found["full_vote"]["pooled"]
    assert (found["full_vote"]["samples"], found["full_vote"]["runs"]) == (3, 2)


def test_one_run_with_enough_samples_votes_by_itself() -> None:
    answers = made(samples=4)
    found = figures(ensemble(make_evidence(study_of(3, 2), answers), [2, 0, 1]))
    votes = [
        majority(choice, ranked=False)
        for seed, problem in product(range(2), range(40))
        for choice in combinations(answers[f"full-s{seed}"][problem], 3)
    ]
    assert found["full_vote"]["score"]["value"] == pytest.approx(mean(votes))
    assert not found["full_vote"]["pooled"]
    assert found["full_vote"]["teams"] == 2


def test_too_few_samples_give_no_figure() -> None:
    found = ensemble(make_evidence(study_of(5, 2, asked=5), made(voters=5)), [0, 1, 2, 3, 4])
    assert figures(found)["full_vote"]["score"] is None
    assert figures(found)["full_vote"]["reason"] == "5 samples of a problem are asked for, and the records hold 4"
    difference = next(row for row in found["differences"] if row["second"] == "full_vote")
    assert difference["difference"] is None
    assert "the records hold 4" in difference["reason"]


def test_the_same_training_cost() -> None:
    """Three voters of 10 s each paid for two full runs of 15 s: their vote, three samples dealt over the two."""
    answers = made()
    seconds = {"full-s0": 15.0, "full-s1": 15.0}
    found = ensemble(make_evidence(study_of(3, 2), answers, seconds=seconds), [2, 0, 1])
    row = figures(found)["full_runs_vote"]
    assert (row["runs"], row["training_in_full_runs"]) == (2, 2.0)
    assert figures(found)["vote"]["training_in_full_runs"] == pytest.approx(2.0)
    votes = []
    for problem in range(40):
        one, other = answers["full-s0"][problem], answers["full-s1"][problem]
        # Two samples of one run, both that it has, and one of the other: every such deal alike.
        deals = [(*one, sample) for sample in other] + [(sample, *other) for sample in one]
        votes.append(mean([majority(deal, ranked=False) for deal in deals]))
    assert row["score"]["value"] == pytest.approx(mean(votes))
    assert found["scan_in_full_runs"] == pytest.approx(2.0)


def test_more_full_runs_than_there_are_is_said() -> None:
    found = ensemble(
        make_evidence(study_of(4, 2), made(voters=4), seconds={"full-s0": 12.0, "full-s1": 12.0}), [0, 1, 2, 3]
    )
    row = figures(found)["full_runs_vote"]
    assert row["score"] is None
    assert row["reason"] == (
        "the 4 voters' training would have paid for 3.3 full runs, 3 of which would vote, and the study has 2"
    )
    assert figures(found)["fewer_full_runs_vote"]["runs"] == 2
    assert figures(found)["fewer_full_runs_vote"]["score"] is not None


def test_dear_full_runs_are_one() -> None:
    """Three voters of 10 s cost less than one full run: its own vote would need three samples, and it has two."""
    found = ensemble(make_evidence(study_of(3, 1), made(seeds=1), seconds={"full-s0": 90.0}), [0, 1, 2])
    row = figures(found)["full_runs_vote"]
    assert (row["runs"], row["score"]) == (1, None)
    assert row["reason"] == "one run would give up to 3 samples of a problem, and the records hold 2"


def test_differences_are_paired() -> None:
    answers = made()
    for seed in range(2):
        for layer in range(3):
            answers[f"layer-{layer:02d}-s{seed}"] = answers["full-s0"]
        answers[f"full-s{seed}"] = answers["full-s0"]
    found = ensemble(make_evidence(study_of(3, 2), answers), [0, 1, 2])
    same = next(row for row in found["differences"] if (row["first"], row["second"]) == ("vote", "full"))
    # All voters say the same, so the vote is the sample: no difference in any draw, though the problems differ.
    assert same["difference"] == {"value": pytest.approx(0), "low": pytest.approx(0), "high": pytest.approx(0)}
    score = figures(found)["vote"]["score"]
    assert score["high"] - score["low"] > 0.05


def test_a_domain_without_votes_has_oracles_alone() -> None:
    settings = {"kind": "expressions", "sizes": {"train": 9, "select": 9, "report": 9}}
    evidence = make_evidence(make_study(layers=3, task=settings), made())
    found = ensemble(evidence, [0, 1, 2])
    assert found["votes"] is None
    assert "two programs" in found["no_votes"]
    assert set(figures(found)) == {"best", "full", "oracle", "best_pass", "full_pass"}
    assert {row["first"] for row in found["differences"]} == {"oracle"}


def test_a_partial_study() -> None:
    answers = made()
    del answers["layer-01-s0"], answers["layer-00-s0"], answers["layer-00-s1"], answers["full-s1"]
    found = ensemble(make_evidence(study_of(3, 2), answers), [2, 1])
    assert found["layers"] == [2, 1]
    assert figures(found)["vote"]["teams"] == 1
    assert figures(found)["full_vote"]["teams"] == 1
    del answers["layer-01-s1"]
    found = ensemble(make_evidence(study_of(3, 2), answers), [2])
    assert found == {"reason": "an ensemble needs two single-layer models, and 1 has records"}


def test_as_many_vote_as_are_asked_for() -> None:
    found = ensemble(make_evidence(study_of(3, 2, asked=2), made()), [2, 0, 1])
    assert found["layers"] == [2, 0]
    assert found["overlap"]["layers"] == [2, 0]
    assert len(found["overlap"]["alone"]["layers"]) == 3
