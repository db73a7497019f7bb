"""What a study takes from the hub: which commit each revision is, decided once, and the rows on this machine."""

from __future__ import annotations

from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.source_settings import Source
from onelayer.store import commits_file, exclusive, read_json, write_json
from onelayer.study_sources import split_sources, suite_sources
from onelayer.suite.benchmarks import Entry, HarnessBenchmark
from onelayer.task_settings import CodeTask, QuestionsTask
from onelayer.tasks.hub import resolve_commit
from onelayer.tasks.sources import length_of


def pinned(study: Study) -> tuple[Study, dict[str, str]]:
    """The study with a commit for every revision of rows, and those commits, resolved where they are not known.

    Commits stay as they were resolved first; `remember` keeps them once the data has proved to be there. Raises
    UserError where the hub does not say which commit a revision is.
    """
    known = _known(study)
    commits: dict[str, str] = {}
    for source in (*split_sources(study), *suite_sources(study)):
        if not source.is_pinned:
            key = _key(source)
            commits[key] = known.get(key) or commits.get(key) or resolve_commit(source)
    return (_at(study, commits), commits) if commits else (study, {})


def remember(study: Study, commits: dict[str, str]) -> None:
    """Keep which commit each revision was resolved to."""
    if commits:
        write_json(commits_file(study.name), _known(study) | commits)


def settle(study: Study) -> Study:
    """The study with a commit for every revision of rows, which from now on are the ones that count.

    Raises UserError where the hub does not say which commit a revision is.
    """
    with exclusive(study.name, "problems"):
        at_commits, commits = pinned(study)
        remember(study, commits)
    return at_commits


def known_origin(study: Study, source: Source) -> str:
    """Where a hub source's rows lie, with the commit. Raises UserError where no commit was resolved for it yet."""
    if source.is_pinned:
        return source.origin
    commit = _known(study).get(_key(source))
    if commit is None:
        raise UserError(f"{source.origin}: which commit this is, the hub was not asked yet")
    return source.model_copy(update={"revision": commit}).origin


def fetch_sources(study: Study) -> list[tuple[str, int]]:
    """Bring a study's hub data onto this machine, its suite's too, so that nothing needs the network for it later.

    Returns (where the rows come from, with the commit; how many there are) of each set. Raises UserError where the hub
    cannot be reached, refuses, or has no such data.
    """
    with exclusive(study.name, "problems"):
        at_commits, commits = pinned(study)
        sources = {one.origin: one for one in (*split_sources(at_commits), *suite_sources(at_commits))}
        fetched = [(origin, length_of(source)) for origin, source in sources.items() if source.hub is not None]
        remember(study, commits)
        return fetched


def _at(study: Study, commits: dict[str, str]) -> Study:
    """The study with these commits in the place of their revisions."""

    def changes(source: Source) -> dict[str, str]:
        commit = commits.get(_key(source))
        return {} if commit is None else {"revision": commit}

    changed: dict[str, Any] = {}
    task = study.task
    if isinstance(task, (QuestionsTask, CodeTask)):
        splits = {
            split: tuple(one.model_copy(update=changes(one)) for one in getattr(task.sources, split))
            for split in ("train", "select", "report")
        }
        changed["task"] = task.model_copy(update={"sources": task.sources.model_copy(update=splits)})

    def entry_at(entry: Entry) -> Entry:
        benchmark = entry.resolved()
        found = {} if isinstance(benchmark, HarnessBenchmark) else changes(benchmark.source)
        return entry.model_copy(update={"source": {**(entry.source or {}), **found}}) if found else entry

    suite = tuple(entry_at(entry) for entry in study.evaluation.suite)
    changed["evaluation"] = study.evaluation.model_copy(update={"suite": suite})
    return study.model_copy(update=changed)


def _key(source: Source) -> str:
    return f"{source.hub}@{source.revision}"


def _known(study: Study) -> dict[str, str]:
    path = commits_file(study.name)
    known: dict[str, str] = read_json(path, f"onelayer prepare {study.name}") if path.is_file() else {}
    return known
