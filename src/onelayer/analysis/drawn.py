"""Figures that are no sums of scores: taken anew in every draw of the contributions, with percentile intervals."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from onelayer.analysis.contribution import Interval
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix
from onelayer.grid import BASE, full_runs


def drawn_contributions(evidence: Evidence) -> dict[int, Matrix]:
    """Draw C of every scanned layer on ``report``, all of them from the same problems and full runs.

    Problems are drawn anew, and within each draw the seeds of full training and of every layer
    (`onelayer.analysis.contribution.Bootstrap.scores`).

    Returns:
        By layer, shape (resamples,). A draw whose gain is zero has a C of 0, or one too large to be squared.
    """
    bootstrap = evidence.bootstrap("report", "profile")
    base = bootstrap.scores(evidence.matrix("report", [BASE]))
    gain = bootstrap.scores(evidence.matrix("report", evidence.of(full_runs(evidence.study)))) - base
    found = {}
    for layer, runs in evidence.layers.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            found[layer] = np.nan_to_num((bootstrap.scores(evidence.matrix("report", runs)) - base) / gain)
    return found


def drawn_figure(value: float, draws: Matrix, confidence: float) -> dict[str, float] | None:
    """A figure with its percentile interval; None where it is undefined in the data or in too many draws.

    Draws in which it is undefined are left out, where they are no more than lie outside an interval.
    """
    lost = np.isnan(draws)
    if np.isnan(value) or lost.mean() > 1 - confidence:
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws[~lost], (tail, 1 - tail))
    return asdict(Interval(value, float(low), float(high)))


def scaled(draws: Matrix) -> Matrix:
    """Each draw of a profile over its largest figure, which no correlation is changed by.

    A draw whose gain is all but zero has a C too large to be squared. Shape (resamples, layers).
    """
    largest = np.abs(draws).max(axis=1, keepdims=True)
    found: Matrix = np.divide(draws, largest, out=np.zeros_like(draws), where=largest > 0)
    return found
