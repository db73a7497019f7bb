"""A table of figures as HTML: numbers of one column written alike, and nothing that a reader cannot sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

UNDEFINED = "undefined"
# Longer tables are shown folded; a browser prints them all the same.
FOLDED_FROM = 15
# From which size on the numbers of a column have how many decimals.
_FEWER_DECIMALS = ((1000, 0), (100, 1))


def table_html(table: pd.DataFrame, decimals: int) -> Markup:
    """Write a table.

    A number that is not there reads ``undefined``, a text that is not there is empty.

    Args:
        table: the figures; column names read with spaces for underscores.
        decimals: of numbers, but for columns of very small ones, which have as many significant digits, and of large
            ones, which have fewer.
    """
    written = [_written(table[column], decimals) for column in table.columns]
    marks = ["" if _is_number(table[column]) else " class=t" for column in table.columns]
    heads = "".join(
        f"<th scope=col{mark}>{escape(str(name).replace('_', ' '))}</th>"
        for name, mark in zip(table.columns, marks, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in zip(*written, strict=True)
    )
    return Markup(f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>")


def _is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers; one of nothing at all counts as numbers that are not there, reasons excepted."""
    if pd.api.types.is_bool_dtype(column) or str(column.name).endswith("because"):
        return False
    return bool(pd.api.types.is_numeric_dtype(column) or column.isna().all())


def _written(column: pd.Series, decimals: int) -> list[str]:
    if not _is_number(column):
        return [_text(value) for value in column]
    write = _number_format(column, decimals)
    return [UNDEFINED if pd.isna(value) else write(value) for value in column]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if pd.isna(value) else str(escape(value))


def _number_format(column: pd.Series, decimals: int) -> Callable[[Any], str]:
    """How every number of a column is written."""
    if pd.api.types.is_integer_dtype(column):
        return str
    if str(column.name).endswith("rate"):  # a learning rate is what was set, to its last digit
        return "{:g}".format
    sizes = pd.to_numeric(column).abs()
    if not sizes[sizes > 0].empty and sizes[sizes > 0].min() < 10**-decimals:
        return lambda number: f"{number:.{decimals}g}"
    places = next((few for size, few in _FEWER_DECIMALS if sizes.max() >= size), decimals)
    return lambda number: f"{number:.{min(places, decimals)}f}"
