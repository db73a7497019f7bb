"""The table of every exhibit as a CSV file, all studies together, beside the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from onelayer.report import tables
from onelayer.report.section import Section
from onelayer.report.sections import strategies
from onelayer.store import REPORTS, write_bytes

TABLES = REPORTS / "tables"
# Tables that are there whatever the studies hold, for dvc.yaml names them as outputs: by file, what makes one.
ALWAYS: dict[str, Callable[[dict[str, Any]], pd.DataFrame]] = {
    "contributions": tables.contributions,
    "settings": tables.settings,
    "baselines": tables.baselines,
    "learning_rates": tables.learning_rates,
    "curves": tables.curves,
    "strategies": strategies.table,
}


def write_tables(
    analyses: Sequence[dict[str, Any]],
    by_study: Mapping[str, Sequence[Section]],
    together: Sequence[Section],
    correlations: pd.DataFrame,
) -> None:
    """Write reports/tables/<exhibit>.csv of every exhibit that has a table.

    A study's tables get the column ``study`` first. A table of the folder that this report has no more keeps its
    header alone, so that nothing old is read as if it were of this report.

    Args:
        analyses: of the studies, in their order.
        by_study: each study's sections.
        together: the sections that compare studies.
        correlations: the pairs' table, which is there with no row where there is no pair.
    """
    made: dict[str, list[pd.DataFrame]] = {}
    for study, sections in by_study.items():
        for name, table in _tables(sections):
            if name not in ALWAYS:
                made.setdefault(name, []).append(_of_study(table, study))
    for name, make in ALWAYS.items():
        made[name] = [_of_study(make(analysis), analysis["study"]) for analysis in analyses]
    for name, table in _tables(together):
        made.setdefault(name, []).append(table)
    made["correlations"] = [correlations]
    for name, frames in made.items():
        # Frames without a row decide no type and no order of columns where another has rows.
        filled = [frame for frame in frames if len(frame)] or frames[:1]
        write_bytes(_path(name), pd.concat(filled, ignore_index=True).to_csv(index=False).encode())
    for path in TABLES.glob("*.csv"):
        if path.stem not in made:
            header, _, rows = path.read_text().partition("\n")
            if rows and header.startswith("study,"):
                write_bytes(path, f"{header}\n".encode())


def _of_study(table: pd.DataFrame, study: str) -> pd.DataFrame:
    """The table with its study's name first."""
    frame = table.drop(columns="study", errors="ignore")
    frame.insert(0, "study", study)
    return frame


def _tables(sections: Sequence[Section]) -> list[tuple[str, pd.DataFrame]]:
    return [
        (exhibit.name, exhibit.table)
        for section in sections
        for exhibit in section.exhibits
        if exhibit.table is not None
    ]


def _path(name: str) -> Path:
    return TABLES / f"{name}.csv"
