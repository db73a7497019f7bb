"""The benchmarks by name (benchmarks.yaml), and what a study's `evaluation.suite` makes of them. No torch.

A study names benchmarks or composites, which stand for their benchmarks; a mapping changes one of them, so that it can
be read from a local file, say:

    evaluation:
      suite: [math, {benchmark: gsm8k, path: data/sources/gsm8k.jsonl, samples: 1}]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from onelayer.settings import PositiveFloat, PositiveInt, Settings
from onelayer.source_settings import CodeSource, QuestionSource, Source
from onelayer.suite.library import changed_source, library
from onelayer.task_settings import CodeTask, QuestionsTask, SandboxSettings

Category: TypeAlias = Literal["math", "code", "reasoning", "language"]
# A solution for a base model and an instructed one alike; the wording is that of Qwen2.5-Math's evaluation.
_PROMPT = "{question}\nPlease reason step by step, and put your final answer within \\boxed{}.\n"


class _Benchmark(Settings):
    name: str
    category: Category


class _Own(_Benchmark):
    """What our own sampling needs; a temperature of null is greedy, one answer a problem."""

    source: Source
    prompt: str = _PROMPT
    samples: PositiveInt = 4
    temperature: PositiveFloat | None = 1.0
    max_tokens: PositiveInt = 3072

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.temperature is None and self.samples != 1:
            raise ValueError(
                f"greedy answers (temperature null) are all alike: expected samples 1, found {self.samples}"
            )
        return self

    @model_validator(mode="after")
    def _makes_a_task(self) -> Self:
        """Say in the task's own words why none could be made of the benchmark."""
        try:
            self.task()
        except ValidationError as error:
            raise ValueError(error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")) from None
        return self

    @property
    def named_source(self) -> Source:
        """The source, its set named as the benchmark is."""
        return self.source.model_copy(update={"name": self.name})

    @abstractmethod
    def task(self) -> QuestionsTask | CodeTask:
        """The settings of a task whose every split is this benchmark."""

    def _whole(self) -> dict[str, Any]:
        """A benchmark is one set, asked whole: whatever split one looks at, it is the same."""
        splits = ("train", "select", "report")
        return {
            "sources": dict.fromkeys(splits, self.source),
            "sizes": dict.fromkeys(splits, "all"),
            "prompt": self.prompt,
        }


class QuestionsBenchmark(_Own):
    """Questions with an answer, graded as the domain `questions` grades."""

    judge: Literal["questions"]
    source: QuestionSource
    grading: Literal["exact", "number", "math", "choice"] = "math"

    def task(self) -> QuestionsTask:
        """The settings of a task whose every split is this benchmark."""
        return QuestionsTask(kind="questions", grading=self.grading, **self._whole())


class CodeBenchmark(_Own):
    """Programs judged on tests in the sandbox, as the domain `code` does."""

    judge: Literal["code"]
    source: CodeSource
    complete_prompt: bool
    sandbox: SandboxSettings = SandboxSettings()

    def task(self) -> CodeTask:
        """The settings of a task whose every split is this benchmark."""
        return CodeTask(
            kind="code",
            complete_prompt=self.complete_prompt,
            sandbox=self.sandbox,
            **self._whole(),
        )


class HarnessBenchmark(_Benchmark):
    """A task or group of lm-evaluation-harness: its own prompt, decoding and answer extraction.

    Attributes:
        task: the harness's name of it.
        path: a folder of local task files (YAML), which then are looked in first.
        metric: what of a sample says whether it is right: 0 or 1.
        filter: the harness's answer extraction that this metric is taken after.
    """

    judge: Literal["harness"]
    task: str
    path: Path | None = None
    metric: str
    filter: str = "none"


Benchmark: TypeAlias = QuestionsBenchmark | CodeBenchmark | HarnessBenchmark
OwnBenchmark: TypeAlias = QuestionsBenchmark | CodeBenchmark
_BENCHMARK: TypeAdapter[Benchmark] = TypeAdapter(Annotated[Benchmark, Field(discriminator="judge")])


class Entry(Settings):
    """One benchmark of a study's suite, and what the study changes of it.

    ``path`` reads it from a local file instead of the hub, ``source`` changes any setting of its source; for a
    benchmark of the harness ``path`` is a folder of task files and ``task`` names one of them.
    """

    benchmark: str
    path: Path | None = None
    source: dict[str, Any] | None = None
    task: str | None = None
    metric: str | None = None
    filter: str | None = None
    prompt: str | None = None
    grading: str | None = None
    samples: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None

    @model_validator(mode="after")
    def _makes_a_benchmark(self) -> Self:
        _known(self.benchmark)
        try:
            self.resolved()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"][1:]) or "(mapping)"
            found = "" if first["type"] in ("missing", "value_error") else f"found {first['input']!r}; "
            message = "unknown key for it" if first["type"] == "extra_forbidden" else first["msg"]
            raise ValueError(
                f"benchmark {self.benchmark}: {key}: {found}{message.removeprefix('Value error, ')}"
            ) from None
        return self

    def resolved(self) -> Benchmark:
        """The benchmark with what the study changes. Raises ValueError (pydantic's) for what does not fit it."""
        settings = dict(library()["benchmarks"][self.benchmark])
        changes = self.model_dump(exclude_unset=True, exclude={"benchmark", "path", "source"})
        if settings["judge"] == "harness":
            if self.source is not None:
                raise ValueError(
                    "source belongs to benchmarks that we sample ourselves; the harness takes path and task"
                )
            if self.path is not None:
                changes["path"] = self.path
        elif self.path is not None or self.source is not None:
            place = {} if self.path is None else {"path": self.path}
            settings["source"] = changed_source(settings["source"], {**(self.source or {}), **place})
        return _BENCHMARK.validate_python({**settings, **changes, "name": self.benchmark})


def composites() -> dict[str, tuple[str, ...]]:
    """What each composite is the mean of, in an order in which parts come first."""
    return {name: tuple(parts) for name, parts in library()["composites"].items()}


def benchmark_names() -> tuple[str, ...]:
    """Every benchmark there is."""
    return tuple(library()["benchmarks"])


def category_of(name: str) -> Category:
    """The category of a benchmark."""
    category: Category = library()["benchmarks"][name]["category"]
    return category


def expanded(value: Any) -> Any:
    """A study's list with composites in their benchmarks' place, each benchmark once; a mapping goes before a name."""
    if not isinstance(value, (list, tuple)):
        return value  # pydantic says what is wrong with it
    found: dict[str, Any] = {}
    for one in value:
        if isinstance(one, Entry):
            one = one.model_dump(exclude_unset=True)
        if isinstance(one, str):
            _known(one)
            for name in leaves(one, composites()):
                found.setdefault(name, {"benchmark": name})
        elif isinstance(one, dict) and isinstance(one.get("benchmark"), str):
            if len(found.get(one["benchmark"], {})) > 1:
                raise ValueError(f"expected each benchmark once, found {one['benchmark']} more than once")
            found[one["benchmark"]] = one
        else:
            raise ValueError(f"expected a name or a mapping with benchmark, found {one!r}")
    return tuple(found.values())


def leaves(name: str, members: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The benchmarks below a composite, in order; of a benchmark, itself."""
    if name not in members:
        return (name,)
    return tuple(leaf for part in members[name] for leaf in leaves(part, members))


def weights(name: str, members: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """What each benchmark below a composite weighs in it; the weights add up to 1."""
    if name not in members:
        return {name: 1.0}
    parts = members[name]
    found: dict[str, float] = {}
    for part in parts:
        for leaf, weight in weights(part, members).items():
            found[leaf] = found.get(leaf, 0.0) + weight / len(parts)
    return found


# The type of `evaluation.suite`.
Suite: TypeAlias = Annotated[tuple[Entry, ...], BeforeValidator(expanded)]


def _known(name: str) -> None:
    if name not in library()["benchmarks"] and name not in composites():
        raise ValueError(
            f"unknown benchmark {name!r}; expected one of {', '.join(benchmark_names())}, or, for several, one of"
            f" {', '.join(composites())}"
        )
