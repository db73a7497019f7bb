"""What is recommended, what is refused, and how often the set of layers that may be the best holds the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.made_evidence import Answer, MadeEvidence, make_evidence, make_study
from onelayer.analysis.cost import economics
from onelayer.analysis.recommendation import may_be_best, recommendation

LAYERS = {"layer-00": 0.3, "layer-01": 0.6, "layer-02": 0.6, "layer-03": 0.3, "layer-04": 0.6}
CHANCES = {"base": 0.2, "full": 0.8, **LAYERS}


def drawn(chance: float, seed: int) -> list[list[Answer]]:
    rng = np.random.default_rng(seed)
    return [[("a", bool(right)) for right in rng.random(2) < chance] for _ in range(150)]


def evidence_of(chances: dict[str, float], seeds: int = 3) -> MadeEvidence:
    runs = ["base"] + [f"{name}-s{seed}" for name in chances if name != "base" for seed in range(seeds)]
    report, select = (
        {run: drawn(chances[run.rpartition("-s")[0] or run], half + place) for place, run in enumerate(runs)}
        for half in (100, 200)
    )
    return make_evidence(make_study(layers=5, seeds=seeds, analysis={"resamples": 300}), report, select)


def analysis_of(evidence: MadeEvidence, defined: bool = True, **more: Any) -> dict[str, Any]:
    """The parts of the analysis that a recommendation reads."""
    scores = {
        layer: np.mean([evidence.summaries[run.name]["select"]["score"] for run in runs])
        for layer, runs in evidence.layers.items()
    }
    costs = {
        run.name: {"train_seconds": 5.0 if run.kind == "layer" else 10.0, "evaluate_seconds": 1.0,
                   "peak_memory_bytes": 60 if run.kind == "layer" else 100,
                   "checkpoint_bytes": 10 if run.kind == "layer" else 100, "trained_parameters": 1}
        for run in evidence.runs
    }  # fmt: skip
    best = max(scores, key=lambda layer: scores[layer]) if scores else None
    return {
        "defined": defined,
        "best_layer": None if best is None else {"layer": best},
        "economics": economics(evidence, costs),
        "baselines": [],
        **more,
    }


def recommend(evidence: MadeEvidence, **more: Any) -> dict[str, Any]:
    return recommendation(evidence, analysis_of(evidence, **more))


def test_a_band_of_layers_that_cannot_be_told_apart() -> None:
    evidence = evidence_of(CHANCES)
    found = recommend(evidence)
    assert found["may_be_best"] == [1, 2, 4]
    band = found["layers"]
    assert band in ([1, 2], [4])
    base = evidence.means["report"]["base"].mean()
    full = np.mean([evidence.means["report"][f"full-s{seed}"].mean() for seed in range(3)])
    alone = np.mean(
        [evidence.means["report"][f"layer-{layer:02d}-s{seed}"].mean() for layer in band for seed in range(3)]
    )
    assert found["contribution"]["value"] == pytest.approx((alone - base) / (full - base))
    assert found["contribution"]["low"] < found["contribution"]["value"] < found["contribution"]["high"]
    assert found["of_full"] == {"peak_memory_bytes": 0.6, "train_seconds": 0.5, "checkpoint_bytes": 0.1}
    assert found["refused"] is None
    assert "at 0.60 of full training's peak memory, 0.50 of its measured seconds and 0.10 of its check" in found["text"]
    assert "may be the best layer as well." in found["text"]
    assert "Full training gains more." in found["text"]


def test_one_layer() -> None:
    found = recommend(evidence_of(CHANCES | {"layer-02": 0.75}))
    assert found["layers"] == [2]
    assert found["text"].startswith("Train layer 2 alone: 0.")


def alike(chance: float, **others: float) -> dict[str, float]:
    return CHANCES | dict.fromkeys(LAYERS, chance) | others


@pytest.mark.parametrize(
    ("chances", "seeds", "defined", "reason"),
    [
        (CHANCES, 2, False, "the full gain is not clearly above zero"),
        (CHANCES, 1, True, "of full, layer-00, layer-01, layer-02, layer-03, layer-04 there is one seed"),
        (alike(0.5), 3, True, "any of the 5 scanned layers may be the best"),
        ({"base": 0.2, "full": 0.8, "layer-02": 0.6}, 2, True, "two scanned layers to choose between, and 1 has"),
        ({"base": 0.2, "full": 0.8}, 2, True, "and 0 has records"),
        (alike(0.02, **{"layer-04": 0.17}), 3, True, "what layer 4 carries of the gain is not clearly above zero"),
    ],
)
def test_what_the_data_do_not_carry_is_refused(
    chances: dict[str, float], seeds: int, defined: bool, reason: str
) -> None:
    found = recommend(evidence_of(chances, seeds), defined=defined)
    assert found["layers"] is None
    assert found["contribution"] is None
    assert reason in found["refused"]
    assert found["text"] == f"No layer is recommended: {found['refused']}."


def test_a_partial_scan_says_what_of() -> None:
    chances = {name: chance for name, chance in CHANCES.items() if name not in ("layer-02", "layer-04")}
    found = recommend(evidence_of(chances))
    assert found["layers"] == [1]
    assert found["text"].endswith("This rests on 3 of 5 layers and 13 of 19 runs.")


def test_baselines_are_named_beside_it() -> None:
    row = {"name": "lora-r4", "search": {"search": []}, "contribution": {"value": 0.9, "low": 0.8, "high": 1.0}}
    best = row | {"name": "layer-02", "search": None}
    evidence = evidence_of(CHANCES)
    analysis = analysis_of(evidence, baselines=[best, row])
    analysis["economics"]["settings"].append({"name": "lora-r4", "of_full": {
        "peak_memory_bytes": 0.8, "train_seconds": None, "checkpoint_bytes": 0.05}})  # fmt: skip
    text = recommendation(evidence, analysis)["text"]
    assert "lora-r4 carries 0.90 (0.80 to 1.00), at 0.80 of full training's peak memory and 0.05 of its" in text
    assert "layer-02 carries" not in text


def test_the_best_of_several_layers_is_chosen_on_select() -> None:
    """Settings that are there stand in for strategies: what counts is their score on select, not on report."""
    rows: list[dict[str, Any]] = [
        {"name": name, "layers": layers, "factor": factor, "contribution": {"value": value, "low": 0.6, "high": 0.8}}
        for name, layers, factor, value in (
            ("layer-00", [1, 2], None, 0.99),
            ("layer-01", [2, 3], None, 0.7),
            ("layer-02", [2, 3], 2.0, 0.8),  # a boost trains everything
            ("layer-04", None, None, 0.8),
            ("not-there", [0, 1], None, 1.0),
        )
    ]
    text = recommend(evidence_of(CHANCES), strategies=rows)["text"]
    assert (
        "Of several layers trained together, layer-01 (layers 2, 3) was the best on select: 0.70 of the full gain (0.60"
        " to 0.80), at 0.60 of full training's peak memory"
    ) in text


def test_the_best_layer_is_among_those_that_may_be() -> None:
    """Where all layers are alike each of them is the best: the set misses a given one in about 5 % of studies."""
    rng = np.random.default_rng(0)
    held = everyone = 0
    for _ in range(200):
        problems = rng.random((6, 80)) < 0.5
        weights = rng.multinomial(80, np.full(80, 1 / 80), size=300) / 80
        found = may_be_best(problems.mean(axis=1), weights @ problems.T, 0.95)
        held += found[3]
        everyone += found.all()
    assert held / 200 >= 0.92
    assert everyone < 200  # the set is no trivial one


def test_a_clearly_worse_layer_cannot_be_the_best() -> None:
    rng = np.random.default_rng(1)
    scores = np.array([0.5, 0.7, 0.69])
    draws = scores + rng.normal(0, 0.02, (2000, 1)) + rng.normal(0, 0.01, (2000, 3))
    assert may_be_best(scores, draws, 0.95).tolist() == [False, True, True]
