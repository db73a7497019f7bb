"""The sections of the ensemble, the behaviour and the cost: of a whole study, of parts of one, and of none."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.test_study import CLEAR, make_study
from onelayer.analysis.study import analyze
from onelayer.report.section import Section
from onelayer.report.sections import behaviour, cost, ensemble

SECTIONS = (ensemble.section, behaviour.section, cost.section)


def made(analysis: dict[str, Any]) -> dict[str, Section]:
    """The sections by anchor, each held to be whole."""
    found = {one.anchor: one for one in (section(analysis) for section in SECTIONS) if one is not None}
    names = [exhibit.name for section in found.values() for exhibit in section.exhibits]
    assert len(names) == len(set(names))
    for section in found.values():
        for text in (*section.paragraphs, *section.notes):
            assert "None" not in text
            assert "nan" not in text
        for exhibit in section.exhibits:
            assert exhibit.table is not None
            assert "study" not in exhibit.table.columns
            if exhibit.svg is not None:
                assert ElementTree.fromstring(exhibit.svg).tag.endswith("svg")
    return found


def table(section: Section, name: str) -> pd.DataFrame:
    (found,) = [exhibit.table for exhibit in section.exhibits if exhibit.name == name]
    assert found is not None
    return found


@pytest.mark.usefixtures("project")
def test_a_whole_study() -> None:
    analysis = analyze(make_study(CLEAR))
    found = made(analysis)
    assert set(found) == {"ensemble", "behaviour", "cost"}
    votes = table(found["ensemble"], "ensemble_votes").set_index("answers")
    score = next(row["score"] for row in analysis["ensemble"]["figures"] if row["name"] == "vote")
    assert votes.loc["vote of 2 layers", "score"] == score["value"]
    assert "2 layers vote, for no more are there; 7 were asked for." in found["ensemble"].notes
    assert analysis["recommendation"]["text"] in found["cost"].paragraphs
    costs = table(found["cost"], "cost_settings").set_index("setting")
    assert costs.loc["layer-01", "share_of_seconds"] == 1.0
    assert costs["share_of_memory"].isna().sum() == 1  # the base's
    assert table(found["behaviour"], "behaviour_settings")["setting"].tolist() == [
        "base",
        "full",
        "layer-00",
        "layer-01",
    ]
    # Histories made by hand hold no entropy, so there is no such exhibit.
    assert {one.name for one in found["behaviour"].exhibits} == {"behaviour_settings", "behaviour_shorter"}


@pytest.mark.usefixtures("project")
def test_no_gain_and_missing_runs() -> None:
    study = make_study({**CLEAR, "full": 0.2})
    shutil.rmtree("data/tiny/runs/layer-01-s1")
    found = made(analyze(study, partial=True))
    assert any("No layer is recommended: the full gain" in text for text in found["cost"].paragraphs)
    assert any("1 are not" in text for text in found["cost"].paragraphs)
    for run in ("layer-01-s0", "full-s1"):
        shutil.rmtree(Path("data/tiny/runs") / run)
    found = made(analyze(study, partial=True))
    assert set(found) == {"behaviour", "cost"}  # one layer is no ensemble
    for run in ("layer-00-s0", "layer-00-s1"):
        shutil.rmtree(Path("data/tiny/runs") / run)
    assert set(made(analyze(study, partial=True))) == {"behaviour", "cost"}


def test_an_analysis_without_them_has_no_such_section() -> None:
    assert made({"study": "old"}) == {}
    assert ensemble.section({"ensemble": {"reason": "an ensemble needs two single-layer models"}}) is None
