"""The base phase of a pretrained model: found, checked for all that a run will ask of it, and pinned by its hashes."""

from __future__ import annotations

import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.utils import is_flash_attn_2_available

from onelayer.adaptation import AdaptationError, Anatomy, find_anatomy
from onelayer.base import base_folder, base_manifest
from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.fetch import fetch_model
from onelayer.fingerprint import base_settings
from onelayer.gguf_file import unpack
from onelayer.grid import BASE
from onelayer.lora import check_targets
from onelayer.manifest import Manifest, Meter, write_manifest
from onelayer.model_settings import FolderModel, GgufModel, HubModel, PretrainedModel
from onelayer.models import model_files, move_files
from onelayer.prompting import prompt_tokens, stop_ids
from onelayer.store import disk_errors, run_folder, work_folder


def pin_base(study: Study, settings: FolderModel | HubModel | GgufModel) -> None:
    """Check a pretrained model and write the manifest that pins it; a GGUF file is unpacked into the run's folder.

    Raises UserError where the model cannot be had or cannot be used; then nothing is written.
    """
    meter = Meter()
    folder = run_folder(study.name, BASE.name)
    place: Path | None = None
    details: dict[str, Any] = {}
    sources: list[Path] = []
    match settings:
        case FolderModel():
            anatomy = check_usable(study, settings.path)
            details["path"] = str(settings.path)
            files = [path.absolute() for path in model_files(settings.path)]
        case HubModel():
            place, commit = fetch_model(study)
            anatomy = check_usable(study, place)
            details |= {"repository": settings.id, "revision": settings.revision, "commit": commit}
            files = model_files(place)
        case GgufModel():
            source = settings.source()
            partial = work_folder(study.name, BASE.name) / "folder"
            shutil.rmtree(partial, ignore_errors=True)
            try:
                with disk_errors(partial):
                    unpack(source, partial)
                anatomy = check_usable(study, partial)
                files = move_files(partial, folder)
            finally:
                shutil.rmtree(partial.parent, ignore_errors=True)
            package = settings.package
            details |= {
                "path": str(folder),
                "source": f"{package} {metadata.version(package)}: {source.name}" if package else str(source),
            }
            # Another file of this name is another base. A package's files change with its version alone.
            sources = [source.absolute()] if settings.path is not None else []
    details |= {
        "blocks": [prefix.removesuffix(".") for prefix in anatomy.blocks],
        "embeddings": sorted(anatomy.embeddings),
        "head": sorted(anatomy.head),
        "others": sorted(anatomy.others),
        "checkpoint_bytes": sum(path.stat().st_size for path in files if path.suffix == ".safetensors"),
    }
    write_manifest(
        folder,
        study.name,
        BASE.name,
        base_settings(study),
        [*files, *sources],
        meter.seconds,
        meter.peak_memory_bytes,
        details,
        place=place,
    )


def usable_base(study: Study) -> Manifest:
    """The base's manifest, its files at hand and whole, and fit for how the study now runs and speaks to it.

    How that is may have changed since the base was pinned, which it does not touch.

    Raises UserError where the base is not there, not whole, or cannot be used so.
    """
    manifest = base_manifest(study)
    if isinstance(study.model, PretrainedModel):
        check_usable(study, base_folder(manifest))
    return manifest


def check_usable(study: Study, folder: Path) -> Anatomy:
    """Check, without reading weights, that a model folder has all that a study's runs will ask of it.

    Raises UserError where weights or tokenizer are missing, the class is not a decoder-only one of transformers, its
    blocks cannot be told, its depth is not the stated one, adapters find no target in it, its attention cannot be had,
    or its tokenizer does not fit.
    """
    assert isinstance(study.model, PretrainedModel)
    if not any(path.suffix == ".safetensors" for path in model_files(folder)):
        raise UserError(f"{folder}: expected model.safetensors (or its shards), found none")
    if not any(path.name.startswith("tokenizer") for path in model_files(folder)):
        raise UserError(f"{folder}: expected a tokenizer (tokenizer.json), found none")
    model = _skeleton(study, folder)
    try:
        anatomy = find_anatomy(model)
    except AdaptationError as error:
        raise UserError(f"{folder}: {type(model).__name__}: {error}") from None
    stated = study.model.layer_count()
    if len(anatomy.blocks) != stated:
        key = "model.path" if study.model.kind == "folder" else "model.layers"
        raise UserError(
            f"{study_file(study.name)}: {key}: found a depth of {stated}; expected {len(anatomy.blocks)}, which the"
            f" model in {folder} has"
        )
    check_targets(study, model)
    _check_tokenizer(study, folder, model)
    if study.is_agent and any(type(layer) is not DynamicLayer for layer in DynamicCache(config=model.config).layers):
        raise UserError(
            f"{folder}: {type(model).__name__}: its attention looks back over a window or keeps a running state, and"
            " episodes of several turns need layers that see all of them"
        )
    return anatomy


def _skeleton(study: Study, folder: Path) -> Any:
    """The model without its weights: classes, names and shapes."""
    attention = study.model.attention
    key = f"{study_file(study.name)}: model.attention"
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, KeyError) as error:
        raise UserError(f"{folder}: config.json: transformers cannot use it: {' '.join(str(error).split())}") from None
    if config.is_encoder_decoder:
        raise UserError(f"{folder}: expected a decoder-only model, found {config.model_type}, which has an encoder")
    if attention == "flash_attention_2" and not (torch.cuda.is_available() and is_flash_attn_2_available()):
        raise UserError(
            f"{key}: flash_attention_2 needs a CUDA device and the package flash-attn, found"
            f" {'no package' if torch.cuda.is_available() else 'no CUDA device'}; sdpa runs everywhere"
        )
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, trust_remote_code=False)
    except (ValueError, ImportError) as error:
        lacking = re.match(r"(\w+) does not support .*attention", str(error))
        if lacking:
            raise UserError(
                f"{key}: {lacking[1]} offers no such attention in transformers; expected eager, found {attention}"
            ) from None
        raise UserError(f"{folder}: {' '.join(str(error).split())}") from None
    named = config.architectures or []
    if type(model).__name__ not in named:
        raise UserError(
            f"{folder}: config.json: architectures: expected {type(model).__name__}, found {', '.join(named) or 'none'}"
        )
    return model


def _check_tokenizer(study: Study, folder: Path, model: Any) -> None:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, KeyError) as error:
        raise UserError(f"{folder}: the tokenizer cannot be read: {' '.join(str(error).split())}") from None
    if tokenizer.eos_token_id is None:
        raise UserError(f"{folder}: the tokenizer names no end token (eos_token), so no answer would ever end")
    rows = model.get_input_embeddings().weight.shape[0]
    # Marks of other kinds of input (pictures, say) may lie beyond: no text here is made of them.
    used = {tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id} - {None}
    beyond = {
        token: index
        for token, index in tokenizer.get_vocab().items()
        if index >= rows and (index in used or index not in tokenizer.all_special_ids)
    }
    if beyond:
        token, index = max(beyond.items(), key=lambda one: one[1])
        raise UserError(
            f"{folder}: the tokenizer is not this model's: its token {token!r} has the id {index}, and the model's"
            f" embedding has {rows} rows"
        )
    try:
        prompt_tokens(tokenizer, ["What is 1 + 1?"], study.model.chat)
        stop_ids(tokenizer, study.model.stop)
    except UserError as error:
        raise UserError(f"{study_file(study.name)}: {error} ({folder})") from None
