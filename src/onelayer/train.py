"""The train phase: one run after another, each only where its fingerprint is not there yet."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from accelerate.utils import gather_object

from onelayer.adaptation import apply_adaptation, boosted_names, check_moved, tensor_hashes
from onelayer.base import base_folder
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import digest
from onelayer.grading.worker import Grader
from onelayer.grid import Run
from onelayer.lora import check_targets, peft_config, save_adapters
from onelayer.manifest import Meter, write_manifest
from onelayer.models import load_base, load_tokenizer, save_adapted
from onelayer.pinning import usable_base
from onelayer.prepare import read_problems
from onelayer.prompting import prompt_tokens
from onelayer.rl.agents import AgentTrainer
from onelayer.rl.episodes import Arena
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config, make_reward, prompt_dataset
from onelayer.rl.vllm_backend import VllmSampler, check_vllm, open_engine
from onelayer.state import StudyState
from onelayer.store import ADAPTED, HISTORY, run_folder, write_json
from onelayer.tasks import make_agent_task, make_task
from onelayer.trackers import tracking
from onelayer.training import Workplace, WorkplaceCallback, run_trainer, use_threads

# What of TRL's log belongs to a run's history: what a training curve shows, and what a score hides.
_CURVES = {
    "step": "step",
    "reward": "reward",
    "success": "success",
    "turns": "turns",
    "invalid": "invalid",
    "broken": "broken",
    "frac_reward_zero_std": "groups_without_signal",
    "kl": "kl",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "completions/mean_length": "mean_tokens",
    "completions/clipped_ratio": "clipped",
    "clip_ratio/region_mean": "ratio_clipped",
}


def train_run(study: Study, run: Run) -> None:
    """Train one run from the base, prove what it trained, and write its checkpoint, history and manifest.

    Raises UserError where the study is not ready for it or the disk is full, and AdaptationError where the
    run trained anything but its adaptation.
    """
    payload = StudyState(study).expected_training(run)
    if isinstance(payload, str):
        raise UserError(f"{study.name}/{run.name}: {payload}; `onelayer plan {study.name}` shows what is missing")
    run = replace(run, layers=tuple(payload["layers"]))  # those that a ranking chose are known by now
    if study.generation.backend == "vllm":
        check_vllm(study.name)
    meter = Meter()
    use_threads(study.resources.threads)
    base = usable_base(study)
    problems = read_problems(study, "train")
    workplace = Workplace(study.name, study.seed, run.name, digest(payload), study.resources.save_every_seconds)
    model = load_base(base, attention=study.model.attention)
    hashes = tensor_hashes(model)
    # TRL reads the reference model from the path that the configuration names.
    model.config._name_or_path = str(base_folder(base))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    check_targets(study, model)
    names = apply_adaptation(model, run)
    callback = WorkplaceCallback(workplace, meter, study.training.steps_per_rollout, watched="reward")
    distributed = study.resources.distributed
    processes = 1 if distributed is None else distributed.processes
    common: dict[str, Any] = {
        "model": model,
        "sharded": distributed is not None and distributed.strategy == "fsdp",
        "train_dataset": prompt_dataset(problems),
        "processing_class": load_tokenizer(base),
        "callbacks": [callback],
        "trained_names": names,
        "boosted": boosted_names(model, run),
        "boost": run.boost or 1.0,
        "workplace": workplace,
        "chat": study.model.chat,
        "stop": study.model.stop,
        "peft_config": None if run.lora is None else peft_config(run.lora),
    }
    precision = study.model.precision
    config = partial(
        grpo_config,
        study.training,
        payload["learning_rate"],
        workplace,
        precision,
        study.algorithm,
        report_to=study.resources.report_to,
        processes=processes,
    )
    trainer: OneLayerGRPOTrainer
    if study.is_agent:
        task = make_agent_task(study)
        worlds = -(-study.resources.worlds // processes)
        with closing(Arena(task, worlds, study.grading)) as arena, tracking(study, run.name):
            trainer = AgentTrainer(
                args=config(turns=task.max_turns), study=study, arena=arena, problems=problems, **common
            )
            run_trainer(trainer, workplace)
    else:
        with closing(Grader(make_task(study), study.grading)) as grader, tracking(study, run.name):
            trainer = OneLayerGRPOTrainer(
                args=config(),
                reward_funcs=make_reward(grader, problems),
                rows_at_once=study.generation.batch_size,
                **common,
            )
            if study.generation.backend == "vllm":
                tokenizer = common["processing_class"]
                prompts = prompt_tokens(tokenizer, [problem.prompt for problem in problems], study.model.chat)
                limit = study.training.max_tokens
                engine = open_engine(study.generation, model, trainer.accelerator, tokenizer, prompts, limit)
                trainer.sample_with(VllmSampler(engine, names, study.generation))
            run_trainer(trainer, workplace)

    model = trainer.accelerator.unwrap_model(trainer.model)
    moved = check_moved(model, hashes, trainer.optimizer, names, trainer.adapters_at_start)
    model = trainer.plain_model()
    peak = max(gather_object([callback.peak_memory_bytes]))
    if not trainer.accelerator.is_main_process:
        return
    if not moved:
        print(
            f"{study.name}/{run.name}: nothing moved: every group's answers were rewarded alike, so no step had a"
            " gradient",
            flush=True,
        )
    folder = run_folder(study.name, run.name)
    if run.lora is None:
        save_adapted(model, names, folder / ADAPTED)
    else:
        save_adapters(model, names, run.lora, folder / ADAPTED)
    # A step whose every judgement broke has no reward: no number is kept for it.
    # TRL takes an episode's row for one answer, which no end token ends: its share of clipped ones says nothing there.
    curves = {theirs: ours for theirs, ours in _CURVES.items() if not (study.is_agent and ours == "clipped")}
    history = [
        {ours: row[theirs] for theirs, ours in curves.items() if math.isfinite(row.get(theirs, math.nan))}
        for row in trainer.state.log_history
        if "reward" in row
    ]
    write_json(folder / HISTORY, history)
    write_manifest(
        folder,
        study.name,
        run.name,
        payload,
        [folder / ADAPTED, folder / HISTORY],
        callback.wall_seconds,
        peak,
        {
            "kind": run.kind,
            "layers": list(run.layers),
            **({} if run.lora is None else {"lora": payload["lora"]}),
            **({} if run.boost is None else {"boost": run.boost, "weights_by_rate": trainer.weights_by_rate}),
            **({} if run.rate_factor is None else {"rate_factor": run.rate_factor}),
            "training_seed": run.seed,
            "learning_rate": payload["learning_rate"],
            "moved": moved,
            # A batch of answers is made once for all its optimizer steps, and its share logged with the first of them.
            "failed_judgements": round(
                sum(row.get("broken", 0.0) for row in history)
                * study.training.prompts_per_batch
                * study.training.group_size
            ),
            "trained_parameters": sum(p.numel() for n, p in model.named_parameters() if n in names),
            "parameters": parameters,
            "checkpoint_bytes": (folder / ADAPTED).stat().st_size,
            "tokens": trainer.state.num_input_tokens_seen,
            "device": str(trainer.accelerator.device),
            "threads": study.resources.threads,
            **({} if distributed is None else {"distributed": distributed.model_dump()}),
        },
    )
    workplace.discard()
