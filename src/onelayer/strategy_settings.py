"""The settings of the strategies (runs that train several layers, or some of them faster) and of rate sensitivity.

Strategies are those of arXiv 2607.01232 (boost, only, middle) and two controls that it lacks (spread, random).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from onelayer.errors import UserError
from onelayer.settings import PositiveFloat, PositiveInt, Settings, no_repeats

End: TypeAlias = Literal["best", "worst"]
_Ends = Annotated[tuple[End, ...], AfterValidator(no_repeats)]
_Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...] | None,
    Field(min_length=1),
    AfterValidator(lambda seeds: seeds if seeds is None else no_repeats(seeds)),
]


def _names_differ(factors: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse factors that a run's name would not tell apart."""
    no_repeats(tuple(f"{factor:g}" for factor in factors))
    return factors


class Strategies(Settings):
    """Runs of k layers, for every k of ``sizes``; a part that is left out has no runs.

    Attributes:
        boost: every parameter trains, the k layers from this end of the ranking on ``select`` at ``factor`` times the
            rate.
        only: the k layers from this end of the ranking train, and nothing else.
        middle: the k layers in the middle train, and nothing else.
        spread: k layers evenly over the depth train, and nothing else.
        random: how many draws of k layers train, and nothing else; draw d with one seed, the d-th of the seeds, from
            the first again after the last.
        factor: of the boosted layers' rate.
        seeds: of those runs, among the study's; all of them where not given.
    """

    sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1), AfterValidator(no_repeats)] = (5, 10)
    boost: _Ends = ()
    only: _Ends = ()
    middle: bool = False
    spread: bool = False
    random: Annotated[int, Field(ge=0)] = 0
    factor: PositiveFloat = 2.0
    seeds: _Seeds = None

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if not (self.boost or self.only or self.middle or self.spread or self.random):
            raise ValueError("expected one of boost, only, middle, spread and random at least, found none")
        if "factor" in self.model_fields_set and not self.boost:
            raise ValueError("expected boost with factor, which is of the boosted layers' rate; found no boost")
        return self

    @property
    def ranked(self) -> bool:
        """Whether any of the runs takes its layers from the ranking."""
        return bool(self.boost or self.only)


class RateSensitivity(Settings):
    """Single-layer runs again, at multiples of the rate that the study's search chose.

    Attributes:
        layers: ends of the ranking on ``select``, or layers by number.
        count: how many layers from each end, each trained alone.
        factors: of the rate; the scan itself is the runs at 1.
        seeds: of those runs, among the study's; all of them where not given.
    """

    layers: (
        Annotated[tuple[End, ...], Field(min_length=1), AfterValidator(no_repeats)]
        | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(no_repeats)]
    ) = ("best", "worst")
    count: PositiveInt = 1
    factors: Annotated[tuple[PositiveFloat, ...], Field(min_length=1), AfterValidator(_names_differ)]
    seeds: _Seeds = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if 1.0 in self.factors:
            raise ValueError("factors: found 1, expected other multiples of the rate: at 1 the scan has the runs")
        if "count" in self.model_fields_set and not self.ends:
            raise ValueError("count is of the layers from an end of the ranking; found layers by number")
        return self

    @property
    def ends(self) -> tuple[End, ...]:
        """The ends of the ranking that layers are taken from; none where they are given by number."""
        return tuple(end for end in self.layers if isinstance(end, str))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The layers given by number, ascending."""
        return tuple(sorted(layer for layer in self.layers if isinstance(layer, int)))


def check_strategies(
    where: str,
    strategies: Strategies | None,
    sensitivity: RateSensitivity | None,
    scanned: tuple[int, ...],
    depth: int,
    seeds: tuple[int, ...],
) -> None:
    """Refuse what a study's model, scan and seeds cannot give.

    Args:
        where: the study's file.
        strategies, sensitivity: its settings of them.
        scanned: the layers trained alone.
        depth: layers of the model.
        seeds: of the study.

    Raises UserError, naming the key.
    """
    if strategies is not None:
        key = f"{where}: runs.strategies"
        for index, size in enumerate(strategies.sizes):
            if size > depth:
                raise UserError(f"{key}.sizes[{index}]: found {size}, expected at most the model's {depth} layers")
            if strategies.ranked and size > len(scanned):
                raise UserError(
                    f"{key}.sizes[{index}]: found {size}, expected at most {len(scanned)}: boost and only take their"
                    " layers from the ranking of the scanned ones"
                )
            if strategies.random > math.comb(depth, size):
                raise UserError(
                    f"{key}.random: found {strategies.random} draws, expected at most {math.comb(depth, size)}: there"
                    f" are no more different sets of {size} of {depth} layers"
                )
        _check_seeds(key, strategies.seeds, seeds)
    if sensitivity is not None:
        key = f"{where}: runs.rate_sensitivity"
        for index, layer in enumerate(sensitivity.layers):
            if isinstance(layer, int) and layer not in scanned:
                raise UserError(
                    f"{key}.layers[{index}]: found layer {layer}, expected one that is scanned, whose runs are those at"
                    f" 1 ({', '.join(map(str, scanned))})"
                )
        taken = sensitivity.count * len(sensitivity.ends)
        if taken > len(scanned):
            raise UserError(
                f"{key}.count: found {sensitivity.count} layers from each of {len(sensitivity.ends)} ends, expected at"
                f" most {len(scanned) // len(sensitivity.ends)}: {len(scanned)} layers are scanned"
            )
        _check_seeds(key, sensitivity.seeds, seeds)


def _check_seeds(key: str, asked_for: tuple[int, ...] | None, seeds: tuple[int, ...]) -> None:
    for index, seed in enumerate(asked_for or ()):
        if seed not in seeds:
            raise UserError(
                f"{key}.seeds[{index}]: found {seed}, expected one of runs.seeds, those of full training"
                f" ({', '.join(map(str, seeds))})"
            )
