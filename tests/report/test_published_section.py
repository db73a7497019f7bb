"""The section of published results: what it shows of ours and theirs."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from onelayer.published import PublishedStudy, shown_published
from onelayer.report.sections.published import section


@pytest.fixture
def published(project: Path) -> list[PublishedStudy]:
    shutil.copytree(ROOT / "studies/published", project / "studies/published")
    return shown_published()


def analysis(name: str, defined: bool = True) -> dict[str, Any]:
    """As much of a study's analysis as the section reads."""
    rows = [
        {
            "layer": layer,
            "depth": layer / 3,
            "score": {"value": 0.5, "low": 0.4, "high": 0.6},
            "contribution": {"value": 0.2 * layer, "low": 0.2 * layer - 0.1, "high": 0.2 * layer + 0.1}
            if defined
            else None,
        }
        for layer in range(4)
    ]
    return {
        "study": name,
        "algorithm": "grpo",
        "layers_of_model": 4,
        "defined": defined,
        "base": {"value": 0.4},
        "full": {"value": 0.9},
        "layers": rows,
        "best_layer": rows[3],
    }


def test_ours_beside_theirs(published: list[PublishedStudy]) -> None:
    made = section([analysis("mine"), analysis("flat", defined=False)], published)
    assert made is not None
    profile, best, strategies, correlations = made.exhibits
    assert [one.name for one in made.exhibits] == [
        "published_profiles", "published_best", "published_strategies", "published_correlations",
    ]  # fmt: skip
    assert profile.svg is not None
    texts = "".join(ElementTree.fromstring(profile.svg).itertext())
    for words in ("mine", "Qwen3-1.7B-Base, NuminaMath-CoT", "read from tables", "measured here", "relative depth"):
        assert words in texts
    assert "flat" not in texts
    assert profile.table is not None
    assert len(profile.table) == 4 + sum(len(study.layers) for study in published)
    assert best.table is not None
    by_study = best.table.set_index("of")
    assert by_study.loc["mine", "interval"] == "0.500 to 0.700"
    assert by_study.loc["flat", "interval"] == "contributions are undefined"
    assert by_study.loc["Qwen3-8B-Base, NuminaMath-CoT", "interval"] == "none, read from tables"
    assert by_study.loc["Qwen3-8B-Base, NuminaMath-CoT", "score"] == pytest.approx(0.671)
    assert strategies.table is not None
    assert set(strategies.table["reading"]) == {"weak", "sure"}
    assert correlations.table is not None
    assert sorted(correlations.table["value"]) == [0.59, 0.65, 0.67, 0.76, 0.91]
    assert any("only-best10) adds 32% of full training's gain" in line for line in made.paragraphs)
    assert any("8 of 28 layers" in note for note in made.notes)


def test_theirs_alone(published: list[PublishedStudy]) -> None:
    made = section([], published[:1])
    assert made is not None
    assert [one.name for one in made.exhibits] == ["published_profiles", "published_best"]


def test_nothing_to_show() -> None:
    assert section([analysis("mine")], []) is None
