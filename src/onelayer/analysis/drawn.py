"""Figures that are taken anew in each draw of a study's contributions."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from onelayer.analysis.contribution import Interval
from onelayer.analysis.problem_sets import Matrix


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
