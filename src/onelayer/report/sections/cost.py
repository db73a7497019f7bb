"""What the runs took: time, memory, disk and tokens by setting, and a whole scan beside one full run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, ORANGE, drawing, svg
from onelayer.report.section import Exhibit, Section
from onelayer.report.sections.behaviour import label_settings, spread

_NAMES = {"search": "learning-rate search", "full": "full runs", "layers": "single layers"}


def section(analysis: dict[str, Any]) -> Section | None:
    """What the study took; None in an analysis that does not say."""
    found = analysis.get("economics")
    if found is None:
        return None
    return Section(
        anchor="cost",
        title="What it costs",
        paragraphs=tuple(_paragraphs(analysis)),
        exhibits=(
            Exhibit(
                name="cost_settings",
                title="Seconds and memory by setting",
                caption="A training's wall seconds (mean over seeds) and its peak memory (the highest of them) by"
                " setting; the line is full training. In the table, shares are of full training's, and the gain an hour"
                f" is the gain over the base on report a training hour, with the gain's {analysis['confidence']:.0%}"
                " interval.",
                table=settings_table(found),
                svg=figure(analysis),
            ),
            Exhibit(
                name="cost_scan",
                title="A whole scan beside one full run",
                caption="Wall seconds of all runs with records, trained and evaluated; full runs are what one full run"
                " of this study takes, trained and evaluated.",
                table=scan_table(found["scan"]),
            ),
        ),
        notes=(
            "Seconds are of the wall clock, as measured: they depend on the machine"
            f" ({'; '.join(found['machines']) or 'not recorded'}) and on what else ran on it.",
            "Peak memory is, on a CPU, the process's with all libraries; on a GPU, what torch allocated there.",
        ),
    )


def settings_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a setting."""
    rows = []
    for row in found["settings"]:
        an_hour = row["gain_per_hour"] or {"value": None, "low": None, "high": None}
        rows.append(
            {
                "setting": row["name"],
                "runs": row["runs"],
                "train_seconds": row["train_seconds"],
                "share_of_seconds": row["of_full"]["train_seconds"],
                "evaluate_seconds": row["evaluate_seconds"],
                "peak_memory_mb": row["peak_memory_bytes"] / 1e6,
                "share_of_memory": row["of_full"]["peak_memory_bytes"],
                "checkpoint_kb": None if row["checkpoint_bytes"] is None else row["checkpoint_bytes"] / 1e3,
                "share_of_checkpoint": row["of_full"]["checkpoint_bytes"],
                "train_tokens": row["train_tokens"],
                "gain": row["gain"]["value"] if row["gain"] else None,
                "gain_per_hour": an_hour["value"],
                "gain_per_hour_low": an_hour["low"],
                "gain_per_hour_high": an_hour["high"],
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys([name for name in frame if name not in ("setting", "runs")], float))


def scan_table(scan: dict[str, Any]) -> pd.DataFrame:
    """One row a part of the scan, their sum, and what stands apart from it."""
    one = scan["one_full_run_seconds"]
    parts = {_NAMES[name]: part for name, part in scan["parts"].items()}
    whole = {key: sum(part[key] for part in parts.values()) for key in ("runs", "train_seconds", "evaluate_seconds")}
    parts |= {"the whole scan": whole, "other runs": scan["others"], "the base": scan["base"]}
    return pd.DataFrame(
        [
            {
                "part": name,
                **part,
                "in_full_runs": (part["train_seconds"] + part["evaluate_seconds"]) / one if one > 0 else None,
            }
            for name, part in parts.items()
        ]
    )


def figure(analysis: dict[str, Any]) -> str:
    """Seconds and memory by setting, one over the other, with full training as a line."""
    rows = [row for row in analysis["economics"]["settings"] if row["kind"] != "base"]
    full = next(row for row in rows if row["kind"] == "full")
    with drawing(f"cost-{analysis['study']}", 7.2, 5.0, rows=2) as (canvas, panels):
        places, ticks = spread(rows)
        for axes, key, unit, label in zip(
            panels,
            ("train_seconds", "peak_memory_bytes"),
            (1.0, 1e6),
            ("training (wall seconds)", "peak memory (MB)"),
            strict=True,
        ):
            axes.axhline(full[key] / unit, color=GREEN, linewidth=1.4, linestyle="--", label="full training")
            for kinds, color, name in ((("layer",), BLUE, "one layer"), ((), ORANGE, "other settings")):
                shown = [
                    row for row in rows if (row["kind"] in kinds if kinds else row["kind"] not in ("layer", "full"))
                ]
                if shown:
                    axes.plot(
                        [places[row["name"]] for row in shown], [row[key] / unit for row in shown], "o", color=color,
                        markersize=5, label=name,
                    )  # fmt: skip
            label_settings(axes, {place: name for place, name in ticks.items() if name != "full"})
            axes.label_outer()
            axes.set_ylim(0, 1.08 * max(row[key] for row in rows) / unit or None)
            axes.set_ylabel(label)
        handles, labels = panels[0].get_legend_handles_labels()
        canvas.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=3)
        return svg(canvas, f"Seconds and memory by setting, study {analysis['study']}")


def _paragraphs(analysis: dict[str, Any]) -> list[str]:
    scan = analysis["economics"]["scan"]
    paragraphs = []
    if scan["in_full_runs"] is not None:
        there = "" if not scan["missing"] else f" (of the runs that are there; {scan['missing']} are not)"
        paragraphs.append(
            f"The whole scan{there}, search, full runs and layers with their evaluation, took"
            f" {scan['seconds'] / 3600:.2f} hours: as much as {scan['in_full_runs']:.1f} full runs of"
            f" {scan['one_full_run_seconds']:.0f} s each."
        )
    if scan["checkpoint_bytes"] is not None:
        paragraphs.append(f"All runs' checkpoints take {scan['checkpoint_bytes'] / 1e6:.1f} MB.")
    return [*paragraphs, analysis["recommendation"]["text"]]
