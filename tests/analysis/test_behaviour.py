"""What is said of how runs answer."""

from __future__ import annotations

from statistics import fmean

import pytest
from scipy.stats import spearmanr

from analysis.made_evidence import Answer, make_evidence, make_study
from onelayer.analysis.behaviour import behaviour, ends


def test_where_a_curve_starts_and_ends() -> None:
    history = [{"step": float(step), "reward": float(step), "entropy": 1.0} for step in range(1, 21)]
    del history[0]["entropy"]
    found = ends(history)
    assert found["reward"] == {"start": 3.0, "end": 18.0, "mean": 10.5}
    assert set(found) == {"reward", "entropy"}
    assert ends(history[:4])["reward"] == {"start": 1.5, "end": 3.5, "mean": 2.5}
    assert ends(history[:1])["reward"] == {"start": 1.0, "end": 1.0, "mean": 1.0}
    assert ends([]) == {}


def answers(right: int, tokens: tuple[int, int]) -> list[list[Answer]]:
    """Ten problems of one sample; right ones have the first length, wrong ones the second."""
    return [[("a", number < right, tokens[number >= right], False)] for number in range(10)]


RUNS = {
    "base": answers(2, (4, 10)),
    "full-s0": answers(8, (4, 6)),
    "full-s1": answers(10, (4, 6)),
    **{f"layer-{layer:02d}-s{seed}": answers(3 + layer, (4, 10)) for layer in range(4) for seed in range(2)},
}


def test_lengths_by_setting_and_in_words() -> None:
    evidence = make_evidence(make_study(layers=4), RUNS)
    found = behaviour(evidence, 3)
    settings = {row["name"]: row for row in found["settings"]}
    assert list(settings) == ["base", "full", *(f"layer-{layer:02d}" for layer in range(4))]
    assert settings["base"]["mean_tokens"] == pytest.approx((2 * 4 + 8 * 10) / 10)
    assert settings["full"]["mean_tokens"] == pytest.approx(fmean([(8 * 4 + 2 * 6) / 10, 4]))
    assert settings["full"]["length_change"] == pytest.approx(4.2 / 8.8 - 1)
    assert settings["full"]["right_tokens"] == 4
    assert settings["full"]["wrong_tokens"] == 6  # of the one seed that has wrong answers
    assert settings["base"]["curves"] == {}
    assert settings["full"]["curves"] == {"reward": {"start": 0.5, "end": 0.5, "mean": 0.5}}
    assert set(found["runs"]) == set(RUNS) - {"base"}
    assert found["notes"][0] == (
        "The answers are shorter than the base's by more than 20% in 3 of 5 settings, most in full (-52%, 4.2 tokens)."
    )
    assert [row["name"] for row in found["shorter"]["arms"]] == ["full", "layer-03"]


def test_score_and_length_over_layers() -> None:
    evidence = make_evidence(make_study(layers=4), RUNS)
    found = behaviour(evidence, 3)["score_and_length"]
    expected = spearmanr([3, 4, 5, 6], [4 * n + 10 * (10 - n) for n in (3, 4, 5, 6)]).statistic
    assert found == {"reason": None, "layers": 4, "spearman": pytest.approx(expected), "p": pytest.approx(2 / 24)}
    few = {name: problems for name, problems in RUNS.items() if not name.startswith("layer-03")}
    assert "takes 4 layers" in behaviour(make_evidence(make_study(layers=4), few), 2)["score_and_length"]["reason"]
    alike = {name: problems if name == "base" else answers(5, (4, 4)) for name, problems in RUNS.items()}
    found = behaviour(make_evidence(make_study(layers=4), alike), 3)["score_and_length"]
    assert found == {"reason": "the layers' scores or lengths are all alike"}


def test_a_gain_of_fewer_cut_off_answers_is_said() -> None:
    cut: list[list[Answer]] = [[("a", True, 4, False)]] * 10 + [[(None, False, 9, True)]] * 10
    runs = {"base": cut, "full-s0": [[("a", True, 4, False)]] * 20}
    found = behaviour(make_evidence(make_study(seeds=1), runs), None)
    assert (
        "full: 100% of the gain is that fewer answers were cut off (50.0% of the base's, 0.0% after training)."
        in (found["notes"])
    )
