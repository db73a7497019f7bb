"""What is chosen on ``select``: learning rates, each on the runs that search it, and the order of the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from onelayer.analysis.contribution import ranked
from onelayer.analysis.problem_sets import ProblemSets
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import Family, Run, family_search_runs, layer_runs, search_runs
from onelayer.manifest import EVALUATION_MANIFEST, read_manifest
from onelayer.records import aligned, problem_means, read_records, summarize
from onelayer.store import learning_rate_file, ranking_file, read_json, run_folder, write_json


def choose_rate(study: Study, family: Family | None = None) -> dict[str, Any]:
    """Choose the rate with the highest mean score on ``select``; of equal ones, the smaller.

    Without a family that is the study's rate, searched on the full run and used by every run that has no search of
    its own; a baseline's is searched on its own runs. Writes and returns the rate with every rate tried. Where one
    rate is given, there is no search. Raises UserError where a run of the search has no records.
    """
    runs = search_runs(study) if family is None else family_search_runs(study, family)
    rows = [
        {
            "run": run.name,
            "learning_rate": run.learning_rate,
            "seed": run.seed,
            "select_score": summarize(read_records(study.name, run.name))["select"]["score"],
        }
        for run in runs
    ]
    rates = sorted(study.training.learning_rates if family is None else family.rates)
    best = rates[0]
    if rows:
        means = pd.DataFrame(rows).groupby("learning_rate")["select_score"].mean()
        best = rates[int(means.to_numpy().argmax())]  # the first of equal ones, and groups are sorted by rate
    chosen: dict[str, Any] = {
        "learning_rate": best,
        "search": rows,
        "at_edge": bool(rows) and best in (rates[0], rates[-1]),
    }
    if family is not None:
        # The layer of a search may change with the ranking, under the same names: what was read is said too.
        chosen["records"] = _contents(study, runs)
    write_json(learning_rate_file(study.name, None if family is None else family.name), chosen)
    return chosen


def read_choice(study: Study, family: Family | None = None) -> dict[str, Any]:
    """The rate that the study's runs, or a baseline's, were trained at, with the search that it came of, if any.

    Raises UserError where the search has not been decided.
    """
    rates = study.training.learning_rates if family is None else family.rates
    if len(rates) == 1:
        return {"learning_rate": rates[0], "search": [], "at_edge": False}
    baseline, option = (None, "") if family is None else (family.name, f" --baseline {family.name}")
    found = read_json(learning_rate_file(study.name, baseline), f"onelayer choose-rate {study.name}{option}")
    return {key: found[key] for key in ("learning_rate", "search", "at_edge")}


def rank_layers(study: Study) -> dict[str, Any]:
    """Rank the layers by their mean scores on ``select``, as the analysis does; of equal ones, the lower layer first.

    Writes and returns the order with the records it follows from. Raises UserError where a layer has no records.
    """
    arms: dict[int, list[pd.Series]] = {}
    for run in layer_runs(study):
        arms.setdefault(run.layers[0], []).append(problem_means(read_records(study.name, run.name), "select"))
    scores = {layer: ProblemSets.of_ids(list(arm[0].index)).score(aligned(arm)) for layer, arm in arms.items()}
    ranking = {
        "layers": [{"layer": layer, "select_score": scores[layer]} for layer in ranked(scores)],
        "records": _contents(study, layer_runs(study)),
    }
    write_json(ranking_file(study.name), ranking)
    return ranking


def _contents(study: Study, runs: Sequence[Run]) -> dict[str, str]:
    """By run, the content hash of its records."""
    found = {}
    for run in runs:
        manifest = read_manifest(run_folder(study.name, run.name), EVALUATION_MANIFEST)
        if manifest is None:
            raise UserError(f"{study.name}/{run.name}: records without a manifest; `onelayer evaluate` makes them anew")
        found[run.name] = manifest.content
    return found
