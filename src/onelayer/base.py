"""The base on the disk: its manifest, and the folder that holds its files; no torch."""

from __future__ import annotations

from pathlib import Path

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fetch import fetch_model
from onelayer.manifest import Manifest, damage, files_folder, read_manifest
from onelayer.store import run_folder


def base_manifest(study: Study) -> Manifest:
    """The base's manifest, its files at hand and checked against their hashes.

    A model of the hub that this machine's cache lacks is fetched, at the manifest's commit.

    Raises UserError where the base phase has not run, the model cannot be fetched, or a file is not as it was made.
    """
    folder = run_folder(study.name, "base")
    manifest = read_manifest(folder)
    if manifest is None:
        raise UserError(f"{folder}: no base yet; `onelayer base {study.name}` makes it")
    if files_folder(folder, manifest) is None:
        fetch_model(study)
    wrong = damage(folder, manifest)
    if wrong:
        raise UserError("\n".join([*wrong, f"`onelayer base {study.name}` makes the base anew"]))
    return manifest


def base_folder(manifest: Manifest) -> Path:
    """The Hugging Face folder of the base: the run's own, the one that the study names, or the hub's in the cache.

    Raises UserError where the cache does not hold it.
    """
    if "commit" not in manifest.details:
        return Path(manifest.details["path"])
    folder = files_folder(run_folder(manifest.study, "base"), manifest)
    if folder is None:
        raise UserError(
            f"{manifest.details['repository']} at {manifest.details['commit']}: not in the local cache; `onelayer fetch"
            f" {manifest.study}` gets it"
        )
    return folder
