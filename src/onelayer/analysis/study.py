"""The analysis of one study: from its records and manifests to analysis.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from onelayer.analysis.baselines import baselines
from onelayer.analysis.contribution import Arm, Bootstrap, Interval, Scan, deviation, ranked, relative_depth, scan
from onelayer.analysis.problem_sets import ProblemSets
from onelayer.analysis.suite import suite_section
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, evaluated_splits
from onelayer.grid import BASE, Run, all_runs, families, family_runs, full_runs, layer_name, layer_runs
from onelayer.manifest import EVALUATION_MANIFEST, Manifest, read_manifest
from onelayer.records import aligned, problem_means, read_records, summarize
from onelayer.search import read_choice
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.store import HISTORY, analysis_file, read_json, run_folder, write_json


def analyze(study: Study) -> dict[str, Any]:
    """Compute and write a study's analysis.

    A layer is ranked on ``select`` and reported on ``report``. Raises UserError where a run's records are
    missing or stale.
    """
    runs = all_runs(study)
    state = StudyState(study)
    for run in runs:
        standing = state.evaluation(run)
        if not standing.done:
            raise UserError(f"{study.name}/{run.name}: no valid records ({standing.reason})")
    # A study without a suite has no word of one.
    suite = {"suite": suite_section(study, state)} if study.suite else {}
    records = {run.name: read_records(study.name, run.name) for run in runs}
    means = {
        split: {run.name: problem_means(records[run.name], split) for run in runs if split in evaluated_splits(run)}
        for split in ("select", "report")
    }
    scans = {split: _scan(study, split, means[split]) for split in means}
    summaries = {run.name: summarize(records[run.name]) for run in runs}
    manifests = {run.name: _manifest(study, run) for run in runs}
    per_seed = _per_seed(runs, summaries)
    layers = _layers(study, scans["select"], scans["report"], per_seed)
    best = next(layer for layer in layers if layer["rank"] == 1)
    search = read_choice(study)
    costs = {name: _cost(study, manifest) for name, manifest in manifests.items()}
    result = {
        "study": study.name,
        "algorithm": study.algorithm,
        "layers_of_model": study.model.layer_count(),
        "seeds": list(study.runs.seeds),
        "confidence": study.analysis.confidence,
        "problems": summaries[BASE.name]["report"]["problems"],
        "samples": study.evaluation.samples,
        "base": asdict(scans["report"].base),
        "full": {
            **asdict(scans["report"].full),
            "per_seed": per_seed["full"],
            "deviation": deviation(per_seed["full"]),
        },
        "gain": asdict(scans["report"].gain),
        "defined": scans["report"].defined,
        "layers": layers,
        "best_layer": best,
        "baselines": baselines(study, scans["report"], per_seed, best, search["learning_rate"], manifests, costs),
        "search": search,
        "curves": {run.name: _history(study, run) for run in runs if run.kind != "base"},
        "summaries": summaries,
        "cost": costs,
        "trained_on": _trained_on(manifests),
        "provenance": _provenance(manifests),
        **suite,
    }
    result["notes"] = _notes(study, result, manifests)
    write_json(analysis_file(study.name), result)
    return result


def _scan(study: Study, split: str, means: dict[str, Any]) -> Scan:
    base = aligned([means[BASE.name]])
    bootstrap = Bootstrap(
        ProblemSets.of_ids(list(means[BASE.name].index)),
        study.analysis.resamples,
        study.analysis.confidence,
        derive_seed(study.seed, "bootstrap", split),
    )
    arms: dict[Arm, list[Any]] = {}
    for run in layer_runs(study):
        arms.setdefault(run.layers[0], []).append(means[run.name])
    for family in families(study):  # after the layers, so that their draws are the same with baselines and without
        arms[family.name] = [means[run.name] for run in family_runs(study, family)]
    full = aligned([means[BASE.name], *(means[run.name] for run in full_runs(study))])[1:]
    runs = {name: aligned([means[BASE.name], *arm])[1:] for name, arm in arms.items()}
    return scan(base, full, runs, bootstrap)


def _layers(study: Study, select: Scan, report: Scan, scores: dict[str, list[float]]) -> list[dict[str, Any]]:
    depth = study.model.layer_count()
    order = ranked({layer: select.scores[layer].value for layer in study.layers})
    rows = []
    for layer in study.layers:
        found = report.contributions[layer]
        chosen = select.contributions[layer]
        rows.append(
            {
                "layer": layer,
                "depth": relative_depth(layer, depth),
                "rank": order.index(layer) + 1,
                "select_score": select.scores[layer].value,
                "select_contribution": chosen.interval.value if chosen else None,
                "score": asdict(report.scores[layer]),
                "score_per_seed": scores[layer_name(layer)],
                "score_deviation": deviation(scores[layer_name(layer)]),
                "contribution": asdict(found.interval) if found else None,
                "per_seed": list(found.per_seed) if found else None,
            }
        )
    return rows


def _per_seed(runs: tuple[Run, ...], summaries: dict[str, Any]) -> dict[str, list[float]]:
    """The scores on ``report`` of each setting's seeds, by the setting's name, such as ``full`` or ``layer-07``."""
    scores: dict[str, list[float]] = {}
    for run in runs:
        if run.seed is not None and "report" in summaries[run.name]:
            scores.setdefault(run.name.removesuffix(f"-s{run.seed}"), []).append(summaries[run.name]["report"]["score"])
    return scores


def _history(study: Study, run: Run) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = read_json(
        run_folder(study.name, run.name) / HISTORY, f"onelayer train {study.name} {run.name}"
    )
    return rows


def _manifest(study: Study, run: Run) -> Manifest:
    manifest = read_manifest(run_folder(study.name, run.name))
    assert manifest is not None  # its standing was just checked
    return manifest


def _cost(study: Study, manifest: Manifest) -> dict[str, Any]:
    folder = run_folder(study.name, manifest.run)
    evaluation = read_manifest(folder, EVALUATION_MANIFEST)
    assert evaluation is not None
    return {
        "train_seconds": manifest.wall_seconds,
        "evaluate_seconds": evaluation.wall_seconds,
        "peak_memory_bytes": manifest.peak_memory_bytes,
        # A model of the hub lies in a cache that this machine need not have; its manifest says how large it is.
        "checkpoint_bytes": manifest.details["checkpoint_bytes"]
        if "checkpoint_bytes" in manifest.details
        else sum((folder / name).stat().st_size for name in manifest.files if name.endswith(".safetensors")),
        "trained_parameters": manifest.details.get("trained_parameters"),
    }


def _trained_on(manifests: dict[str, Manifest]) -> str:
    """One hash of the base and the training problems: studies that share it differ in how they train alone."""
    trained = next(manifest for manifest in manifests.values() if "train_split" in manifest.settings)
    return digest({key: trained.settings[key] for key in ("base", "train_split")})


def _provenance(manifests: dict[str, Manifest]) -> dict[str, Any]:
    return {
        "versions": manifests[BASE.name].versions,
        "commits": sorted({str(manifest.git_commit) for manifest in manifests.values()}),
        "fingerprints": {name: manifest.fingerprint for name, manifest in manifests.items()},
    }


def _notes(study: Study, result: dict[str, Any], manifests: dict[str, Manifest]) -> list[str]:
    """What a reader must know before believing the figures, in plain words."""
    notes = []
    if not result["defined"]:
        gain = result["gain"]
        notes.append(
            f"The full gain is not clearly above zero ({gain['value']:.3f}, interval {gain['low']:.3f} to"
            f" {gain['high']:.3f}), so contributions are undefined and none is given."
        )
    if len(study.runs.seeds) == 1:
        notes.append("One seed: the intervals cover the choice of problems, not the luck of training.")
    if len(study.layers) < study.model.layer_count():
        notes.append(f"A partial scan: {len(study.layers)} of {study.model.layer_count()} layers were trained.")
    if result["search"]["at_edge"]:
        rate = result["search"]["learning_rate"]
        notes.append(f"The chosen learning rate {rate:g} is at the edge of those tried.")
    for row in result["baselines"]:
        if row["search"] and row["search"]["at_edge"]:
            notes.append(
                f"The learning rate {row['learning_rate']:g} chosen for {row['name']} is at the edge of those tried."
            )
    still = [name for name, manifest in manifests.items() if manifest.details.get("moved") is False]
    if still:
        notes.append(
            f"{', '.join(still)}: nothing moved, for every group's answers were rewarded alike and no step had a"
            " gradient."
        )
    if result["base"]["value"] in (0.0, 1.0):
        notes.append(f"The base's score is {result['base']['value']:.0f}: there is no room on one side of it.")
    if result["defined"]:
        notes += _separation(result["layers"])
    for name, summary in result["summaries"].items():
        for split, figures in summary.items():
            for share, what, tolerated in _HIDDEN_BY_A_SCORE:
                # An episode that runs out of turns is lost, which its score says already.
                if figures[share] > tolerated and not (study.is_agent and share == "clipped"):
                    answers = "episodes" if study.is_agent else "sampled answers"
                    notes.append(f"{name} on {split}: {figures[share]:.1%} of the {answers} {what}.")
    failed = {name: manifest.details.get("failed_judgements", 0) for name, manifest in manifests.items()}
    for name, count in failed.items():
        if count:
            notes.append(f"{name}: the judgement of {count} answers broke in training; they were left out.")
    return notes


# What of a summary is said next to the score, in which words, and from which share on.
_HIDDEN_BY_A_SCORE = (
    ("clipped", "ran into the token limit", 0.05),
    ("unparsed", "held no answer", 0.05),
    ("timeout", "were programs that ran out of time", 0.05),
    ("broken", "could not be judged and were left out of the score", 0.0),
)


def _separation(layers: list[dict[str, Any]]) -> list[str]:
    if len(layers) < 2:
        return []
    lowest = min(layers, key=lambda row: row["contribution"]["value"])
    highest = max(layers, key=lambda row: row["contribution"]["value"])
    high, low = Interval(**highest["contribution"]), Interval(**lowest["contribution"])
    figures = (
        f"layer {highest['layer']} ({high.value:.2f}, {high.low:.2f} to {high.high:.2f}) and layer"
        f" {lowest['layer']} ({low.value:.2f}, {low.low:.2f} to {low.high:.2f})"
    )
    if high.low > low.high:
        return [f"The highest and the lowest contribution are apart: the intervals of {figures} do not overlap."]
    return [f"The layers cannot be told apart: the intervals of {figures}, the highest and the lowest, overlap."]
