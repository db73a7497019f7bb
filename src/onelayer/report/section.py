"""What a page is made of: sections of words and exhibits, an exhibit being a figure with the table behind it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Exhibit:
    """A figure, a table, or a figure with its table.

    Attributes:
        name: of its files, such as ``ensemble_votes`` (reports/tables/ensemble_votes.csv).
        title: what it shows, in a line.
        caption: how to read it: what a point, a bar and an interval are, in which unit.
        table: the figures themselves, without a column for the study; None where there are none.
        svg: the drawing; None for a table alone.
    """

    name: str
    title: str
    caption: str
    table: pd.DataFrame | None = None
    svg: str | None = None


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        anchor: its place in the page's address.
        title: the heading.
        paragraphs: what was found, in words; plain text.
        exhibits: what it was found from.
        notes: what keeps it from meaning more.
    """

    anchor: str
    title: str
    paragraphs: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    notes: tuple[str, ...] = ()
