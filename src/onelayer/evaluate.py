"""The evaluate phase: a run's answers to every problem, graded and kept as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import evaluated_splits
from onelayer.grid import Run
from onelayer.manifest import EVALUATION_MANIFEST, Meter, damage, read_manifest, write_manifest
from onelayer.models import adapt, base_manifest, load_base, load_tokenizer
from onelayer.prepare import read_problems
from onelayer.records import read_records, summarize, write_records
from onelayer.rl.rollout import Decoding, generate
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.store import ADAPTED, RECORDS, SCORES, run_folder, write_json
from onelayer.tasks import make_task
from onelayer.tasks.contract import Problem, Task
from onelayer.training import use_threads


def evaluate_run(study: Study, run: Run) -> None:
    """Sample a run's answers on its splits, grade them, and write records and their manifest.

    Raises UserError where the run is not trained, its checkpoint is damaged, or the disk is full.
    """
    payload = StudyState(study).expected_evaluation(run)
    if isinstance(payload, str):
        raise UserError(f"{study.name}/{run.name}: {payload}; `onelayer plan {study.name}` shows what is missing")
    meter = Meter()
    use_threads(study.resources.threads)
    base = base_manifest(study)
    folder = run_folder(study.name, run.name)
    model = load_base(base, "cuda" if torch.cuda.is_available() else "cpu")
    if run.kind != "base":
        trained = read_manifest(folder)
        wrong = damage(folder, trained) if trained else []
        if wrong:
            raise UserError("\n".join([*wrong, f"`onelayer train {study.name} {run.name}` trains it again"]))
        adapt(model, folder / ADAPTED)
    model.eval()
    tokenizer = load_tokenizer(base)
    task = make_task(study)
    rows: list[dict[str, Any]] = []
    for split in evaluated_splits(run):
        for greedy in (False, True):
            rows += _answers(study, run, split, read_problems(study, split), task, model, tokenizer, greedy)
    write_records(folder / RECORDS, rows)
    write_json(folder / SCORES, summarize(read_records(study.name, run.name)))
    write_manifest(
        folder,
        study.name,
        run.name,
        payload,
        [folder / RECORDS, folder / SCORES],
        meter.seconds,
        meter.peak_memory_bytes,
        {"records": len(rows), "tokens": sum(row["tokens"] for row in rows), "device": str(model.device)},
        name=EVALUATION_MANIFEST,
    )


def _answers(
    study: Study,
    run: Run,
    split: str,
    problems: Sequence[Problem],
    task: Task,
    model: Any,
    tokenizer: Any,
    greedy: bool,
) -> list[dict[str, Any]]:
    settings = study.evaluation
    ends = end_ids(model, tokenizer)
    decoding = Decoding(
        max_tokens=settings.max_tokens,
        end_ids=ends,
        pad_id=tokenizer.pad_token_id,
        temperature=None if greedy else settings.temperature,
    )
    samples = 1 if greedy else settings.samples
    prompts = tokenizer([problem.prompt for problem in problems])["input_ids"]
    # Prompts of like length go together, so that little of a batch is padding.
    order = sorted(range(len(problems)), key=lambda index: len(prompts[index]))
    asked = [(index, sample) for index in order for sample in range(samples)]
    made: list[tuple[int, int, list[int]]] = []
    for start in range(0, len(asked), settings.batch_size):
        batch = asked[start : start + settings.batch_size]
        seeds = [
            derive_seed(study.seed, run.name, "evaluate", split, problems[index].id, sample) for index, sample in batch
        ]
        with torch.autocast(model.device.type, torch.bfloat16, enabled=study.precision == "bfloat16"):
            answers = generate(model, [prompts[index] for index, _ in batch], decoding, None if greedy else seeds)
        made += [(index, sample, answer) for (index, sample), answer in zip(batch, answers, strict=True)]
    made.sort(key=lambda row: row[:2])
    texts = tokenizer.batch_decode([answer for _, _, answer in made], skip_special_tokens=True)
    decoding_name = "greedy" if greedy else "sample"
    rows = []
    for (index, sample, answer), text in zip(made, texts, strict=True):
        grade = task.grade(problems[index], text)
        rows.append(
            {
                "run": run.name,
                "split": split,
                "problem": problems[index].id,
                "decoding": decoding_name,
                "sample": sample,
                "completion": text,
                "extracted": grade.extracted,
                "correct": grade.correct,
                "tokens": len(answer),
                "clipped": answer[-1] not in ends,
            }
        )
    right = sum(row["correct"] for row in rows) / len(rows)
    print(
        f"{study.name}/{run.name}: {split}, {decoding_name}: {len(rows)} answers, {right:.3f} right",
        flush=True,
    )
    return rows


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends an answer: the tokenizer's and those that the model declares."""
    declared = model.generation_config.eos_token_id
    declared = declared if isinstance(declared, list) else [] if declared is None else [declared]
    return tuple(dict.fromkeys([tokenizer.eos_token_id, *declared]))
