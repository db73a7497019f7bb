"""What a study takes from the hub, brought into the local cache: on a login node, say, for nodes without network."""

from __future__ import annotations

from pathlib import Path

from onelayer import hub
from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.fingerprint import base_settings, digest
from onelayer.grid import BASE
from onelayer.manifest import read_manifest
from onelayer.source_commits import fetch_sources
from onelayer.store import run_folder


def fetch(study: Study) -> list[str]:
    """Fetch all that a study takes from the hub; returns a line for each.

    Raises UserError where something cannot be had.
    """
    lines = []
    if study.model.kind == "hub":
        folder, commit = fetch_model(study)
        lines.append(f"{study.name}: model {study.model.id} at {commit}: {folder}")
    lines += [f"{study.name}: {count} rows of {origin}" for origin, count in fetch_sources(study)]
    return lines or [f"{study.name}: takes nothing from the hub"]


def fetch_model(study: Study) -> tuple[Path, str]:
    """Bring a study's hub model into the local cache: the folder, and the commit.

    A base that was pinned keeps its commit, wherever the branch that the study names has moved to.

    Raises UserError where the model cannot be had.
    """
    if study.model.kind != "hub":
        raise UserError(f"{study_file(study.name)}: model.kind: expected hub, found {study.model.kind}")
    revision = study.model.revision
    pinned = read_manifest(run_folder(study.name, BASE.name))
    if pinned is not None and pinned.fingerprint == digest(base_settings(study)):
        revision = pinned.details["commit"]
    return hub.fetch(study.model.id, revision, key=f"{study_file(study.name)}: model")
