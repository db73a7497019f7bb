"""Domains: one file each, one contract."""

from __future__ import annotations

from onelayer.config import Study
from onelayer.tasks.arithmetic import Arithmetic
from onelayer.tasks.contract import Task
from onelayer.tasks.jsonl import Jsonl


def make_task(study: Study) -> Task:
    """The study's domain."""
    if study.task.kind == "arithmetic":
        return Arithmetic(study.task, study.seed)
    return Jsonl(study.task, study.seed)
