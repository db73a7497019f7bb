"""The report page: what was found, how sure it is, the figures, the tables behind them, and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from onelayer.compare import read_analysis
from onelayer.config import ReportOptions
from onelayer.report import figures, tables
from onelayer.store import REPORT, REPORTS, write_bytes

TABLES = REPORTS / "tables"


def write_report(studies: Sequence[str], options: ReportOptions) -> Path:
    """Write the page and the CSV tables. Raises UserError where a study has no analysis."""
    analyses = [read_analysis(study) for study in studies]
    for name, make in (
        ("contributions", tables.contributions),
        ("learning_rates", tables.learning_rates),
        ("curves", tables.curves),
    ):
        frame = pd.concat([make(analysis) for analysis in analyses], ignore_index=True)
        write_bytes(TABLES / f"{name}.csv", frame.to_csv(index=False).encode())
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onelayer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html").render(
        title=options.title, studies=[_study(analysis, options.decimals) for analysis in analyses]
    )
    write_bytes(REPORT, page.encode())
    return REPORT


def _study(analysis: dict[str, Any], decimals: int) -> dict[str, Any]:
    def shown(frame: pd.DataFrame) -> str:
        text: str = frame.drop(columns="study").to_html(
            index=False, border=0, na_rep="undefined", float_format=lambda x: f"{x:.{decimals}f}"
        )
        return text

    rates = tables.learning_rates(analysis)
    rates["learning_rate"] = rates["learning_rate"].map("{:g}".format)
    return {
        "analysis": analysis,
        "number": lambda value: f"{value:.{decimals}f}",
        "profile": figures.profile(analysis),
        "search": figures.search(analysis),
        "curves": figures.curves(analysis),
        "contributions": shown(tables.contributions(analysis)),
        "learning_rates": shown(rates),
        "runs": shown(tables.runs(analysis)),
    }
