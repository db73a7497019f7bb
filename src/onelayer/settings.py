"""What every group of settings is made of: closed to unknown keys, and numbers with their bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def no_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pass a list on whose values are all different; else raise ValueError, which pydantic turns into its own."""
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"expected each value once, found {', '.join(map(str, repeated))} more than once")
    return values


def times(rate: float, factor: float) -> float:
    """A multiple of a learning rate, to twelve digits: 3 times 1e-4 is 3e-4, as it is written."""
    return float(f"{factor * rate:.12g}")


class Settings(BaseModel):
    """A group of settings: immutable, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
