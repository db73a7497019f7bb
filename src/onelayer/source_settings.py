"""The settings of problems that come as rows: where the rows lie, what their fields hold, which are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from onelayer.settings import Fraction, PositiveInt, Settings, no_repeats
from onelayer.suite.library import expanded_source

FILES = (".jsonl", ".parquet")
# How git names a commit. Anything else (a branch, a tag) can move, and is resolved once.
_COMMIT = re.compile(r"[0-9a-f]{40}")

FieldName = Annotated[str, Field(min_length=1)]
Scalar = str | int | float | bool


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else (value,)


class Options(Settings):
    """The options of a multiple-choice row, put to the model as lines ``A. …``.

    ``fields`` is the field that lists them, or the fields that hold one each. ``answer`` says how the row's answer
    names the right one: by its letter, its index from 0, or its text. ``shuffle`` orders them by the study's seed,
    which rows need that always name the right one first.
    """

    fields: Annotated[tuple[FieldName, ...], Field(min_length=1), BeforeValidator(_listed)]
    answer: Literal["letter", "index", "text"] = "letter"
    shuffle: bool = False


class QuestionFields(Settings):
    """The fields of a row with a question and an answer.

    A name with dots reaches into what a field holds (``reward_model.ground_truth``, ``prompt.0.content``).
    ``answer_after`` takes what follows the last such mark in the answer's field, ``answer_boxed`` what its last
    ``\\boxed{}`` holds. ``answers`` says what a list of answers means: any of them is accepted, or all are asked for.
    """

    question: FieldName = "question"
    answer: FieldName = "answer"
    answers: Literal["any", "all"] = "any"
    answer_after: Annotated[str, Field(min_length=1)] | None = None
    answer_boxed: bool = False
    options: Options | None = None

    @model_validator(mode="after")
    def _one_way_to_the_answer(self) -> Self:
        if self.answer_boxed and self.answer_after is not None:
            raise ValueError(
                f"expected answer_after or answer_boxed, found both (answer_after {self.answer_after!r};"
                " null switches it off)"
            )
        return self


class CodeFields(Settings):
    """The fields of a row with a programming problem and its tests.

    ``format`` says how rows hold their tests (`onelayer.tasks.formats`): ``rows`` as ``tests``, ``entry_point`` and
    ``setup`` name them, ``evalplus`` with those of numpy's functions that the sandbox lacks, ``livecodebench`` and
    ``deepcoder`` in fields and forms of their own.
    """

    format: Literal["rows", "evalplus", "livecodebench", "deepcoder"] = "rows"
    question: FieldName = "prompt"
    tests: FieldName = "test"
    entry_point: FieldName | None = "entry_point"
    setup: FieldName | None = None


class Source(Settings):
    """One set of rows: a JSON Lines or Parquet file, or a data set of the hub; and which rows are taken.

    ``{benchmark: NAME}`` is the source of a benchmark of the suite, with what else the mapping says in its place.

    Attributes:
        files: of a data set of the hub, the JSON Lines or Parquet files to read, in place of its subset and split: a
            set that comes with a loading script has no other form.
        name: what the set is called in problems' ids and reports; else after the file or the data set.
        where: for each field, the values that a row may have.
        shortest: the fewest characters that a question may have.
        longest: the most.
        unusable: whether a row of which no problem can be made ends the preparation, or is left out and counted.
    """

    judge: ClassVar[str]

    question: FieldName = "question"
    path: Path | None = None
    hub: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")] | None = None
    revision: Annotated[str, Field(min_length=1)] | None = None
    subset: Annotated[str, Field(min_length=1)] | None = None
    split: Annotated[str, Field(min_length=1)] | None = None
    files: tuple[Annotated[str, Field(pattern=r"\.(jsonl|parquet)$")], ...] = ()
    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")] | None = None
    where: dict[FieldName, Annotated[tuple[Scalar, ...], Field(min_length=1), BeforeValidator(_listed)]] = Field(
        default_factory=dict
    )
    shortest: PositiveInt | None = None
    longest: PositiveInt | None = None
    unusable: Literal["stop", "drop"] = "stop"

    @model_validator(mode="before")
    @classmethod
    def _of_a_benchmark(cls, content: Any) -> Any:
        """Put a benchmark's own source in the place of its name."""
        if isinstance(content, dict) and "benchmark" in content:
            return expanded_source(content, cls.judge)
        return content

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.hub is None):
            raise ValueError(f"expected path or hub, found {'neither' if self.path is None else 'both'}")
        if self.path is not None:
            if self.path.suffix not in FILES:
                raise ValueError(f"path must end in {' or '.join(FILES)}, found {str(self.path)!r}")
            for key in ("revision", "subset", "split", "files"):
                if getattr(self, key):
                    raise ValueError(f"{key} belongs to a data set of the hub, found path {str(self.path)!r}")
        elif self.revision is None or (self.split is None and not self.files):
            raise ValueError(
                "a data set of the hub needs revision (a commit, tag or branch) and split (or files), found no"
                f" {'revision' if self.revision is None else 'split'} for {self.hub}"
            )
        elif self.files and (self.split or self.subset):
            raise ValueError(f"files stand in place of subset and split, found both for {self.hub}")
        if self.shortest and self.longest and self.shortest > self.longest:
            raise ValueError(f"shortest {self.shortest} must not exceed longest, found {self.longest}")
        return self

    @property
    def set_name(self) -> str:
        """What the set is called; the part of a problem's id before its row."""
        if self.name is not None:
            return self.name
        return self.path.stem if self.path is not None else str(self.hub).rpartition("/")[2]

    @property
    def origin(self) -> str:
        """Where the rows lie, whatever is taken of them; equal for sources that share their rows."""
        if self.path is not None:
            return str(self.path)
        subset = f", {self.subset}" if self.subset is not None else ""
        return f"{self.hub}@{self.revision} ({', '.join(self.files) or f'{self.split}{subset}'})"

    @property
    def place(self) -> dict[str, Any]:
        """Where the rows lie, for a receipt; of the hub's, the revision is by then a commit."""
        if self.path is not None:
            return {"path": str(self.path)}
        files = {"files": list(self.files)} if self.files else {"subset": self.subset, "split": self.split}
        return {"hub": self.hub, "commit": self.revision, **files}

    @property
    def is_pinned(self) -> bool:
        """Whether the rows can never change under their name: a file is hashed, a commit stands for itself."""
        return self.revision is None or _COMMIT.fullmatch(self.revision) is not None


class QuestionSource(QuestionFields, Source):
    """A set of questions; what it does not say of its fields, the task says, but of a benchmark's."""

    judge: ClassVar[str] = "questions"


class CodeSource(CodeFields, Source):
    """A set of programming problems; what it does not say of its fields, the task says, but of a benchmark's."""

    judge: ClassVar[str] = "code"


def _as_source(value: Any) -> Any:
    return {"path": value} if isinstance(value, (str, Path)) else value


def _as_sources(value: Any) -> Any:
    return tuple(_as_source(one) for one in _listed(value))


_Listed = (Field(min_length=1), BeforeValidator(_as_sources))


class Sources(Settings):
    """The sets that each split is drawn from; one may serve several splits, without overlap."""

    train: Annotated[tuple[Source, ...], *_Listed]
    select: Annotated[tuple[Source, ...], *_Listed]
    report: Annotated[tuple[Source, ...], *_Listed]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for split in ("train", "select", "report"):
            no_repeats(tuple(source.set_name for source in getattr(self, split)))
        return self

    def named(self) -> Iterator[tuple[str, Source]]:
        """Every source with the path of its key."""
        for split in ("train", "select", "report"):
            for index, source in enumerate(getattr(self, split)):
                yield f"{split}[{index}]", source


class QuestionSources(Sources):
    """The sets of questions of each split."""

    train: Annotated[tuple[QuestionSource, ...], *_Listed]
    select: Annotated[tuple[QuestionSource, ...], *_Listed]
    report: Annotated[tuple[QuestionSource, ...], *_Listed]


class CodeSources(Sources):
    """The sets of programming problems of each split."""

    train: Annotated[tuple[CodeSource, ...], *_Listed]
    select: Annotated[tuple[CodeSource, ...], *_Listed]
    report: Annotated[tuple[CodeSource, ...], *_Listed]


class RowSizes(Settings):
    """How many problems each split draws by the study's seed; of several sets, of each. ``all``: every one."""

    train: PositiveInt | Literal["all"]
    select: PositiveInt | Literal["all"]
    report: PositiveInt | Literal["all"]


class Decontamination(Settings):
    """When a training row counts as a copy of an evaluation question (`onelayer.tasks.decontamination`).

    Attributes:
        ngram: the length, in tokens, of the runs that are compared.
        threshold: the share of an evaluation question's runs from which on a row that holds them is left out.
    """

    ngram: int = Field(8, ge=2)
    threshold: Annotated[Fraction, Field(gt=0)] = 0.5


class RowsTask(Settings):
    """What every domain of rows has: its sources, how many problems to draw of them, and a prompt."""

    fields_of_rows: ClassVar[tuple[str, ...]]

    sources: Sources
    sizes: RowSizes
    decontamination: Decontamination | None = Decontamination()
    question: str
    prompt: str

    @model_validator(mode="before")
    @classmethod
    def _fields_of_sources(cls, content: Any) -> Any:
        """Give each source the task's own fields where it names none; a benchmark has all of its own."""
        if not isinstance(content, dict) or not isinstance(content.get("sources"), dict):
            return content
        shared = {key: content[key] for key in cls.fields_of_rows if key in content}
        sources = {
            split: tuple(
                shared | one if isinstance(one, dict) and "benchmark" not in one else one for one in _as_sources(value)
            )
            for split, value in content["sources"].items()
        }
        return {**content, "sources": sources}

    @model_validator(mode="after")
    def _prompt_has_question(self) -> Self:
        holds_question(self.prompt)
        return self


def holds_question(prompt: str) -> None:
    """Raise ValueError, which pydantic turns into its own, where a prompt has no place for the question."""
    if "{question}" not in prompt:
        raise ValueError(f"prompt must contain {{question}}, found {prompt!r}")
