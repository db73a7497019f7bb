"""Sampling with vLLM: what is sent to it and when, what it is asked, and whether it still agrees with the model.

vLLM keeps a copy of the model of its own, often in another number format and with other kernels. So: every tensor goes
to it once, later only those that the run trains (no other can have changed); after each time, the log-probabilities
that it reports for the first answers are held against the model's own, and a run ends where they are too far apart.

All of this is written against `Engine`, which `TrlEngine` fills with TRL's own wiring of vLLM
(``trl.generation.vllm_generation.VLLMGeneration``, ``trl.generation.vllm_client.VLLMClient``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from onelayer.adaptation import AdaptationError
from onelayer.config import Generation
from onelayer.errors import UserError
from onelayer.rl.rollout import Decoding

# Requests that a server is sent at the same time.
_CONCURRENT = 64


@dataclass(frozen=True)
class Request:
    """One answer that is asked for.

    Attributes:
        prompt: its token ids.
        seed: by which its tokens are drawn; None where the decoding is greedy.
    """

    prompt: list[int]
    seed: int | None


@dataclass(frozen=True)
class Written:
    """One answer: its token ids, the end token included, and the log-probability of each, at the temperature."""

    tokens: list[int]
    logprobs: list[float]


class Engine(Protocol):
    """What keeps a copy of the model and writes answers with it."""

    def load(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Take over these tensors, by the names of transformers' parameters, and forget what it cached."""

    def generate(self, requests: Sequence[Request], decoding: Decoding) -> list[Written]:
        """Write one answer a request, in their order."""


class VllmSampler:
    """Samples from an engine that is kept equal to a model.

    Args:
        engine: the copy.
        trained: the names of the parameters that change.
        settings: how far the copy may be off, and on how many answers that is measured.
    """

    def __init__(self, engine: Engine, trained: frozenset[str], settings: Generation) -> None:
        self._engine = engine
        self._trained = trained
        self._settings = settings
        self._whole = False
        self._unchecked = True
        self.difference: float | None = None

    def sync(self, model: Any) -> frozenset[str]:
        """Send the engine what may have changed: every parameter the first time, then those that train.

        Returns the names sent. Raises AdaptationError where the model lacks one that should train.
        """
        chosen = [
            (name, parameter.detach())
            for name, parameter in model.named_parameters()
            if not self._whole or name in self._trained
        ]
        names = frozenset(name for name, _ in chosen)
        missing = self._trained - names
        if missing:
            raise AdaptationError(f"the sampler should be sent {sorted(missing)[:5]}, which the model does not have")
        self._engine.load(chosen)
        self._whole = self._unchecked = True
        return names

    def generate(
        self, model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding, seeds: Sequence[int] | None
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Write one answer a prompt.

        Args:
            model: what the engine is a copy of; it is asked only after a `sync`, for the comparison.
            prompts: token ids.
            decoding: the limits and the temperature.
            seeds: one a prompt; None where the decoding is greedy.

        Returns the token ids of each answer and their log-probabilities. Raises UserError where the engine and the
        model disagree.
        """
        requests = [Request(list(prompt), None if seeds is None else seeds[row]) for row, prompt in enumerate(prompts)]
        written = self._engine.generate(requests, decoding)
        _check_answers(written, len(requests), decoding)
        # Of greedy answers vLLM reports probabilities at no temperature; the next sampled ones are compared.
        if self._unchecked and decoding.temperature is not None:
            few = self._settings.checked_answers
            self._agree(model, requests[:few], written[:few], decoding.temperature)
            self._unchecked = False
        return [one.tokens for one in written], [one.logprobs for one in written]

    def _agree(self, model: Any, requests: Sequence[Request], written: Sequence[Written], temperature: float) -> None:
        differences: list[float] = []
        for request, answer in zip(requests, written, strict=True):
            own = answer_logprobs(model, request.prompt, answer.tokens, temperature)
            differences += [abs(mine - theirs) for mine, theirs in zip(own, answer.logprobs, strict=True)]
        self.difference = sum(differences) / len(differences)
        # Written so that a NaN does not pass.
        if not self.difference <= self._settings.max_logprob_difference:
            raise UserError(
                f"generation: vLLM's log-probabilities differ from the model's by {self.difference:.4f} a token on"
                f" average, expected at most {self._settings.max_logprob_difference:g}"
                f" (generation.max_logprob_difference); {len(differences)} tokens of {len(written)} answers were"
                " compared. It samples from another model than the one that trains: another number format, or"
                " weights that did not arrive"
            )


@torch.inference_mode()
def answer_logprobs(model: Any, prompt: Sequence[int], answer: Sequence[int], temperature: float) -> list[float]:
    """The model's own log-probability of each token of an answer, at a temperature."""
    ids = torch.tensor([[*prompt, *answer]], device=model.device)
    logits = model(input_ids=ids, logits_to_keep=len(answer) + 1).logits[0, :-1].float() / temperature
    chosen = torch.tensor(list(answer), device=model.device)[:, None]
    found: list[float] = logits.log_softmax(dim=-1).gather(1, chosen)[:, 0].tolist()
    return found


def _check_answers(written: Sequence[Written], wanted: int, decoding: Decoding) -> None:
    if len(written) != wanted:
        raise RuntimeError(f"vLLM: expected {wanted} answers, found {len(written)}")
    for row, answer in enumerate(written):
        if not 1 <= len(answer.tokens) <= decoding.max_tokens or len(answer.logprobs) != len(answer.tokens):
            raise RuntimeError(
                f"vLLM: answer {row}: expected 1 to {decoding.max_tokens} tokens with a log-probability each, found"
                f" {len(answer.tokens)} and {len(answer.logprobs)}"
            )


def sampling_options(request: Request, decoding: Decoding) -> dict[str, Any]:
    """One request's options, as ``vllm.SamplingParams`` and vLLM's server name them."""
    return {
        "n": 1,
        "seed": request.seed,
        "temperature": decoding.temperature or 0.0,  # 0 is greedy
        "top_p": 1.0,
        "top_k": 0,
        "max_tokens": decoding.max_tokens,
        "stop_token_ids": list(decoding.end_ids),
        "logprobs": 0,  # of the token drawn alone
    }


class TrlEngine:
    """vLLM, colocated or on a server, through TRL's wiring of it.

    Args:
        generation: a ``trl.generation.vllm_generation.VLLMGeneration``.
    """

    def __init__(self, generation: Any) -> None:
        self._generation = generation

    def load(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Load tensors into the engine in this process, or stream them to the server's."""
        if self._generation.mode == "server":
            client = self._generation.vllm_client
            told = [(name, str(one.dtype).removeprefix("torch."), list(one.shape)) for name, one in tensors]
            client.update_named_params(told, iter(tensors))
            client.reset_prefix_cache()
            return
        llm = self._generation.llm
        inside = llm.llm_engine.model_executor.driver_worker.model_runner.model
        for name, tensor in tensors:
            inside.load_weights([(name, tensor)])
        llm.reset_prefix_cache()

    def generate(self, requests: Sequence[Request], decoding: Decoding) -> list[Written]:
        """Ask for every answer with a seed of its own."""
        if self._generation.mode == "server":
            with ThreadPoolExecutor(min(_CONCURRENT, len(requests))) as threads:
                return list(threads.map(lambda request: self._ask(request, decoding), requests))
        from vllm import SamplingParams

        outputs = self._generation.llm.generate(
            [{"prompt_token_ids": request.prompt} for request in requests],
            sampling_params=[SamplingParams(**sampling_options(request, decoding)) for request in requests],
            use_tqdm=False,
        )
        return [_written(output.outputs[0]) for output in outputs]

    def _ask(self, request: Request, decoding: Decoding) -> Written:
        options = sampling_options(request, decoding)
        named = {key: options.pop(key) for key in ("n", "temperature", "top_p", "top_k", "max_tokens", "logprobs")}
        found = self._generation.vllm_client.generate(
            prompts=[request.prompt],
            **named,
            generation_kwargs={key: value for key, value in options.items() if value is not None},
        )
        return Written(list(found["completion_ids"][0]), [row[0] for row in found["logprobs"][0]])


def _written(output: Any) -> Written:
    tokens = list(output.token_ids)
    # Each position holds the drawn token's log-probability by its id.
    return Written(tokens, [found[token].logprob for token, found in zip(tokens, output.logprobs, strict=True)])


def check_vllm(where: str) -> None:
    """Refuse a study that asks for vLLM where that cannot be. Raises UserError."""
    if importlib.util.find_spec("vllm") is None:
        raise UserError(
            f"{where}: generation.backend: found vllm, which is not installed: pip install 'onelayer[gpu]', or"
            " generation.backend: transformers"
        )
    if not torch.cuda.is_available():
        raise UserError(
            f"{where}: generation.backend: found vllm, which needs a CUDA device, and torch finds none;"
            " generation.backend: transformers samples on any machine"
        )


def open_engine(
    settings: Generation, model: Any, accelerator: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], limit: int
) -> Engine:
    """Start vLLM beside a model, or join the server that the settings name.

    Args:
        settings: where it runs.
        model: of transformers; ``name_or_path`` is the folder that vLLM reads its copy from.
        accelerator: of the process, by which TRL finds its device.
        tokenizer: the model's.
        prompts: token ids of all that will be asked.
        limit: the most tokens of an answer.

    Raises UserError where the server cannot be used.
    """
    from trl.generation.vllm_generation import VLLMGeneration

    try:
        generation = VLLMGeneration(
            model=model,
            accelerator=accelerator,
            processing_class=tokenizer,
            mode=settings.mode,
            server_base_url=settings.server,
            gpu_memory_utilization=settings.memory_share,
            max_model_length=max(map(len, prompts)) + limit,
        )
    except (OSError, RuntimeError) as error:
        # A server that is not there, or was started without what TRL needs of it; its message says which.
        if settings.mode == "server":
            raise UserError(f"generation.server: {settings.server}: {' '.join(str(error).split())}") from error
        raise
    return TrlEngine(generation)
