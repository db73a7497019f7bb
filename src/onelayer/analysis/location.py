"""Where in the model the gain sits: the profile of C summed up in a few figures, each with an interval.

Every figure is taken anew in each draw of the problems and seeds (`onelayer.analysis.drawn`).

- the mean C of each third of the model, by relative depth d = k / (L − 1);
- the centre of mass Σ d·c / Σ c,  c = max(C, 0);
- Gini's coefficient of c: Σᵢ Σⱼ |cᵢ − cⱼ| / (2 n Σ c), 0 for layers all alike (Gini 1912);
- the share of Σ c that the k layers ranked first on ``select`` hold.

A layer that makes the model worse has a negative C. It counts in the means of the thirds as it is, and as nothing in
the other three, which are shares of a whole and have no meaning for negative parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onelayer.analysis.contribution import Scan, ranked, relative_depth
from onelayer.analysis.drawn import drawn_figure
from onelayer.analysis.problem_sets import Matrix

THIRDS = ("first", "middle", "last")
# Of fewer layers a place or a spread over the model says nothing.
_FEWEST_LAYERS = 3


def location(select: Scan, report: Scan, drawn: dict[int, Matrix], depth: int, confidence: float) -> dict[str, Any]:
    """The part ``location`` of analysis.json; every figure is measured on ``report``.

    Args:
        select: the contributions that rank the layers.
        report: those that are given.
        drawn: by scanned layer, ascending, the draws of C (`onelayer.analysis.drawn.drawn_contributions`).
        depth: how many layers the model has.
        confidence: the share of draws inside an interval.

    Where there is a ``reason``, no figure is given.
    """
    layers = list(drawn)
    places = np.array([relative_depth(layer, depth) for layer in layers])
    result: dict[str, Any] = {
        "scanned": len(layers),
        "layers_of_model": depth,
        "partial": len(layers) < depth,
        "from_depth": float(places[0]) if len(layers) else None,
        "to_depth": float(places[-1]) if len(layers) else None,
        "thirds": [],
        "differences": [],
        "centre": None,
        "gini": None,
        "top": [],
        "reason": _reason(report, len(layers)),
    }
    if result["reason"] is not None:
        return result
    values = np.array([_value(report, layer) for layer in layers])
    draws = np.stack([drawn[layer] for layer in layers], axis=1)

    def figure(measure: Callable[[Matrix], Matrix]) -> dict[str, float] | None:
        return drawn_figure(float(measure(values)), measure(draws), confidence)

    members = [[place for place, layer in enumerate(layers) if third_of(layer, depth) == third] for third in range(3)]
    result["thirds"] = [
        {
            "third": name,
            "layers": [layers[one] for one in chosen],
            "contribution": figure(_mean_of(chosen)) if chosen else None,
        }
        for name, chosen in zip(THIRDS, members, strict=True)
    ]
    for other in (0, 2):
        if members[1] and members[other]:
            difference = _difference_of(members[1], members[other])
            result["differences"].append({"of": "middle", "from": THIRDS[other], "difference": figure(difference)})
    centre = figure(lambda profile: centre_of_mass(profile, places))
    result["centre"] = {"depth": centre, "even": float(places.mean())} if centre else None
    spread = figure(gini)
    result["gini"] = {"value": spread, "noise": noise_gini(values, draws)} if spread else None
    order = ranked({layer: select.scores[layer].value for layer in layers})
    for size in top_sizes(len(layers)):
        top = [layers.index(layer) for layer in order[:size]]
        share = figure(_share_of(top))
        if share is not None:
            result["top"].append({"k": size, "layers": order[:size], "share": share, "even": size / len(layers)})
    return result


def third_of(layer: int, depth: int) -> int:
    """The third of the model that a layer stands in: 0 for d < 1/3, 1 for d < 2/3, else 2."""
    return min(3 * layer // (depth - 1), 2) if depth > 1 else 0


def centre_of_mass(profile: Matrix, depths: Matrix) -> Matrix:
    """Σ d·c / Σ c with c = max(C, 0); NaN where no C is above 0.

    Args:
        profile: C by layer, shape (..., layers).
        depths: relative depth by layer, shape (layers,).

    Returns:
        Shape (...).
    """
    return _shares(profile) @ depths


def gini(profile: Matrix) -> Matrix:
    """Gini's coefficient of max(C, 0) along the last axis, between 0 and 1 − 1/n; NaN where no C is above 0.

    With c ascending, Σᵢ (2i − n − 1) cᵢ / (n Σ c), which is the mean difference of all pairs over twice the mean.
    """
    count = profile.shape[-1]
    steps = 2 * np.arange(1, count + 1) - count - 1
    found: Matrix = np.sort(_shares(profile), axis=-1) @ steps / count
    return found


def top_share(profile: Matrix, top: Sequence[int]) -> Matrix:
    """The share of Σ max(C, 0) along the last axis that the layers at these places hold; NaN where no C is above 0."""
    found: Matrix = _shares(profile)[..., list(top)].sum(axis=-1)
    return found


def noise_gini(values: Matrix, draws: Matrix) -> float | None:
    """Gini's coefficient that the draws' noise alone would show, were every layer's C their mean.

    Noise makes layers differ, so Gini's coefficient leans up; one near this says nothing of the layers.

    Args:
        values: C by layer, shape (layers,).
        draws: its draws, shape (resamples, layers).
    """
    alike = gini(draws - values + values.mean())
    return float(np.nanmean(alike)) if not np.isnan(alike).all() else None


def top_sizes(layers: int) -> list[int]:
    """The k of the top-k shares: 1, a quarter and half of the scanned layers, rounded up."""
    return sorted({1, -(-layers // 4), -(-layers // 2)})


def _shares(profile: Matrix) -> Matrix:
    """max(C, 0) over its sum along the last axis; NaN where no C is above 0."""
    above = np.maximum(profile, 0.0)
    # A draw whose gain is all but zero has a huge C; over the largest, no sum overflows.
    largest = above.max(axis=-1, keepdims=True)
    scaled = np.divide(above, largest, out=np.full_like(above, np.nan), where=largest > 0)
    shares: Matrix = scaled / scaled.sum(axis=-1, keepdims=True)
    return shares


def _mean_of(chosen: list[int]) -> Callable[[Matrix], Matrix]:
    return lambda profile: np.asarray(profile[..., chosen].mean(axis=-1))


def _difference_of(chosen: list[int], other: list[int]) -> Callable[[Matrix], Matrix]:
    return lambda profile: np.asarray(profile[..., chosen].mean(axis=-1) - profile[..., other].mean(axis=-1))


def _share_of(top: list[int]) -> Callable[[Matrix], Matrix]:
    return lambda profile: top_share(profile, top)


def _value(report: Scan, layer: int) -> float:
    found = report.contributions[layer]
    assert found is not None  # C is defined, or there is a reason
    return found.interval.value


def _reason(report: Scan, scanned: int) -> str | None:
    if not report.defined:
        return "contributions are undefined, for the full gain is not clearly above zero"
    if scanned < _FEWEST_LAYERS:
        return f"{scanned} layers were scanned, fewer than {_FEWEST_LAYERS}"
    return None
