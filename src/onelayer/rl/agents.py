"""Agents on TRL's trainer: an episode is one row, and only the agent's tokens carry loss.

GRPO and Dr. GRPO take an episode's return, less the penalties of its invalid actions, as the row's reward. GiGPO gives
each step an advantage of its own; see `onelayer.rl.gigpo` for its formula and for what stands for the mean over steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate.utils import gather_object

from onelayer.config import Study
from onelayer.rl.episodes import Arena, Episode
from onelayer.rl.gigpo import Trace, gigpo_advantages, step_weights
from onelayer.rl.grpo import OneLayerGRPOTrainer
from onelayer.tasks.contract import Problem

# What the step that fulfils a task earns, as in GiGPO's authors' environments.
SUCCESS = 10.0


@dataclass(frozen=True)
class _Summary:
    """What every process must know of an episode to compare it with the others of its group."""

    trace: Trace
    lengths: tuple[int, ...]
    broken: bool


class AgentTrainer(OneLayerGRPOTrainer):
    """Trains on episodes that are played in the task's worlds.

    Args:
        study: names the algorithm and its settings.
        arena: the worlds.
        problems: the instances, by the index that the data set's column ``problem`` holds.
    """

    def __init__(self, *args: Any, study: Study, arena: Arena, problems: Sequence[Problem], **kwargs: Any) -> None:
        self._study = study
        self._arena = arena
        self._by_prompt = {problem.prompt: problem for problem in problems}
        self._episodes: list[Episode] = []
        super().__init__(*args, rollout_func=_play, reward_funcs=episode_reward, **kwargs)

    def play(self, prompts: Sequence[str]) -> list[Episode]:
        """Play an episode of each instance, seeded by the step."""
        with self.sampling(len(prompts), self._study.training.max_tokens) as (model, decoding, seeds):
            self._episodes = self._arena.play(
                model, self._tokenizer, [self._by_prompt[prompt] for prompt in prompts], decoding, seeds
            )
        return self._episodes

    def rewards(self, episode: Episode) -> tuple[float, ...]:
        """What each step of an episode earns, before penalties."""
        if self._study.training.agent.reward == "world":
            return tuple(step.reward for step in episode.steps)
        last = len(episode.steps) - 1
        return tuple(SUCCESS * (episode.success and index == last) for index in range(len(episode.steps)))

    def episode_return(self, episode: Episode) -> float | None:
        """The return of an episode, less its penalties; None where it broke."""
        if episode.broken is not None:
            return None
        invalid = sum(not step.valid for step in episode.steps)
        return sum(self.rewards(episode)) - self._study.training.agent.invalid_action_penalty * invalid

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self._log_episodes()
        if self._study.algorithm == "gigpo":
            self._set_steps(output)
        return output

    def _log_episodes(self) -> None:
        whole = [episode for episode in self._episodes if episode.broken is None]
        figures = {
            "success": [float(episode.success) for episode in whole],
            "turns": [float(len(episode.steps)) for episode in whole],
            "invalid": [float(not step.valid) for episode in whole for step in episode.steps],
            "broken": [float(episode.broken is not None) for episode in self._episodes],
        }
        for name, values in figures.items():
            sums = torch.tensor([sum(values), len(values)], dtype=torch.float64, device=self.accelerator.device)
            total, count = self.accelerator.gather(sums).view(-1, 2).sum(dim=0).tolist()
            if count and (total or name != "broken"):
                self._metrics["train"][name].append(total / count)

    def _set_steps(self, output: dict[str, Any]) -> None:
        """Put each step's advantage and weight on its tokens, and nothing on any other."""
        own = [self._summary(episode) for episode in self._episodes]
        everyone: list[_Summary] = gather_object(own)
        # TRL holds the episodes of an instance together, `num_generations` in a row.
        traces = [replace(one.trace, group=row // self.num_generations) for row, one in enumerate(everyone)]
        counted = [not one.broken for one in everyone]
        whole = [row for row, counts in enumerate(counted) if counts]
        found = gigpo_advantages(
            [traces[row] for row in whole],
            self._study.training.gigpo,
            self._study.training.agent.invalid_action_penalty,
        )
        advantages_of = dict(zip(whole, found, strict=True))
        weights_of = step_weights([one.lengths for one in everyone], self.max_completion_length, counted)
        first = self.accelerator.process_index * len(own)
        shape = output["completion_ids"].shape
        advantages = torch.zeros(shape, dtype=torch.float32)
        weights = torch.zeros(shape, dtype=torch.float32)
        for row, episode in enumerate(self._episodes):
            if episode.broken is not None:
                continue
            steps = zip(episode.steps, advantages_of[first + row], weights_of[first + row], strict=True)
            for step, advantage, weight in steps:
                advantages[row, step.start : step.end] = float(advantage)
                weights[row, step.start : step.end] = weight
        device = output["completion_ids"].device
        output["advantages"], output["tool_mask"] = advantages.to(device), weights.to(device)

    def _summary(self, episode: Episode) -> _Summary:
        steps = episode.steps
        trace = Trace(0, self.rewards(episode), tuple(s.anchor for s in steps), tuple(s.valid for s in steps))
        return _Summary(trace, tuple(s.end - s.start for s in steps), episode.broken is not None)


def _play(prompts: list[str], trainer: AgentTrainer) -> dict[str, Any]:
    """TRL's rollout function: the rows of tokens, the mask of the agent's own, and each episode's return."""
    episodes = trainer.play(prompts)
    end = trainer.eos_token_ids[0]
    return {
        # An episode that broke at its first view has no token; TRL needs one.
        "prompt_ids": [episode.prompt or [end] for episode in episodes],
        "completion_ids": [episode.completion or [end] for episode in episodes],
        "env_mask": [episode.mask or [0] for episode in episodes],
        "logprobs": None,
        "episode_return": [trainer.episode_return(episode) for episode in episodes],
    }


def episode_reward(episode_return: list[float | None], **_: Any) -> list[float | None]:
    """What each episode earned, as TRL asks for it."""
    return episode_return
