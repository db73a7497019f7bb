"""Settings of the domains of worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from onelayer.config import PositiveFloat, PositiveInt, Settings, Sizes


class TextWorldExpressTask(Settings):
    """One of TextWorldExpress's games; an instance is a seed of the game's train, dev or test fold."""

    kind: Literal["textworld-express"]
    game: Annotated[str, Field(min_length=1)] = "coin"
    parameters: str = ""
    sizes: Sizes
    max_turns: PositiveInt = 50
    call_seconds: PositiveFloat = 30
    list_actions: bool = True


class ScienceWorldTask(Settings):
    """One of ScienceWorld's tasks; an instance is a variation of the task's train, dev or test set."""

    kind: Literal["scienceworld"]
    task: Annotated[str, Field(min_length=1)]
    simplifications: str = "easy"
    sizes: Sizes
    max_turns: PositiveInt = 100
    call_seconds: PositiveFloat = 60
    list_actions: bool = True


class AlfworldTask(Settings):
    """ALFWorld's games from the user's own download; an instance is a game file."""

    kind: Literal["alfworld"]
    path: Path
    sizes: Sizes
    max_turns: PositiveInt = 50
    call_seconds: PositiveFloat = 30
    list_actions: bool = True
