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
from onelayer.model_settings import PretrainedModel
from onelayer.study_sources import held_out
from onelayer.suite.benchmarks import Benchmark, HarnessBenchmark
from onelayer.task_settings import ArithmeticTask, CodeTask, ExpressionsTask, QuestionsTask, ReasoningGymTask

PROBLEMS_RECIPE = 1
BASE_RECIPE = 1
TRAIN_RECIPE = 2
EVALUATE_RECIPE = 2
SUITE_RECIPE = 1
WEIGH_RECIPE = 1
ANALYSIS_RECIPE = 5
# The rules by which mathematics and options are judged (docs/method.md).
RULES_RECIPE = 1

Payload = dict[str, Any]


def digest(payload: Payload) -> str:
    """Hash a JSON-like mapping, whatever the order of its keys (sha256, hexadecimal)."""
    return hashlib.sha256(json.dumps(payload, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _changed(settings: Any, **options: Any) -> Payload:
    dumped: Payload = settings.model_dump(mode="json", exclude_defaults=True, **options)
    return dumped


def problems_payload(study: Study, source_shas: dict[str, str]) -> Payload:
    """All that decides a study's problems: the task's settings, the seed, and the content of its files.

    Where training rows are held against the suite's sets, these too.
    """
    payload = {
        "recipe": PROBLEMS_RECIPE,
        "seed": study.seed,
        "task": _changed(study.task),
        "sources": source_shas,
    }
    against = held_out(study)
    return payload | ({"held_out": [_changed(source) for source in against]} if against else {})


def base_settings(study: Study) -> Payload:
    """What decides the base: for a micro model its shape, pre-training and corpus; else where it comes from.

    How a pretrained model is run and spoken to belongs to training and evaluation; the depth that a study states of
    one is checked, and decides nothing.
    """
    use = {*PretrainedModel.model_fields, "layers"} if isinstance(study.model, PretrainedModel) else set()
    payload: Payload = {"recipe": BASE_RECIPE, "model": _changed(study.model, exclude=use)}
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
    if run.boost is not None:
        payload["boost"] = run.boost
    if run.lora is not None:
        targets = run.lora.targets
        payload["lora"] = {
            "rank": run.lora.rank,
            "alpha": run.lora.adapter_alpha,
            "targets": targets if isinstance(targets, str) else sorted(targets),
        }
    return payload | _use_settings(study) | _backend_setting(study)


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
        "evaluation": _changed(study.evaluation, exclude={"batch_size", "suite"}),
        "grading": _grading_settings(study),
        "splits": list(evaluated_splits(run)),
    }
    return payload | _use_settings(study) | _backend_setting(study)


def evaluation_payload(study: Study, run: Run, weights_sha: str, split_shas: dict[str, str]) -> Payload:
    """All that decides a run's records; its digest is the evaluation's fingerprint."""
    return evaluation_settings(study, run) | {"weights": weights_sha, "problems": split_shas}


def evaluated_splits(run: Run) -> tuple[str, ...]:
    """The splits a run is sampled on: the search never sees ``report``."""
    return ("select",) if run.kind == "search" else ("select", "report")


def _use_settings(study: Study) -> Payload:
    """How a pretrained model is run and spoken to: those of its settings that are not the defaults."""
    if not isinstance(study.model, PretrainedModel):
        return {}
    use = _changed(study.model, include=set(PretrainedModel.model_fields) - {"shape"})
    if study.model.chat is not None:
        use["chat"] = study.model.chat.model_dump(mode="json")
    return use


def _backend_setting(study: Study) -> Payload:
    """What draws the answers; where it runs, and how it is watched, changes none."""
    return {} if study.generation.backend == "transformers" else {"backend": study.generation.backend}


def _grading_settings(study: Study) -> Payload:
    """What decides a judgement: the domain's own settings, and what a failed judgement does."""
    payload: Payload = {"kind": study.task.kind, "grading": getattr(study.task, "grading", "exact")}
    if payload["grading"] in ("math", "choice"):
        payload["rules"] = RULES_RECIPE
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


def weighing_payload(weights_sha: str, base_sha: str) -> Payload:
    """All that decides a run's change of weights: what it trained, and what it started from."""
    return {"recipe": WEIGH_RECIPE, "weights": weights_sha, "base": base_sha}


def suite_settings(study: Study, run: Run, benchmark: Benchmark) -> Payload:
    """What decides a run's records on one benchmark of the suite, before its weights and rows are known."""
    # Where rows lie on this machine decides nothing, their content does; nor does the category that a score counts in.
    elsewhere = {"category": True, "path": True, "source": {"path"}, "sandbox": {"fallback"}}
    payload: Payload = {
        "recipe": SUITE_RECIPE,
        "seed": study.seed,
        "run": run.name,
        "benchmark": _changed(benchmark, exclude=elsewhere),
    }
    if study.grading.failures != "stop":
        payload["failures"] = study.grading.failures
    # The harness samples with transformers, whatever the study says.
    backend = {} if isinstance(benchmark, HarnessBenchmark) else _backend_setting(study)
    return payload | _use_settings(study) | backend


def suite_payload(study: Study, run: Run, benchmark: Benchmark, weights_sha: str, rows: str | None) -> Payload:
    """All that decides a run's records on a benchmark; ``rows`` is None where the harness fetches them."""
    return suite_settings(study, run, benchmark) | {"weights": weights_sha, "rows": rows}
