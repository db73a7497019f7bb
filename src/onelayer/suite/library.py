"""benchmarks.yaml as it is written, before settings are made of it: which benchmarks there are, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

# What says where rows lie; a path in a benchmark's place says all of it anew.
_PLACE = ("path", "hub", "revision", "subset", "split", "files")

# Problems of the benchmarks, as their authors publish them (of MBPP its test split, of C-Eval its validation set, of
# MGSM eleven languages, of LiveCodeBench release v5).
SUITE_PROBLEMS = {
    "math500": 500,
    "gsm8k": 1319,
    "olympiadbench": 674,
    "amc": 40,
    "aime24": 30,
    "aime25": 30,
    "minerva": 272,
    "humaneval-plus": 164,
    "mbpp": 500,
    "livecodebench": 880,
    "gpqa-diamond": 198,
    "mmlu-pro": 12032,
    "c-eval": 1346,
    "ifeval": 541,
    "mgsm": 2750,
}


@cache
def library() -> dict[str, Any]:
    """The content of benchmarks.yaml: ``composites`` and ``benchmarks``."""
    text = resources.files("onelayer.suite").joinpath("benchmarks.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def changed_source(source: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A benchmark's source with a study's changes; a path takes the hub's place, files that of subset and split."""
    if changes.get("path") is not None:
        gone: tuple[str, ...] = _PLACE
    else:
        gone = ("subset", "split") if changes.get("files") else ()
    return {**{key: value for key, value in source.items() if key not in gone}, **changes}


def expanded_source(content: Mapping[str, Any], judge: str) -> dict[str, Any]:
    """A source ``{benchmark: NAME, …}`` with the benchmark's own settings, under what the mapping says itself.

    Args:
        content: the mapping.
        judge: the kind of task that the source is for, ``questions`` or ``code``.

    Raises ValueError, which pydantic turns into its own, where there is no such benchmark for it.
    """
    name = content["benchmark"]
    benchmarks = library()["benchmarks"]
    fitting = [one for one, settings in benchmarks.items() if settings["judge"] == judge]
    if name not in fitting:
        known = isinstance(name, str) and name in benchmarks
        found = f"benchmark {name}, which is judged by {benchmarks[name]['judge']}" if known else f"benchmark {name!r}"
        raise ValueError(f"found {found}; expected one of {', '.join(fitting)} (of task.kind {judge})")
    changes = {key: value for key, value in content.items() if key != "benchmark"}
    return {"name": name, **changed_source(benchmarks[name]["source"], changes)}
