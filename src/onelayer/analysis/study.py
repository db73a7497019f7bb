"""The analysis of one study: from its records and manifests to analysis.json."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from onelayer.analysis.baselines import baselines
from onelayer.analysis.behaviour import behaviour
from onelayer.analysis.comparison import compare_arms, comparison_row, correct
from onelayer.analysis.contribution import Arm, Bootstrap, Interval, Scan, deviation, ranked, relative_depth, scan
from onelayer.analysis.cost import economics
from onelayer.analysis.drawn import drawn_contributions
from onelayer.analysis.ensemble import ensemble
from onelayer.analysis.evidence import SPLITS, Evidence, gather
from onelayer.analysis.location import location
from onelayer.analysis.recommendation import recommendation
from onelayer.analysis.seed_agreement import seed_agreement
from onelayer.analysis.strategies import rate_sensitivity, sensitivity_arms, strategies, strategy_arms
from onelayer.analysis.suite import suite_section
from onelayer.analysis.weights import weights_section
from onelayer.config import Study
from onelayer.fingerprint import digest
from onelayer.grid import BASE, Run, all_runs, by_setting, families, family_runs, full_runs
from onelayer.manifest import Manifest
from onelayer.search import read_choice
from onelayer.state import StudyState
from onelayer.store import analysis_file, run_folder, write_json
from onelayer.suite.standing import SuiteState, scored_runs


def analyze(study: Study, partial: bool = False) -> dict[str, Any]:
    """Compute and write a study's analysis.

    A layer is ranked on ``select`` and reported on ``report``. Checkpoints are not read, nor need they be there.

    Args:
        study: the settings.
        partial: analyse the runs that are there, and say which are not; else every run must be.

    Raises UserError where a run's records are missing or stale; in part, only where the base's or every full run's are.
    """
    evidence = gather(study, partial)
    suite, unscored = _suite(study, partial)
    bootstraps = {split: evidence.bootstrap(split, split) for split in SPLITS}
    scans = {split: _scan(evidence, split, bootstraps[split]) for split in SPLITS}
    drawn = drawn_contributions(evidence)
    layers = _layers(evidence, scans["select"], scans["report"], _versus_full(evidence, bootstraps["report"]))
    best = next((layer for layer in layers if layer["rank"] == 1), None)
    search = read_choice(study)
    costs = {run.name: _cost(evidence, run) for run in evidence.runs}
    full = evidence.of(full_runs(study))
    full_scores = evidence.scores(full)
    result = {
        "study": study.name,
        "algorithm": study.algorithm,
        "layers_of_model": study.model.layer_count(),
        "seeds": list(study.runs.seeds),
        "confidence": study.analysis.confidence,
        "problems": evidence.summaries[BASE.name]["report"]["problems"],
        "samples": study.evaluation.samples,
        "base": asdict(scans["report"].base),
        "full": {
            **asdict(scans["report"].full),
            "seeds": [run.seed for run in full],
            "per_seed": full_scores,
            "deviation": deviation(full_scores),
        },
        "gain": asdict(scans["report"].gain),
        "defined": scans["report"].defined,
        "layers": layers,
        "best_layer": best,
        "location": location(
            scans["select"],
            scans["report"],
            drawn,
            study.model.layer_count(),
            study.analysis.confidence,
        ),
        "seed_agreement": seed_agreement(evidence),
        "weights": weights_section(evidence, StudyState(study, weights=False), scans["report"], drawn),
        "baselines": baselines(evidence, scans["report"], best, search["learning_rate"], costs),
        "strategies": strategies(evidence, scans["report"], bootstraps["report"], best, costs),
        "rate_sensitivity": rate_sensitivity(evidence, scans["report"], bootstraps["report"], search["learning_rate"]),
        "search": search,
        "curves": evidence.histories,
        "summaries": evidence.summaries,
        "cost": costs,
        "trained_on": _trained_on(evidence.trainings),
        "provenance": _provenance(evidence.trainings) | {"seed": study.seed},
        "missing": evidence.missing,
        **suite,
    }
    result["ensemble"] = ensemble(evidence, [row["layer"] for row in sorted(layers, key=lambda row: int(row["rank"]))])
    result["behaviour"] = behaviour(evidence, best["layer"] if best else None)
    result["economics"] = economics(evidence, costs)
    result["recommendation"] = recommendation(evidence, result)
    result["notes"] = _missing_notes(evidence) + unscored + _notes(study, result, evidence.trainings)
    # It holds every step of every run: lines of their own would make it several times as large and slow.
    write_json(analysis_file(study.name), result, indent=None)
    return result


def _suite(study: Study, partial: bool) -> tuple[dict[str, Any], list[str]]:
    """The suite's section, where the study has a suite, and, in part, a note where not every run is scored on it."""
    if not study.suite:
        return {}, []
    state = StudyState(study, weights=False)
    standings = SuiteState(study, state)
    unscored = [run.name for run in scored_runs(study) if not standings.run(run).done]
    if partial and unscored:
        return {}, [f"The evaluation suite is left out: {', '.join(unscored)} not scored on all of it."]
    return {"suite": suite_section(study, state)}, []


def _scan(evidence: Evidence, split: str, bootstrap: Bootstrap) -> Scan:
    study = evidence.study
    arms: dict[Arm, list[Run]] = dict(evidence.layers.items())
    others = {family.name: list(family_runs(study, family)) for family in families(study)}
    for name, runs in (others | strategy_arms(study) | sensitivity_arms(study)).items():
        if there := evidence.of(runs):
            arms[name] = there
    matrices = {name: evidence.matrix(split, runs) for name, runs in arms.items()}
    full = evidence.of(full_runs(study))
    return scan(evidence.matrix(split, [BASE]), evidence.matrix(split, full), matrices, bootstrap)


def _versus_full(evidence: Evidence, bootstrap: Bootstrap) -> dict[int, dict[str, Any]]:
    """Each layer's score less full training's on ``report``, the p-values corrected over the study's layers."""
    full = evidence.matrix("report", evidence.of(full_runs(evidence.study)))
    found = {
        layer: comparison_row(compare_arms(evidence.matrix("report", runs), full, bootstrap))
        for layer, runs in evidence.layers.items()
    }
    correct(list(found.values()))
    return found


def _layers(
    evidence: Evidence, select: Scan, report: Scan, versus_full: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    depth = evidence.study.model.layer_count()
    order = ranked({layer: select.scores[layer].value for layer in evidence.layers})
    rows = []
    for layer, runs in evidence.layers.items():
        found = report.contributions[layer]
        chosen = select.contributions[layer]
        scores = evidence.scores(runs)
        rows.append(
            {
                "layer": layer,
                "depth": relative_depth(layer, depth),
                "rank": order.index(layer) + 1,
                "select_score": select.scores[layer].value,
                "select_contribution": chosen.interval.value if chosen else None,
                "score": asdict(report.scores[layer]),
                "seeds": [run.seed for run in runs],
                "score_per_seed": scores,
                "score_deviation": deviation(scores),
                "contribution": asdict(found.interval) if found else None,
                "per_seed": list(found.per_seed) if found else None,
                "versus_full": versus_full[layer],
            }
        )
    return rows


def _cost(evidence: Evidence, run: Run) -> dict[str, Any]:
    folder = run_folder(evidence.study.name, run.name)
    manifest = evidence.trainings[run.name]
    return {
        "train_seconds": manifest.wall_seconds,
        "evaluate_seconds": evidence.evaluations[run.name].wall_seconds,
        "peak_memory_bytes": manifest.peak_memory_bytes,
        "checkpoint_bytes": _checkpoint_bytes(folder, manifest),
        "trained_parameters": manifest.details.get("trained_parameters"),
    }


def _checkpoint_bytes(folder: Path, manifest: Manifest) -> int | None:
    """How large a run's checkpoint is, which need not be here; None where only the file itself could tell."""
    if "checkpoint_bytes" in manifest.details:
        return int(manifest.details["checkpoint_bytes"])
    files = [folder / name for name in manifest.files if name.endswith(".safetensors")]
    return sum(path.stat().st_size for path in files) if all(path.is_file() for path in files) else None


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


def _missing_notes(evidence: Evidence) -> list[str]:
    """Which runs the figures lack, by setting."""
    if not evidence.missing:
        return []
    notes = [f"Not finished: {len(evidence.missing)} of {len(all_runs(evidence.study))} runs have no valid records."]
    for setting, runs in by_setting(all_runs(evidence.study)).items():
        lost = [f"{run.name} ({evidence.missing[run.name]})" for run in runs if run.name in evidence.missing]
        if lost:
            share = f"{len(runs) - len(lost)} of {len(runs)} {'seeds' if runs[0].draw is None else 'draws'}"
            rest = f"rests on {share}" if len(lost) < len(runs) else "is left out"
            notes.append(f"{setting} {rest}: {', '.join(lost)} missing.")
    return notes


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
    scanned = len(result["layers"])
    if scanned < study.model.layer_count():
        notes.append(f"A partial scan: {scanned} of {study.model.layer_count()} layers were trained.")
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
    notes += _beats_full(result["layers"], study.analysis.confidence)
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


def _beats_full(layers: list[dict[str, Any]], confidence: float) -> list[str]:
    """The layers that score above full training, as far as so many comparisons can show it."""
    notes = []
    for row in layers:
        versus = row["versus_full"]
        if versus["difference"] > 0 and versus["p_adjusted"] <= 1 - confidence:
            notes.append(
                f"Layer {row['layer']} beats full training by {versus['difference']:.3f} ({versus['low']:.3f} to"
                f" {versus['high']:.3f}; p {versus['p_adjusted']:.2g}, corrected for {len(layers)} layers)."
            )
    return notes


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
