"""How every figure is drawn: palette, style, and SVG text that stands in the page itself."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
SKY, YELLOW, PINK = "#56B4E9", "#E69F00", "#CC79A7"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text: it can be searched, and follows the reader's fonts
}


@contextmanager
def drawing(
    name: str, width: float = 7.2, height: float = 3.4, panels: int = 1, rows: int = 1
) -> Iterator[tuple[Figure, Any]]:
    """A figure in the house's style.

    Args:
        name: of the figure and its study; equal names make equal ids inside the SVG, so that a page stays the same.
        width: in inches.
        height: in inches.
        panels: how many axes lie side by side.
        rows: how many stand over each other, on one horizontal axis.

    Yields the figure and its axes (of several panels, an array of them); take its `svg` inside the block.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, panels, sharex=rows > 1)


def bars(intervals: Sequence[dict[str, float]]) -> list[list[float]]:
    """How far each interval reaches below and above its figure."""
    return [
        [max(one["value"] - one["low"], 0) for one in intervals],
        [max(one["high"] - one["value"], 0) for one in intervals],
    ]


def svg(figure: Figure, title: str) -> str:
    """The drawing as SVG text with a title for screen readers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    text = buffer.getvalue()
    start = text.index("<svg")
    return text[:start].split("<?xml", 1)[0] + text[start:].replace(
        "<svg ", f'<svg role="img" aria-label="{title}" ', 1
    )
