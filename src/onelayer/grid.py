"""From a study's settings to its runs and jobs; pure, no torch, nothing read but the settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onelayer.analysis.contribution import middle_layers
from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.layer_sets import random_sets, spread_layers
from onelayer.strategy_settings import End

Kind = Literal[
    "base", "search", "full", "layer", "lora", "tuned", "boost", "only", "middle", "spread", "random", "rate"
]  # fmt: skip


_REPEAT = re.compile(r"(-d\d+)?-s\d+$")


@dataclass(frozen=True)
class Ranked:
    """Layers from one end of the ranking on ``select``, known only once that stands.

    Attributes:
        end: ``best`` counts from the first, ``worst`` from the last.
        count: how many.
        after: how many from that end are passed over.
    """

    end: End
    count: int = 1
    after: int = 0

    def of(self, order: Sequence[int]) -> tuple[int, ...]:
        """These layers of a ranking that goes from the best to the worst, ascending, however they rank in between."""
        from_end = order if self.end == "best" else order[::-1]
        return tuple(sorted(from_end[self.after : self.after + self.count]))


@dataclass(frozen=True)
class Run:
    """One training of a study.

    Attributes:
        name: the run's folder, such as ``layer-07-s1``.
        kind: what the run is for.
        layers: the decoder blocks that train, or, with ``boost``, that train faster than all else; empty means every
            parameter alike (and, for the base, none).
        seed: the repeat; None for the base.
        learning_rate: set for the search's runs; every other run takes the rate the search chose.
        family: the baseline whose own search chooses the rate; None where the study's search does.
        lora: the adapters that train in place of the model's parameters.
        ranked: where the layers come from the ranking on ``select``; ``layers`` is empty until that is known.
        boost: every parameter trains, and the layers at this multiple of the rate.
        rate_factor: the run's rate is this multiple of the one that was chosen.
        draw: which of the random sets its layers are.
    """

    name: str
    kind: Kind
    layers: tuple[int, ...] = ()
    seed: int | None = None
    learning_rate: float | None = None
    family: str | None = None
    lora: LoraRuns | None = None
    ranked: Ranked | None = None
    boost: float | None = None
    rate_factor: float | None = None
    draw: int | None = None

    @property
    def setting(self) -> str:
        """What is repeated over seeds (random layers: over draws): the name without these, such as ``layer-07``."""
        return setting_name(self.name)


@dataclass(frozen=True)
class Family:
    """A baseline: runs of one adaptation, and a search of the learning rate for them alone.

    Attributes:
        name: such as ``lora-r16``, ``tuned-layer-07`` or ``tuned-best``.
        kind: of its runs but the search's.
        rates: those its search tries; of one rate there is no search.
        layers, lora, ranked: as of its runs.
    """

    name: str
    kind: Literal["lora", "tuned"]
    rates: tuple[float, ...]
    layers: tuple[int, ...] = ()
    lora: LoraRuns | None = None
    ranked: Ranked | None = None

    def run(self, name: str, kind: Kind, seed: int, rate: float | None = None) -> Run:
        """A run of this adaptation."""
        return Run(name, kind, self.layers, seed, rate, self.name, self.lora, self.ranked)


@dataclass(frozen=True)
class Job:
    """Runs of one setting that share a process, because start-up would dominate a small one."""

    name: str
    runs: tuple[Run, ...]


BASE = Run("base", "base")


def setting_name(run: str) -> str:
    """What the run of this name is repeated of, over seeds (random layers: over draws), such as ``layer-07``."""
    return _REPEAT.sub("", run)


def by_setting(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each setting, by its name, in the order of the runs."""
    arms: dict[str, list[Run]] = {}
    for run in runs:
        arms.setdefault(run.setting, []).append(run)
    return arms


def rate_name(rate: float) -> str:
    """Write a learning rate the way run names and tables do: ``5e-06``, ``0.0003``."""
    return f"{rate:g}"


def layer_name(layer: int) -> str:
    """Name a layer the way run names and metrics do: ``layer-07``."""
    return f"layer-{layer:02d}"


def search_runs(study: Study) -> tuple[Run, ...]:
    """The full runs that the learning rate is chosen from; none where only one rate is given."""
    rates = study.training.learning_rates
    if len(rates) == 1:
        return ()
    return tuple(
        Run(f"search-{rate_name(rate)}-s{seed}", "search", seed=seed, learning_rate=rate)
        for rate in rates
        for seed in study.runs.search_seeds
    )


def families(study: Study) -> tuple[Family, ...]:
    """The baselines, each with a search of its own: LoRA, then the tuned layers."""
    found = []
    lora, tuned = study.runs.lora, study.runs.tuned_layers
    if lora is not None:
        found.append(Family(f"lora-r{lora.rank}", "lora", lora.rates(study.training.learning_rates), lora=lora))
    if tuned is not None:
        for layer in study.tuned_layers:
            found.append(Family(f"tuned-{layer_name(layer)}", "tuned", tuned.learning_rates, layers=(layer,)))
        if tuned.layers == "best":
            found.append(Family("tuned-best", "tuned", tuned.learning_rates, ranked=Ranked("best")))
    return tuple(found)


def find_family(study: Study, name: str) -> Family:
    """The baseline of this name. Raises UserError where the study has none."""
    known = {family.name: family for family in families(study)}
    if name not in known:
        raise UserError(f"baseline {name!r}: not in study {study.name}; it has {', '.join(known) or 'none'}")
    return known[name]


def family_search_runs(study: Study, family: Family) -> tuple[Run, ...]:
    """The runs that a baseline's learning rate is chosen from; none where only one rate is given."""
    if len(family.rates) == 1:
        return ()
    return tuple(
        family.run(f"search-{family.name}-{rate_name(rate)}-s{seed}", "search", seed, rate)
        for rate in family.rates
        for seed in study.runs.search_seeds
    )


def family_runs(study: Study, family: Family) -> tuple[Run, ...]:
    """A baseline's runs at the rate its search chose, one a seed."""
    return tuple(family.run(f"{family.name}-s{seed}", family.kind, seed) for seed in study.runs.seeds)


def full_runs(study: Study) -> tuple[Run, ...]:
    """The full-parameter runs, one a seed."""
    return tuple(Run(f"full-s{seed}", "full", seed=seed) for seed in study.runs.seeds)


def layer_runs(study: Study) -> tuple[Run, ...]:
    """The single-layer runs, by layer, then seed."""
    return tuple(
        Run(f"{layer_name(layer)}-s{seed}", "layer", layers=(layer,), seed=seed)
        for layer in study.layers
        for seed in study.runs.seeds
    )


def strategy_runs(study: Study) -> tuple[Run, ...]:
    """The runs of the strategies, by size, then strategy; none where the study asks for none."""
    settings = study.runs.strategies
    if settings is None:
        return ()
    depth = study.model.layer_count()
    seeds = settings.seeds or study.runs.seeds
    runs: list[Run] = []

    def repeated(name: str, kind: Kind, layers: Sequence[int] = (), **more: Any) -> None:
        runs.extend(Run(f"{name}-s{seed}", kind, tuple(layers), seed, **more) for seed in seeds)

    for size in settings.sizes:
        for end in settings.boost:
            repeated(f"boost-{end}{size}", "boost", ranked=Ranked(end, size), boost=settings.factor)
        for end in settings.only:
            repeated(f"only-{end}{size}", "only", ranked=Ranked(end, size))
        if settings.middle:
            repeated(f"middle{size}", "middle", middle_layers(depth, size))
        if settings.spread:
            repeated(f"spread{size}", "spread", spread_layers(depth, size))
        for draw, layers in enumerate(random_sets(study.seed, depth, size, settings.random)):
            seed = seeds[draw % len(seeds)]
            runs.append(Run(f"random{size}-d{draw}-s{seed}", "random", layers, seed, draw=draw))
    return tuple(runs)


def sensitivity_runs(study: Study) -> tuple[Run, ...]:
    """Single layers at multiples of the chosen rate, by factor, then layer; none where the study asks for none.

    A layer from an end of the ranking is named by its place: ``rate-x3-best-1-s0`` is the first, ``worst-1`` the last.
    """
    settings = study.runs.rate_sensitivity
    if settings is None:
        return ()
    chosen: list[tuple[str, tuple[int, ...], Ranked | None]] = [
        (f"{end}-{place + 1}", (), Ranked(end, after=place)) for end in settings.ends for place in range(settings.count)
    ]
    chosen += [(layer_name(layer), (layer,), None) for layer in settings.numbers]
    return tuple(
        Run(f"rate-x{factor:g}-{name}-s{seed}", "rate", layers, seed, ranked=ranked, rate_factor=factor)
        for factor in settings.factors
        for name, layers, ranked in chosen
        for seed in settings.seeds or study.runs.seeds
    )


def all_runs(study: Study) -> tuple[Run, ...]:
    """Every run of the study, in the order the graph needs them."""
    baselines = (
        run for family in families(study) for run in (*family_search_runs(study, family), *family_runs(study, family))
    )
    return (
        BASE,
        *search_runs(study),
        *full_runs(study),
        *layer_runs(study),
        *baselines,
        *strategy_runs(study),
        *sensitivity_runs(study),
    )


def find_runs(study: Study, names: list[str]) -> tuple[Run, ...]:
    """The runs of these names, in the order asked for.

    Raises UserError where the study has no run of a name.
    """
    known = {run.name: run for run in all_runs(study)}
    for name in names:
        if name not in known:
            raise UserError(f"run {name!r}: not in study {study.name}; it has {', '.join(known)}")
    return tuple(known[name] for name in names)


def jobs(study: Study) -> tuple[Job, ...]:
    """Group the runs into jobs: at most ``resources.seeds_per_job`` repeats of one setting each."""
    return tuple(_grouped(all_runs(study), study.resources.seeds_per_job))


def is_weighed(run: Run) -> bool:
    """Whether a run's change of weights is measured: of all but the base and the search's runs."""
    return run.kind not in ("base", "search")


def find_job(study: Study, name: str) -> Job:
    """The job of this name. Raises UserError where the study has none."""
    for job in jobs(study):
        if job.name == name:
            return job
    raise UserError(f"job {name!r}: not in study {study.name}; it has {', '.join(j.name for j in jobs(study))}")


def _grouped(runs: tuple[Run, ...], most: int) -> Iterator[Job]:
    settings: dict[str, list[Run]] = {}
    for run in runs:
        settings.setdefault(run.setting, []).append(run)
    for setting, members in settings.items():
        for start in range(0, len(members), most):
            group = tuple(members[start : start + most])
            later = "".join(f"+{run.name.removeprefix(f'{setting}-')}" for run in group[1:])
            yield Job(group[0].name + later, group)
