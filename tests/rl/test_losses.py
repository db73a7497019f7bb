"""The three losses on random batches, against formulas written again in NumPy, and against TRL's own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from trl import GRPOTrainer

from onelayer.adaptation import apply_adaptation
from onelayer.grid import Run
from onelayer.model_settings import MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.rl.gigpo import step_weights
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config
from onelayer.training import Workplace
from onelayer.training_settings import Training

TOKENIZER = make_micro_tokenizer("0123456789=#", 16)
MODEL = MicroModel(
    kind="micro", layers=2, width=16, intermediate=32, heads=2, kv_heads=1, context=32, pretraining={"steps": 1}
)
ROWS, PROMPT, LONGEST, GROUP = 8, 3, 6, 4
Algorithm = Literal["grpo", "dr_grpo", "gigpo"]


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(text)) for text in completions]


def make(folder: Path, algorithm: Algorithm, kl: float) -> tuple[OneLayerGRPOTrainer, GRPOTrainer]:
    """Ours, and TRL's as it comes, on equal models."""
    settings = Training(
        learning_rates=(1e-3,), steps=1, prompts_per_batch=ROWS // GROUP, group_size=GROUP, max_tokens=LONGEST, kl=kl
    )
    base = make_micro_model(MODEL, TOKENIZER, 0)
    base.save_pretrained(folder / "base")
    made = []
    for kind in (OneLayerGRPOTrainer, GRPOTrainer):
        model = make_micro_model(MODEL, TOKENIZER, 0).double()
        model.config._name_or_path = str(folder / "base")
        run = Run("full-s0", "full", seed=0)
        workplace = Workplace("study", 0, run.name, "f", 1e9)
        args = grpo_config(settings, 1e-3, workplace, "float32", algorithm)
        args.output_dir = str(folder)
        more = {"trained_names": apply_adaptation(model, run), "workplace": workplace}
        made.append(
            kind(
                model=model,
                reward_funcs=reward,
                args=args,
                train_dataset=Dataset.from_dict({"prompt": [f"{a}#1=" for a in range(1, 9)]}),
                processing_class=TOKENIZER,
                **(more if kind is OneLayerGRPOTrainer else {}),
            )
        )
        made[-1].current_gradient_accumulation_steps = 1
    return made[0], made[1]


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, float], Any]:
    return {
        (algorithm, kl): make(tmp_path_factory.mktemp(f"{algorithm}{kl}"), algorithm, kl)
        for algorithm in ("grpo", "dr_grpo", "gigpo")
        for kl in (0.0, 0.3)
    }


def batch_of(rng: np.random.Generator, episodes: bool) -> tuple[dict[str, torch.Tensor], list[list[tuple[int, int]]]]:
    """A random batch as TRL's step sees it, and for each row the spans of the agent's tokens."""
    lengths = rng.integers(1, LONGEST + 1, ROWS)
    mask = np.arange(LONGEST)[None, :] < lengths[:, None]
    spans: list[list[tuple[int, int]]] = []
    for length in lengths:
        if not episodes:
            spans.append([(0, int(length))])
            continue
        cuts = sorted({0, int(length), *rng.integers(0, length + 1, 2).tolist()})
        pieces = list(itertools.pairwise(cuts))
        # Every other piece is the world's; the agent always has one.
        spans.append(pieces[::2])
    own = np.zeros((ROWS, LONGEST), dtype=bool)
    for row, pieces in enumerate(spans):
        for start, end in pieces:
            own[row, start:end] = True
    batch = {
        "prompt_ids": torch.tensor(rng.integers(2, 14, (ROWS, PROMPT))),
        "prompt_mask": torch.ones(ROWS, PROMPT, dtype=torch.long),
        "completion_ids": torch.tensor(rng.integers(2, 14, (ROWS, LONGEST))),
        "completion_mask": torch.tensor(mask.astype(np.int64)),
        "num_items_in_batch": torch.tensor(int(mask.sum())),
        "old_per_token_logps": torch.tensor(rng.normal(-2.5, 0.5, (ROWS, LONGEST))),
        "ref_per_token_logps": torch.tensor(rng.normal(-2.5, 0.5, (ROWS, LONGEST))),
        "tool_mask": torch.tensor(own.astype(np.int64)),
    }
    return batch, spans


def log_probabilities(trainer: Any, batch: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
    """Each completion token's log-probability, by a plain forward pass of the model at temperature 1."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        logits = trainer.model(input_ids=ids, attention_mask=mask).logits.double().numpy()
    logits = logits[:, PROMPT - 1 : -1]
    normal = logits - logits.max(-1, keepdims=True)
    normal = normal - np.log(np.exp(normal).sum(-1, keepdims=True))
    return np.take_along_axis(normal, batch["completion_ids"].numpy()[..., None], axis=-1)[..., 0]


def token_losses(
    trainer: Any, batch: dict[str, torch.Tensor], advantages: np.ndarray[Any, Any], kl: float
) -> np.ndarray[Any, Any]:
    new = log_probabilities(trainer, batch)
    ratio = np.exp(new - batch["old_per_token_logps"].numpy())
    clipped = np.clip(ratio, 0.8, 1.2)
    loss = -np.minimum(ratio * advantages, clipped * advantages)
    away = batch["ref_per_token_logps"].numpy() - new
    return np.asarray(loss + kl * (np.exp(away) - away - 1))


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo", "gigpo"])
@given(seed=st.integers(0, 2**32 - 1), episodes=st.booleans())
@hypothesis_settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_loss_equals_its_formula(
    trainers: dict[tuple[str, float], Any], algorithm: Algorithm, kl: float, seed: int, episodes: bool
) -> None:
    trainer, _ = trainers[algorithm, kl]
    rng = np.random.default_rng(seed)
    batch, spans = batch_of(rng, episodes)
    if algorithm == "gigpo":
        # An advantage and a weight for each step, as the agents' trainer lays them on the tokens.
        weights = step_weights([[e - s for s, e in row] for row in spans], trainer.max_completion_length, [True] * ROWS)
        advantages = np.zeros((ROWS, LONGEST))
        laid = np.zeros((ROWS, LONGEST))
        for row, pieces in enumerate(spans):
            for (start, end), weight in zip(pieces, weights[row], strict=True):
                advantages[row, start:end] = rng.normal()
                laid[row, start:end] = weight
        batch["tool_mask"] = torch.tensor(laid)
        losses = token_losses(trainer, batch, advantages, kl)
        expected = np.mean([losses[r, s:e].mean() for r, pieces in enumerate(spans) for s, e in pieces])
        batch["advantages"] = torch.tensor(advantages)
    else:
        of_row = rng.normal(size=ROWS)
        losses = token_losses(trainer, batch, of_row[:, None], kl)
        own = [np.concatenate([losses[r, s:e] for s, e in pieces]) for r, pieces in enumerate(spans)]
        expected = (
            np.mean([one.mean() for one in own])
            if algorithm == "grpo"
            else np.sum([one.sum() for one in own]) / (ROWS * LONGEST)
        )
        batch["advantages"] = torch.tensor(of_row)
    found = trainer._compute_loss(trainer.model, batch).item()
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)

    # Two halves, as gradient accumulation would have them, give the same.
    trainer.current_gradient_accumulation_steps = 2
    halves = [
        trainer._compute_loss(trainer.model, {k: v if v.dim() == 0 else v[part] for k, v in batch.items()}).item()
        for part in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS))
    ]
    trainer.current_gradient_accumulation_steps = 1
    assert sum(halves) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo"])
def test_loss_and_gradient_are_trls_own(
    trainers: dict[tuple[str, float], Any], algorithm: Algorithm, kl: float
) -> None:
    ours, theirs = trainers[algorithm, kl]
    assert theirs.loss_type == algorithm
    assert theirs.scale_rewards == ("group" if algorithm == "grpo" else "none")
    batch, _ = batch_of(np.random.default_rng(5), episodes=True)
    batch["advantages"] = torch.tensor(np.random.default_rng(6).normal(size=ROWS))
    found = []
    for trainer in (ours, theirs):
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, batch)
        loss.backward()
        found.append((loss.item(), {n: p.grad.clone() for n, p in trainer.model.named_parameters()}))
        trainer.model.zero_grad()
    assert found[0][0] == found[1][0]
    assert any(gradient.any() for gradient in found[0][1].values())
    for name, gradient in found[0][1].items():
        assert torch.equal(gradient, found[1][1][name]), name


@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo"])
@given(rewards=st.lists(st.sampled_from([0.0, 1.0, 0.5, None]), min_size=ROWS, max_size=ROWS))
@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_advantages_equal_their_formula(
    trainers: dict[tuple[str, float], Any], algorithm: Algorithm, rewards: list[float | None]
) -> None:
    """The trainer's whole scoring step; an answer without a reward is left out of its group and has no advantage."""
    for trainer in trainers[algorithm, 0.0]:
        trainer.reward_funcs = [lambda rewards=rewards, **_: rewards]
        prompts = [f"{1 + row // GROUP}#1=" for row in range(ROWS)]
        output = trainer._generate_and_score_completions([{"prompt": prompt} for prompt in prompts])
        expected = []
        for start in range(0, ROWS, GROUP):
            group = rewards[start : start + GROUP]
            known = [value for value in group if value is not None]
            spread = np.std(known, ddof=1) if len(known) > 1 else 0.0
            scale = spread + 1e-4 if algorithm == "grpo" else 1.0
            expected += [0.0 if value is None else (value - np.mean(known)) / scale for value in group]
        assert output["advantages"].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)
