"""The model of cost: its counts against hand-worked ones, and against what torch counts on a real model."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from peft import get_peft_model
from torch.utils.flop_counter import FlopCounterMode

from conftest import TINY, deep_copy, write_study
from onelayer.adaptation import apply_adaptation
from onelayer.baseline_settings import LoraRuns
from onelayer.config import load_study
from onelayer.cost import (
    Phase,
    forward_flops,
    rollout_phase,
    run_cost,
    sample_phase,
    step_flops,
    trained_part,
    training_phase,
)
from onelayer.errors import UserError
from onelayer.grid import BASE, Ranked, Run, all_runs
from onelayer.lengths import Lengths
from onelayer.lora import adapter_names, peft_config
from onelayer.model_settings import MicroModel
from onelayer.model_shape import model_shape
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.shape import Shape
from onelayer.suite.library import SUITE_PROBLEMS
from onelayer.training_settings import Training

SHAPE = Shape(layers=4, width=64, intermediate=96, heads=4, kv_heads=2, vocabulary=14, tied=True)
MODEL = MicroModel(
    kind="micro", layers=4, width=64, intermediate=96, heads=4, kv_heads=2, context=64, pretraining={"steps": 1}
)
FULL = Run("full-s0", "full", seed=0)


def layer(number: int) -> Run:
    return Run(f"layer-{number:02d}-s0", "layer", layers=(number,), seed=0)


def settings(**more: object) -> Training:
    given_ones = {
        "learning_rates": (1e-3,), "steps": 6, "prompts_per_batch": 8, "group_size": 4, "max_tokens": 10, "kl": 0.0
    }  # fmt: skip
    return Training(**{**given_ones, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [FULL, layer(0), layer(2), layer(3)])
def test_a_steps_flops_are_what_torch_counts(run: Run) -> None:
    """But for the head, which TRL computes again, and for attention's masked half, which torch counts too."""
    tokens = 48
    model = make_micro_model(MODEL, make_micro_tokenizer("0123456789=#", 64), 0)
    model.config._attn_implementation = "eager"
    apply_adaptation(model, run)
    ids = torch.randint(2, 14, (1, tokens))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids).loss.backward()
    counted = step_flops(SHAPE, run, tokens, checkpointing=False)
    head = 2 * SHAPE.table_weights * tokens
    crossed = SHAPE.layers - min(run.layers, default=0)
    masked = (SHAPE.layers + 2 * crossed) * 2 * SHAPE.attention_width * tokens**2
    assert counted - head + masked == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_a_forward_pass_by_hand() -> None:
    shape = Shape(layers=2, width=4, intermediate=3, heads=2, vocabulary=5, tied=True)
    block = 4 * 4 * 4 + 3 * 4 * 3  # queries, keys, values, output; gate, up, down
    assert shape.block_weights == block
    by_hand = 10 * 2 * (2 * block + 4 * 6 * 4) + 3 * 2 * 5 * 4
    assert forward_flops(shape, tokens=10, headed=3, context=6) == by_hand


@given(st.integers(0, 3), st.floats(1, 500))
def test_a_higher_layer_costs_less_and_full_training_most(number: int, tokens: float) -> None:
    costs = [step_flops(SHAPE, layer(k), tokens, checkpointing=False) for k in range(4)]
    assert costs == sorted(costs, reverse=True)
    full = step_flops(SHAPE, FULL, tokens, checkpointing=False)
    assert full > costs[0]
    assert step_flops(SHAPE, layer(number), tokens, checkpointing=True) > costs[number]
    assert step_flops(SHAPE, FULL, tokens, checkpointing=True) < 4 / 3 * full


def test_every_benchmark_of_the_suite_has_its_number_of_problems() -> None:
    text = resources.files("onelayer.suite").joinpath("benchmarks.yaml").read_text()
    assert set(SUITE_PROBLEMS) == set(yaml.safe_load(text)["benchmarks"])


def test_trained_weights_of_layers_add_up_to_the_blocks() -> None:
    parts = [trained_part(SHAPE, layer(k)) for k in range(4)]
    full = trained_part(SHAPE, FULL)
    assert sum(part.weights for part in parts) + SHAPE.table_weights == full.weights
    assert sum(part.flops for part in parts) + 2 * SHAPE.table_weights == full.flops
    assert [part.crossed for part in parts] == [4, 3, 2, 1]
    assert full.crossed == 4


def test_adapters_weigh_what_peft_makes() -> None:
    model = make_micro_model(MODEL, make_micro_tokenizer("0123456789=#", 64), 0)
    names = adapter_names(model, LoraRuns(rank=3))
    wrapped = get_peft_model(model, peft_config(LoraRuns(rank=3)))
    made = sum(parameter.numel() for name, parameter in wrapped.named_parameters() if name in names)
    part = trained_part(SHAPE, Run("lora-r3-s0", "lora", seed=0, lora=LoraRuns(rank=3)))
    assert (part.weights, part.crossed) == (made, 4)


def test_the_best_layer_costs_at_most_what_the_lowest_does() -> None:
    assert trained_part(SHAPE, Run("tuned-best-s0", "tuned", seed=0, ranked=Ranked("best"))) == trained_part(
        SHAPE, layer(0)
    )
    known = Run("tuned-best-s0", "tuned", layers=(2,), seed=0, ranked=Ranked("best"))
    assert trained_part(SHAPE, known) == trained_part(SHAPE, layer(2))


def test_a_boost_costs_what_full_training_does_and_a_set_what_its_layers_do() -> None:
    boost = Run("boost-best2-s0", "boost", seed=0, ranked=Ranked("best", 2), boost=2.0)
    full = trained_part(SHAPE, Run("full-s0", "full", seed=0))
    assert trained_part(SHAPE, boost) == trained_part(SHAPE, replace(boost, layers=(1, 3))) == full
    only = Run("only-worst2-s0", "only", seed=0, ranked=Ranked("worst", 2))
    assert trained_part(SHAPE, only) == trained_part(SHAPE, replace(only, layers=(0, 1)))
    part, single = trained_part(SHAPE, replace(only, layers=(1, 3))), trained_part(SHAPE, layer(1))
    assert (part.weights, part.crossed, part.flops) == (2 * single.weights, single.crossed, 2 * single.flops)


def test_tokens_of_a_run_by_hand() -> None:
    lengths = Lengths(prompt=7, response=5, evaluated=5, source="")
    sampled = rollout_phase(settings(), SHAPE, lengths)
    assert sampled.tokens == 6 * (8 * 7 + 32 * 5)  # a prompt is read once for its four answers
    trained = training_phase(settings(), SHAPE, FULL, lengths)
    assert (trained.tokens, trained.steps) == (6 * 32 * 12, 6)
    assert trained.passes == 6 * 2 * 4
    assert training_phase(settings(microbatch=8), SHAPE, FULL, lengths).passes == 6 * 2 * 4 * 4


def test_batches_that_serve_several_steps_are_sampled_once_and_passed_forward_again() -> None:
    lengths = Lengths(7, 5, 5, "")
    reused = settings(prompts_per_minibatch=4, inner_epochs=2, steps=8)  # 4 steps a batch of answers
    plain = settings(prompts_per_batch=4, steps=8)
    assert rollout_phase(reused, SHAPE, lengths).tokens == 2 * (8 * 7 + 32 * 5)
    again = training_phase(reused, SHAPE, FULL, lengths).tokens - training_phase(plain, SHAPE, FULL, lengths).tokens
    assert again == 2 * 32 * 12  # the policy that sampled
    with_reference = training_phase(settings(kl=0.1), SHAPE, FULL, lengths)
    without = training_phase(settings(), SHAPE, FULL, lengths)
    assert with_reference.tokens - without.tokens == 6 * 32 * 12
    assert with_reference.flops - without.flops == pytest.approx(6 * 32 * forward_flops(SHAPE, 12, 12, 6))


@given(st.integers(1, 50), st.integers(1, 8), st.floats(1, 30), st.integers(30, 60), st.integers(1, 400))
def test_smaller_batches_sample_the_same_tokens_in_more_passes(
    prompts: int, group: int, response: float, limit: int, batch: int
) -> None:
    one = sample_phase(SHAPE, prompts, prompts * group, 9, response, limit, prompts * group)
    cut = sample_phase(SHAPE, prompts, prompts * group, 9, response, limit, batch)
    assert (cut.tokens, cut.flops) == (one.tokens, one.flops)
    assert cut.passes >= one.passes
    assert cut.bytes >= one.bytes


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_phases_add_up(a: float, b: float) -> None:
    assert Phase(a, b, a, b, 1) + Phase(a, b, a, b, 1) == Phase(a, b, a, b, 1).times(2)


class _AllOfThem:
    select = report = "all"


@pytest.mark.usefixtures("project")
class TestRuns:
    def test_checkpoints_hold_what_trained_in_float32(self) -> None:
        study = load_study("tiny")
        shape = model_shape(study)
        lengths = Lengths(6, 3, 3, "")
        costs = {run.name: run_cost(study, shape, run, lengths) for run in all_runs(study)}
        assert costs["full-s0"].checkpoint_bytes == costs["base"].checkpoint_bytes == 4 * shape.weights
        assert costs["layer-01-s0"].checkpoint_bytes == 4 * shape.block_weights
        assert costs["base"].sampling == Phase()
        assert costs["base"].training.steps == TINY["model"]["pretraining"]["steps"]
        assert costs["full-s0"].flops > costs["layer-00-s0"].flops > costs["layer-01-s0"].flops
        assert costs["full-s0"].memory_bytes > costs["layer-00-s0"].memory_bytes > costs["layer-01-s0"].memory_bytes

    def test_memory_is_the_larger_of_what_training_and_sampling_hold(self) -> None:
        changed = deep_copy(TINY)
        changed["training"] |= {"max_tokens": 4000, "microbatch": 1}
        lengths = Lengths(6, 3, 3, "")

        def memory(**generation: object) -> float:
            write_study("tiny", changed | {"generation": generation})
            study = load_study("tiny")
            return run_cost(study, model_shape(study), FULL, lengths).memory_bytes

        # All 16 answers of a batch are sampled at once: keys and values of 2 layers of width 8, float32.
        assert memory() - memory(batch_size=8) == pytest.approx(8 * 4006 * 2 * 4 * 2 * 8)
        assert memory(batch_size=16) == memory(batch_size=99) == memory()
        training = memory(backend="vllm")
        changed["training"]["max_tokens"] = 3
        assert memory() == training

    def test_evaluation_counts_every_problem_and_sample(self) -> None:
        study = load_study("tiny")
        cost = run_cost(study, model_shape(study), BASE, Lengths(6, 3, 2, ""))
        problems = 8 + 14
        assert cost.evaluation.tokens == 2 * problems * 6 + problems * (2 + 1) * 2

    def test_what_is_prepared_counts_before_what_is_asked_for(self) -> None:
        study = load_study("tiny")
        shape = model_shape(study)
        found = run_cost(study, shape, BASE, Lengths(6, 3, 2, "", {"select": 5, "report": 7}))
        assert found.evaluation.tokens == 2 * 12 * 6 + 12 * (2 + 1) * 2
        every = study.model_copy(update={"task": study.task.model_copy(update={"sizes": _AllOfThem()})})
        with pytest.raises(UserError, match=r"^studies/tiny\.yaml: task\.sizes\.select: found all; .*prepare tiny"):
            run_cost(every, shape, BASE, Lengths(6, 3, 2, ""))

    def test_benchmarks_of_the_suite_are_counted_with_their_samples(self) -> None:
        changed = deep_copy(TINY)
        changed["evaluation"]["suite"] = ["amc", "ifeval", {"benchmark": "gsm8k", "samples": 3, "max_tokens": 1}]
        plain = load_study("tiny")
        write_study("tiny", changed)
        study = load_study("tiny")
        lengths = Lengths(6, 3, 2, "")
        before, after = (run_cost(one, model_shape(one), BASE, lengths).evaluation.tokens for one in (plain, study))
        amc, ifeval, gsm8k = 40 * (6 + 32 * 3), 541 * (6 + 3), 1319 * (6 + 3 * 1)
        assert after - before == amc + ifeval + gsm8k

    def test_a_search_is_not_evaluated_on_report(self) -> None:
        changed = deep_copy(TINY)
        changed["training"]["learning_rates"] = [0.001, 0.002]
        write_study("tiny", changed)
        study = load_study("tiny")
        search = next(run for run in all_runs(study) if run.kind == "search")
        cost = run_cost(study, model_shape(study), search, Lengths(6, 3, 2, ""))
        assert cost.evaluation.tokens == 2 * 8 * 6 + 8 * (2 + 1) * 2

    def test_an_episode_writes_once_a_turn(self) -> None:
        changed = deep_copy(TINY)
        changed["task"] = {"kind": "household", "max_turns": 6, "sizes": TINY["task"]["sizes"]}
        changed["model"]["context"] = 80
        changed["resources"]["worlds"] = 4
        write_study("tiny", changed)
        study = load_study("tiny")
        cost = run_cost(study, model_shape(study), Run("full-s0", "full", seed=0), Lengths(8, 30, 30, ""))
        batches = 16 / 4
        assert cost.sampling.passes == 3 * batches * 6 * 3 * 2  # steps, batches, turns, tokens of one, layers
