"""Benchmarks of EleutherAI's lm-evaluation-harness (extra ``suite``), its per-sample logs turned into our records.

The harness does what it does for everybody: its prompts, its decoding, its answer extraction and its metrics, on a
model that we hand over. Of its logs, one row a problem becomes a record; and the mean over these records is held
against the score that the harness itself reports, so that a misread record ends the run instead of entering a score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.fingerprint import digest
from onelayer.model_settings import ModelSettings
from onelayer.store import file_sha256
from onelayer.suite.benchmarks import HarnessBenchmark

# What the harness's regular expressions leave where they find nothing.
_NOTHING = "[invalid]"


def check_harness(benchmark: HarnessBenchmark) -> None:
    """See that the harness is installed and a local task folder is there.

    Raises UserError, saying how to install the extra, or which folder is missing.
    """
    if find_spec("lm_eval") is None:
        raise UserError(
            f"benchmark {benchmark.name}: lm-evaluation-harness is not installed; `pip install 'onelayer[suite]'`"
            " installs it"
        )
    if benchmark.path is not None and not benchmark.path.is_dir():
        raise UserError(f"benchmark {benchmark.name}: {benchmark.path}: expected a folder of task files, found none")


def harness_versions() -> dict[str, str]:
    """The version of the harness; empty where it is not installed."""
    try:
        return {"lm-eval": version("lm-eval")}
    except PackageNotFoundError:
        return {}


def task_files_sha(benchmark: HarnessBenchmark) -> str | None:
    """One hash of a local task folder's files; None where the task is the harness's own."""
    if benchmark.path is None:
        return None
    return digest({str(path.relative_to(benchmark.path)): file_sha256(path) for path in task_files(benchmark)})


def task_files(benchmark: HarnessBenchmark) -> tuple[Path, ...]:
    """The files of a local task folder; what Python leaves there when it reads a task is none of them."""
    if benchmark.path is None:
        return ()
    found = (path for path in benchmark.path.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return tuple(sorted(found))


def run_harness(
    benchmark: HarnessBenchmark, run: str, model: Any, tokenizer: Any, batch_size: int, settings: ModelSettings
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Let the harness sample and judge a benchmark.

    Args:
        benchmark: the task, and which metric of a sample says that it is right.
        run: the run's name, for the records.
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: its tokenizer.
        batch_size: requests at once.
        settings: how the study runs the model and speaks to it: the arithmetic's number format, the chat template.

    Returns:
        The records, one a problem, and what a manifest keeps of how they came about: the tasks with their versions,
        few-shot examples and generation settings, and the scores that the harness reports.

    Raises UserError where the task, metric or filter does not exist, its data cannot be had, a sample's metric is
    neither 0 nor 1, or the records' mean is not the harness's own score.
    """
    check_harness(benchmark)
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM

    manager = _task_manager(benchmark)
    if benchmark.task not in manager.all_tasks:
        raise UserError(
            f"benchmark {benchmark.name}: lm-eval {version('lm-eval')} has no task {benchmark.task!r}"
            + (f", and none of that name is in {benchmark.path}" if benchmark.path is not None else "")
        )
    handed = HFLM(
        pretrained=model,
        tokenizer=tokenizer,
        batch_size=batch_size,
        mixed_precision_dtype="bfloat16" if settings.precision == "bfloat16" else None,
    )
    try:
        found = simple_evaluate(
            model=handed,
            tasks=[benchmark.task],
            task_manager=manager,
            log_samples=True,
            bootstrap_iters=0,
            apply_chat_template=settings.chat is not None,
            system_instruction=None if settings.chat is None else settings.chat.system,
        )
    except OSError as error:  # what datasets and the hub's client raise where data cannot be had
        raise UserError(f"benchmark {benchmark.name}: the data of {benchmark.task} cannot be had: {error}") from error
    assert found is not None  # only other ranks of a launcher get nothing
    rows = [row for task, samples in sorted(found["samples"].items()) for row in _rows(benchmark, task, samples)]
    records = [{"run": run, **_record(benchmark, tokenizer, task, sample)} for task, sample in rows]
    _check_scores(benchmark, records, found)
    return records, _provenance(benchmark, found)


def _task_manager(benchmark: HarnessBenchmark) -> Any:
    """The harness's index of tasks; its own thousands of files are read only where the task is not the user's."""
    folder = str(benchmark.path) if benchmark.path is not None else None
    if folder is not None:
        local = _index(folder, False)
        if benchmark.task in local.all_tasks:
            return local
    return _index(folder, True)


@cache
def _index(folder: str | None, defaults: bool) -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=folder, include_defaults=defaults)


def _rows(
    benchmark: HarnessBenchmark, task: str, samples: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The samples of the benchmark's filter, in the order of the documents."""
    filters = sorted({sample["filter"] for sample in samples})
    if benchmark.filter not in filters:
        raise UserError(
            f"benchmark {benchmark.name}: task {task}: expected one of the filters {', '.join(filters)}, found"
            f" {benchmark.filter!r}"
        )
    chosen = [sample for sample in samples if sample["filter"] == benchmark.filter]
    for sample in sorted(chosen, key=lambda one: one["doc_id"]):
        if benchmark.metric not in sample:
            raise UserError(
                f"benchmark {benchmark.name}: task {task}: expected one of the metrics"
                f" {', '.join(map(str, sample['metrics']))}, found {benchmark.metric!r}"
            )
        yield task, sample


def _record(benchmark: HarnessBenchmark, tokenizer: Any, task: str, sample: dict[str, Any]) -> dict[str, Any]:
    """A sample as one of our records.

    A multiple choice by likelihood writes nothing: its completion is the option that it takes, of no tokens. The
    harness logs text, not tokens, so the tokens of a written answer are those of its text, read again.
    """
    value = sample[benchmark.metric]
    if value not in (0, 1):
        raise UserError(
            f"benchmark {benchmark.name}: task {task}, document {sample['doc_id']}: expected"
            f" {benchmark.metric} to be 0 or 1, found {value!r}"
        )
    requests, responses = sample["arguments"], sample["resps"]
    tokens, clipped = 0, False
    extracted: str | None
    if len(requests) > 1:
        completion = extracted = _chosen_option(benchmark.metric, requests, sample["filtered_resps"])
    else:
        completion = str(responses[0][0])
        filtered = sample["filtered_resps"][0]
        filtered = filtered[0] if isinstance(filtered, (list, tuple)) and filtered else filtered
        extracted = None if filtered in (_NOTHING, "", None, []) else str(filtered)
        tokens = len(tokenizer(completion, add_special_tokens=False)["input_ids"])
        limit = requests[0][1].get("max_gen_toks") if isinstance(requests[0][1], Mapping) else None
        clipped = limit is not None and tokens >= limit
    return {
        "split": benchmark.name,
        "problem": f"{task}:{sample['doc_id']}",
        "decoding": "greedy",
        "sample": 0,
        "completion": completion,
        "extracted": extracted,
        "correct": bool(value),
        "tokens": tokens,
        "clipped": clipped,
        "status": "ok",
    }


def _chosen_option(metric: str, requests: list[Any], likelihoods: list[Any]) -> str:
    """The likeliest option; with acc_norm, the likeliest a character, as that metric takes it."""
    options = [str(request[-1]).strip() for request in requests]
    scores = [float(one[0]) for one in likelihoods]
    if metric == "acc_norm":
        scores = [score / max(len(option), 1) for score, option in zip(scores, options, strict=True)]
    return options[scores.index(max(scores))]


def _check_scores(benchmark: HarnessBenchmark, records: list[dict[str, Any]], found: Mapping[str, Any]) -> None:
    """Hold the records against the harness's own score of every task, and of the group where it gives one."""
    key = f"{benchmark.metric},{benchmark.filter}"
    by_task: dict[str, list[bool]] = {}
    for record in records:
        by_task.setdefault(record["problem"].rpartition(":")[0], []).append(record["correct"])
    means = {task: sum(right) / len(right) for task, right in by_task.items()}
    expected = {task: found["results"][task].get(key) for task in by_task}
    whole = found.get("groups", {}).get(benchmark.task, {}).get(key)
    if whole is not None:
        means[benchmark.task] = sum(record["correct"] for record in records) / len(records)
        expected[benchmark.task] = whole
    for task, mean in means.items():
        theirs = expected[task]
        if theirs is None or not math.isclose(mean, float(theirs), abs_tol=1e-9):
            raise UserError(
                f"benchmark {benchmark.name}: task {task}: the records' mean is {mean}, the harness reports"
                f" {theirs} as its {key}; lm-eval {version('lm-eval')} logs or adds up samples in a way that is not"
                " understood here"
            )


def _provenance(benchmark: HarnessBenchmark, found: Mapping[str, Any]) -> dict[str, Any]:
    key = f"{benchmark.metric},{benchmark.filter}"
    return {
        "tasks": {
            task: {
                "version": found["versions"].get(task),
                "few_shot": found["configs"][task].get("num_fewshot"),
                "generation": found["configs"][task].get("generation_kwargs"),
                "data": found["configs"][task].get("dataset_path"),
                "score": float(found["results"][task][key]),
            }
            for task in sorted(found["samples"])
        },
        "seeds": {name: found["config"][name] for name in ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")},
    }
