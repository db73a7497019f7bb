"""How far a run moved the weights, matrix by matrix.

Of every tensor that a run trained, with θ the base's values and Δ what was added to them:

- ‖Δ‖_F and ‖θ‖_F (of a whole layer: the root of its tensors' sum of squares, as the paper's ‖Δθ_k‖₂);
- the share of entries that are not the base's any more;
- of a matrix, the effective rank of Δ (Roy and Vetterli 2007, *The effective rank*, EUSIPCO, definition 1):
  exp(−Σ p log p) with p the singular values over their sum. It is r for r equal singular values, and 1 for rank one.
  Of a stack of matrices (a mixture's experts), the mean over those that changed.

The singular values are the roots of the eigenvalues of Δ'Δ or ΔΔ', whichever is smaller, in float64: for m by n with
n ≤ m about 2 m n² + 4/3 n³ operations, several times fewer than a decomposition of Δ itself. Squaring leaves singular
values below 1e-6 or so of the largest in the rounding; they are taken as 0, and would add next to nothing.

Tensors are read one by one, so two of them are the most that lie in memory. Torch is imported only where a base's
numbers are bfloat16, or its files name their tensors otherwise than transformers does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from onelayer.base import base_folder, base_manifest
from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import weighing_payload
from onelayer.grid import Run
from onelayer.manifest import WEIGHING_MANIFEST, Manifest, Meter, read_manifest, write_manifest
from onelayer.store import ADAPTED, WEIGHTS, run_folder, write_json

Tensor = npt.NDArray[Any]
Values = npt.NDArray[np.float64]

# So many rows are turned into float64 at a time.
_ROWS = 4096
# How PEFT names the two factors of an adapter on a linear map.
_FACTOR = re.compile(r"base_model\.model\.(.+)\.lora_A\.weight")
# Number formats that NumPy reads; bfloat16 takes torch.
_READ_BY_NUMPY = ("F64", "F32", "F16")


def weigh_run(study: Study, run: Run) -> None:
    """Measure a trained run's weights against the base's, and write both figures and manifest into its folder.

    Raises UserError where base or run are not there or whole, or the run's tensors have no place in the base.
    """
    meter = Meter()
    folder = run_folder(study.name, run.name)
    trained = read_manifest(folder)
    assert trained is not None  # the run's standing was just checked
    base = base_manifest(study)
    write_json(folder / WEIGHTS, weigh(folder / ADAPTED, Base(base)))
    write_manifest(
        folder,
        study.name,
        run.name,
        weighing_payload(trained.content, base.content),
        [folder / WEIGHTS],
        meter.seconds,
        meter.peak_memory_bytes,
        {},
        name=WEIGHING_MANIFEST,
    )


class Base:
    """A base's tensors by the names that their parameters have.

    Args:
        manifest: the base's, its files at hand.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        folder = base_folder(manifest)
        self._files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="np") as handle:
                self._files |= dict.fromkeys(handle.keys(), path)
        self._loaded: dict[str, Tensor] | None = None

    def tensor(self, name: str) -> Tensor | None:
        """A parameter's values; None where the base has none of this name.

        The files are read where they hold the name. Else the model is loaded, once and whole: transformers names and
        joins the tensors of some architectures otherwise than their files do.
        """
        if name in self._files:
            return read_tensor(self._files[name], name)
        if self._loaded is None:
            from onelayer.models import load_base

            self._loaded = {key: value.detach().numpy() for key, value in load_base(self._manifest).named_parameters()}
        return self._loaded.get(name)

    def layer_of(self, name: str) -> int | None:
        """The decoder block that a parameter belongs to; None outside the blocks."""
        blocks = self._manifest.details.get("blocks")
        if blocks is None:  # a micro model, which is a Qwen3
            inside = re.match(r"model\.layers\.(\d+)\.", name)
            return int(inside[1]) if inside else None
        return next((layer for layer, block in enumerate(blocks) if name.startswith(f"{block}.")), None)


def read_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a safetensors file; of bfloat16, as float32, which holds the same numbers."""
    with safe_open(path, framework="np") as handle:
        if handle.get_slice(name).get_dtype() in _READ_BY_NUMPY:
            found: Tensor = handle.get_tensor(name)
            return found
    with safe_open(path, framework="pt") as handle:
        converted: Tensor = handle.get_tensor(name).float().numpy()
        return converted


def weigh(path: Path, base: Base) -> dict[str, Any]:
    """Measure every tensor of a checkpoint against the base's.

    Args:
        path: what a run trained: whole tensors, or a LoRA run's adapters.
        base: what it started from.

    Returns:
        ``tensors``: by parameter, its ``layer`` (None outside the blocks), ``shape``, ``l2`` = ‖Δ‖, ``base_l2`` = ‖θ‖,
        ``changed`` (None of an adapter, which moves every entry of its matrix) and ``effective_rank`` (None of a
        vector, and where nothing changed). ``left_out``: by parameter, why it was not measured.

    Raises UserError where a whole tensor has no place in the base.
    """
    with safe_open(path, framework="np") as handle:
        names: list[str] = sorted(handle.keys())
        metadata: dict[str, str] = handle.metadata() or {}
    if "lora" in metadata:
        return _weigh_adapters(path, names, LoraRuns(**json.loads(metadata["lora"])), base)
    tensors = {}
    for name in names:
        trained, before = read_tensor(path, name), base.tensor(name)
        if before is None or before.shape != trained.shape:
            raise UserError(
                f"{path}: tensor {name} of shape {list(trained.shape)} has no place in this base; found"
                f" {'no such tensor' if before is None else list(before.shape)}"
            )
        tensors[name] = {"layer": base.layer_of(name), "shape": list(trained.shape), **tensor_change(before, trained)}
    return {"tensors": tensors, "left_out": {}}


def tensor_change(before: Tensor, after: Tensor) -> dict[str, Any]:
    """‖Δ‖, ‖θ‖, the share of changed entries and the effective rank of one tensor.

    Args:
        before: θ.
        after: θ + Δ, of the same shape: a vector, a matrix, or a stack of matrices.
    """
    stacked = [part.reshape(-1, *part.shape[-2:]) if part.ndim > 1 else part[None, None] for part in (before, after)]
    squares, base_squares, changed, ranks = 0.0, 0.0, 0, []
    for old, new in zip(*stacked, strict=True):
        gram = np.zeros((min(old.shape),) * 2)
        for one, other in _slices(old, new):
            delta = other - one
            squares += float((delta * delta).sum())
            base_squares += float((one * one).sum())
            changed += int(np.count_nonzero(delta))
            if before.ndim > 1:
                gram += delta.T @ delta
        if before.ndim > 1 and gram.any():
            ranks.append(effective_rank(singular_values(gram)))
    return {
        "l2": math.sqrt(squares),
        "base_l2": math.sqrt(base_squares),
        "changed": changed / before.size,
        "effective_rank": math.fsum(ranks) / len(ranks) if ranks else None,
    }


def _slices(old: Tensor, new: Tensor) -> Iterator[tuple[Values, Values]]:
    """Both matrices in float64, some rows at a time, lying so that rows are the longer side."""
    if old.shape[0] < old.shape[1]:
        old, new = old.T, new.T
    for start in range(0, len(old), _ROWS):
        yield tuple(part[start : start + _ROWS].astype(np.float64) for part in (old, new))  # type: ignore[misc]


def singular_values(gram: Values) -> Values:
    """The singular values of Δ from Δ'Δ, ascending; those that squaring left in the rounding are 0."""
    found = np.linalg.eigvalsh(gram)
    found[found < len(gram) * np.finfo(np.float64).eps * found[-1]] = 0.0
    roots: Values = np.sqrt(found)
    return roots


def effective_rank(singular: Values) -> float:
    """exp(−Σ p log p), p the singular values over their sum (Roy and Vetterli 2007), not all of them 0."""
    shares = singular[singular > 0] / singular.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _weigh_adapters(path: Path, names: list[str], lora: LoraRuns, base: Base) -> dict[str, Any]:
    """Measure Δ = (alpha / rank) B A of every adapter, without forming it."""
    tensors, left_out = {}, {}
    for name in names:
        factor = _FACTOR.fullmatch(name)
        if factor is None:
            continue
        target = f"{factor[1]}.weight"
        before = base.tensor(target)
        a = read_tensor(path, name).astype(np.float64)
        b = read_tensor(path, name.replace("lora_A", "lora_B")).astype(np.float64)
        # Some architectures keep a linear map's weight transposed, which changes none of the figures.
        if before is None or sorted(before.shape) != sorted((len(b), a.shape[-1])):
            left_out[target] = "its adapters stand on several matrices at once"
            continue
        # With B = Q R and A' = Q' R', the singular values of B A are those of R R'ᵀ, a matrix of the rank's size.
        core = np.linalg.qr(b)[1] @ np.linalg.qr(a.T)[1].T
        singular = np.linalg.svd(core * (lora.adapter_alpha / lora.rank), compute_uv=False)
        tensors[target] = {
            "layer": base.layer_of(target),
            "shape": list(before.shape),
            "l2": float(np.linalg.norm(singular)),
            "base_l2": float(np.linalg.norm(before.astype(np.float64))),
            "changed": None,
            "effective_rank": effective_rank(singular) if singular.any() else None,
        }
    return {"tensors": tensors, "left_out": left_out}
