"""How the runs answer: lengths, cut-off answers, entropy, and whether a gain is only shorter answers."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pandas as pd

from onelayer.grid import setting_name
from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, SKY, drawing, svg
from onelayer.report.section import Exhibit, Section

# Of more runs of single layers only those of the best are drawn by themselves, the others as the band between them.
_LINES = 60
_SMOOTHED = 5
# So many steps of a run are drawn: more cannot be seen, and a page would grow with them.
_POINTS = 200
_CURVES = {
    "entropy": ("behaviour_entropy", "Entropy in training", "entropy of a token (nats)"),
    "mean_tokens": ("behaviour_lengths", "Length in training", "mean length (tokens)"),
    "kl": ("behaviour_kl", "Distance from the base in training", "KL from the base (nats)"),
}


def section(analysis: dict[str, Any]) -> Section | None:
    """What the runs' answers are like; None in an analysis that does not say."""
    found = analysis.get("behaviour")
    if found is None:
        return None
    what, an = ("episode", "an episode") if found["shorter"]["reason"] is not None else ("answer", "an answer")
    exhibits = [
        Exhibit(
            name="behaviour_settings",
            title=f"Length of {an} by setting",
            caption=f"The mean length of a sampled {what} on report, in tokens, the mean over seeds: all, the right and"
            f" the wrong ones. The line is the base's mean. Clipped: cut off at the limit; unparsed: no answer found.",
            table=settings_table(found),
            svg=lengths_figure(analysis),
        ),
    ]
    if found["shorter"]["arms"]:
        exhibits.append(
            Exhibit(
                name="behaviour_shorter",
                title="Is the gain only shorter answers?",
                caption="Of the gain over the base on report: the part that fewer answers are cut off, the part that"
                " answers have other lengths (cut-off ones among them), and the whole gain on the problems of which no"
                f" answer was cut off, of the base or after training. {analysis['confidence']:.0%} intervals over"
                " problems.",
                table=shorter_table(found["shorter"]),
            )
        )
    for curve, (name, title, unit) in _CURVES.items():
        table = curve_table(found, curve)
        if len(table):
            exhibits.append(
                Exhibit(
                    name=name,
                    title=title,
                    caption=f"By optimizer step, the mean over the last {_SMOOTHED}: every run of full training and of"
                    " single layers (of many layers, the range of their runs), other runs thin. The table has the means"
                    " of each run's first and last five steps and of all.",
                    table=table,
                    svg=curve_figure(analysis, curve, unit),
                )
            )
    return Section(
        anchor="behaviour",
        title="How the runs answer",
        paragraphs=tuple(_paragraphs(found)),
        exhibits=tuple(exhibits),
        notes=tuple(found["notes"]),
    )


_FIGURES = ("mean_tokens", "length_change", "right_tokens", "wrong_tokens", "clipped", "unparsed")


def settings_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a setting."""
    rows = []
    for row in found["settings"]:
        curves = row["curves"]
        rows.append(
            {
                "setting": row["name"],
                "runs": row["runs"],
                "score": row["score"],
                **{key: row[key] for key in _FIGURES},
                "groups_without_signal": curves.get("groups_without_signal", {}).get("mean"),
                "reward_start": curves.get("reward", {}).get("start"),
                "reward_end": curves.get("reward", {}).get("end"),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys([name for name in frame if name not in ("setting", "runs")], float))


def shorter_table(shorter: dict[str, Any]) -> pd.DataFrame:
    """One row an arm and part of its gain."""
    rows = []
    for arm in shorter["arms"]:
        never = arm["never_cut_off"]
        parts = [
            ("the whole gain", arm["gain"], None),
            ("fewer answers cut off", arm["fewer_cut_off"], None),
            ("other lengths", arm["other_lengths"], None),
            ("on problems never cut off", never["gain"], never["problems"]),
        ]
        for what, interval, problems in parts:
            found = interval or {"value": None, "low": None, "high": None}
            rows.append({"setting": arm["name"], "gain": what, **found, "problems": problems})
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "low", "high"), float) | {"problems": "Int64"})


def curve_table(found: dict[str, Any], curve: str) -> pd.DataFrame:
    """One row a run that has the curve: its start, its end and its mean."""
    return pd.DataFrame(
        [{"run": run, **curves[curve]} for run, curves in found["runs"].items() if curve in curves],
        columns=["run", "start", "end", "mean"],
    )


def lengths_figure(analysis: dict[str, Any]) -> str:
    """The mean lengths of all, right and wrong answers, by setting, with the base's as a line."""
    rows = analysis["behaviour"]["settings"]
    base = next(row for row in rows if row["kind"] == "base")
    with drawing(f"lengths-{analysis['study']}", 7.2, 3.4) as (figure, axes):
        axes.axhline(base["mean_tokens"], color=GREY, linewidth=1.4, linestyle=":", label="base")
        places, ticks = spread(rows)
        for key, label, color, marker in (
            ("mean_tokens", "all", BLUE, "o"),
            ("right_tokens", "right", GREEN, "^"),
            ("wrong_tokens", "wrong", ORANGE, "v"),
        ):
            shown = [(places[row["name"]], row[key]) for row in rows if row["name"] in places and row[key] is not None]
            axes.plot(
                [place for place, _ in shown], [length for _, length in shown], marker, color=color, markersize=5,
                label=label,
            )  # fmt: skip
        label_settings(axes, ticks)
        axes.set_ylabel("mean length on report (tokens)")
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=4)
        return svg(figure, f"Mean lengths by setting, study {analysis['study']}")


def spread(rows: list[dict[str, Any]]) -> tuple[dict[str, int], dict[int, str]]:
    """Where the settings stand on an axis, the layers at their own numbers, the others behind; and the axis' labels."""
    layers = {row["name"]: row["layers"][0] for row in rows if row["kind"] == "layer"}
    others = [row["name"] for row in rows if row["kind"] not in ("base", "layer")]
    after = max(layers.values(), default=-2) + 2
    places = layers | {name: after + index for index, name in enumerate(others)}
    every = max(1, -(-len(layers) // 30))  # labels of many layers would run into each other
    ticks = {place: str(place) for place in list(layers.values())[::every]}
    return places, ticks | {places[name]: name for name in others}


def label_settings(axes: Any, ticks: dict[int, str]) -> None:
    """Write the names of settings under an axis; long ones aslant."""
    axes.set_xticks(list(ticks), list(ticks.values()))
    for label in axes.get_xticklabels():
        if len(label.get_text()) > 3:
            label.set(rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_xlabel("layer trained alone, and other settings")


def curve_figure(analysis: dict[str, Any], curve: str, unit: str) -> str:
    """One curve of every run's training."""
    kinds = {row["name"]: row["kind"] for row in analysis["behaviour"]["settings"]}
    histories: dict[str, list[pd.Series]] = {}
    for run, history in analysis["curves"].items():
        by_step = {row["step"]: row[curve] for row in history if curve in row}
        kind = kinds.get(setting_name(run))
        if by_step and kind is not None:
            smoothed = pd.Series(by_step).rolling(_SMOOTHED, min_periods=1).mean()
            histories.setdefault(kind, []).append(smoothed.iloc[:: -(-len(smoothed) // _POINTS)])
    with drawing(f"{curve}-{analysis['study']}", 7.2, 3.0) as (figure, axes):
        layers = histories.pop("layer", [])
        if len(layers) > _LINES:
            together = pd.concat(layers, axis=1)
            axes.fill_between(
                together.index, together.min(axis=1), together.max(axis=1), color=SKY, alpha=0.4, linewidth=0,
                label=f"one layer, the range of {len(layers)} runs",
            )  # fmt: skip
            layers = []
        full = histories.pop("full", [])
        others = [series for of_kind in histories.values() for series in of_kind]
        for group, color, width, label in (
            (layers, BLUE, 0.7, "one layer"),
            (others, ORANGE, 0.7, "other runs"),
            (full, GREEN, 1.8, "full training"),
        ):
            for number, series in enumerate(group):
                axes.plot(
                    series.index, series, color=color, linewidth=width, alpha=1.0 if group is full else 0.5,
                    label=None if number else label,
                )  # fmt: skip
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(unit)
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=3)
        return svg(figure, f"{unit.capitalize()} by step, study {analysis['study']}")


def _paragraphs(found: dict[str, Any]) -> list[str]:
    settings = {row["name"]: row for row in found["settings"]}
    base, full = settings["base"], settings["full"]
    change = "" if full["length_change"] is None else f" ({full['length_change']:+.0%})"
    paragraphs = [
        f"Mean length on report: base {base['mean_tokens']:.1f} tokens, full training"
        f" {full['mean_tokens']:.1f}{change}.",
        f"Cut off: {base['clipped']:.1%} of the base's and {full['clipped']:.1%} of full training's.",
    ]
    shorter = found["shorter"]
    if shorter["reason"] is not None:
        paragraphs.append(f"Whether the gain is only brevity cannot be asked here: {shorter['reason']}.")
    for arm in shorter["arms"]:
        gain, cut, lengths, never = (arm[key] for key in ("gain", "fewer_cut_off", "other_lengths", "never_cut_off"))
        text = (
            f"Of the gain of {arm['name']} ({gain['value']:.3f}), {cut['value']:.3f} ({cut['low']:.3f} to"
            f" {cut['high']:.3f}) is that fewer answers are cut off, and {lengths['value']:.3f}"
            f" ({lengths['low']:.3f} to {lengths['high']:.3f}) goes with other lengths,"
            " whichever of the two brought the other"
        )
        if never["gain"] is not None:
            text += f"; on the {never['problems']} problems never cut off the gain is {never['gain']['value']:.3f}"
        paragraphs.append(text + ".")
    together = found["score_and_length"]
    if together["reason"] is None:
        paragraphs.append(
            f"Over the {together['layers']} layers, score and length have a rank correlation of"
            f" {together['spearman']:.2f} (p {together['p']:.2g})."
        )
    return paragraphs
