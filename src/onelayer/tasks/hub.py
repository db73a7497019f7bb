"""Data sets of the Hugging Face hub: which commit a revision is, and the rows of a split at that commit.

Nothing here is called by a plan. `datasets` falls back to whatever commit its cache holds where the hub cannot be
reached, so the commit of what it gave is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.source_settings import Source

# Seconds that the hub may take to say which commit a revision is.
_PATIENCE = 20
# What this process has loaded already, by origin; the rows themselves stay on the disk.
_LOADED: dict[str, Any] = {}


def resolve_commit(source: Source) -> str:
    """The commit that a source's revision stands for. Raises UserError where the hub does not say."""
    from huggingface_hub import HfApi

    with _understood(source):
        commit = HfApi().dataset_info(str(source.hub), revision=source.revision, timeout=_PATIENCE).sha
    assert commit is not None  # the hub gives it with every revision
    return commit


def load_split(source: Source) -> Any:
    """The rows of a source whose revision is a commit, as a `datasets.Dataset`, which lies on the disk.

    Raises UserError where the hub cannot be reached, refuses, or has no such data set, revision, subset or split.
    """
    import datasets
    from huggingface_hub.constants import is_offline_mode

    assert source.is_pinned
    if source.origin in _LOADED:
        return _LOADED[source.origin]
    if not is_offline_mode():
        resolve_commit(source)  # says at once what `datasets` would say after many retries, or not at all
    datasets.disable_progress_bars()
    with _understood(source):
        loaded = datasets.load_dataset(source.hub, name=source.subset, split=source.split, revision=source.revision)
    used = [file["filename"] for file in loaded.cache_files]
    if not all(str(source.revision) in name for name in used):
        raise UserError(
            f"{source.origin}: expected the rows of this commit, found those of another in the cache ({used[0]}); the"
            " hub is not reached (HF_HUB_OFFLINE), so fetch them where it is"
        )
    _LOADED[source.origin] = loaded
    return loaded


def load_file(source: Source, name: str) -> Path:
    """A file of a source whose revision is a commit, on this machine.

    Raises UserError where the hub cannot be reached, refuses, or has no such data set, revision or file.
    """
    from huggingface_hub import hf_hub_download

    assert source.is_pinned
    with _understood(source, name):
        return Path(hf_hub_download(str(source.hub), name, repo_type="dataset", revision=source.revision))


@contextmanager
def _understood(source: Source, file: str = "") -> Iterator[None]:
    """Turn what can go wrong with the hub, on the way to a file where one is named, into one message."""
    import httpx2
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError:
        raise UserError(_gated(source)) from None
    except RevisionNotFoundError:
        raise UserError(f"{source.origin}: the hub has no revision {source.revision!r} of {source.hub}") from None
    except RepositoryNotFoundError:
        raise UserError(
            f"{source.origin}: the hub has no data set {source.hub}, or it is private (`hf auth login`)"
        ) from None
    except DatasetNotFoundError as error:
        raise UserError(_gated(source) if "gated" in str(error) else f"{source.origin}: {error}") from None
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, ConnectionError, httpx2.TransportError) as error:
        raise UserError(
            f"{source.origin}: the hub cannot be reached ({_first_line(error)}); rows that were fetched before are"
            " taken from the cache with HF_HUB_OFFLINE=1"
        ) from None
    except EntryNotFoundError:
        raise UserError(f"{source.origin}: {source.hub} has no file {file!r}") from None
    except HfHubHTTPError as error:
        raise UserError(f"{source.origin}: the hub answered: {_first_line(error)}") from None
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        raise UserError(
            f"{source.origin}: {source.hub} comes with a loading script, which is not run: name its JSON Lines or"
            " Parquet files (files: [...]) in place of subset and split"
        ) from None
    except ValueError as error:
        # `datasets` says so of a subset or split that there is not, and lists those there are.
        raise UserError(f"{source.origin}: {' '.join(str(error).split())}") from None


def _gated(source: Source) -> str:
    return f"{source.origin}: {source.hub} is gated: ask for access on its page, then `hf auth login` (or set HF_TOKEN)"


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error).strip().split("\n")[0]) or type(error).__name__
