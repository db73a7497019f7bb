"""Results that others published, as external studies: scores and contributions read from tables, without records.

A file of studies/published is one study. Nothing trains it, and without records no figure has an interval. C is
computed from the scores where they are given, and is as printed elsewhere; a layer's score that is not given follows
from C.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from onelayer.analysis.contribution import contribution, middle_layers, ranked, relative_depth
from onelayer.config import STUDIES_FOLDER, load_params, read_yaml, validated
from onelayer.errors import UserError
from onelayer.grid import layer_name
from onelayer.settings import PositiveInt, Settings

PUBLISHED_FOLDER = STUDIES_FOLDER / "published"
# What says in every place that a figure has no records behind it.
READ_FROM_TABLES = "read from tables"
# Scores and C are printed rounded, base and full too: so far apart are two readings of one figure at the most.
_ROUNDING = 0.02

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class PublishedSource(Settings):
    """Where the figures stand, and what they were read from."""

    paper: str
    read_from: str


class PublishedLayer(Settings):
    """C of a layer as printed, and its score where that is given too."""

    layer: Annotated[int, Field(ge=0)]
    contribution: Finite
    score: Percent | None = None
    weak: bool = False


class WorkedExample(Settings):
    """The scores by which a paper shows its formula."""

    base: Percent
    full: Percent
    score: Percent

    @property
    def contribution(self) -> float:
        """What the formula gives."""
        return contribution(self.score, self.base, self.full)


class PublishedStrategy(Settings):
    """The score of training several layers, or of the full training that stands beside it.

    Attributes:
        kind: full, boost (the layers at a higher rate, the rest at the usual one), only, or middle.
        layers: which end of the ranking, of boost and only.
        count: how many layers, of all but full.
        score: in percent.
        deviation: over repeats, where given.
        weak: whether the reading is not certain.
    """

    kind: Literal["full", "boost", "only", "middle"]
    layers: Literal["best", "worst"] | None = None
    count: PositiveInt | None = None
    score: Percent
    deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    weak: bool = False

    @model_validator(mode="after")
    def _names_its_layers(self) -> Self:
        if (self.count is None) != (self.kind == "full"):
            raise ValueError(
                f"count: found {self.count} in {self.kind}; expected the number of layers, and none in full"
            )
        if (self.layers is None) != (self.kind in ("full", "middle")):
            raise ValueError(
                f"layers: found {self.layers} in {self.kind}; expected best or worst, and none in full and middle"
            )
        return self

    @property
    def name(self) -> str:
        """Such as ``boost-best10``, ``middle5`` or ``full``."""
        return f"{self.kind}-{self.layers}{self.count}" if self.layers else f"{self.kind}{self.count or ''}"


class PublishedCorrelation(Settings):
    """A correlation as printed."""

    first: str
    second: str
    statistic: Literal["spearman", "kendall", "pearson"]
    value: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
    weak: bool = False


class PublishedStudy(Settings):
    """One study of a paper.

    Attributes:
        name: that of its file.
        source: where the figures stand.
        model: as the paper names it.
        layers_of_model: its depth.
        algorithm: as the paper names it.
        training_set: likewise.
        score: what S is the mean of.
        base: S_base, in percent.
        full: S_full, in percent.
        layers_scanned: how many layers were trained alone; more than ``layers`` where not all figures are at hand.
        layers: what is known of single layers.
        worked_example: where the paper gives one.
        strategies: with the full training that they were run beside.
        correlations: of the layers' ranking or contributions.
    """

    name: str
    source: PublishedSource
    model: str
    layers_of_model: PositiveInt
    algorithm: str
    training_set: str
    score: str
    base: Percent
    full: Percent
    layers_scanned: PositiveInt
    layers: Annotated[tuple[PublishedLayer, ...], Field(min_length=1)]
    worked_example: WorkedExample | None = None
    strategies: tuple[PublishedStrategy, ...] = ()
    correlations: tuple[PublishedCorrelation, ...] = ()

    @model_validator(mode="after")
    def _is_of_one_piece(self) -> Self:
        if not self.full > self.base:
            raise ValueError(f"full: found {self.full}, expected more than base, {self.base}")
        if not len(self.layers) <= self.layers_scanned <= self.layers_of_model:
            raise ValueError(
                f"layers_scanned: found {self.layers_scanned}, expected {len(self.layers)} (the layers given) to"
                f" {self.layers_of_model} (the model's)"
            )
        known: set[int] = set()
        for index, one in enumerate(self.layers):
            if one.layer in known or one.layer >= self.layers_of_model:
                raise ValueError(
                    f"layers[{index}].layer: found {one.layer}, expected each layer once, 0 to"
                    f" {self.layers_of_model - 1}"
                )
            known.add(one.layer)
            found = self.contribution(one)
            if abs(found - one.contribution) > _ROUNDING:
                raise ValueError(
                    f"layers[{index}].contribution: found {one.contribution}, but the score {one.score} gives"
                    f" {found:.3f}; expected them within {_ROUNDING}"
                )
        names = [strategy.name for strategy in self.strategies]
        if names and (names.count("full") != 1 or len(set(names)) < len(names)):
            raise ValueError(f"strategies: found {', '.join(names)}; expected full among them, and each once")
        return self

    def contribution(self, one: PublishedLayer) -> float:
        """C of a layer: from its score where that is given, else as printed."""
        return one.contribution if one.score is None else contribution(one.score, self.base, self.full)

    @property
    def contributions(self) -> dict[int, float]:
        """C of every layer that is known."""
        return {one.layer: self.contribution(one) for one in self.layers}

    @property
    def scores(self) -> dict[int, float]:
        """S_k of every layer that is known, in percent; from C where it is not given."""
        return {
            one.layer: self.base + one.contribution * (self.full - self.base) if one.score is None else one.score
            for one in self.layers
        }

    @property
    def ranking(self) -> list[int]:
        """The known layers from the highest C as printed to the lowest; of equal ones, the lower first."""
        return ranked({one.layer: one.contribution for one in self.layers})

    def best(self, count: int) -> list[int]:
        """The best-k layers. Raises ValueError where not every scanned layer is known."""
        if len(self.layers) < self.layers_scanned:
            raise ValueError(f"{self.name}: {len(self.layers)} of {self.layers_scanned} scanned layers are known")
        return self.ranking[:count]

    def middle(self, count: int) -> list[int]:
        """The middle-k layers."""
        return middle_layers(self.layers_of_model, count)

    @property
    def added_gains(self) -> dict[str, float]:
        """By strategy: its gain over full training as a share of full training's own over the base.

        (S_strategy − S_full) / (S_full − S_base), with the full training that the strategies were run beside.
        """
        scores = {strategy.name: strategy.score for strategy in self.strategies}
        full = scores.pop("full", None)
        return {} if full is None else {name: (one - full) / (full - self.base) for name, one in scores.items()}

    def depth(self, layer: int) -> float:
        """A layer's relative depth."""
        return relative_depth(layer, self.layers_of_model)


def published_files() -> list[Path]:
    """The files of studies/published, by name; none where the folder is not there."""
    return sorted(PUBLISHED_FOLDER.glob("*.yaml"))


def load_published(name: str) -> PublishedStudy:
    """Read studies/published/<name>.yaml.

    Raises UserError where it cannot be read, a key is unknown, or figures do not belong together.
    """
    path = PUBLISHED_FOLDER / f"{name}.yaml"
    content = read_yaml(path)
    if "name" in content:
        raise UserError(f"{path}: name: unknown key (a study is named by its file)")
    return validated(PublishedStudy, content | {"name": name}, path)


def shown_published() -> list[PublishedStudy]:
    """The published studies that stand beside ours (``report.published`` of params.yaml). Raises UserError."""
    chosen = load_params().report.published
    return [load_published(name) for name in ([path.stem for path in published_files()] if chosen == "all" else chosen)]


def published_metrics(studies: Sequence[PublishedStudy]) -> dict[str, Any]:
    """What reports/metrics.json says of published studies: scores as shares, as ours are, and no intervals."""
    return {study.name: _metrics(study) for study in studies}


def _metrics(study: PublishedStudy) -> dict[str, Any]:
    best = study.ranking[0]
    return {
        "source": f"{study.source.paper}, {READ_FROM_TABLES}",
        "base": {"score": _share(study.base)},
        "full": {"score": _share(study.full), "gain": _share(study.full - study.base)},
        "best_layer": {
            "layer": best,
            "depth": study.depth(best),
            "score": _share(study.scores[best]),
            "contribution": study.contributions[best],
        },
        "contribution": {layer_name(layer): found for layer, found in study.contributions.items()},
        "strategies": {
            strategy.name: {
                "score": _share(strategy.score),
                "added_gain": study.added_gains.get(strategy.name),
            }
            for strategy in study.strategies
        },
        "correlations": {f"{one.first}, {one.second}": one.value for one in study.correlations},
    }


def _share(percent: float) -> float:
    """Percent as a share, without the last bits that the division leaves."""
    return round(percent / 100, 6)
