"""The settings of a run's training: what every algorithm takes, and what one of them takes alone."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from onelayer.settings import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt, Settings, no_repeats


class AgentTraining(Settings):
    """What an episode earns.

    ``success`` gives 10 for the step that fulfils the task, as GiGPO's authors do; ``world`` the world's own rewards.
    """

    reward: Literal["success", "world"] = "success"
    invalid_action_penalty: NonNegativeFloat = 0.1


class Gigpo(Settings):
    """GiGPO's own settings; the defaults are its authors'."""

    step_weight: NonNegativeFloat = 1.0
    discount: Fraction = 0.95
    normalization: Literal["mean_std", "mean"] = "mean_std"
    similarity: Fraction | None = None


class Training(Settings):
    """One run's training: TRL's GRPO objective and AdamW; defaults are the paper's where it gives them."""

    learning_rates: Annotated[tuple[PositiveFloat, ...], Field(min_length=1), AfterValidator(no_repeats)]
    steps: PositiveInt
    prompts_per_batch: PositiveInt = 512
    group_size: int = Field(4, ge=2)
    prompts_per_minibatch: PositiveInt | None = None
    inner_epochs: PositiveInt = 1
    microbatch: PositiveInt | None = None
    max_tokens: PositiveInt = 3072
    temperature: PositiveFloat = 1.0
    kl: NonNegativeFloat = 0.001
    clip: PositiveFloat = 0.2
    weight_decay: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 1.0
    warmup_steps: int = Field(0, ge=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    gradient_checkpointing: bool = False
    agent: AgentTraining = AgentTraining()
    gigpo: Gigpo = Gigpo()

    @model_validator(mode="after")
    def _batches_divide(self) -> Self:
        if self.prompts_per_batch % self.minibatch_prompts:
            raise ValueError(
                f"prompts_per_batch {self.prompts_per_batch} must be a multiple of prompts_per_minibatch,"
                f" found {self.prompts_per_minibatch}"
            )
        rows = self.minibatch_prompts * self.group_size
        if rows % self.microbatch_rows:
            raise ValueError(
                f"a mini-batch of {rows} responses must be a multiple of microbatch, found {self.microbatch}"
            )
        return self

    @property
    def minibatch_prompts(self) -> int:
        """Prompts in one optimizer step."""
        return self.prompts_per_minibatch or self.prompts_per_batch

    @property
    def microbatch_rows(self) -> int:
        """Responses in one forward and backward pass."""
        return self.microbatch or self.minibatch_prompts * self.group_size

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps made from one batch of sampled responses."""
        return self.inner_epochs * self.prompts_per_batch // self.minibatch_prompts
