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


def pinned(study: Study) -> Study:
    """The study with a commit for every revision, resolved at the hub where it is not resolved already.

    Commits stay as they were resolved first (`onelayer.store.commits_file`). Raises UserError where the hub does not
    say which commit a revision is.
    """
    task = study.task
    if not isinstance(task, (QuestionsTask, CodeTask)) or not takes_from_hub(study):
        return study
    path = commits_file(study.name)
    known: dict[str, str] = read_json(path, f"onelayer prepare {study.name}") if path.is_file() else {}
    commits = {}
    for source in _sources(study):
        if not source.is_pinned:
            key = f"{source.hub}@{source.revision}"
            commits[key] = known.get(key) or commits.get(key) or resolve_commit(source)
    if commits:
        write_json(path, known | commits)

    def with_commit(source: Any) -> Any:
        commit = commits.get(f"{source.hub}@{source.revision}")
        return source if commit is None else source.model_copy(update={"revision": commit})

    splits = {
        split: tuple(with_commit(source) for source in getattr(task.sources, split))
        for split in ("train", "select", "report")
    }
    sources = task.sources.model_copy(update=splits)
    return study.model_copy(update={"task": task.model_copy(update={"sources": sources})})


def fetch_sources(study: Study) -> list[tuple[str, int]]:
    """Bring a study's hub data onto this machine, so that `onelayer prepare` works without network.

    Returns (where the rows come from, with the commit; how many there are) of each set. Raises UserError where the hub
    cannot be reached, refuses, or has no such data.
    """
    with exclusive(study.name, "problems"):
        return [
            (source.origin, len(load_split(source))) for source in _sources(pinned(study)) if source.hub is not None
        ]


def _sources(study: Study) -> list[Source]:
    """The sets of rows of a study, each once."""
    if not isinstance(study.task, (QuestionsTask, CodeTask)):
        return []
    return list({source.origin: source for _, source in study.task.sources.named()}.values())
