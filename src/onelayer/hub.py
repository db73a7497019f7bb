"""Models of the Hugging Face hub: at a commit, through its own client and cache, with errors a user can mend."""

from __future__ import annotations

from pathlib import Path

from onelayer.errors import UserError
from onelayer.store import disk_errors

# What a model folder consists of; other copies of the weights (consolidated, original/, GGUF) stay on the hub.
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab*", "tokenizer*")
NOT_MODEL_FILES = ("*/*", "consolidated*")


def fetch(repository: str, revision: str, *, key: str) -> tuple[Path, str]:
    """Bring a model's files into the local cache, as far as they are not there.

    Where the hub cannot be reached, a whole copy in the cache serves; for a branch or tag that is the commit which
    it last named.

    Args:
        repository: ``owner/name``.
        revision: a commit, branch or tag.
        key: the settings that asked for it, for messages: ``studies/x.yaml: model``.

    Returns:
        The folder in the cache, and the commit.

    Raises UserError where the hub cannot be reached and the cache has no copy, the repository is not there or gated,
    it has no such revision, or the disk is full.
    """
    import httpx2
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = f"{key}: {repository}"
    page = f"{constants.ENDPOINT}/{repository}"
    try:
        with disk_errors(Path(constants.HF_HUB_CACHE)):
            folder = Path(
                snapshot_download(
                    repository,
                    revision=revision,
                    allow_patterns=list(MODEL_FILES),
                    ignore_patterns=list(NOT_MODEL_FILES),
                )
            )
    except GatedRepoError:
        raise UserError(
            f"{where}: the hub gives it only to those who accepted its conditions: accept them at {page}, then"
            " `hf auth login`, or set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise UserError(
            f"{where}: the hub ({constants.ENDPOINT}) has no such model, or shows it only to its owners (`hf auth"
            " login`, or HF_TOKEN)"
        ) from None
    except RevisionNotFoundError:
        raise UserError(
            f"{where}: found no revision {revision!r}; expected a commit, branch or tag of {page}"
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, httpx2.HTTPError) as error:
        cause = error.__cause__ or error
        raise UserError(
            f"{where}: the hub ({constants.ENDPOINT}) cannot be asked ({type(cause).__name__}:"
            f" {' '.join(str(cause).split())}), and the local cache ({constants.HF_HUB_CACHE}) has no whole copy of"
            f" {revision}. Where there is a network, `onelayer fetch STUDY` gets it"
        ) from None
    return folder, folder.name


def cached(repository: str, commit: str) -> Path | None:
    """A model's folder in the local cache, at a commit; None where it is not there. Asks no network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                repository,
                revision=commit,
                allow_patterns=list(MODEL_FILES),
                ignore_patterns=list(NOT_MODEL_FILES),
                local_files_only=True,
            )
        )
    except LocalEntryNotFoundError:
        return None
