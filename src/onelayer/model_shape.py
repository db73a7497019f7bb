"""The shape of a study's model, from what the study states or what lies on this disk; no network."""

from __future__ import annotations

from pathlib import Path

from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.model_settings import FolderModel, GgufModel, HubModel, MicroModel
from onelayer.shape import Shape, read_config, read_gguf
from onelayer.tasks import make_corpus

_SPECIAL_TOKENS = 2  # a micro model's vocabulary is its task's alphabet, a padding token and an end token


def model_shape(study: Study) -> Shape:
    """The sizes that a study's cost follows from: those it states, else those of the model itself.

    Raises UserError where they are within reach nowhere, or the depth stated is not the model's.
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
    if model.shape is not None:
        if model.shape.layers != model.layer_count():
            raise UserError(
                f"{study_file(study.name)}: model.shape.layers: found {model.shape.layers}, expected"
                f" {model.layer_count()}, the depth of the model"
            )
        return model.shape
    match model:
        case FolderModel():
            return read_config(model.path / "config.json")
        case GgufModel():
            return read_gguf(model.source())
        case HubModel():
            return read_config(_cached_config(study, model))


def _cached_config(study: Study, model: HubModel) -> Path:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model.id, "config.json", revision=model.revision)
    if not isinstance(found, str):
        raise UserError(
            f"{study_file(study.name)}: model.shape: missing, and the local cache has no config.json of {model.id} at"
            f" {model.revision}; state the sizes (docs/your-own-model.md), or `onelayer fetch {study.name}` gets it"
        )
    return Path(found)
