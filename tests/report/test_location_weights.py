"""The sections on where the gain sits, on the change of weights, and on every coefficient of a pair."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from onelayer.report.sections import coefficients, location, weights


def figure(value: float, reach: float = 0.1, **more: float) -> dict[str, float]:
    return {"value": value, "low": value - reach, "high": value + reach, **more}


def change(l2: float) -> dict[str, Any]:
    return {
        "l2": l2, "relative": l2 / 10, "changed": 1.0, "effective_rank": 3.0, "rank_share": 0.5, "per_seed": [l2],
        "deviation": None,
    }  # fmt: skip


def analysis(defined: bool = True, p: float = 0.01) -> dict[str, Any]:
    layers = [
        {"layer": k, "depth": k / 3, "contribution": figure(0.2 + 0.1 * k) if defined else None} for k in range(4)
    ]
    return {
        "study": "tiny",
        "confidence": 0.95,
        "defined": defined,
        "layers": layers,
        "location": {
            "scanned": 4, "layers_of_model": 9, "partial": True, "from_depth": 0.0, "to_depth": 0.375,
            "thirds": [
                {"third": "first", "layers": [0, 1, 2], "contribution": figure(0.3)},
                {"third": "middle", "layers": [3], "contribution": figure(0.5)},
                {"third": "last", "layers": [], "contribution": None},
            ],
            "differences": [{"of": "middle", "from": "first", "difference": figure(0.2)}],
            "centre": {"depth": figure(0.25, 0.02), "even": 0.19},
            "gini": {"value": figure(0.2), "noise": 0.05},
            "top": [{"k": 1, "layers": [3], "share": figure(0.4), "even": 0.25}],
            "reason": None if defined else "contributions are undefined",
        },
        "weights": {
            "missing": {"full-s1": "new"},
            "reason": None,
            "left_out": {"lora-r2-s0": {"x.weight": "its adapters stand on several matrices at once"}},
            "layers": [
                {"layer": k, "depth": k / 3, "full": change(1.0), "single": change(2.0 + k) if k < 3 else None,
                 "matrices": [{"matrix": "q_proj", "full": change(1.0), "single": change(2.0) if k < 3 else None}]}
                for k in range(4)
            ],
            "outside": [{"tensor": "model.norm.weight", "full": change(0.1)}],
            "spread": {
                "full": {"least": 1.0, "most": 1.0, "mean": 1.0, "variation": 0.0},
                "single": {"least": 2.0, "most": 4.0, "mean": 3.0, "variation": None},
            },
            "correlations": {
                "single": {"layers": 3, "pearson": figure(0.9, p=p), "spearman": figure(0.8, p=p),
                           "partial_pearson": None, "reason": None},
                "full": {"layers": 3, "pearson": None, "spearman": None, "partial_pearson": None,
                         "reason": "all layers are alike in one of the two"},
            },
        },
    }  # fmt: skip


def test_location() -> None:
    found = location.section(analysis())
    assert found is not None
    thirds, spread = found.exhibits
    assert thirds.table is not None
    assert list(thirds.table["part"]) == ["first third", "middle third", "last third", "middle less first third"]
    assert list(thirds.table["layers"])[2] == "none scanned"
    assert thirds.svg is not None
    assert "mean of a third" in thirds.svg
    ElementTree.fromstring(thirds.svg)
    assert spread.table is not None
    assert list(spread.table["all_alike"]) == [0.19, 0.05, 0.25]
    assert "carry 0.20 more each than those of the first third (0.10 to 0.30)." in found.paragraphs[0]
    assert "behind the middle of the scanned layers" in found.paragraphs[1]
    assert any("A partial scan: 4 of 9 layers" in note for note in found.notes)


def test_nothing_is_said_where_contributions_are_undefined() -> None:
    assert location.section(analysis(defined=False)) is None
    found = weights.section(analysis(defined=False))
    assert found is not None
    assert found.exhibits[0].svg is not None
    assert "C is undefined" in found.exhibits[0].svg


def test_weights() -> None:
    found = weights.section(analysis())
    assert found is not None
    layers, matrices, correlations = found.exhibits
    assert layers.table is not None
    assert list(layers.table["full_l2"]) == [1.0] * 4
    assert layers.table["single_l2"].isna().tolist() == [False, False, False, True]
    assert matrices.table is not None
    assert list(matrices.table["matrix"]) == ["q_proj"] * 4 + ["model.norm.weight"]
    for exhibit in (layers, matrices):
        assert exhibit.svg is not None
        ElementTree.fromstring(exhibit.svg)
    assert correlations.table is not None
    assert len(correlations.table) == 6
    assert any("Not weighed: full-s1." in note for note in found.notes)
    assert any("lora-r2-s0: 1 tensors are left out, for its adapters stand" in note for note in found.notes)
    assert any("in full training with C: all layers are alike" in note for note in found.notes)


@pytest.mark.parametrize(("p", "said"), [(0.01, "moved more"), (0.3, "does not show how much it carries")])
def test_a_correlation_of_few_layers_needs_both_interval_and_p(p: float, said: str) -> None:
    found = weights.section(analysis(p=p))
    assert found is not None
    assert said in found.paragraphs[2]


def test_runs_that_are_not_weighed_have_no_section() -> None:
    without = analysis()
    without["weights"]["reason"] = "no run is weighed"
    assert weights.section(without) is None


def pair(**changes: Any) -> dict[str, Any]:
    return {
        "layers": 5, "spearman": 0.5, "low": 0.1, "high": 0.8, "p": 0.01, "kendall": 0.4, "kendall_low": 0.0,
        "kendall_high": 0.7, "kendall_p": 0.02, "pearson": figure(0.6, p=0.03), "partial_spearman": None,
        "partial_pearson": figure(0.2, p=0.5), "ceiling": 0.9, "seed_to_seed": {"a": 0.7, "b": None},
        "over_depth": None, "reason": None,
    } | changes  # fmt: skip


def test_every_coefficient() -> None:
    over = pair(points=4, from_depth=0.0, to_depth=1.0, partial_scans=["b"])
    apart = pair(reason="the models differ in depth", over_depth=over)
    seeds = {"study": "a", "seed_agreement": {
        "pairs": [{"seeds": [0, 1], "layers": 5, "spearman": 0.7, "kendall": 0.6, "pearson": 0.8, "reason": None}],
        "mean": {"spearman": 0.7, "kendall": 0.6, "pearson": 0.8}, "reason": None,
    }}  # fmt: skip
    all_of_them, by_seed = coefficients.exhibits([seeds], {("a", "b"): pair(), ("a", "c"): apart | {
        "seed_to_seed": {"a": 0.7, "c": 0.5}
    }})  # fmt: skip
    table = all_of_them.table
    assert table is not None
    assert list(table["coefficient"]) == ["Spearman", "Kendall", "Pearson", "Pearson without depth"] * 2
    assert list(table["compared"].unique()) == ["5 layers", "4 relative depths"]
    assert all_of_them.svg is not None
    ElementTree.fromstring(all_of_them.svg)
    assert by_seed.table is not None
    assert list(by_seed.table["seeds"]) == ["0 and 1", "mean"]
    assert "b was scanned in part" in coefficients.over_depth_reading(over)
    assert "Nor can they be compared" in coefficients.over_depth_reading(over | {"reason": "x"})
    assert list(coefficients.exhibits([], {("a", "b"): pair(reason="undefined")})) == []
