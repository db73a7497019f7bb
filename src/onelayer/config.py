"""Typed settings: params.yaml (active studies, shared defaults, report) and studies/<study>.yaml.

Unknown keys, wrong types and impossible values are refused with the file and the path of the key.
Imports no torch: `plan`, the graph and the reports start at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from yaml import YAMLError

from onelayer.baseline_settings import LoraRuns, TunedLayers
from onelayer.cluster_settings import ClusterSettings
from onelayer.errors import UserError
from onelayer.model_settings import ModelSettings
from onelayer.settings import NonNegativeFloat, PositiveFloat, PositiveInt, Settings, no_repeats
from onelayer.strategy_settings import RateSensitivity, Strategies, check_strategies
from onelayer.suite.benchmarks import Benchmark, Suite
from onelayer.task_settings import WITH_CORPUS, WORLDS, TaskSettings
from onelayer.training_settings import Training

PARAMS_FILE = Path("params.yaml")
STUDIES_FOLDER = Path("studies")


def _all_or_list(value: Any) -> Any:
    if isinstance(value, str) and value != "all":
        raise ValueError(f"expected all or a list of layers, found {value!r}")
    return value


class Runs(Settings):
    """Which runs the study has: the seeds of every adaptation, the layers trained alone, and what stands beside."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(no_repeats)] = (
        0,
        1,
        2,
    )
    layers: Annotated[
        Literal["all"]
        | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(no_repeats)],
        BeforeValidator(_all_or_list),
    ] = "all"
    search_seeds: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(no_repeats)
    ] = (0,)
    lora: LoraRuns | None = None
    tuned_layers: TunedLayers | None = None
    strategies: Strategies | None = None
    rate_sensitivity: RateSensitivity | None = None


class Evaluation(Settings):
    """How each run is sampled: k answers a problem at a temperature, and one greedy answer.

    ``suite`` names benchmarks that every run but the search's is scored on besides (`onelayer.suite`).
    """

    samples: PositiveInt = 4
    temperature: PositiveFloat = 1.0
    max_tokens: PositiveInt = 3072
    batch_size: PositiveInt = 256
    suite: Suite = ()


class Grading(Settings):
    """How an answer's judgement is bounded, and what its failure does.

    A judge or world that raises, hangs or answers nonsense says nothing of the answer. ``stop`` ends the run with a
    message; ``count`` leaves the answer out of the score and of its group, and says how many there were.
    """

    seconds: PositiveFloat = 60.0
    failures: Literal["stop", "count"] = "stop"


class Ensemble(Settings):
    """How many single-layer models vote together, those ranked highest on ``select``; fewer where fewer are there."""

    layers: int = Field(7, ge=2)


class Analysis(Settings):
    """The statistics' own settings; a change here samples and trains nothing."""

    resamples: int = Field(2000, ge=100)
    confidence: float = Field(0.95, gt=0, lt=1)
    ensemble: Ensemble = Ensemble()


class Distributed(Settings):
    """One run trained by several processes on one machine, each on a device of its own where there are GPUs.

    ``ddp`` keeps the whole model in each and averages gradients; ``fsdp`` (version 2) shares out the weights of the
    training pass, the gradients and the optimizer's state.
    """

    processes: int = Field(ge=2)
    strategy: Literal["ddp", "fsdp"] = "ddp"


class Resources(Settings):
    """What a job asks of the machine; none of it changes a result's meaning, so none is fingerprinted.

    Of a run that several processes train, ``threads`` are those of each, ``memory_mb`` and ``worlds`` those of all.
    ``gpus`` is how many devices a job has for itself; of 0, it takes what it finds.
    """

    threads: PositiveInt = 1
    base_threads: PositiveInt = 1
    memory_mb: PositiveInt = 4000
    gpus: Annotated[int, Field(ge=0)] = 0
    seeds_per_job: PositiveInt = 1
    save_every_seconds: NonNegativeFloat = 300
    worlds: PositiveInt = 32
    cluster: ClusterSettings = ClusterSettings()
    report_to: Annotated[tuple[Literal["tensorboard", "trackio", "wandb"], ...], AfterValidator(no_repeats)] = ()
    distributed: Distributed | None = None

    @property
    def training_threads(self) -> int:
        """Threads of all processes that train a run."""
        return self.threads * (1 if self.distributed is None else self.distributed.processes)


class Generation(Settings):
    """What samples the answers, in training and evaluation alike.

    Attributes:
        backend: ``vllm`` is another sampler with other draws, and needs a CUDA device.
        batch_size: answers that transformers samples at once in training, all of a batch where not given; each takes
            the memory of its keys and values. Of several processes, those of each.
        mode: whether vLLM runs in the same process, or on the server at ``server``.
        memory_share: of the device's memory, that a colocated vLLM may take.
        max_logprob_difference: mean difference a token, in nats, between vLLM's log-probabilities and the model's,
            beyond which a run ends.
        checked_answers: answers that this is measured on, each time vLLM is sent new weights.
    """

    backend: Literal["transformers", "vllm"] = "transformers"
    batch_size: PositiveInt | None = None
    mode: Literal["colocate", "server"] = "colocate"
    server: str = "http://localhost:8000"
    memory_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    max_logprob_difference: PositiveFloat = 0.05
    checked_answers: PositiveInt = 8


class Cost(Settings):
    """What `onelayer plan --cost` takes for granted where nothing is measured yet; it decides no result.

    Attributes:
        device: the machine it counts hours of; this one where not given.
        prompt_tokens: mean tokens of a prompt (of an episode: of its first view).
        response_tokens: mean tokens of a response (of an episode: of all that follows its first view).
    """

    device: Literal["a100", "h100", "h200"] | None = None
    prompt_tokens: PositiveFloat | None = None
    response_tokens: PositiveFloat | None = None


class Study(Settings):
    """One model × algorithm × training set × evaluation suite."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    seed: int = Field(0, ge=0)
    model: ModelSettings = Field(discriminator="kind")
    task: TaskSettings = Field(discriminator="kind")
    algorithm: Literal["grpo", "dr_grpo", "gigpo"]
    training: Training
    runs: Runs = Runs()
    evaluation: Evaluation = Evaluation()
    grading: Grading = Grading()
    analysis: Analysis = Analysis()
    generation: Generation = Generation()
    resources: Resources = Resources()
    cost: Cost = Cost()

    @model_validator(mode="after")
    def _micro_needs_a_corpus(self) -> Self:
        if self.model.kind == "micro" and self.task.kind not in WITH_CORPUS:
            raise ValueError(
                f"a micro model is pre-trained on its task's generated corpus ({', '.join(WITH_CORPUS)}), found"
                f" task.kind {self.task.kind}"
            )
        return self

    @model_validator(mode="after")
    def _worlds_take_turns_of_their_own(self) -> Self:
        if self.model.chat is not None and self.is_agent:
            raise ValueError(
                "model.chat puts one message to the model, and an episode has many: write the chat's turn marks into"
                f" task.prompt and task.turn instead, found model.chat with task.kind {self.task.kind}"
            )
        return self

    @model_validator(mode="after")
    def _algorithm_fits(self) -> Self:
        if self.algorithm == "gigpo" and not self.is_agent:
            raise ValueError(
                f"algorithm gigpo compares the steps of episodes and needs a domain of worlds ({', '.join(WORLDS)}),"
                f" found task.kind {self.task.kind}"
            )
        for key, fits, what in (
            ("gigpo", self.algorithm == "gigpo", f"algorithm gigpo, found {self.algorithm}"),
            ("agent", self.is_agent, f"a domain of worlds, found task.kind {self.task.kind}"),
        ):
            if key in self.training.model_fields_set and not fits:
                raise ValueError(f"training.{key} belongs to {what}")
        return self

    @model_validator(mode="after")
    def _worlds_need_our_sampler(self) -> Self:
        if self.generation.backend == "vllm" and self.is_agent:
            raise ValueError(
                "generation.backend: found vllm; episodes are played on one cache of keys and values, which"
                f" transformers alone offers here (task.kind {self.task.kind})"
            )
        return self

    @model_validator(mode="after")
    def _adapters_need_our_sampler(self) -> Self:
        if self.generation.backend == "vllm" and self.runs.lora is not None:
            raise ValueError(
                "generation.backend: found vllm, whose copy of the model has no adapters; runs.lora is sampled with"
                " transformers"
            )
        return self

    @model_validator(mode="after")
    def _processes_share_a_run(self) -> Self:
        distributed = self.resources.distributed
        if distributed is None:
            return self
        rows = self.training.microbatch_rows
        if rows % distributed.processes:
            raise ValueError(
                f"resources.distributed.processes: found {distributed.processes}; expected a divisor of {rows}, the"
                " responses that all processes together take in one forward and backward pass (training.microbatch;"
                " where not given, a whole mini-batch)"
            )
        if self.generation.backend == "vllm":
            raise ValueError(
                "resources.distributed: several processes sample with transformers, found generation.backend: vllm"
            )
        if distributed.strategy == "fsdp" and self.runs.lora is not None:
            raise ValueError(
                "resources.distributed.strategy: found fsdp; the adapters of runs.lora are trained with ddp, or by one"
                " process"
            )
        return self

    @property
    def is_agent(self) -> bool:
        """Whether the domain is one of worlds: multi-turn episodes instead of single answers."""
        return self.task.kind in WORLDS

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the study; what was worked out of the old settings stays behind."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("suite", None)
        return copied

    @cached_property
    def suite(self) -> tuple[Benchmark, ...]:
        """The benchmarks of the evaluation suite, with what the study changes of them."""
        return tuple(entry.resolved() for entry in self.evaluation.suite)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers trained alone, ascending.

        Raises UserError where a layer lies beyond the model.
        """
        return self._checked_layers("runs.layers", self.runs.layers)

    @property
    def tuned_layers(self) -> tuple[int, ...]:
        """The layers whose rate is searched for them alone, ascending; none where that is the best one.

        Raises UserError where a layer lies beyond the model.
        """
        tuned = self.runs.tuned_layers
        if tuned is None or tuned.layers == "best":
            return ()
        return self._checked_layers("runs.tuned_layers.layers", tuned.layers)

    def _checked_layers(self, key: str, layers: Literal["all"] | tuple[int, ...]) -> tuple[int, ...]:
        count = self.model.layer_count()
        if layers == "all":
            return tuple(range(count))
        for index, layer in enumerate(layers):
            if layer >= count:
                raise UserError(
                    f"{study_file(self.name)}: {key}[{index}]: found layer {layer}, expected 0 to"
                    f" {count - 1} (the model has {count} layers)"
                )
        return tuple(sorted(layers))


class ReportOptions(Settings):
    """How the report looks; a change here only writes the report again."""

    title: str = "How much of reinforcement learning's gain can one layer carry?"
    decimals: int = Field(3, ge=1, le=6)
    published: Literal["all"] | Annotated[tuple[str, ...], AfterValidator(no_repeats)] = Field(
        "all", description="Which files of studies/published stand beside the studies: all, or a list of names."
    )


class Params(Settings):
    """params.yaml: the active studies, defaults that every study starts from, and the report's options."""

    studies: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(no_repeats)]
    defaults: dict[str, Any] = Field(default_factory=dict)
    report: ReportOptions = ReportOptions()


def study_file(name: str) -> Path:
    """The YAML file of a study, relative to the project's root."""
    return STUDIES_FOLDER / f"{name}.yaml"


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file of settings. Raises UserError where it is not there, or is no YAML mapping."""
    try:
        content = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except FileNotFoundError:
        raise UserError(f"{path}: not found (commands run from the project's root)") from None
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: expected readable YAML, found: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path}: expected a mapping of settings, found {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


S = TypeVar("S", bound=Settings)

# The names of pydantic's union branches, which it puts into the path of a key; users never wrote them.
_KINDED = (*get_args(ModelSettings), *get_args(TaskSettings))
_KINDS = {get_args(one.model_fields["kind"].annotation)[0] for one in _KINDED}
_BRANCH = re.compile(r"^(literal\[|tuple\[|function-)")


def validated(build: type[S], content: dict[str, Any], path: Path) -> S:
    """Build typed settings. Raises UserError with a line for every key that is not as expected."""
    try:
        return build(**content)
    except ValidationError as error:
        raise UserError("\n".join(_one_line_each(error, path))) from None


def _one_line_each(error: ValidationError, path: Path) -> list[str]:
    lines: dict[str, str] = {}  # by key: of the branches of a union, the last one's complaint says most
    for problem in error.errors(include_url=False):
        # A kind stands right after model or task; further down, a key may have the same name.
        keys = [
            str(part)
            for place, part in enumerate(problem["loc"])
            if not (_BRANCH.match(str(part)) or (place == 1 and part in _KINDS))
        ]
        where = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(keys)) or "(file)"
        kind, context = problem["type"], problem.get("ctx", {})
        if kind == "extra_forbidden":
            lines[where] = "unknown key"
        elif kind == "missing":
            lines[where] = "missing"
        elif kind == "value_error":
            lines[where] = problem["msg"].removeprefix("Value error, ")
        elif kind == "union_tag_invalid":
            lines[where + ".kind"] = f"found {context['tag']!r}; expected one of {context['expected_tags']}"
        elif kind == "union_tag_not_found":
            lines[where + ".kind"] = "missing"
        elif not (kind == "too_short" and any(key.startswith(f"{where}[") for key in lines)):
            # A refused member also makes its list one shorter; that second complaint would say nothing new.
            lines[where] = f"found {problem['input']!r}; {problem['msg']}"
    return [f"{path}: {where}: {message}" for where, message in lines.items()]


def load_params() -> Params:
    """Read params.yaml. Raises UserError where it cannot be read or holds something unexpected."""
    return validated(Params, read_yaml(PARAMS_FILE), PARAMS_FILE)


def load_study(name: str) -> Study:
    """Read studies/<name>.yaml over the shared defaults of params.yaml.

    Raises UserError where a file cannot be read, a key is unknown or a value impossible.
    """
    path = study_file(name)
    if path.parent != STUDIES_FOLDER:
        raise UserError(f"{path}: found a folder in the study's name, expected a file of {STUDIES_FOLDER}/ itself")
    own = read_yaml(path)
    if "name" in own:
        raise UserError(f"{path}: name: unknown key (a study is named by its file)")
    merged = OmegaConf.to_container(OmegaConf.merge(load_params().defaults, own))
    assert isinstance(merged, dict)
    study = validated(Study, {**{str(key): value for key, value in merged.items()}, "name": name}, path)
    # A layer beyond the model is refused here, before anything is written.
    scanned, _ = study.layers, study.tuned_layers
    runs, depth = study.runs, study.model.layer_count()
    check_strategies(str(path), runs.strategies, runs.rate_sensitivity, scanned, depth, runs.seeds)
    return study
