"""The settings of the baselines: LoRA, and single layers whose learning rate is searched for them alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from onelayer.settings import PositiveFloat, PositiveInt, Settings, no_repeats, times

Rates = Annotated[tuple[PositiveFloat, ...], Field(min_length=1), AfterValidator(no_repeats)]
_Layers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(no_repeats)]
_Modules = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), AfterValidator(no_repeats)]


def _word_or_list(*words: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, str) and value not in words:
            raise ValueError(f"expected {', '.join(words)} or a list, found {value!r}")
        return value

    return BeforeValidator(check)


class LoraRuns(Settings):
    """Runs that train a low-rank adapter on every target and nothing else (Hu et al. 2021, arXiv 2106.09685).

    The weights act as W + (alpha / rank) B A. There is no dropout: the policy that samples must be the one that learns.
    """

    rank: PositiveInt = 16
    alpha: PositiveFloat | None = None
    targets: Annotated[Literal["all-linear"] | _Modules, _word_or_list("all-linear")] = "all-linear"
    rate_factor: PositiveFloat = 10.0
    learning_rates: Rates | None = None

    @model_validator(mode="after")
    def _one_source_of_rates(self) -> Self:
        if self.learning_rates is not None and "rate_factor" in self.model_fields_set:
            raise ValueError("expected learning_rates or rate_factor (times training.learning_rates), found both")
        return self

    @property
    def adapter_alpha(self) -> float:
        """The adapters' alpha; twice the rank unless set."""
        return self.alpha if self.alpha is not None else 2.0 * self.rank

    def rates(self, of_full: tuple[float, ...]) -> tuple[float, ...]:
        """The learning rates to search: those given, or the full run's times the factor, to twelve digits."""
        if self.learning_rates is not None:
            return self.learning_rates
        return tuple(times(rate, self.rate_factor) for rate in of_full)


class TunedLayers(Settings):
    """Single-layer runs again, at a learning rate that is searched on ``select`` for that layer alone.

    ``best`` is the layer that the study's own scan ranks first on ``select``.
    """

    layers: Annotated[Literal["best", "all"] | _Layers, _word_or_list("best", "all")] = "best"
    learning_rates: Rates
