"""The trainer itself, on one tiny model: what it trains, how it batches, and where the gradient stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from datasets import Dataset

from onelayer.adaptation import AdaptationError, apply_adaptation, boosted_names
from onelayer.grid import Run
from onelayer.model_settings import MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config
from onelayer.training import Workplace
from onelayer.training_settings import Training
from training_probes import gradient_asks

TOKENIZER = make_micro_tokenizer("0123456789=#", 16)
MODEL = MicroModel(
    kind="micro", layers=4, width=16, intermediate=32, heads=2, kv_heads=1, context=16, pretraining={"steps": 1}
)
FULL, LAYER = Run("full-s0", "full", seed=0), Run("layer-02-s0", "layer", layers=(2,), seed=0)


def training(**more: Any) -> Training:
    return Training(
        **{"learning_rates": (1e-3,), "steps": 2, "prompts_per_batch": 4, "group_size": 4, "max_tokens": 3, "kl": 0.0,
           **more}
    )  # fmt: skip


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(set(text)) > 2) for text in completions]


def make(folder: Path, run: Run, settings: Training, **overrides: Any) -> OneLayerGRPOTrainer:
    model = make_micro_model(MODEL, TOKENIZER, 0)
    workplace = Workplace("study", 0, run.name, "f", 1e9)
    args = grpo_config(settings, 1e-3, workplace, "float32", **overrides)
    args.output_dir = str(folder)
    return OneLayerGRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{a}#{b}=" for a in range(1, 9) for b in range(4)]}),
        processing_class=TOKENIZER,
        trained_names=apply_adaptation(model, run),
        boosted=boosted_names(model, run),
        boost=run.boost or 1.0,
        workplace=workplace,
    )


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_gradient_stops_below_the_lowest_trained_layer(tmp_path: Path, checkpointing: bool) -> None:
    trainer = make(tmp_path, LAYER, training(gradient_checkpointing=checkpointing))
    asks = gradient_asks(trainer.model.model.layers)
    trainer.train()
    assert trainer.model.is_gradient_checkpointing == checkpointing
    assert asks[0] == asks[1] == asks[2] == {False}
    assert True in asks[3]


def test_checkpointing_changes_no_result(tmp_path: Path) -> None:
    results = []
    for checkpointing in (False, True):
        trainer = make(tmp_path, LAYER, training(gradient_checkpointing=checkpointing))
        trainer.train()
        results.append(weights(trainer))
    for name, one in results[0].items():
        assert torch.allclose(one, results[1][name], atol=1e-7), name


def test_microbatches_change_no_result(tmp_path: Path) -> None:
    results = []
    for microbatch in (None, 4):
        trainer = make(tmp_path, FULL, training(microbatch=microbatch, steps=1))
        trainer.train()
        results.append(weights(trainer))
    for name, one in results[0].items():
        assert torch.allclose(one, results[1][name], atol=1e-5), name


def test_sampling_in_batches_changes_no_result(tmp_path: Path) -> None:
    results = []
    for rows_at_once in (None, 5):
        trainer = make(tmp_path, LAYER, training())
        trainer._rows_at_once = rows_at_once
        trainer.train()
        results.append(weights(trainer))
    for name, one in results[0].items():
        assert torch.allclose(one, results[1][name], atol=1e-7), name


def test_minibatches_and_epochs_reuse_a_batch_of_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rollouts = []
    original = OneLayerGRPOTrainer._generate_single_turn

    def counted(self: Any, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        rollouts.append((self.state.global_step, len(prompt_ids)))
        return original(self, prompt_ids, *args, **kwargs)

    monkeypatch.setattr(OneLayerGRPOTrainer, "_generate_single_turn", counted)
    settings = training(prompts_per_minibatch=2, inner_epochs=2, steps=8)
    trainer = make(tmp_path, FULL, settings)
    trainer.train()
    assert settings.steps_per_rollout == 4
    assert rollouts == [(0, 16), (4, 16)]
    assert trainer.state.global_step == 8


def test_kl_is_measured_from_the_base(tmp_path: Path) -> None:
    base = make_micro_model(MODEL, TOKENIZER, 0)
    base.save_pretrained(tmp_path / "base")
    model = make_micro_model(MODEL, TOKENIZER, 0)
    model.config._name_or_path = str(tmp_path / "base")
    args = grpo_config(training(kl=0.1, steps=3), 3e-3, Workplace("s", 0, "full-s0", "f", 1e9), "float32")
    args.output_dir = str(tmp_path / "out")
    trainer = OneLayerGRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{a}#1=" for a in range(1, 9)]}),
        processing_class=TOKENIZER,
        trained_names=apply_adaptation(model, FULL),
        workplace=Workplace("s", 0, "full-s0", "f", 1e9),
    )
    trainer.train()
    divergences = [row["kl"] for row in trainer.state.log_history if "kl" in row]
    assert divergences[0] == pytest.approx(0, abs=1e-6)
    assert divergences[-1] > 1e-5
    for name, parameter in trainer.ref_model.named_parameters():
        assert torch.equal(parameter, dict(base.named_parameters())[name]), name


def test_a_trainer_that_would_train_something_else_is_refused(tmp_path: Path) -> None:
    trainer = make(tmp_path, LAYER, training())
    trainer.model.model.norm.weight.requires_grad_(True)
    with pytest.raises(AdaptationError, match=r"unexpected \['model\.norm\.weight'\]"):
        trainer.train()


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_a_boost_of_1_is_full_training_bit_for_bit(tmp_path: Path, schedule: Literal["constant", "linear"]) -> None:
    results = []
    for boost in (None, 1.0, 4.0):  # under one name, for the draws derive from it
        run = FULL if boost is None else replace(FULL, kind="boost", layers=(1, 3), boost=boost)
        settings = training(steps=3, schedule=schedule, weight_decay=0.1)
        trainer = make(tmp_path, run, settings)
        start = weights(trainer)
        trainer.train()
        assert trainer.state.log_history[-2]["learning_rate"] == pytest.approx(
            1e-3 / (3 if schedule == "linear" else 1)
        )
        results.append(weights(trainer))
    full, same, faster = results
    for name in full:
        assert torch.equal(full[name], same[name]), name
        assert not torch.equal(full[name], start[name]), name

    def distance(found: dict[str, torch.Tensor], layer: int) -> float:
        return sum(float((found[n] - start[n]).norm() ** 2) for n in found if f".layers.{layer}." in n) ** 0.5

    for layer in range(4):
        ratio = distance(faster, layer) / distance(full, layer)
        assert ratio == pytest.approx(4.0 if layer in (1, 3) else 1.0, rel=0.3)
