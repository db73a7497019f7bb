"""Whether two studies rank the layers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onelayer.report import figures, tables
from onelayer.report.section import Exhibit, Section
from onelayer.report.sections import coefficients

Pairs = dict[tuple[str, str], dict[str, Any]]

# From here on a ceiling takes little from a correlation, and its reading says nothing of it.
_CLEAR_CEILING = 0.9


def section(analyses: Sequence[dict[str, Any]], pairs: Pairs) -> Section | None:
    """Every pair's reading, a panel a pair that has figures, and the table; None where there is no pair."""
    if not pairs:
        return None
    by_name = {one["study"]: one for one in analyses}
    found = {pair: result for pair, result in pairs.items() if result["reason"] is None}
    table = tables.correlations(pairs)
    exhibits = [
        Exhibit(
            name=f"agreement_{first}_{second}",
            title=f"{first} and {second}",
            caption="Contributions in one study against those in the other; the number is the layer, thin bars are its"
            " intervals.",
            table=tables.agreement(by_name[first], by_name[second]),
            svg=figures.agreement(by_name[first], by_name[second]),
        )
        for first, second in found
    ]
    return Section(
        anchor="agreement",
        title="Do the layers agree?",
        paragraphs=(
            "Whether two studies rank the layers alike: the rank correlation of their contributions, 1 for the same"
            " order, −1 for the reverse, 0 for none.",
            *(reading(pair, result) for pair, result in pairs.items()),
        ),
        exhibits=(
            *exhibits,
            Exhibit(
                name="correlations",
                title="Rank correlations",
                caption="p is the share of all orders of the layers that go as far from 0; layers side by side are"
                " often alike, which makes it too small. The ceiling is the mean of how far each study's ranking would"
                " agree with a repeat of itself, from halves of its seeds, or of its problems where it has one seed.",
                table=table,
            ),
            *coefficients.exhibits(analyses, pairs),
        ),
        notes=(
            "Intervals draw each study's problems and seeds anew. A draw adds noise to noise, so they lean towards 0,"
            " and a high correlation can lie above its own interval.",
        ),
    )


def reading(pair: tuple[str, str], result: dict[str, Any]) -> str:
    """A pair's name and its figures in words, with what keeps them from meaning more."""
    name = f"{pair[0]} and {pair[1]}"
    if result["reason"] is not None:
        over = result.get("over_depth")
        by_depth = f" {coefficients.over_depth_reading(over)}" if over is not None else ""
        return f"{name}: no correlation is given, for {result['reason']}.{by_depth}"
    sentences = [
        f"{name}: {result['kind']}, {result['layers']} layers: Spearman {result['spearman']:.2f}"
        f" ({result['confidence']:.0%} interval {result['low']:.2f} to {result['high']:.2f}, p {result['p']:.2g}).",
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
    return " ".join(sentences)


def _verdict(result: dict[str, Any]) -> str:
    """Say what holds against both doubts: that the figure moves, and that so few layers can agree by chance."""
    if result["low"] <= 0 <= result["high"]:
        return "The interval includes 0: neither agreement nor its absence is shown."
    side, alike = ("above", "alike") if result["low"] > 0 else ("below", "in opposite ways")
    if result["p"] <= 1 - result["confidence"]:
        return f"They rank the layers {alike}: the interval lies {side} 0, and few orders at random go so far from it."
    return f"The interval lies {side} 0, yet with so few layers an order at random often goes as far from it."
