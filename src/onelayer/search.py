"""The learning rate: chosen on the full run, by its score on ``select``, and used unchanged by every other run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from onelayer.config import Study
from onelayer.grid import search_runs
from onelayer.records import read_records, summarize
from onelayer.store import learning_rate_file, write_json


def choose_rate(study: Study) -> dict[str, Any]:
    """Choose the rate with the highest mean score on ``select``; of equal ones, the smaller.

    Writes and returns the rate with every rate tried. Where the study gives one rate, there is no search.
    Raises UserError where a run of the search has no records.
    """
    rows = [
        {
            "run": run.name,
            "learning_rate": run.learning_rate,
            "seed": run.seed,
            "select_score": summarize(read_records(study.name, run.name))["select"]["score"],
        }
        for run in search_runs(study)
    ]
    rates = sorted(study.training.learning_rates)
    best = rates[0]
    if rows:
        means = pd.DataFrame(rows).groupby("learning_rate")["select_score"].mean()
        best = rates[int(means.to_numpy().argmax())]  # the first of equal ones, and groups are sorted by rate
    chosen = {
        "learning_rate": best,
        "search": rows,
        "at_edge": bool(rows) and best in (rates[0], rates[-1]),
    }
    write_json(learning_rate_file(study.name), chosen)
    return chosen
