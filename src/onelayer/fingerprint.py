"""What makes a run the same run: a hash of all that decides its result.

A fingerprint covers the resolved settings that matter to the run, the content of its data and of its base,
and a recipe version. A recipe version is raised by hand when the method changes what a run computes; a
cosmetic edit leaves it alone. Settings that equal their defaults are left out of the hash, so that a new
setting whose default keeps the old behaviour leaves every old fingerprint as it was; whoever changes a
default must raise the recipe version.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from onelayer.config import Study
from onelayer.grid import Run
from onelayer.task_settings import ArithmeticTask, CodeTask, ExpressionsTask, QuestionsTask, ReasoningGymTask

PROBLEMS_RECIPE = 1
BASE_RECIPE = 1
TRAIN_RECIPE = 2
EVALUATE_RECIPE = 2
ANALYSIS_RECIPE = 2

Payload = dict[str, Any]


def digest(payload: Payload) -> str:
    """Hash a JSON-like mapping, whatever the order of its keys (sha256, hexadecimal)."""
    return hashlib.sha256(json.dumps(payload, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _changed(settings: Any, **options: Any) -> Payload:
    dumped: Payload = settings.model_dump(mode="json", exclude_defaults=True, **options)
    return dumped


def problems_payload(study: Study, source_shas: dict[str, str]) -> Payload:
    """All that decides a study's problems: the task's settings, the seed, and the content of its files."""
    return {
        "recipe": PROBLEMS_RECIPE,
        "seed": study.seed,
        "task": _changed(study.task),
        "sources": source_shas,
    }


def base_settings(study: Study) -> Payload:
    """What decides the base: for a micro model its shape, pre-training and corpus; else where it comes from."""
    payload: Payload = {"recipe": BASE_RECIPE, "model": _changed(study.model, exclude={"precision"})}
    if study.model.kind == "micro":
        payload |= {"seed": study.seed, "corpus": _changed(study.task, exclude={"sizes"})}
    return payload


def training_settings(study: Study, run: Run) -> Payload:
    """What decides a training run, before its data, base and learning rate are known."""
    payload: Payload = {
        "recipe": TRAIN_RECIPE,
        "seed": study.seed,
        "run": run.name,
        "layers": list(run.layers),
        "algorithm": study.algorithm,
        "training": _changed(study.training, exclude={"learning_rates"}),
        "grading": _grading_settings(study),
    }
    return payload | _precision_setting(study)


def training_payload(study: Study, run: Run, learning_rate: float, train_sha: str, base_sha: str) -> Payload:
    """All that decides a training run; its digest is the run's fingerprint."""
    return training_settings(study, run) | {
        "learning_rate": learning_rate,
        "train_split": train_sha,
        "base": base_sha,
    }


def evaluation_settings(study: Study, run: Run) -> Payload:
    """What decides a run's records, before its weights and problems are known."""
    payload: Payload = {
        "recipe": EVALUATE_RECIPE,
        "seed": study.seed,
        "run": run.name,
        "evaluation": _changed(study.evaluation, exclude={"batch_size"}),
        "grading": _grading_settings(study),
        "splits": list(evaluated_splits(run)),
    }
    return payload | _precision_setting(study)


def evaluation_payload(study: Study, run: Run, weights_sha: str, split_shas: dict[str, str]) -> Payload:
    """All that decides a run's records; its digest is the evaluation's fingerprint."""
    return evaluation_settings(study, run) | {"weights": weights_sha, "problems": split_shas}


def evaluated_splits(run: Run) -> tuple[str, ...]:
    """The splits a run is sampled on: the search never sees ``report``."""
    return ("select",) if run.kind == "search" else ("select", "report")


def _precision_setting(study: Study) -> Payload:
    return {} if study.precision == "float32" else {"precision": study.precision}


def _grading_settings(study: Study) -> Payload:
    """What decides a judgement: the domain's own settings, and what a failed judgement does."""
    payload: Payload = {"kind": study.task.kind, "grading": getattr(study.task, "grading", "exact")}
    if study.grading.failures != "stop":
        payload["failures"] = study.grading.failures
    match study.task:
        case CodeTask() | ExpressionsTask():
            # How a program is isolated changes no judgement; its limits do.
            payload["limits"] = _changed(study.task.sandbox, exclude={"fallback"})
            if isinstance(study.task, CodeTask):
                payload["complete_prompt"] = study.task.complete_prompt
        case ArithmeticTask() | QuestionsTask():
            pass
        case ReasoningGymTask():
            payload["judge"] = _changed(study.task, exclude={"sizes", "prompt"})
        case world:
            payload["world"] = _changed(world, exclude={"sizes", "careless", "path", "call_seconds"})
    return payload
