"""How the learning rate was chosen."""

from __future__ import annotations

from typing import Any

from onelayer.report import figures, tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section:
    """The study's search and each baseline's own, or that there was none."""
    table = tables.learning_rates(analysis).drop(columns="study")
    rate = f"{analysis['search']['learning_rate']:g}"
    drawing = figures.search(analysis)
    paragraphs: tuple[str, ...] = ()
    caption = "Scores of the searches' runs on the select problems; chosen is the rate with the highest mean."
    if drawing is None:
        of_it = " of it" if len(table) else ""
        paragraphs = (f"One rate was given, {rate}; there was no search{of_it}.",)
    else:
        others = analysis["baselines"] or analysis["strategies"] or analysis["rate_sensitivity"]
        who = "full training and every layer of the scan" if others else "every run"
        caption = f"The rate of {who}, {rate}, is the one with the best full run on the select problems."
    exhibits = (
        (Exhibit("learning_rates", "Learning-rate search", caption, table=table, svg=drawing),) if len(table) else ()
    )
    return Section("learning-rate", "Learning rate", paragraphs, exhibits)
