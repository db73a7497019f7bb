"""GRPO and Dr. GRPO on TRL's trainer.

For a group of G responses to one prompt, rewarded r_1 … r_G, every token of response i has the advantage A_i and the
loss l = −min(ρ A, clip(ρ, 1 − ε, 1 + ε) A) + β KL, where ρ is the ratio of the policy to the one that sampled, and KL
the estimator e^d − d − 1 with d = log π_ref − log π.

    GRPO       A_i = (r_i − mean(r)) / (std(r) + 1e-4), std unbiased
               loss = mean over responses of each response's mean of l over its tokens
    Dr. GRPO   A_i = r_i − mean(r)
               loss = Σ l / (responses · the limit in tokens)

Sources: DeepSeekMath (arXiv 2402.03300, section 4.1), as ``trl.GRPOTrainer`` computes it with ``loss_type="grpo"`` and
``scale_rewards="group"``; *Understanding R1-Zero-Like Training* (arXiv 2503.20783, section 3.2), as TRL computes it
with ``loss_type="dr_grpo"`` and ``scale_rewards="none"``. The limit in tokens is a setting (``max_tokens``), so that
runs are compared at one constant.

What differs from TRL is no formula: sampling goes through `onelayer.rl.rollout`, and the gradient stops below the
lowest trained layer, with gradient checkpointing too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import RepeatSampler

from onelayer.adaptation import boost_rates, check_rates, check_trainable, tensor_hashes
from onelayer.grading.worker import Grader
from onelayer.model_settings import Chat
from onelayer.prompting import end_ids, prompt_tokens
from onelayer.rl.rollout import Decoding, generate_in_batches, row_seeds
from onelayer.rl.vllm_backend import VllmSampler
from onelayer.sharding import ShardableMixin
from onelayer.tasks.contract import Problem
from onelayer.training import Workplace
from onelayer.training_settings import Training

Reward = Callable[..., list[float | None]]


def grpo_config(
    settings: Training,
    learning_rate: float,
    workplace: Workplace,
    precision: str,
    algorithm: Literal["grpo", "dr_grpo", "gigpo"] = "grpo",
    turns: int = 1,
    report_to: Sequence[str] = (),
    processes: int = 1,
    **overrides: Any,
) -> GRPOConfig:
    """TRL's settings for ours.

    GiGPO uses Dr. GRPO's sum over tokens, whose weights `onelayer.rl.agents` sets. The constant of that sum is what a
    row can hold of the model's own tokens: the limit of a turn times the turns.

    Each of the ``processes`` takes an equal part of every forward and backward pass.
    """
    rows = settings.minibatch_prompts * settings.group_size
    return GRPOConfig(
        output_dir=str(workplace.folder),
        loss_type="grpo" if algorithm == "grpo" else "dr_grpo",
        scale_rewards="group" if algorithm == "grpo" else "none",
        max_steps=settings.steps,
        learning_rate=learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        beta=settings.kl,
        use_bias_correction_kl=False,  # TRL's default multiplies the KL by the ratio, which neither paper does
        router_aux_loss_coef=0.0,  # TRL would add a mixture of experts' balancing loss, which is in no formula here
        epsilon=settings.clip,
        temperature=settings.temperature,
        top_p=1.0,
        top_k=0,
        max_completion_length=settings.max_tokens * turns,
        num_generations=settings.group_size,
        per_device_train_batch_size=settings.microbatch_rows // processes,
        gradient_accumulation_steps=rows // settings.microbatch_rows,
        steps_per_generation=settings.prompts_per_batch * settings.group_size // settings.microbatch_rows,
        num_iterations=settings.inner_epochs,
        gradient_checkpointing=settings.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        bf16=precision == "bfloat16",
        logging_steps=1,
        save_strategy="no",
        save_total_limit=2,
        report_to=list(report_to) or "none",
        run_name=f"{workplace.study}/{workplace.run}",
        project=workplace.study,
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,  # all that trains has a part in every pass
        seed=workplace.seed("order"),
        **overrides,
    )


class _EpochSampler(RepeatSampler):  # type: ignore[misc]
    """TRL's sampler of problems, whose order in an epoch does not depend on which process ran the epochs before it.

    TRL's own goes on from where its generator stands, so in a process that resumes in a later epoch it would draw the
    first epoch's order again.
    """

    def __init__(self, *args: Any, epoch: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed)
        for _ in range(self._epoch()):
            torch.randperm(self.num_samples, generator=self.generator)
        yield from super().__iter__()


class OneLayerGRPOTrainer(ShardableMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPO trainer, with our sampler, our way of putting a problem to the model, and small resume saves."""

    def __init__(
        self,
        model: Any,
        *args: Any,
        trained_names: frozenset[str],
        workplace: Workplace,
        chat: Chat | None = None,
        stop: Sequence[str] = (),
        rows_at_once: int | None = None,
        boosted: frozenset[str] = frozenset(),
        boost: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.trained_names = trained_names
        self._boosted, self._boost = boosted, boost
        self.weights_by_rate: dict[str, int] = {}
        self._workplace = workplace
        self._sampler: VllmSampler | None = None
        self._synced_step: int | None = None
        self._chat = chat
        self._rows_at_once = rows_at_once
        if not model.get_input_embeddings().weight.requires_grad:
            # With gradient checkpointing, transformers makes the embeddings' output ask for a gradient, at
            # the start and again after every rollout (and TRL once more where there are adapters). That would
            # send the backward pass through every frozen layer; checkpointing without re-entrance needs no such thing.
            model.enable_input_require_grads = lambda: None
        super().__init__(model, *args, **kwargs)
        model = self.accelerator.unwrap_model(self.model)
        self.eos_token_ids = list(end_ids(model, self._tokenizer, stop))
        # What an adapter starts from is in no base: its hash is kept, to tell afterwards whether it moved.
        self.adapters_at_start: dict[str, str] = {}
        if kwargs.get("peft_config") is not None:
            self.adapters_at_start = {k: sha for k, sha in tensor_hashes(model).items() if k in trained_names}

    def _get_train_sampler(self, dataset: Any = None) -> _EpochSampler:
        return _EpochSampler(
            data_source=self.train_dataset if dataset is None else dataset,
            mini_repeat_count=self.num_generations,
            batch_size=self.args.generation_batch_size // self.num_generations,
            repeat_count=self.num_iterations * self.args.steps_per_generation,
            seed=self.args.seed,
            epoch=lambda: int(self.state.epoch or 0),
        )

    def sample_with(self, sampler: VllmSampler) -> None:
        """Sample with vLLM from now on, and not with the model itself.

        TRL then weighs each token by how likely the model finds it beside the sampler, as it does for vLLM
        (``vllm_importance_sampling_correction``). It starts no engine of its own, for it was made without.
        """
        self._sampler = sampler
        self.use_vllm = True

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """Make the optimizer, and assert that it and the model train what the adaptation says, at the rates it says."""
        optimizer = super().create_optimizer(*args, **kwargs)
        model = self.accelerator.unwrap_model(self.model)
        boost_rates(model, self.optimizer, self._boosted, self._boost)
        check_trainable(model, self.optimizer, self.trained_names)
        rate = self.args.learning_rate
        self.weights_by_rate = check_rates(model, self.optimizer, rate, self._boosted, self._boost)
        return optimizer

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return prompt_tokens(self._tokenizer, prompts, self._chat), None, {}

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        with self.sampling(len(prompt_ids), self.max_completion_length) as (model, decoding, seeds):
            if self._sampler is None:
                return generate_in_batches(model, prompt_ids, decoding, seeds, self._rows_at_once), None
            if self._synced_step != self.state.global_step:
                self._sampler.sync(model)
                self._synced_step = self.state.global_step
            return self._sampler.generate(model, prompt_ids, decoding, seeds)

    @contextmanager
    def sampling(self, rows: int, max_tokens: int) -> Iterator[tuple[Any, Decoding, list[int]]]:
        """The model made ready to sample, how, and a seed for each of the rows of this step."""
        model = self.plain_model()
        decoding = Decoding(
            max_tokens=max_tokens,
            end_ids=tuple(self.eos_token_ids),
            pad_id=self._tokenizer.pad_token_id,
            temperature=self.temperature,
        )
        # A batch's rows lie in order over the processes, and a row's seed is that of its place in the whole batch.
        seed = self._workplace.seed("rollout", self.state.global_step, 0)
        seeds = row_seeds(rows, seed, first=self.args.process_index * rows)
        plain = disable_gradient_checkpointing(model, self.args.gradient_checkpointing_kwargs)
        with plain, self.accelerator.autocast():
            yield model, decoding, seeds


def make_reward(grader: Grader, problems: Sequence[Problem]) -> Reward:
    """The grade as a reward: 1.0 for a right answer, 0.0 for any other, and none where the judgement broke.

    TRL leaves an answer without a reward out of its group's statistics and gives it the advantage 0.
    """

    def correct(
        completions: list[str], problem: list[int], log_metric: Callable[[str, float], None], **_: Any
    ) -> list[float | None]:
        grades = grader.grade(
            [(problems[index], completion) for index, completion in zip(problem, completions, strict=True)]
        )
        # TRL takes the mean over the processes that say something, so all of them do, or none.
        broken = gather_object([grade.status == "broken" for grade in grades])
        if any(broken):
            log_metric("broken", sum(broken) / len(broken))
        return [None if grade.status == "broken" else float(grade.correct) for grade in grades]

    return correct


def prompt_dataset(problems: Sequence[Problem]) -> Dataset:
    """The prompts as TRL reads them, each with the index of its problem."""
    return Dataset.from_dict(
        {"prompt": [problem.prompt for problem in problems], "problem": list(range(len(problems)))}
    )
