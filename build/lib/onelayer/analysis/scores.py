"""Contributions from a table of scores alone: for anyone's own layer scan, without records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from onelayer.analysis.contribution import contribution, middle_layers, ranked, relative_depth
from onelayer.errors import UserError


def read_scores(path: Path) -> dict[int, float]:
    """Read a CSV of the columns ``layer`` and ``score``.

    Raises UserError, naming the row, for a missing column, a layer that is no whole number or stands twice,
    or a score that is no finite number.
    """
    try:
        frame = pd.read_csv(path, dtype=str, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path}: expected a CSV of the columns layer,score; found: {error}") from None
    if not {"layer", "score"} <= set(frame.columns):
        raise UserError(f"{path}: expected the columns layer,score; found {','.join(frame.columns)}")
    scores: dict[int, float] = {}
    for number, row in enumerate(frame.itertuples(index=False), start=2):
        try:
            layer, score = int(str(row.layer)), float(str(row.score))
        except ValueError:
            raise UserError(
                f"{path}: row {number}: expected a layer number and a score, found {row.layer!r}, {row.score!r}"
            ) from None
        if layer < 0 or not math.isfinite(score):
            raise UserError(
                f"{path}: row {number}: expected a layer of 0 or more and a finite score, found {layer}, {score}"
            )
        if layer in scores:
            raise UserError(f"{path}: row {number}: layer {layer} stands twice")
        scores[layer] = score
    if not scores:
        raise UserError(f"{path}: expected at least one row, found none")
    return scores


def describe(path: Path, base: float, full: float, layers: int | None, sizes: tuple[int, ...]) -> dict[str, Any]:
    """C, rank and relative depth of every layer, and the best-k, worst-k and middle-k sets.

    Raises UserError where the table cannot be used, or full is not above base: C is then undefined.
    """
    scores = read_scores(path)
    if not full > base:
        raise UserError(f"--full {full} is not above --base {base}: without a gain, contributions are undefined")
    depth = layers if layers is not None else max(scores) + 1
    if max(scores) >= depth:
        raise UserError(f"{path}: layer {max(scores)} lies beyond --layers {depth}")
    order = ranked(scores)
    return {
        "base": base,
        "full": full,
        "layers": [
            {
                "layer": layer,
                "score": scores[layer],
                "contribution": contribution(scores[layer], base, full),
                "rank": order.index(layer) + 1,
                "depth": relative_depth(layer, depth),
            }
            for layer in sorted(scores)
        ],
        "sets": {
            str(size): {
                "best": order[:size],
                "worst": order[::-1][:size],
                "middle": middle_layers(depth, size),
            }
            for size in sizes
            if size <= len(scores)
        },
    }


def print_description(description: dict[str, Any], as_json: bool) -> None:
    """Print the description as a table, or as JSON."""
    if as_json:
        print(json.dumps(description, indent=2))
        return
    console = Console()
    table = Table("layer", "score", "contribution", "rank", "relative depth")
    for row in description["layers"]:
        table.add_row(
            str(row["layer"]),
            f"{row['score']:g}",
            f"{row['contribution']:.3f}",
            str(row["rank"]),
            f"{row['depth']:.2f}",
        )
    console.print(table)
    for size, sets in description["sets"].items():
        for name, members in sets.items():
            console.print(f"{name} {size}: {', '.join(map(str, members))}", highlight=False)
