"""The report page: the answer first, then sections of figures and tables, then method and provenance.

One file, with its style and script inside: nothing is loaded, and without the script only sorting is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from onelayer.compare import read_analysis, read_correlations
from onelayer.config import ReportOptions
from onelayer.published import shown_published
from onelayer.report import sections, tables
from onelayer.report.answer import answer
from onelayer.report.exhibit_files import write_tables
from onelayer.report.section import Section
from onelayer.report.table_html import FOLDED_FROM, table_html
from onelayer.store import REPORT, study_page, write_bytes

# Figures narrower than this, in points, stand side by side where there is room.
_NARROW = 360
# Notes beyond these are folded: a study of a hundred runs may have a note on each.
_NOTES_SHOWN = 4


def write_report(studies: Sequence[str], options: ReportOptions) -> Path:
    """Write the page of all studies and the CSV tables.

    Raises UserError where a study has no analysis, or a pair of studies no correlation.
    """
    analyses = [read_analysis(study) for study in studies]
    pairs = read_correlations(studies) if len(studies) > 1 else {}
    by_study = {analysis["study"]: tuple(sections.of_study(analysis)) for analysis in analyses}
    together = tuple(sections.of_studies(analyses, pairs, shown_published()))
    made = {analysis["study"]: sections.of_provenance(analysis) for analysis in analyses}
    write_tables(
        analyses, {name: (*found, made[name]) for name, found in by_study.items()}, together, tables.correlations(pairs)
    )
    write_bytes(REPORT, _page(analyses, by_study, together, made, options).encode())
    return REPORT


def write_study_page(study: str) -> Path:
    """Write a study's own page beside its analysis, so that it can be read before the other studies are done.

    Raises UserError where the study has no analysis.
    """
    analysis = read_analysis(study)
    path = study_page(study)
    found = {study: tuple(sections.of_study(analysis))}
    page = _page([analysis], found, (), {study: sections.of_provenance(analysis)}, ReportOptions())
    write_bytes(path, page.encode())
    return path


def _page(
    analyses: Sequence[dict[str, Any]],
    by_study: Mapping[str, Sequence[Section]],
    together: Sequence[Section],
    provenance: Mapping[str, Section],
    options: ReportOptions,
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onelayer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["table"] = lambda table: table_html(table, options.decimals)
    environment.filters["width"] = _width
    # Two decimals are as much as a first glance takes in.
    page: str = environment.get_template("report.html").render(
        title=options.title,
        answers=[answer(analysis, min(options.decimals, 2)) for analysis in analyses],
        studies=[
            {
                "name": analysis["study"],
                "notes": analysis["notes"][:_NOTES_SHOWN],
                "more_notes": analysis["notes"][_NOTES_SHOWN:],
                "sections": by_study[analysis["study"]],
                "provenance": provenance[analysis["study"]],
            }
            for analysis in analyses
        ],
        together=together,
        folded_from=FOLDED_FROM,
        narrow=_NARROW,
    )
    return page


def _width(svg: str) -> float:
    """How wide a drawing was made, in points."""
    found = re.search(r'<svg [^>]*?width="([\d.]+)pt"', svg)
    return float(found.group(1)) if found else 0.0
