"""The report page: what was found, how sure it is, the figures, the tables behind them, and provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from onelayer.compare import read_analysis, read_correlations
from onelayer.config import ReportOptions
from onelayer.report import figures, tables
from onelayer.store import REPORT, REPORTS, study_page, write_bytes

TABLES = REPORTS / "tables"
# From here on a ceiling takes little from a correlation, and its reading says nothing of it.
_CLEAR_CEILING = 0.9


def write_report(studies: Sequence[str], options: ReportOptions) -> Path:
    """Write the page and the CSV tables.

    Raises UserError where a study has no analysis, or a pair of studies no correlation.
    """
    analyses = [read_analysis(study) for study in studies]
    pairs = read_correlations(studies) if len(studies) > 1 else {}
    write_bytes(TABLES / "correlations.csv", tables.correlations(pairs).to_csv(index=False).encode())
    for name, make in (
        ("contributions", tables.contributions),
        ("settings", tables.settings),
        ("baselines", tables.baselines),
        ("learning_rates", tables.learning_rates),
        ("curves", tables.curves),
    ):
        frame = pd.concat([make(analysis) for analysis in analyses], ignore_index=True)
        write_bytes(TABLES / f"{name}.csv", frame.to_csv(index=False).encode())
    page = _page(analyses, pairs, options)
    write_bytes(REPORT, page.encode())
    return REPORT


def write_study_page(study: str) -> Path:
    """Write a study's own page beside its analysis, so that it can be read before the other studies are done.

    Raises UserError where the study has no analysis.
    """
    path = study_page(study)
    write_bytes(path, _page([read_analysis(study)], {}, ReportOptions()).encode())
    return path


def _page(
    analyses: Sequence[dict[str, Any]], pairs: dict[tuple[str, str], dict[str, Any]], options: ReportOptions
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onelayer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template("report.html").render(
        title=options.title,
        studies=[_study(analysis, options.decimals) for analysis in analyses],
        learning=[
            {"studies": [one["study"] for one in together], "figure": figures.learning_curves(together)}
            for together in _same_data(analyses)
        ],
        agreement=_agreement(pairs, {one["study"]: one for one in analyses}, options.decimals) if pairs else None,
    )
    return page


def _same_data(analyses: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The studies that train one base on one training set by different algorithms, together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for analysis in analyses:
        groups.setdefault(analysis["trained_on"], []).append(analysis)
    return [group for group in groups.values() if len({analysis["algorithm"] for analysis in group}) > 1]


def _study(analysis: dict[str, Any], decimals: int) -> dict[str, Any]:
    def shown(frame: pd.DataFrame) -> str:
        text: str = frame.drop(columns="study", errors="ignore").to_html(
            index=False, border=0, na_rep="undefined", float_format=lambda x: f"{x:.{decimals}f}"
        )
        return text

    rates, baselines = tables.learning_rates(analysis), tables.baselines(analysis)
    for frame in (rates, baselines):
        frame["learning_rate"] = frame["learning_rate"].map("{:g}".format)
    baselines["layer"] = baselines["layer"].astype("string").fillna("all")
    return {
        "analysis": analysis,
        "number": lambda value: f"{value:.{decimals}f}",
        "profile": figures.profile(analysis),
        "search": figures.search(analysis),
        "curves": figures.curves(analysis),
        "contributions": shown(tables.contributions(analysis)),
        "settings": shown(tables.settings(analysis)),
        "baselines": shown(baselines) if analysis["baselines"] else None,
        "learning_rates": shown(rates) if len(rates) else None,
        "runs": shown(tables.runs(analysis)),
        "suite": _suite(analysis["suite"], shown) if "suite" in analysis else None,
    }


def _suite(suite: dict[str, Any], shown: Callable[[pd.DataFrame], str]) -> dict[str, Any]:
    """What the section of the evaluation suite shows."""
    return {
        "scores": shown(tables.suite_scores(suite)),
        "benchmarks": shown(tables.suite_benchmarks(suite)),
        "contributions": shown(tables.suite_contributions(suite)),
        "notes": suite["notes"],
    }


def _agreement(
    pairs: dict[tuple[str, str], dict[str, Any]], analyses: dict[str, dict[str, Any]], decimals: int
) -> dict[str, Any]:
    """What the section of the pairs shows: readings, a panel a pair that has figures, and the table."""
    found = {pair: result for pair, result in pairs.items() if result["reason"] is None}
    frame = tables.correlations(found).drop(columns=["shared_problems", "paired", "same_base", "reason"])
    return {
        "readings": [_reading(pair, result) for pair, result in pairs.items()],
        "panels": [figures.agreement(analyses[first], analyses[second]) for first, second in found],
        "table": frame.to_html(index=False, border=0, na_rep="undefined", float_format=lambda x: f"{x:.{decimals}f}"),
    }


def _reading(pair: tuple[str, str], result: dict[str, Any]) -> dict[str, str]:
    """A pair's name and its figures in words, with what keeps them from meaning more."""
    name = f"{pair[0]} and {pair[1]}"
    if result["reason"] is not None:
        return {"pair": name, "text": f"no correlation is given, for {result['reason']}."}
    sentences = [
        f"{result['kind']}, {result['layers']} layers: Spearman {result['spearman']:.2f} ({result['confidence']:.0%}"
        f" interval {result['low']:.2f} to {result['high']:.2f}, p {result['p']:.2g}).",
        _verdict(result),
    ]
    if result["ceiling"] is not None and result["ceiling"] < _CLEAR_CEILING:
        noisiest = min(pair, key=lambda study: result["reliability"][study])
        sentences.append(
            f"The ceiling of {noisiest}'s own ranking is {result['reliability'][noisiest]:.2f}, so two studies of one"
            f" true ranking would be expected to reach about {result['ceiling']:.2f}."
        )
    if not result["same_base"]:
        sentences.append("The two start from different bases, so not the training alone differs.")
    if result["paired"]:
        sentences.append("The problems are the same, and their peculiarities help the two to agree.")
    elif result["shared_problems"]:
        sentences.append(f"{result['shared_problems']} problems are in both; the interval takes them as apart.")
    return {"pair": name, "text": " ".join(sentences)}


def _verdict(result: dict[str, Any]) -> str:
    """Say what holds against both doubts: that the figure moves, and that so few layers can agree by chance."""
    if result["low"] <= 0 <= result["high"]:
        return "The interval includes 0: neither agreement nor its absence is shown."
    side, alike = ("above", "alike") if result["low"] > 0 else ("below", "in opposite ways")
    if result["p"] <= 1 - result["confidence"]:
        return f"They rank the layers {alike}: the interval lies {side} 0, and few orders at random go so far from it."
    return f"The interval lies {side} 0, yet with so few layers an order at random often goes as far from it."
