"""The shape of a study's model, from what lies on this disk or what the study states."""

from __future__ import annotations

from onelayer.config import MicroModel, Study
from onelayer.shape import Shape, read_config
from onelayer.tasks import make_corpus

_SPECIAL_TOKENS = 2  # a micro model's vocabulary is its task's alphabet, a padding token and an end token


def model_shape(study: Study) -> Shape:
    """The sizes that a study's cost follows from.

    Raises UserError where they are stated nowhere within reach.
    """
    model = study.model
    if isinstance(model, MicroModel):
        return Shape(
            layers=model.layers,
            width=model.width,
            intermediate=model.intermediate,
            heads=model.heads,
            kv_heads=model.kv_heads,
            vocabulary=len(dict.fromkeys(make_corpus(study).alphabet)) + _SPECIAL_TOKENS,
            tied=True,
        )
    return read_config(model.path / "config.json")
