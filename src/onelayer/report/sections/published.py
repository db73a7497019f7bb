"""Published results beside ours: profiles over relative depth, best layers, and the published strategies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pandas as pd

from onelayer.published import READ_FROM_TABLES, PublishedStudy
from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, bars, drawing, svg
from onelayer.report.section import Exhibit, Section

# Every study of a panel has its own mark as well as its own colour.
_MARKS = (("o", BLUE), ("s", ORANGE), ("^", GREEN), ("D", PINK), ("v", SKY), ("P", YELLOW), ("X", GREY))
_KINDS = {"full": "Full training", "boost": "Boost", "only": "Only", "middle": "Middle"}


def section(analyses: Sequence[dict[str, Any]], published: Sequence[PublishedStudy]) -> Section | None:
    """Our contributions beside published ones; None where no published study is shown.

    Args:
        analyses: of our studies; one with undefined contributions has no profile.
        published: what is to stand beside them.
    """
    if not published:
        return None
    exhibits = [
        Exhibit(
            name="published_profiles",
            title="Contribution by relative depth, ours and published",
            caption="Contribution C of a layer trained alone: 0 is the base, 1 full training. Relative depth is 0 at"
            " the first layer and 1 at the last. Bars are our intervals; published figures have none, for they were"
            " read from tables. Lines join neighbouring layers where every one was trained and is known.",
            table=profiles(analyses, published),
            svg=_figure(analyses, published),
        ),
        Exhibit(
            name="published_best",
            title="The best layers, ours and published",
            caption="Scores are shares of right answers. Our best layer is picked on other problems than those it is"
            " reported on; a published one was picked on the benchmarks it is reported on, which flatters it.",
            table=best_layers(analyses, published),
        ),
    ]
    strategies = strategy_table(published)
    if len(strategies):
        exhibits.append(
            Exhibit(
                name="published_strategies",
                title="The published strategies",
                caption="What is added to full training, as a share of full training's own gain over the base. The"
                " deviation is over repeats, where it was given.",
                table=strategies,
            )
        )
    correlations = correlation_table(published)
    if len(correlations):
        exhibits.append(
            Exhibit(
                name="published_correlations",
                title="The published correlations",
                caption="As printed, without intervals or p-values.",
                table=correlations,
            )
        )
    return Section(
        anchor="published",
        title="Beside published results",
        paragraphs=tuple(_readings(published)),
        exhibits=tuple(exhibits),
        notes=_notes(published),
    )


def profiles(analyses: Sequence[dict[str, Any]], published: Sequence[PublishedStudy]) -> pd.DataFrame:
    """One row a layer of every study that has contributions."""
    ours = [
        {
            "of": analysis["study"],
            "layer": row["layer"],
            "depth": row["depth"],
            "contribution": row["contribution"]["value"],
            "interval": _interval(row["contribution"]),
        }
        for analysis in analyses
        if analysis["defined"]
        for row in analysis["layers"]
    ]
    theirs = [
        {
            "of": _label(study),
            "layer": layer,
            "depth": study.depth(layer),
            "contribution": found,
            "interval": f"none, {READ_FROM_TABLES}",
        }
        for study in published
        for layer, found in study.contributions.items()
    ]
    return pd.DataFrame(ours + theirs)


def best_layers(analyses: Sequence[dict[str, Any]], published: Sequence[PublishedStudy]) -> pd.DataFrame:
    """One row a study: its base, full training and best layer."""
    ours = [
        {
            "of": analysis["study"],
            "algorithm": analysis["algorithm"],
            "layers": analysis["layers_of_model"],
            "scanned": len(analysis["layers"]),
            "base": analysis["base"]["value"],
            "full": analysis["full"]["value"],
            "best_layer": best["layer"],
            "depth": best["depth"],
            "score": best["score"]["value"],
            "contribution": best["contribution"]["value"] if best["contribution"] else None,
            "interval": _interval(best["contribution"]) if best["contribution"] else "contributions are undefined",
        }
        for analysis in analyses
        if (best := analysis["best_layer"]) is not None
    ]
    theirs = [
        {
            "of": _label(study),
            "algorithm": study.algorithm,
            "layers": study.layers_of_model,
            "scanned": study.layers_scanned,
            "base": study.base / 100,
            "full": study.full / 100,
            "best_layer": study.ranking[0],
            "depth": study.depth(study.ranking[0]),
            "score": study.scores[study.ranking[0]] / 100,
            "contribution": study.contributions[study.ranking[0]],
            "interval": f"none, {READ_FROM_TABLES}",
        }
        for study in published
    ]
    return pd.DataFrame(ours + theirs).astype({"contribution": float})


def strategy_table(published: Sequence[PublishedStudy]) -> pd.DataFrame:
    """One row a published strategy."""
    return pd.DataFrame(
        [
            {
                "of": _label(study),
                "strategy": " ".join(str(part) for part in (_KINDS[one.kind], one.layers, one.count) if part),
                "score": one.score / 100,
                "deviation": f"{one.deviation / 100:.4f}" if one.deviation is not None else "not given",
                "added_gain": study.added_gains.get(one.name, 0.0),
                "reading": "weak" if one.weak else "sure",
            }
            for study in published
            for one in study.strategies
        ]
    )


def correlation_table(published: Sequence[PublishedStudy]) -> pd.DataFrame:
    """One row a published correlation."""
    return pd.DataFrame(
        [
            {
                "of": _label(study),
                "first": one.first,
                "second": one.second,
                "statistic": one.statistic.capitalize(),
                "value": one.value,
                "reading": "weak" if one.weak else "sure",
            }
            for study in published
            for one in study.correlations
        ]
    )


def _figure(analyses: Sequence[dict[str, Any]], published: Sequence[PublishedStudy]) -> str:
    """Two panels of one scale: what was measured here, and what was read from tables."""
    drawn = [analysis for analysis in analyses if analysis["defined"]]
    with drawing("published", 7.2, 4.4, panels=2) as (figure, (left, right)):
        for analysis, (mark, color) in zip(drawn, cycle(_MARKS)):
            rows = analysis["layers"]
            left.errorbar(
                [row["depth"] for row in rows],
                [row["contribution"]["value"] for row in rows],
                yerr=bars([row["contribution"] for row in rows]),
                fmt=mark,
                linestyle="-" if len(rows) == analysis["layers_of_model"] else "none",
                linewidth=0.8,
                color=color,
                capsize=2,
                markersize=4,
                label=analysis["study"],
            )
        for study, (mark, color) in zip(published, cycle(_MARKS)):
            known = study.contributions
            right.plot(
                [study.depth(layer) for layer in known],
                list(known.values()),
                mark,
                linestyle="-" if len(known) == study.layers_of_model else "none",
                linewidth=0.8,
                color=color,
                markersize=5,
                markerfacecolor="none",
                label=_label(study),
            )
        ends = [end for axes in (left, right) for end in axes.get_ylim()] if drawn else right.get_ylim()
        for axes, title in ((left, "measured here"), (right, READ_FROM_TABLES)):
            axes.axhline(1, color=GREY, linewidth=1.0, linestyle="--")
            axes.axhline(0, color=GREY, linewidth=1.0, linestyle=":")
            axes.set_ylim(min(ends), max(ends))
            axes.set_xlim(-0.04, 1.04)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("relative depth")
            if axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1)
        if not drawn:
            left.text(0.5, 0.5, "no contribution is defined", ha="center", transform=left.transAxes)
        left.set_ylabel("contribution C")
        return svg(figure, "Contribution by relative depth, ours and published")


def _label(study: PublishedStudy) -> str:
    return f"{study.model}, {study.training_set}"


def _interval(found: dict[str, float]) -> str:
    return f"{found['low']:.3f} to {found['high']:.3f}"


def _readings(published: Sequence[PublishedStudy]) -> list[str]:
    """Where published best layers lie, and what the best strategies add."""
    depths = [study.depth(study.ranking[0]) for study in published]
    papers = ", ".join(dict.fromkeys(study.source.paper for study in published))
    lines = [
        f"{len(published)} published studies ({papers}) stand beside ours, {READ_FROM_TABLES}: no records, so no"
        f" intervals. Their best layers lie between {min(depths):.2f} and {max(depths):.2f} of the depth."
    ]
    for study in published:
        if gains := study.added_gains:
            best = max(gains, key=lambda name: gains[name])
            lines.append(
                f"{_label(study)}: the best published strategy ({best}) adds {gains[best]:.0%} of full training's gain"
                " to it."
            )
    return lines


def _notes(published: Sequence[PublishedStudy]) -> tuple[str, ...]:
    """What keeps the published figures from meaning more."""
    notes = [
        f"{_label(study)}: {len(study.layers)} of the {study.layers_scanned} scanned layers are known."
        for study in published
        if len(study.layers) < study.layers_scanned
    ]
    notes += [
        f"{_label(study)}: a partial scan, {study.layers_scanned} of {study.layers_of_model} layers."
        for study in published
        if study.layers_scanned < study.layers_of_model
    ]
    return tuple(notes)
