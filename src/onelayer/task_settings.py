"""The settings of the domains, a class each; `TaskSettings` is any of them, told apart by ``kind``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from onelayer.settings import Fraction, PositiveFloat, PositiveInt, Settings, no_repeats
from onelayer.source_settings import (
    CodeFields,
    CodeSource,
    CodeSources,
    QuestionFields,
    QuestionSource,
    QuestionSources,
    RowsTask,
    holds_question,
)


class Sizes(Settings):
    """How many problems each split holds."""

    train: PositiveInt
    select: PositiveInt
    report: PositiveInt


class ArithmeticTask(Settings):
    """Generated arithmetic; what the base was taught carelessly is what reinforcement learning can mend."""

    kind: Literal["arithmetic"]
    digits: int = Field(2, ge=1, le=6)
    operations: tuple[Literal["+", "-", "#"], ...] = Field(("+",), min_length=1)
    careless: Fraction = 0.5
    sizes: Sizes

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        no_repeats(self.operations)
        return self


class SandboxSettings(Settings):
    """The limits of a model's program, and what happens where bubblewrap cannot isolate it.

    The fallback ``limits-only`` bounds time, memory and processes, but leaves files and network open to the program;
    it is used only where a study names it.
    """

    seconds: PositiveFloat = 5.0
    memory_mb: PositiveInt = 512
    message_mb: PositiveInt = 4
    fallback: Literal["refuse", "limits-only"] = "refuse"


class QuestionsTask(QuestionFields, RowsTask):
    """Questions with a short answer, from the user's own files or from data sets of the hub."""

    fields_of_rows = tuple(QuestionFields.model_fields)

    kind: Literal["questions"]
    sources: QuestionSources
    prompt: str = "{question}\n"
    grading: Literal["exact", "number", "math", "choice"] = "number"

    @model_validator(mode="after")
    def _prompt_has_options(self) -> Self:
        for where, source in self.sources.named():
            assert isinstance(source, QuestionSource)
            if (source.options is not None) != ("{options}" in self.prompt):
                raise ValueError(
                    f"prompt must contain {{options}} exactly where the rows have options, found {self.prompt!r} and"
                    f" {'options' if source.options else 'none'} in sources.{where}"
                )
            if source.options is not None and self.grading == "number":
                raise ValueError(f"grading number compares numbers, found options in sources.{where}: use exact")
            if source.answers == "all" and self.grading in ("number", "choice"):
                raise ValueError(
                    f"grading {self.grading} compares one answer, found answers: all in sources.{where}: use math"
                )
        return self


class CodeTask(CodeFields, RowsTask):
    """Programs judged on tests, from rows in the manner of HumanEval or MBPP (docs/your-own-model.md)."""

    fields_of_rows = tuple(CodeFields.model_fields)

    kind: Literal["code"]
    sources: CodeSources
    prompt: str = "{question}"
    complete_prompt: bool = True
    sandbox: SandboxSettings = SandboxSettings()

    @model_validator(mode="after")
    def _programs_are_whole(self) -> Self:
        for where, source in self.sources.named():
            assert isinstance(source, CodeSource)
            if source.format in ("livecodebench", "deepcoder") and self.complete_prompt:
                raise ValueError(
                    f"complete_prompt must be false where questions are no code, found true and format {source.format}"
                    f" in sources.{where}"
                )
        return self


class ReasoningGymTask(Settings):
    """Problems that a data set of reasoning-gym generates and judges; ``parameters`` are the data set's own."""

    kind: Literal["reasoning-gym"]
    dataset: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict)
    sizes: Sizes
    prompt: str = "{question}\n"

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        holds_question(self.prompt)
        for key in ("seed", "size"):
            if key in self.parameters:
                raise ValueError(f"parameters.{key} is the study's to set, found {self.parameters[key]!r}")
        return self


class ExpressionsTask(Settings):
    """Python expressions from input-output examples, judged on inputs that the model does not see."""

    kind: Literal["expressions"]
    careless: Fraction = 0.5
    sizes: Sizes
    sandbox: SandboxSettings = SandboxSettings()


class HouseholdTask(Settings):
    """A small text household: find a thing and bring it to a room. The agent was taught to wander (careless)."""

    kind: Literal["household"]
    rooms: int = Field(4, ge=2, le=9)
    things: int = Field(2, ge=1, le=9)
    careless: Fraction = 0.5
    max_turns: PositiveInt = 10
    sizes: Sizes


class WorldSettings(Settings):
    """What every domain of real worlds has: how long an episode may be, and how the agent is spoken to.

    ``prompt`` frames the first view and ``turn`` every later one; an action is the line that the model then writes.
    """

    sizes: Sizes
    max_turns: PositiveInt = 50
    call_seconds: PositiveFloat = 30
    list_actions: bool = True
    prompt: str = "{observation}\n> "
    turn: str = "{observation}\n> "

    @model_validator(mode="after")
    def _frames_hold_the_observation(self) -> Self:
        for key in ("prompt", "turn"):
            if "{observation}" not in getattr(self, key):
                raise ValueError(f"{key} must contain {{observation}}, found {getattr(self, key)!r}")
        return self


class TextWorldExpressTask(WorldSettings):
    """One of TextWorldExpress's games; an instance is a seed of the game's train, dev or test fold."""

    kind: Literal["textworld-express"]
    game: Annotated[str, Field(min_length=1)] = "coin"
    parameters: str = ""


class ScienceWorldTask(WorldSettings):
    """One of ScienceWorld's tasks; an instance is a variation of the task's train, dev or test set."""

    kind: Literal["scienceworld"]
    task: Annotated[str, Field(min_length=1)]
    simplifications: str = "easy"
    max_turns: PositiveInt = 100
    call_seconds: PositiveFloat = 60


class AlfworldTask(WorldSettings):
    """ALFWorld's games from the user's own download; an instance is a game file."""

    kind: Literal["alfworld"]
    path: Path


TaskSettings: TypeAlias = (
    ArithmeticTask
    | QuestionsTask
    | CodeTask
    | ReasoningGymTask
    | ExpressionsTask
    | HouseholdTask
    | TextWorldExpressTask
    | ScienceWorldTask
    | AlfworldTask
)

# The domains by what they can do: teach a micro model, and play episodes.
WITH_CORPUS = ("arithmetic", "expressions", "household")
WORLDS = ("household", "textworld-express", "scienceworld", "alfworld")
