"""The sets of rows that a study reads: those that its splits are drawn from, and those of its evaluation suite."""

from __future__ import annotations

from pathlib import Path

from onelayer.config import Study
from onelayer.source_settings import Source
from onelayer.suite.benchmarks import HarnessBenchmark
from onelayer.task_settings import CodeTask, QuestionsTask


def split_sources(study: Study) -> tuple[Source, ...]:
    """The sets that the splits are drawn from, as often as they are named; none where no rows make the problems."""
    if not isinstance(study.task, (QuestionsTask, CodeTask)):
        return ()
    return tuple(source for _, source in study.task.sources.named())


def suite_sources(study: Study) -> tuple[Source, ...]:
    """The sets of the suite's benchmarks that we sample ourselves, each named as its benchmark is."""
    return tuple(benchmark.named_source for benchmark in study.suite if not isinstance(benchmark, HarnessBenchmark))


def held_out(study: Study) -> tuple[Source, ...]:
    """The suite's sets that training rows must not copy.

    None where nothing is looked for (`task.decontamination` is null, or no rows make the problems). The harness reads
    its own sets, so these are not among them.
    """
    task = study.task
    if not isinstance(task, (QuestionsTask, CodeTask)) or task.decontamination is None:
        return ()
    return suite_sources(study)


def source_files(study: Study) -> tuple[Path, ...]:
    """The user's own files that decide a study's problems."""
    sources = (*split_sources(study), *held_out(study))
    return tuple(dict.fromkeys(source.path for source in sources if source.path is not None))


def takes_from_hub(study: Study) -> bool:
    """Whether rows of the hub decide a study's problems, so that preparing them can need the network."""
    return any(source.hub is not None for source in (*split_sources(study), *held_out(study)))
