"""Agents' training on TRL: whose tokens carry loss, which advantage each step has, and what a broken world does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onelayer.rl.gigpo
from conftest import TINY, deep_copy
from onelayer.adaptation import apply_adaptation
from onelayer.config import Study
from onelayer.grading.worker import GradingError
from onelayer.grid import Run
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.rl.agents import SUCCESS, AgentTrainer
from onelayer.rl.episodes import Arena
from onelayer.rl.grpo import grpo_config, prompt_dataset
from onelayer.tasks.contract import Outcome, Problem, View, WorldError
from onelayer.tasks.household import Household
from onelayer.training import Workplace


def study_of(algorithm: str, turns: int = 4, failures: str = "stop", **training: Any) -> Study:
    settings = deep_copy(TINY)
    settings["task"] = {
        "kind": "household", "rooms": 2, "things": 1, "max_turns": turns,
        "sizes": {"train": 2, "select": 1, "report": 1},
    }  # fmt: skip
    settings["algorithm"] = algorithm
    settings["model"]["context"] = 64
    settings["grading"] = {"failures": failures}
    settings["training"] |= {"max_tokens": 2, "prompts_per_batch": 4, "group_size": 4, **training}
    return Study(name="agents", **settings)


class Tethered:
    """A world of one wish: ``b`` fulfils it, ``c`` is not understood, anything else leads back to where one was."""

    def __init__(self, breaks: bool) -> None:
        self._breaks = breaks
        self._turn = 0

    def reset(self, problem: Problem) -> View:
        self._turn = 0
        return View(f"{problem.prompt} -A ", "A")

    def act(self, action: str) -> Outcome:
        self._turn += 1
        if self._breaks and action == "a":
            raise WorldError("the roof came down")
        won = action == "b"
        view = View("-A ", "A") if self._turn % 2 else View("-Ba ", "B")
        return Outcome(view, 0.25, won, won, action != "c")

    def close(self) -> None:
        pass


class TetheredTask:
    frames = ("{observation}", "{observation}")
    isolated = False
    max_turns = 4

    def __init__(self, breaks: bool = False, turns: int = 4) -> None:
        self._breaks = breaks
        self.max_turns = turns

    def splits(self) -> dict[str, Any]:
        return {}

    def world(self) -> Tethered:
        return Tethered(self._breaks)


TOKENIZER = make_micro_tokenizer("ABabc>-. \n", 64)
PROBLEMS = [Problem(f"{a}>{b}", f"{a}>{b}", "") for a in "abc" for b in "AB"]


@contextmanager
def trainer_of(folder: Path, study: Study, task: Any = None, run: Run | None = None) -> Iterator[AgentTrainer]:
    run = run or Run("full-s0", "full", seed=0)
    model = make_micro_model(study.model, TOKENIZER, 0)  # type: ignore[arg-type]
    workplace = Workplace("agents", 0, run.name, "f", 1e9)
    task = task or TetheredTask()
    args = grpo_config(study.training, 1e-3, workplace, "float32", study.algorithm, task.max_turns)
    args.output_dir = str(folder)
    with closing(Arena(task, 512, study.grading)) as arena:
        yield AgentTrainer(
            model=model,
            args=args,
            train_dataset=prompt_dataset(PROBLEMS),
            processing_class=TOKENIZER,
            trained_names=apply_adaptation(model, run),
            workplace=workplace,
            study=study,
            arena=arena,
            problems=PROBLEMS,
        )


def scored(trainer: AgentTrainer) -> dict[str, Any]:
    trainer.current_gradient_accumulation_steps = 1
    rows = [
        {"prompt": PROBLEMS[row // 4].prompt, "problem": row // 4}
        for row in range(4 * trainer._study.training.prompts_per_batch)
    ]
    return trainer._generate_and_score_completions(rows)


def test_only_the_agents_tokens_carry_loss(tmp_path: Path) -> None:
    with trainer_of(tmp_path, study_of("grpo")) as trainer:
        output = scored(trainer)
        world = TOKENIZER.get_vocab()
        for row, episode in enumerate(trainer._episodes):
            mask = (output["completion_mask"][row] * output["tool_mask"][row]).tolist()
            ids = output["completion_ids"][row].tolist()
            kept = [index for index, carries in zip(ids, mask, strict=True) if carries]
            assert kept == [token for step in episode.steps for token in episode.completion[step.start : step.end]]
            # What the world says is in the row, and masked.
            if len(episode.steps) > 1:
                first = episode.steps[0].end
                assert ids[first] == world["-"]
                assert mask[first] == 0
        # Changing every token of the world's changes the loss only through what the agent then thinks of its own.
        loss = trainer._compute_loss(trainer.model, output)
        output["tool_mask"] = torch.zeros_like(output["tool_mask"])
        assert trainer._compute_loss(trainer.model, output).item() == 0.0
        assert torch.isfinite(loss)


def test_the_reward_of_grpo_is_the_return_less_its_penalties(tmp_path: Path) -> None:
    for kind in ("success", "world"):
        study = study_of("grpo", agent={"reward": kind, "invalid_action_penalty": 0.5})
        with trainer_of(tmp_path, study) as trainer:
            output = scored(trainer)
            returns = []
            for episode in trainer._episodes:
                invalid = sum(step.action == "c" for step in episode.steps)
                earned = SUCCESS * episode.success if kind == "success" else 0.25 * len(episode.steps)
                returns.append(earned - 0.5 * invalid)
            assert {episode.success for episode in trainer._episodes} == {False, True}
            grouped = np.array(returns).reshape(-1, 4)
            expected = (grouped - grouped.mean(1, keepdims=True)) / (grouped.std(1, ddof=1, keepdims=True) + 1e-4)
            assert output["advantages"].tolist() == pytest.approx(expected.ravel().tolist(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("mode", ["mean", "mean_std"])
def test_each_step_has_its_own_advantage(tmp_path: Path, mode: str) -> None:
    study = study_of("gigpo", gigpo={"normalization": mode, "discount": 0.5, "step_weight": 0.7})
    with trainer_of(tmp_path, study) as trainer:
        output = scored(trainer)
        episodes = trainer._episodes
        mean_steps = sum(len(episode.steps) for episode in episodes) / len(episodes)
        for start in range(0, len(episodes), 4):
            group = episodes[start : start + 4]
            totals = np.array([SUCCESS * episode.success for episode in group])
            at: dict[str, list[float]] = {}
            futures = []
            for episode in group:
                length = len(episode.steps)
                future = [SUCCESS * episode.success * 0.5 ** (length - 1 - t) for t in range(length)]
                futures.append(
                    [one - 0.1 * (step.action == "c") for one, step in zip(future, episode.steps, strict=True)]
                )
                for step, one in zip(episode.steps, futures[-1], strict=True):
                    at.setdefault(step.anchor, []).append(one)
            for row, (episode, future) in enumerate(zip(group, futures, strict=True), start=start):
                for step, one in zip(episode.steps, future, strict=True):
                    charge = 0.1 * (step.action == "c")
                    whole, peers = totals[row - start] - charge - totals.mean(), np.array(at[step.anchor])
                    local = one - peers.mean()
                    if mode == "mean_std":
                        whole /= totals.std(ddof=1) + 1e-6
                        local /= (peers.std(ddof=1) if len(peers) > 1 else 1.0) + 1e-6
                    laid = output["advantages"][row, step.start : step.end].tolist()
                    assert laid == pytest.approx([whole + 0.7 * local] * (step.end - step.start), rel=1e-4, abs=1e-4)
                    weights = output["tool_mask"][row, step.start : step.end].tolist()
                    constant = trainer.max_completion_length
                    assert weights == pytest.approx([constant / (len(weights) * mean_steps)] * len(weights), rel=1e-5)
                others = [i for i in range(output["advantages"].shape[1]) if i not in _covered(episode)]
                assert not output["advantages"][row, others].any()
                assert not output["tool_mask"][row, others].any()


def _covered(episode: Any) -> set[int]:
    return {index for step in episode.steps for index in range(step.start, step.end)}


def test_one_step_episodes_without_step_weight_are_grpo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradient, with one epsilon for both (TRL's GRPO has 1e-4, GiGPO's authors 1e-6)."""
    monkeypatch.setattr(onelayer.rl.gigpo, "EPSILON", 1e-4)
    found = []
    for algorithm, more in (("grpo", {}), ("gigpo", {"gigpo": {"step_weight": 0.0}})):
        study = study_of(algorithm, agent={"invalid_action_penalty": 0.0}, **more)
        with trainer_of(tmp_path, study, TetheredTask(turns=1)) as trainer:
            output = scored(trainer)
            # At another point than the one that sampled, so that the ratio is not 1.
            output["old_per_token_logps"] = torch.full(output["completion_ids"].shape, -2.0)
            loss = trainer._compute_loss(trainer.model, output)
            loss.backward()
            gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])
            found.append((loss.item(), gradient))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6, abs=1e-6)
    assert found[0][1].abs().max() > 1e-4
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-7)


def test_microbatches_and_minibatches_change_no_gigpo_gradient(tmp_path: Path) -> None:
    with trainer_of(tmp_path, study_of("gigpo", kl=0.0)) as trainer:
        output = scored(trainer)
        rows = output["advantages"].shape[0]
        gradients = []
        for parts in (1, 2, 4, 8):
            trainer.model.zero_grad()
            trainer.current_gradient_accumulation_steps = parts
            for part in torch.randperm(rows).chunk(parts):
                batch = {k: v if v.dim() == 0 else v[part] for k, v in output.items()}
                trainer._compute_loss(trainer.model, batch).backward()
            gradients.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters()]))
        assert gradients[0].abs().max() > 1e-4
        for gradient in gradients[1:]:
            assert torch.allclose(gradients[0], gradient, rtol=1e-4, atol=1e-6 * float(gradients[0].abs().max()))


def test_a_broken_world_stops_the_run(tmp_path: Path) -> None:
    with (
        trainer_of(tmp_path, study_of("gigpo"), TetheredTask(breaks=True)) as trainer,
        pytest.raises(
            GradingError, match=r"problem \S+: the world failed: the roof came down; grading\.failures: count"
        ),
    ):
        trainer.train()


@pytest.mark.parametrize("algorithm", ["grpo", "gigpo"])
def test_or_is_counted_and_left_out(tmp_path: Path, algorithm: str) -> None:
    with trainer_of(tmp_path, study_of(algorithm, failures="count"), TetheredTask(breaks=True)) as trainer:
        output = scored(trainer)
        broken = [row for row, episode in enumerate(trainer._episodes) if episode.broken]
        assert 0 < len(broken) < len(trainer._episodes)
        advantages = output["advantages"].reshape(len(trainer._episodes), -1)
        assert not advantages[broken].any()
        assert advantages.any()
        if algorithm == "gigpo":
            assert not output["tool_mask"][broken].any()
        assert trainer._metrics["train"]["broken"] == [len(broken) / len(trainer._episodes)]
        # The whole ones are compared among themselves.
        whole = [e for e in trainer._episodes[:4] if not e.broken]
        assert all(e.problem == whole[0].problem for e in whole)


def test_a_reward_that_is_no_number_breaks_the_episode(tmp_path: Path) -> None:
    class Nan(Tethered):
        def act(self, action: str) -> Outcome:
            return replace(super().act(action), reward=float("nan"))

    class Task(TetheredTask):
        def world(self) -> Tethered:
            return Nan(False)

    with (
        trainer_of(tmp_path, study_of("gigpo"), Task()) as trainer,
        pytest.raises(GradingError, match="expected a finite reward, found nan"),
    ):
        trainer.train()


@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo", "gigpo"])
def test_a_whole_training_moves_the_model_and_logs_success(tmp_path: Path, algorithm: str) -> None:
    study = study_of(algorithm, steps=3, inner_epochs=1, microbatch=8)
    run = Run("layer-01-s0", "layer", layers=(1,), seed=0)
    with trainer_of(tmp_path, study, run=run) as trainer:
        before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
        trainer.train()
        rows = [row for row in trainer.state.log_history if "success" in row]
        assert [row["step"] for row in rows] == [1, 2, 3]
        for row in rows:
            assert 0 <= row["success"] <= 1
            assert 1 <= row["turns"] <= 4
            assert "broken" not in row
        for name, parameter in trainer.model.named_parameters():
            assert torch.equal(parameter, before[name]) == (name not in trainer.trained_names), name


def test_household_episodes_come_with_their_anchors(tmp_path: Path) -> None:
    """The domain itself, played by a model that knows nothing."""
    study = study_of("gigpo", turns=6)
    task = Household(study.task, 0)  # type: ignore[arg-type]
    tokenizer = make_micro_tokenizer(task.alphabet, 64)
    model = make_micro_model(study.model, tokenizer, 0)  # type: ignore[arg-type]
    from onelayer.rl.episodes import line_ends
    from onelayer.rl.rollout import Decoding

    ends = (tokenizer.eos_token_id, *line_ends(tokenizer))
    decoding = Decoding(2, ends, tokenizer.pad_token_id, 1.0)
    problems = list(task.splits()["train"].problems) * 20
    with closing(Arena(task, 16, study.grading)) as arena:
        episodes = arena.play(model, tokenizer, problems, decoding, list(range(len(problems))))
        again = arena.play(model, tokenizer, problems, decoding, list(range(len(problems))))
    assert [episode.completion for episode in episodes] == [episode.completion for episode in again]
    assert len({tuple(episode.completion) for episode in episodes}) > 10
    for episode in episodes:
        text = tokenizer.decode(episode.prompt + episode.completion, skip_special_tokens=True)
        assert text.startswith(episode.problem.prompt[:4])
        assert len(episode.steps) <= 6
        assert episode.done == episode.success
        for step in episode.steps:
            assert step.anchor in text
