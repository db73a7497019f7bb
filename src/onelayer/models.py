"""Models: made small here, read from a folder or the hub, and given back as base + what a run trained."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging as hf_logging

from onelayer.base import base_folder, base_manifest
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.lora import merge_adapters, read_lora
from onelayer.manifest import Manifest, damage, read_manifest
from onelayer.model_settings import MicroModel
from onelayer.store import ADAPTED, disk_errors, replacing, run_folder

# What transformers and TRL deprecate among themselves is no news to a user, and a bar a file no progress.
warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers|trl|torch")
# The rollout function is TRL's experimental door for episodes; the version is pinned.
warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
hf_logging.disable_progress_bar()

_PAD, _END = "<pad>", "<end>"


def make_micro_tokenizer(alphabet: str, context: int) -> PreTrainedTokenizerFast:
    """A tokenizer with one token a character of the alphabet, a padding token and an end token."""
    vocabulary = {token: index for index, token in enumerate((_PAD, _END, *dict.fromkeys(alphabet)))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=_PAD))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=_PAD,
        eos_token=_END,
        padding_side="left",
        model_max_length=context,
    )


def make_micro_model(settings: MicroModel, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A small Qwen3 with random weights drawn from the seed."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=settings.width,
            intermediate_size=settings.intermediate,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.kv_heads,
            head_dim=settings.width // settings.heads,
            max_position_embeddings=settings.context,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def load_base(manifest: Manifest, device: str | torch.device = "cpu", *, attention: str = "sdpa") -> Any:
    """Load the base. Weights are float32: a reinforcement learning step is below bfloat16's resolution.

    Dropout is off, in training too: the policy that samples must be the one whose probabilities are learned from.

    Raises UserError where a tensor is missing from the base's files (transformers would make one up), or has another
    shape than the configuration says.
    """
    folder = base_folder(manifest)
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation=attention,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except RuntimeError as error:
        if "size mismatch" not in str(error) and "mismatched" not in str(error):
            raise
        raise UserError(f"{folder}: tensors and config.json do not fit: {' '.join(str(error).split())}") from None
    missing = sorted(found["missing_keys"])
    if missing:
        raise UserError(
            f"{folder}: expected every tensor of {type(model).__name__}, found no {', '.join(missing[:5])}"
            + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        )
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    return model.to(device)


def load_tokenizer(manifest: Manifest) -> Any:
    """Load the base's tokenizer, set to pad on the left."""
    tokenizer = AutoTokenizer.from_pretrained(
        base_folder(manifest), local_files_only=True, trust_remote_code=False, padding_side="left"
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def model_files(folder: Path) -> list[Path]:
    """What a Hugging Face model folder consists of, of the files in a folder; sorted."""
    patterns = ("*.safetensors", "*.safetensors.index.json", "*config.json", "tokenizer*", "*.jinja")
    others = ("special_tokens_map.json", "vocab*", "merges.txt", "added_tokens.json", "*.model")
    return sorted({path for pattern in (*patterns, *others) for path in folder.glob(pattern)})


def move_files(source: Path, folder: Path) -> list[Path]:
    """Move a finished model folder's files into a run's, in place of what stood there; returns them, sorted."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in model_files(folder):
            path.unlink()
        for path in model_files(source):
            path.chmod(0o644)
            shutil.move(path, folder / path.name)  # unfinished work may lie on another disk
    return model_files(folder)


def save_adapted(model: Any, names: frozenset[str], path: Path) -> None:
    """Write only what a run trained, atomically (safetensors; a tied tensor once)."""
    tensors = {
        name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters() if name in names
    }
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})


def adapt(model: Any, path: Path) -> None:
    """Lay a run's tensors over the base, in place; adapters are merged into the weights they stand on.

    Raises UserError where the file names a tensor that the model lacks or gives it another shape.
    """
    lora = read_lora(path)
    if lora is not None:
        merge_adapters(model, lora, path)
        return
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(path).items():
            if name not in parameters or parameters[name].shape != tensor.shape:
                raise UserError(
                    f"{path}: tensor {name} of shape {list(tensor.shape)} has no place in this base; found"
                    f" {list(parameters[name].shape) if name in parameters else 'no such tensor'}"
                )
            parameters[name].copy_(tensor)


def export_model(study: Study, run: str, target: Path) -> None:
    """Write a run as a full Hugging Face folder: base + trained tensors, configuration and tokenizer.

    Raises UserError where the run is not done, is damaged, or the target exists and is not empty.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target}: expected a new or empty folder, found something in it")
    base = base_manifest(study)
    folder = run_folder(study.name, run)
    manifest = read_manifest(folder)
    if manifest is None:
        raise UserError(f"{folder}: not trained yet; `onelayer train {study.name} {run}` trains it")
    wrong = damage(folder, manifest)
    if wrong:
        raise UserError("\n".join(wrong))
    model = load_base(base, attention=study.model.attention)
    if run != "base":
        adapt(model, folder / ADAPTED)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with disk_errors(target):
            model.save_pretrained(partial)
            load_tokenizer(base).save_pretrained(partial)
            if target.exists():
                target.rmdir()
            partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
