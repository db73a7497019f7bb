"""What a study takes from the hub: which commit each revision is, decided once, and the rows on this machine."""

from __future__ import annotations

from typing import Any

from onelayer.config import Study
from onelayer.source_settings import Source
from onelayer.store import commits_file, exclusive, read_json, write_json
from onelayer.task_settings import CodeTask, QuestionsTask
from onelayer.tasks.hub import load_split, resolve_commit


def takes_from_hub(study: Study) -> bool:
    """Whether any of a study's problems lie on the hub, so that preparing them can need the network."""
    return any(source.hub is not None for source in _sources(study))


def pinned(study: Study) -> tuple[Study, dict[str, str]]:
    """The study with a commit for every revision, and those commits, resolved at the hub where they are not known.

    Commits stay as they were resolved first; `remember` keeps them once the data has proved to be there. Raises
    UserError where the hub does not say which commit a revision is.
    """
    task = study.task
    if not isinstance(task, (QuestionsTask, CodeTask)) or not takes_from_hub(study):
        return study, {}
    known = _known(study)
    commits: dict[str, str] = {}
    for source in _sources(study):
        if not source.is_pinned:
            key = f"{source.hub}@{source.revision}"
            commits[key] = known.get(key) or commits.get(key) or resolve_commit(source)

    def with_commit(source: Any) -> Any:
        commit = commits.get(f"{source.hub}@{source.revision}")
        return source if commit is None else source.model_copy(update={"revision": commit})

    splits = {
        split: tuple(with_commit(source) for source in getattr(task.sources, split))
        for split in ("train", "select", "report")
    }
    sources = task.sources.model_copy(update=splits)
    return study.model_copy(update={"task": task.model_copy(update={"sources": sources})}), commits


def remember(study: Study, commits: dict[str, str]) -> None:
    """Keep which commit each revision was resolved to."""
    if commits:
        write_json(commits_file(study.name), _known(study) | commits)


def fetch_sources(study: Study) -> list[tuple[str, int]]:
    """Bring a study's hub data onto this machine, so that `onelayer prepare` works without network.

    Returns (where the rows come from, with the commit; how many there are) of each set. Raises UserError where the hub
    cannot be reached, refuses, or has no such data.
    """
    with exclusive(study.name, "problems"):
        at_commits, commits = pinned(study)
        fetched = [
            (source.origin, len(load_split(source))) for source in _sources(at_commits) if source.hub is not None
        ]
        remember(study, commits)
        return fetched


def _known(study: Study) -> dict[str, str]:
    path = commits_file(study.name)
    known: dict[str, str] = read_json(path, f"onelayer prepare {study.name}") if path.is_file() else {}
    return known


def _sources(study: Study) -> list[Source]:
    """The sets of rows of a study, each once."""
    if not isinstance(study.task, (QuestionsTask, CodeTask)):
        return []
    return list({source.origin: source for _, source in study.task.sources.named()}.values())
