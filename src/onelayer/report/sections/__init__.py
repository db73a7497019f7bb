"""The sections of a page, in its order. A section that has nothing to say of a study is left out of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onelayer.published import PublishedStudy
from onelayer.report.section import Section
from onelayer.report.sections import (
    agreement,
    baselines,
    behaviour,
    cost,
    curves,
    ensemble,
    learning_curves,
    learning_rate,
    location,
    profile,
    provenance,
    published,
    runs,
    sensitivity,
    settings,
    strategies,
    suite,
    weights,
)
from onelayer.report.sections.agreement import Pairs

# What is said of one study.
STUDY: tuple[Callable[[dict[str, Any]], Section | None], ...] = (
    profile.section,
    location.section,
    strategies.section,
    baselines.section,
    learning_rate.section,
    sensitivity.section,
    ensemble.section,
    cost.section,
    behaviour.section,
    weights.section,
    curves.section,
    settings.section,
    runs.section,
    suite.section,
)
# What is said of all studies together.
STUDIES: tuple[Callable[[Sequence[dict[str, Any]]], Section | None], ...] = (learning_curves.section,)


def of_study(analysis: dict[str, Any]) -> Iterator[Section]:
    """A study's sections but its provenance, which ends the page."""
    yield from (made for section in STUDY if (made := section(analysis)) is not None)


def of_studies(analyses: Sequence[dict[str, Any]], pairs: Pairs, others: Sequence[PublishedStudy]) -> Iterator[Section]:
    """The sections that compare studies, with those that others published too."""
    yield from (made for section in STUDIES if (made := section(analyses)) is not None)
    if (made := agreement.section(analyses, pairs)) is not None:
        yield made
    if (made := published.section(analyses, others)) is not None:
        yield made


def of_provenance(analysis: dict[str, Any]) -> Section:
    """How a study's figures came about."""
    return provenance.section(analysis)
