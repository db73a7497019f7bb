"""What vLLM is sent and asked, on an engine of the same contract: a copy of the model in this process."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from test_grpo import FULL, LAYER, MODEL, TOKENIZER, make, training, weights

from conftest import TINY, deep_copy, write_study
from onelayer.adaptation import AdaptationError
from onelayer.config import Generation, Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import evaluation_settings, training_settings
from onelayer.models import make_micro_model
from onelayer.rl.rollout import Decoding, generate
from onelayer.rl.vllm_backend import (
    Request,
    TrlEngine,
    VllmSampler,
    Written,
    answer_logprobs,
    check_vllm,
    open_engine,
    sampling_options,
)

DECODING = Decoding(max_tokens=4, end_ids=(1,), pad_id=0, temperature=0.7)
PROMPTS = [[3, 4, 5], [3, 4, 5], [6, 7]]


class CopyEngine:
    """A copy of a model that loses what it is told to lose."""

    def __init__(self, model: Any, loses: str = "") -> None:
        self.model = copy.deepcopy(model)
        self.loses = loses
        self.loads: list[frozenset[str]] = []

    def load(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        self.loads.append(frozenset(name for name, _ in tensors))
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in tensors:
                if name != self.loses:
                    own[name].copy_(tensor)

    def generate(self, requests: Sequence[Request], decoding: Decoding) -> list[Written]:
        seeds = [request.seed for request in requests if request.seed is not None]
        answers = generate(self.model, [one.prompt for one in requests], decoding, seeds or None)
        return [
            Written(answer, answer_logprobs(self.model, request.prompt, answer, decoding.temperature or 1.0))
            for request, answer in zip(requests, answers, strict=True)
        ]


def model(seed: int = 0) -> Any:
    return make_micro_model(MODEL, TOKENIZER, seed).eval()


TRAINED = frozenset(name for name, _ in model().named_parameters() if name.startswith("model.layers.2."))


def test_everything_is_sent_once_and_then_only_what_trains() -> None:
    one = model()
    engine = CopyEngine(one)
    sampler = VllmSampler(engine, TRAINED, Generation())
    everything = frozenset(name for name, _ in one.named_parameters())
    assert [sampler.sync(one), sampler.sync(one), sampler.sync(one)] == [everything, TRAINED, TRAINED]
    assert engine.loads == [everything, TRAINED, TRAINED]


def test_a_name_that_the_model_lacks_is_refused() -> None:
    sampler = VllmSampler(CopyEngine(model()), TRAINED | {"model.layers.9.mlp"}, Generation())
    with pytest.raises(AdaptationError, match=r"model\.layers\.9\.mlp"):
        sampler.sync(model())


def test_answers_are_those_of_the_model_and_agree_with_it() -> None:
    one = model()
    sampler = VllmSampler(CopyEngine(model(seed=5)), TRAINED, Generation())
    sampler.sync(one)
    answers, logprobs = sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])
    assert answers == generate(one, PROMPTS, DECODING, [1, 2, 3])
    assert sampler.difference == pytest.approx(0, abs=1e-6)
    assert all(value < 0 for row in logprobs for value in row)


def test_weights_that_did_not_arrive_are_noticed_at_the_next_sync() -> None:
    one = model()
    lost = "model.layers.2.mlp.down_proj.weight"
    sampler = VllmSampler(CopyEngine(one, loses=lost), TRAINED, Generation(max_logprob_difference=1e-4))
    sampler.sync(one)
    sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])
    with torch.no_grad():
        dict(one.named_parameters())[lost].add_(1.0)
    sampler.sync(one)
    with pytest.raises(UserError, match=r"differ from the model's by 0\.\d+ a token.*at most 0\.0001"):
        sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])


def test_a_difference_that_is_no_number_does_not_pass() -> None:
    one = model()
    engine = CopyEngine(one)
    engine.generate = lambda requests, _: [Written([3], [math.nan]) for _ in requests]  # type: ignore[method-assign]
    sampler = VllmSampler(engine, TRAINED, Generation())
    sampler.sync(one)
    with pytest.raises(UserError, match="differ from the model's by nan"):
        sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])


def test_greedy_answers_are_not_compared_and_do_not_count_as_a_comparison() -> None:
    one = model()
    sampler = VllmSampler(CopyEngine(model(seed=5), loses="model.norm.weight"), TRAINED, Generation())
    sampler.sync(one)
    with torch.no_grad():
        one.model.norm.weight.mul_(3)
    greedy = Decoding(4, (1,), 0, None)
    sampler.generate(one, PROMPTS, greedy, None)
    assert sampler.difference is None
    with pytest.raises(UserError, match="differ"):
        sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ([], "expected 3 answers, found 0"),
        ([Written([], [])] * 3, "answer 0: expected 1 to 4 tokens"),
        ([Written([3] * 5, [-1.0] * 5)] * 3, "answer 0: expected 1 to 4 tokens"),
        ([Written([3, 4], [-1.0])] * 3, "found 2 and 1"),
    ],
)
def test_an_answer_of_another_form_is_refused(written: list[Written], complaint: str) -> None:
    one = model()
    engine = CopyEngine(one)
    engine.generate = lambda *_: written  # type: ignore[method-assign]
    sampler = VllmSampler(engine, TRAINED, Generation())
    sampler.sync(one)
    with pytest.raises(RuntimeError, match=complaint):
        sampler.generate(one, PROMPTS, DECODING, [1, 2, 3])


@pytest.mark.parametrize("run", [LAYER, FULL])
def test_a_run_sampled_by_an_equal_copy_is_the_same_run(tmp_path: Path, run: Any) -> None:
    """TRL weighs tokens by the sampler's probabilities: 1 where they are the model's."""
    plain = make(tmp_path, run, training(steps=3))
    plain.train()
    trainer = make(tmp_path, run, training(steps=3))
    engine = CopyEngine(model(seed=5))
    trainer.sample_with(VllmSampler(engine, trainer.trained_names, Generation(max_logprob_difference=1e-4)))
    trainer.train()
    everything = frozenset(name for name, _ in trainer.model.named_parameters())
    assert engine.loads == [everything, trainer.trained_names, trainer.trained_names]
    # Adam makes a whole step of a gradient that is all rounding, so single weights may differ; almost none does.
    for name, one in weights(plain).items():
        assert float((one - weights(trainer)[name]).abs().mean()) < 1e-6, name
    ratios = [
        row["sampling/importance_sampling_ratio/mean"]
        for row in trainer.state.log_history
        if "sampling/importance_sampling_ratio/mean" in row
    ]
    assert ratios == pytest.approx([1.0] * 3, abs=1e-4)


def test_an_answer_is_asked_for_as_ours_are_drawn() -> None:
    assert sampling_options(Request([3], 17), DECODING) == {
        "n": 1,
        "seed": 17,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": 0,
        "max_tokens": 4,
        "stop_token_ids": [1],
        "logprobs": 0,
    }
    assert sampling_options(Request([3], None), Decoding(4, (1, 2), 0, None))["temperature"] == 0.0


def test_a_colocated_engine_is_called_by_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class FakeLLM:
        def __init__(self) -> None:
            inside = SimpleNamespace(load_weights=lambda pairs: calls.append(("load", [name for name, _ in pairs])))
            runner = SimpleNamespace(model_runner=SimpleNamespace(model=inside))
            self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

        def reset_prefix_cache(self) -> None:
            calls.append("reset")

        def generate(self, prompts: Any, *, sampling_params: Any, use_tqdm: bool) -> list[Any]:
            calls.append((prompts, [one.options["seed"] for one in sampling_params]))
            answer = SimpleNamespace(
                token_ids=(5, 1), logprobs=[{5: SimpleNamespace(logprob=-0.5)}, {1: SimpleNamespace(logprob=-0.25)}]
            )
            return [SimpleNamespace(outputs=[answer]) for _ in prompts]

    vllm = ModuleType("vllm")
    vllm.SamplingParams = lambda **options: SimpleNamespace(options=options)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    engine = TrlEngine(SimpleNamespace(mode="colocate", llm=FakeLLM()))
    engine.load([("a", torch.zeros(1)), ("b", torch.zeros(1))])
    assert engine.generate([Request([3, 4], 1), Request([6], 2)], DECODING) == [Written([5, 1], [-0.5, -0.25])] * 2
    assert calls == [
        ("load", ["a"]),
        ("load", ["b"]),
        "reset",
        ([{"prompt_token_ids": [3, 4]}, {"prompt_token_ids": [6]}], [1, 2]),
    ]


def test_a_server_is_called_by_its_own_names() -> None:
    calls: list[Any] = []

    class FakeClient:
        def update_named_params(self, metadata: Any, named: Any) -> None:
            calls.append((metadata, [name for name, _ in named]))

        def reset_prefix_cache(self) -> None:
            calls.append("reset")

        def generate(self, prompts: Any, generation_kwargs: Any, **options: Any) -> dict[str, Any]:
            assert options == {"n": 1, "temperature": 0.7, "top_p": 1.0, "top_k": 0, "max_tokens": 4, "logprobs": 0}
            assert generation_kwargs["stop_token_ids"] == [1]
            return {"completion_ids": [[generation_kwargs["seed"], 1]], "logprobs": [[[-0.5], [-0.25]]]}

    engine = TrlEngine(SimpleNamespace(mode="server", vllm_client=FakeClient()))
    engine.load([("a", torch.zeros(2, 3, dtype=torch.bfloat16))])
    assert calls == [([("a", "bfloat16", [2, 3])], ["a"]), "reset"]
    requests = [Request([3], seed) for seed in range(5, 25)]
    assert [one.tokens for one in engine.generate(requests, DECODING)] == [[seed, 1] for seed in range(5, 25)]


def test_where_vllm_or_a_device_is_missing_the_study_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"tiny: generation\.backend: found vllm, which is not installed"):
        check_vllm("tiny")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="which needs a CUDA device"):
        check_vllm("tiny")


def test_a_server_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: Any) -> None:
        assert settings["mode"] == "server"
        assert settings["max_model_length"] == 3 + 4
        raise OSError("The vLLM server can't be reached\nafter 240 seconds")

    monkeypatch.setattr("trl.generation.vllm_generation.VLLMGeneration", refuse)
    settings = Generation(backend="vllm", mode="server", server="http://there:1")
    with pytest.raises(UserError, match=r"^generation\.server: http://there:1: The vLLM server can't be reached after"):
        open_engine(settings, model(), None, TOKENIZER, PROMPTS, 4)


@pytest.mark.usefixtures("project")
class TestSettings:
    def study(self, **generation: Any) -> Study:
        settings = deep_copy(TINY)
        settings["generation"] = generation
        write_study("tiny", settings)
        return load_study("tiny")

    def test_only_the_backend_decides_a_result(self) -> None:
        write_study("tiny", TINY)
        plain = load_study("tiny")
        stated = self.study(backend="transformers", memory_share=0.5)
        for settings_of in (training_settings, evaluation_settings):
            assert settings_of(stated, FULL) == settings_of(plain, FULL)
            assert settings_of(self.study(backend="vllm"), FULL) == settings_of(plain, FULL) | {"backend": "vllm"}

    def test_worlds_are_refused(self) -> None:
        settings = deep_copy(TINY)
        settings["task"] = {"kind": "household", "sizes": TINY["task"]["sizes"]}
        settings["generation"] = {"backend": "vllm"}
        write_study("tiny", settings)
        with pytest.raises(UserError, match=r"generation\.backend: found vllm; episodes are played on one cache"):
            load_study("tiny")
