"""The model of cost: tokens, FLOPs, bytes and memory of every run, from a study's settings alone. Pure; no torch.

A product of a token with a matrix of n weights counts as 2 n FLOPs, and as much again for each of the two gradients
(Kaplan et al. 2020, arXiv 2001.08361, section 2.1). Attention's two products of a token with a context of c tokens
count as 4 c A, A being the width of all queries together (Hoffmann et al. 2022, arXiv 2203.15556, appendix F; the mean
context of a sequence of s tokens is s/2 under the causal mask). docs/method.md has the formulas and what they leave
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.fingerprint import evaluated_splits
from onelayer.grid import BASE, Run
from onelayer.lengths import Lengths, mean_line, turns
from onelayer.model_settings import MicroModel
from onelayer.shape import Shape
from onelayer.suite.benchmarks import Benchmark, HarnessBenchmark
from onelayer.suite.library import SUITE_PROBLEMS
from onelayer.training_settings import Training

# Bytes that the optimizer step moves for a trained weight: AdamW reads weight, gradient and both moments, and writes
# the weight and the moments, all float32.
_OPTIMIZER_BYTES = 28
# Bytes that drawing a token moves for each entry of the vocabulary: the logits become float64, are divided, turned
# into probabilities, summed up and searched.
_DRAW_BYTES = 64
# Bytes that the loss moves for each entry of the vocabulary and token: logits, their logarithms and gradients.
_LOSS_BYTES = 32


@dataclass(frozen=True)
class Phase:
    """The work of one phase, by what it is bound by on one machine or another.

    Attributes:
        tokens: what passes the model, forward.
        flops: multiplications and additions.
        bytes: what must be read from and written to memory, beside what stays in the processor's caches.
        passes: forward or backward passes through one block, each of which costs some time however small it is.
        steps: optimizer steps, or batches sampled.
    """

    tokens: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    passes: float = 0.0
    steps: float = 0.0

    def __add__(self, other: Phase) -> Phase:
        return Phase(
            self.tokens + other.tokens,
            self.flops + other.flops,
            self.bytes + other.bytes,
            self.passes + other.passes,
            self.steps + other.steps,
        )

    def times(self, count: float) -> Phase:
        """The same work ``count`` times."""
        return Phase(
            self.tokens * count, self.flops * count, self.bytes * count, self.passes * count, self.steps * count
        )


@dataclass(frozen=True)
class RunCost:
    """What one run asks for.

    Attributes:
        sampling: answers sampled in training.
        training: forward and backward passes and the optimizer; the base's pre-training of a micro model.
        evaluation: answers sampled in evaluation.
        checkpoint_bytes: what of it stays on the disk.
        memory_bytes: the peak while it trains, beside the process itself.
    """

    run: Run
    sampling: Phase
    training: Phase
    evaluation: Phase
    checkpoint_bytes: int
    memory_bytes: float

    @property
    def flops(self) -> float:
        """Of all three phases."""
        return self.sampling.flops + self.training.flops + self.evaluation.flops


def run_cost(study: Study, shape: Shape, run: Run, lengths: Lengths) -> RunCost:
    """Count one run's work.

    Args:
        study: its settings.
        shape: its model's sizes.
        run: one of its runs.
        lengths: mean tokens of prompts and responses, and how many problems there are.

    Raises UserError where it is not known how many problems a split has.
    """
    trains = run.kind != BASE.name
    pretrained = isinstance(study.model, MicroModel)
    at_once = study.resources.worlds if study.is_agent else study.generation.batch_size
    return RunCost(
        run,
        sampling=rollout_phase(study.training, shape, lengths, turns(study), at_once) if trains else Phase(),
        training=training_phase(study.training, shape, run, lengths) if trains else _pretraining(study, shape),
        evaluation=_evaluation(study, shape, run, lengths),
        checkpoint_bytes=4 * trained_part(shape, run).weights if trains or pretrained else 0,
        memory_bytes=_memory(study, shape, run, lengths) if trains else 0.0,
    )


@dataclass(frozen=True)
class Trained:
    """What a run trains, as far as its cost goes.

    Attributes:
        weights: that train.
        crossed: blocks that the gradient of activations crosses: those from the lowest trained one up.
        flops: of the weights' gradients, a token.
    """

    weights: int
    crossed: int
    flops: int


def trained_part(shape: Shape, run: Run) -> Trained:
    """What a run trains: adapters, blocks, or everything (embeddings are looked up, and cost nothing but the head).

    Adapters on named targets are counted as on every linear map, and layers that a ranking chooses, while it is not
    known, as the lowest ones: each the most that it can be.
    """
    block = 2 * shape.active_block_weights
    if run.lora is not None:
        weights = shape.layers * run.lora.rank * shape.block_edges
        return Trained(weights, shape.layers, 2 * weights)
    if run.ranked is not None and not run.layers:
        run = replace(run, layers=tuple(range(run.ranked.count)))
    if run.layers and run.boost is None:
        weights = len(run.layers) * shape.block_weights
        return Trained(weights, shape.layers - min(run.layers), len(run.layers) * block)
    return Trained(shape.weights, shape.layers, shape.layers * block + 2 * shape.table_weights)


def forward_flops(shape: Shape, tokens: float, headed: float, context: float) -> float:
    """FLOPs of a forward pass.

    Args:
        shape: the model's sizes.
        tokens: tokens that pass the blocks.
        headed: of these, the ones that pass the head.
        context: mean number of tokens that a token attends to.
    """
    blocks = shape.layers * (2 * shape.active_block_weights + 4 * context * shape.attention_width)
    return blocks * tokens + 2 * shape.table_weights * headed


def step_flops(shape: Shape, run: Run, tokens: float, checkpointing: bool) -> float:
    """FLOPs of one sequence's forward and backward pass, for what a run trains.

    The gradient of activations ends at the lowest trained layer, that of weights is of the trained blocks alone
    (onelayer.adaptation), and checkpointing computes again the forward pass of the blocks that the gradient crosses.
    TRL's fused head scores every position and computes its logits again in the backward pass
    (``trl.trainer.utils.add_fused_lm_head``; on a GPU it leaves out the prompt's).

    Args:
        shape: the model's sizes.
        run: what it trains.
        tokens: of the sequence, prompt and response.
        checkpointing: whether activations are computed again.
    """
    part = trained_part(shape, run)
    matrices = 2 * shape.active_block_weights
    attention = 4 * (tokens / 2) * shape.attention_width
    backward = part.crossed * (matrices + 2 * attention) + 4 * shape.table_weights + part.flops
    again = part.crossed * (matrices + attention) if checkpointing else 0
    return forward_flops(shape, tokens, tokens, tokens / 2) + tokens * (backward + again)


def block_activations(shape: Shape) -> int:
    """Numbers that one block makes of one token, and that its backward pass needs.

    6 vectors of the residual's width (two norms: in, normed, out), 4 of the queries' and 4 of the keys' (attention with
    norms of both), and 4 of the MLP's (2 without a gate).
    """
    inner = shape.intermediate * shape.active_experts
    return 6 * shape.width + 4 * shape.attention_width + 4 * shape.kv_width + (4 if shape.gated else 2) * inner


def sample_phase(
    shape: Shape, prompts: float, answers: float, prompt: float, response: float, limit: int, batch: int
) -> Phase:
    """The work of sampling answers in batches on a cache of keys and values, all in float32.

    A prompt is read once for all its answers that stand in one batch. A batch takes as many steps as its longest
    answer, for which the limit is taken, and each step reads every weight; finished answers are let go of.

    Args:
        shape: the model's sizes.
        prompts: prompts read.
        answers: answers sampled.
        prompt: mean tokens of a prompt.
        response: mean tokens of an answer.
        limit: the most tokens that an answer can have.
        batch: answers sampled side by side.
    """
    batches = max(1.0, answers / batch)
    written = answers * response
    context = prompt + response / 2
    flops = forward_flops(shape, prompts * prompt, prompts, prompt / 2) + forward_flops(
        shape, written, written, context
    )
    steps = batches * limit
    cache = 8 * shape.layers * shape.kv_width * context  # keys and values of one answer, float32
    moved = steps * 4 * (shape.weights - (0 if shape.tied else shape.table_weights))
    moved += written * (cache + _DRAW_BYTES * shape.vocabulary)
    moved += (prompts * prompt + written) * 4 * shape.layers * block_activations(shape)
    return Phase(prompts * prompt + written, flops, moved, steps * shape.layers, batches)


def rollout_phase(
    settings: Training, shape: Shape, lengths: Lengths, turns: int = 1, at_once: int | None = None
) -> Phase:
    """The work of every answer sampled in a run's training.

    Args:
        settings: of the training.
        shape: the model's sizes.
        lengths: mean tokens of prompts and responses.
        turns: of an episode.
        at_once: answers sampled, or episodes played, side by side; None for all of a batch.
    """
    rows = settings.prompts_per_batch * settings.group_size
    one = sample_phase(
        shape,
        settings.prompts_per_batch,
        rows,
        lengths.prompt,
        lengths.response,
        settings.max_tokens * turns,
        min(rows, at_once or rows),
    )
    return one.times(_rollouts(settings))


def training_phase(settings: Training, shape: Shape, run: Run, lengths: Lengths) -> Phase:
    """The work of a run's forward and backward passes and its optimizer."""
    rows = settings.minibatch_prompts * settings.group_size
    tokens = lengths.prompt + lengths.response
    part = trained_part(shape, run)
    passes = shape.layers + part.crossed * (2 if settings.gradient_checkpointing else 1)
    step = Phase(
        tokens=rows * tokens,
        flops=rows * step_flops(shape, run, tokens, settings.gradient_checkpointing),
        bytes=_OPTIMIZER_BYTES * part.weights + rows * tokens * _step_bytes(shape, part.crossed),
        passes=passes * rows / settings.microbatch_rows,
        steps=1,
    )
    # The policy that sampled is computed anew where a batch of answers serves several optimizer steps, and the
    # reference's probabilities where the KL counts: a forward pass of every answer each.
    forwards = (settings.steps_per_rollout > 1) + (settings.kl > 0)
    forward = Phase(
        tokens=tokens,
        flops=forward_flops(shape, tokens, tokens, tokens / 2),
        bytes=tokens * _step_bytes(shape, 0),
        passes=shape.layers / settings.microbatch_rows,
    )
    answers = settings.prompts_per_batch * settings.group_size * _rollouts(settings)
    return step.times(settings.steps) + forward.times(forwards * answers)


def _step_bytes(shape: Shape, crossed: int) -> float:
    """Bytes moved for a token: activations are written, and read and matched by a gradient where that crosses."""
    return 4 * block_activations(shape) * (shape.layers + 2 * crossed) + _LOSS_BYTES * shape.vocabulary


def _rollouts(settings: Training) -> int:
    return math.ceil(settings.steps / settings.steps_per_rollout)


def _pretraining(study: Study, shape: Shape) -> Phase:
    if not isinstance(study.model, MicroModel):
        return Phase()
    recipe = study.model.pretraining
    mean = mean_line(study)
    one = step_flops(shape, BASE, mean, checkpointing=False)
    return Phase(
        tokens=recipe.batch_size * mean,
        flops=recipe.batch_size * one,
        bytes=_OPTIMIZER_BYTES * shape.weights + recipe.batch_size * mean * _step_bytes(shape, shape.layers),
        passes=2 * shape.layers,
        steps=1,
    ).times(recipe.steps)


def _evaluation(study: Study, shape: Shape, run: Run, lengths: Lengths) -> Phase:
    settings = study.evaluation
    batch = study.resources.worlds if study.is_agent else settings.batch_size
    total = Phase()
    for split in evaluated_splits(run):
        problems = lengths.problems.get(split) or getattr(study.task.sizes, split)
        if not isinstance(problems, int):
            raise UserError(
                f"{study_file(study.name)}: task.sizes.{split}: found {problems}; how many these are is known once"
                f" `onelayer prepare {study.name}` has run"
            )
        for samples in (settings.samples, 1):  # k answers at a temperature, and a greedy one
            total += sample_phase(
                shape,
                problems,
                problems * samples,
                lengths.prompt,
                lengths.evaluated,
                settings.max_tokens * turns(study),
                min(batch, problems * samples),
            )
    if run.kind != "search":
        for benchmark in study.suite:
            total += _benchmark(study, shape, benchmark, lengths)
    return total


def _benchmark(study: Study, shape: Shape, benchmark: Benchmark, lengths: Lengths) -> Phase:
    # Of the harness's own decoding nothing is known here: one answer, as long as in the study's evaluation.
    samples, limit = 1, study.evaluation.max_tokens
    if not isinstance(benchmark, HarnessBenchmark):
        samples, limit = benchmark.samples, benchmark.max_tokens
    problems = SUITE_PROBLEMS[benchmark.name]
    response = min(lengths.response, limit)
    batch = min(study.evaluation.batch_size, problems * samples)
    return sample_phase(shape, problems, problems * samples, lengths.prompt, response, limit, batch)


def _memory(study: Study, shape: Shape, run: Run, lengths: Lengths) -> float:
    """Weights and moments in float32, and the larger of what training and sampling hold besides.

    Training holds gradients and what the backward pass keeps of one micro-batch; checkpointing keeps a block's input
    alone, and one block at a time whole. Sampling holds keys and values of all answers sampled at once, with room for
    each up to its limit.
    """
    settings = study.training
    tokens = settings.microbatch_rows * (lengths.prompt + lengths.response)
    size = 2 if study.model.precision == "bfloat16" else 4
    block = block_activations(shape)
    part = trained_part(shape, run)
    kept = block + part.crossed * shape.width if settings.gradient_checkpointing else part.crossed * block
    tile = 3 * 4 * min(tokens, 4096) * min(shape.vocabulary, 32768)  # TRL's fused head works in tiles of this size
    rows = settings.prompts_per_batch * settings.group_size
    rows = min(rows, (study.resources.worlds if study.is_agent else study.generation.batch_size) or rows)
    rows = 0 if study.generation.backend == "vllm" else rows  # vLLM has a share of the device's memory to itself
    cache = rows * (lengths.prompt + settings.max_tokens * turns(study)) * 2 * size * shape.layers * shape.kv_width
    models = 2 if settings.kl > 0 else 1
    return models * 4 * shape.weights + 8 * part.weights + max(4 * part.weights + tokens * kept * size + tile, cache)
