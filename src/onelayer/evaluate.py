"""The evaluate phase: a run's answers to every problem, graded and kept as records."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from onelayer.base import base_folder
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import evaluated_splits
from onelayer.grading.worker import Grader
from onelayer.grid import Run
from onelayer.manifest import EVALUATION_MANIFEST, Meter, damage, read_manifest, write_manifest
from onelayer.models import adapt, load_base, load_tokenizer
from onelayer.pinning import usable_base
from onelayer.prepare import read_problems
from onelayer.progress import tell
from onelayer.prompting import end_ids, prompt_tokens
from onelayer.records import read_records, summarize, write_records
from onelayer.rl.episodes import Arena
from onelayer.rl.rollout import Decoding, generate
from onelayer.rl.vllm_backend import VllmSampler, check_vllm, open_engine
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.store import ADAPTED, RECORDS, SCORES, run_folder, work_folder, write_json
from onelayer.tasks import make_agent_task, make_task
from onelayer.tasks.contract import Problem
from onelayer.training import use_threads

_SECONDS_BETWEEN_WORDS = 5.0


def evaluate_run(study: Study, run: Run) -> None:
    """Sample a run's answers on its splits, grade them, and write records and their manifest.

    Raises UserError where the run is not trained, its checkpoint is damaged, or the disk is full.
    """
    payload = StudyState(study).expected_evaluation(run)
    if isinstance(payload, str):
        raise UserError(f"{study.name}/{run.name}: {payload}; `onelayer plan {study.name}` shows what is missing")
    if study.generation.backend == "vllm":
        check_vllm(study.name)
    meter = Meter()
    folder = run_folder(study.name, run.name)
    model, tokenizer = load_run(study, run)
    settings = study.evaluation
    by_split = {split: read_problems(study, split) for split in evaluated_splits(run)}
    sampler = open_sampler(study, model, tokenizer, [*itertools.chain(*by_split.values())], settings.max_tokens)
    rows: list[dict[str, Any]] = []
    with closing(_judge(study)) as judge:
        for split, problems in by_split.items():
            for greedy in (False, True):
                samples, temperature = (1, None) if greedy else (settings.samples, settings.temperature)
                asked = Asked(study, run, split, problems, samples, temperature, settings.max_tokens)
                made = (
                    _episodes(asked, judge, model, tokenizer)
                    if isinstance(judge, Arena)
                    else sampled_answers(asked, judge, model, tokenizer, sampler)
                )
                rows += made
                right = sum(row["correct"] for row in made) / len(made)
                print(
                    f"{study.name}/{run.name}: {split}, {asked.decoding}: {len(made)}"
                    f" {'episodes' if study.is_agent else 'answers'}, {right:.3f} right",
                    flush=True,
                )
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


def load_run(study: Study, run: Run) -> tuple[Any, Any]:
    """A run's model, in evaluation mode on the first device, and its tokenizer.

    Raises UserError where the base or the run's checkpoint is missing or damaged.
    """
    use_threads(study.resources.threads)
    base = usable_base(study)
    folder = run_folder(study.name, run.name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_base(base, device, attention=study.model.attention)
    model.config._name_or_path = str(base_folder(base))  # where vLLM would start from
    if run.kind != "base":
        trained = read_manifest(folder)
        wrong = damage(folder, trained) if trained else []
        if wrong:
            raise UserError("\n".join([*wrong, f"`onelayer train {study.name} {run.name}` trains it again"]))
        adapt(model, folder / ADAPTED)
    model.eval()
    return model, load_tokenizer(base)


@dataclass(frozen=True)
class Asked:
    """Problems of one split or benchmark, each asked a number of times; a temperature of None is greedy."""

    study: Study
    run: Run
    split: str
    problems: Sequence[Problem]
    samples: int
    temperature: float | None
    max_tokens: int

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken every time."""
        return self.temperature is None

    @property
    def folder(self) -> Path:
        """Where word of how far it is lies, for who watches."""
        return work_folder(self.study.name, self.run.name) / "evaluation"

    @property
    def decoding(self) -> str:
        """How the answers are drawn, as records name it."""
        return "greedy" if self.greedy else "sample"

    def seed(self, index: int, sample: int) -> int:
        """The seed of one answer."""
        return derive_seed(self.study.seed, self.run.name, "evaluate", self.split, self.problems[index].id, sample)

    def limits(self, ends: tuple[int, ...], pad_id: int) -> Decoding:
        """What the sampler needs to know."""
        return Decoding(self.max_tokens, ends, pad_id, self.temperature)

    def row(self, index: int, sample: int, **found: Any) -> dict[str, Any]:
        """One record."""
        return {
            "run": self.run.name,
            "split": self.split,
            "problem": self.problems[index].id,
            "decoding": self.decoding,
            "sample": sample,
            **found,
        }


def open_sampler(
    study: Study, model: Any, tokenizer: Any, problems: Sequence[Problem], limit: int
) -> VllmSampler | None:
    """What samples a run's answers with vLLM; None where the study does not ask for it.

    Args:
        study: its settings.
        model: the run's, to whose weights vLLM is set.
        tokenizer: its tokenizer.
        problems: all that will be asked.
        limit: the most tokens of an answer.
    """
    if study.generation.backend != "vllm":
        return None
    prompts = prompt_tokens(tokenizer, [problem.prompt for problem in problems], study.model.chat)
    engine = open_engine(study.generation, model, Accelerator(), tokenizer, prompts, limit)
    sampler = VllmSampler(engine, frozenset(), study.generation)
    sampler.sync(model)
    return sampler


def _judge(study: Study) -> Grader | Arena:
    if study.is_agent:
        return Arena(make_agent_task(study), study.resources.worlds, study.grading)
    return Grader(make_task(study), study.grading)


def sampled_answers(
    asked: Asked, grader: Grader, model: Any, tokenizer: Any, sampler: VllmSampler | None = None
) -> list[dict[str, Any]]:
    """Sample an answer for every time that a problem is asked, and grade them: the records.

    ``sampler`` samples with vLLM; without one, the model itself does.
    """
    study, problems = asked.study, asked.problems
    ends = end_ids(model, tokenizer, study.model.stop)
    decoding = asked.limits(ends, tokenizer.pad_token_id)
    prompts = prompt_tokens(tokenizer, [problem.prompt for problem in problems], study.model.chat)
    # Prompts of like length go together, so that little of a batch is padding.
    order = sorted(range(len(problems)), key=lambda index: len(prompts[index]))
    wanted = [(index, sample) for index in order for sample in range(asked.samples)]
    made: list[tuple[int, int, list[int]]] = []
    began = last = time.monotonic()
    for start in range(0, len(wanted), study.evaluation.batch_size):
        if start and time.monotonic() - last >= _SECONDS_BETWEEN_WORDS:
            last = time.monotonic()
            left = (last - began) / start * (len(wanted) - start)
            tell(asked.folder, f"sampling {asked.split}, {asked.decoding}", start, len(wanted), left)
        batch = wanted[start : start + study.evaluation.batch_size]
        seeds = None if asked.greedy else [asked.seed(index, sample) for index, sample in batch]
        with torch.autocast(model.device.type, torch.bfloat16, enabled=study.model.precision == "bfloat16"):
            batch_prompts = [prompts[index] for index, _ in batch]
            if sampler is None:
                answers = generate(model, batch_prompts, decoding, seeds)
            else:
                answers, _ = sampler.generate(model, batch_prompts, decoding, seeds)
        made += [(index, sample, answer) for (index, sample), answer in zip(batch, answers, strict=True)]
    shutil.rmtree(asked.folder, ignore_errors=True)
    made.sort(key=lambda row: row[:2])
    texts = tokenizer.batch_decode([answer for _, _, answer in made], skip_special_tokens=True)
    grades = grader.grade([(problems[index], text) for (index, _, _), text in zip(made, texts, strict=True)])
    return [
        asked.row(
            index,
            sample,
            completion=text,
            extracted=grade.extracted,
            correct=grade.correct,
            tokens=len(answer),
            clipped=answer[-1] not in ends,
            status=grade.status,
        )
        for (index, sample, answer), text, grade in zip(made, texts, grades, strict=True)
    ]


def _episodes(asked: Asked, arena: Arena, model: Any, tokenizer: Any) -> list[dict[str, Any]]:
    """Play every instance; an episode's record holds its last action as the answer, and the agent's tokens."""
    study = asked.study
    wanted = [(index, sample) for index in range(len(asked.problems)) for sample in range(asked.samples)]
    with torch.autocast(model.device.type, torch.bfloat16, enabled=study.model.precision == "bfloat16"):
        episodes = arena.play(
            model,
            tokenizer,
            [asked.problems[index] for index, _ in wanted],
            asked.limits(end_ids(model, tokenizer, study.model.stop), tokenizer.pad_token_id),
            None if asked.greedy else [asked.seed(index, sample) for index, sample in wanted],
        )
    return [
        asked.row(
            index,
            sample,
            completion=episode.transcript,
            extracted=episode.steps[-1].action if episode.steps else None,
            correct=episode.success,
            tokens=episode.agent_tokens,
            clipped=not episode.done and episode.broken is None,
            status="ok" if episode.broken is None else "broken",
        )
        for (index, sample), episode in zip(wanted, episodes, strict=True)
    ]
