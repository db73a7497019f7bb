"""Episodes: the model and the worlds take turns, many at once, in training and in evaluation alike.

An episode is one row of tokens: the first view, then action, view, action, and so on. Only the actions are the agent's,
and only they are learned. An action is the text up to its line's end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from onelayer.config import Grading
from onelayer.grading.worker import stop_unless_counted
from onelayer.prompting import prompt_tokens
from onelayer.rl.rollout import Conversation, Decoding
from onelayer.tasks.contract import AgentTask, Outcome, Problem, View, World, WorldError

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One action: where its tokens lie in the episode's row, the anchor it was taken at, and what it earned."""

    start: int
    end: int
    action: str
    anchor: str
    reward: float
    valid: bool


@dataclass
class Episode:
    """One episode.

    Attributes:
        problem: the instance.
        prompt: the tokens of the first view.
        completion: the tokens that follow, the agent's and the world's.
        transcript: the text that follows the first view.
        steps: the actions.
        success: whether the task was fulfilled.
        done: whether the world ended the episode; else it ran out of turns.
        broken: in words, why the world failed; None where it did not.
    """

    problem: Problem
    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    transcript: str = ""
    steps: list[Step] = field(default_factory=list)
    success: bool = False
    done: bool = False
    broken: str | None = None

    @property
    def agent_tokens(self) -> int:
        """How many tokens the agent wrote."""
        return sum(step.end - step.start for step in self.steps)

    @property
    def mask(self) -> list[int]:
        """1 for each token of the completion that is the agent's, 0 for the world's."""
        mask = [0] * len(self.completion)
        for step in self.steps:
            mask[step.start : step.end] = [1] * (step.end - step.start)
        return mask


class Arena:
    """A task's worlds, kept from one batch of episodes to the next; `close` lets go of them.

    Args:
        task: the domain.
        worlds: how many episodes are played at once.
        settings: what a world's failure does.
    """

    def __init__(self, task: AgentTask, worlds: int, settings: Grading) -> None:
        self.task = task
        self._most = worlds
        self._settings = settings
        self._worlds: list[World] = []
        self._line_ends: tuple[int, ...] | None = None
        self._threads = ThreadPoolExecutor(worlds) if task.isolated else None

    def close(self) -> None:
        """Let go of every world."""
        self._each(lambda world: world.close(), [(world,) for world in self._worlds])
        self._worlds = []
        if self._threads is not None:
            self._threads.shutdown()

    def play(
        self,
        model: Any,
        tokenizer: Any,
        problems: Sequence[Problem],
        decoding: Decoding,
        seeds: Sequence[int] | None,
    ) -> list[Episode]:
        """Play one episode a problem.

        Args:
            model: a causal language model of transformers.
            tokenizer: its tokenizer.
            problems: one an episode; the same one may stand many times.
            decoding: the limit of one action in tokens, what ends it beside its line, and the temperature.
            seeds: one an episode; None where the decoding is greedy.

        Raises GradingError where a world fails and the study's setting is to stop.
        """
        if self._line_ends is None:  # once: it reads the whole vocabulary
            self._line_ends = line_ends(tokenizer)
        decoding = replace(decoding, end_ids=tuple(dict.fromkeys([*decoding.end_ids, *self._line_ends])))
        episodes: list[Episode] = []
        for start in range(0, len(problems), self._most):
            part = slice(start, start + self._most)
            episodes += self._play(model, tokenizer, problems[part], decoding, None if seeds is None else seeds[part])
        return episodes

    def _play(
        self, model: Any, tokenizer: Any, problems: Sequence[Problem], decoding: Decoding, seeds: Sequence[int] | None
    ) -> list[Episode]:
        while len(self._worlds) < len(problems):
            self._worlds.append(self.task.world())
        episodes = [Episode(problem) for problem in problems]
        first, later = self.task.frames
        views: list[View] = []
        going: list[int] = []
        begun = self._each(_reset, list(zip(self._worlds, problems, strict=False)))
        for index, view in enumerate(begun):
            if isinstance(view, WorldError):
                self._break(episodes[index], view)
                continue
            going.append(index)
            views.append(view)
        for index, ids in zip(going, prompt_tokens(tokenizer, [_framed(first, v) for v in views], None), strict=True):
            episodes[index].prompt = ids
        if not going:
            return episodes
        anchors = {index: view.anchor for index, view in zip(going, views, strict=True)}
        talk = Conversation(
            model,
            [episodes[index].prompt for index in going],
            decoding,
            None if seeds is None else [seeds[index] for index in going],
            self.task.max_turns,
        )
        for turn in range(self.task.max_turns):
            written = talk.write()
            texts = tokenizer.batch_decode(written, skip_special_tokens=True)
            actions = [text.partition("\n")[0].strip() for text in texts]
            found = self._each(
                _act, [(self._worlds[index], action) for index, action in zip(going, actions, strict=True)]
            )
            kept: list[int] = []
            following: list[str] = []
            for place, (index, outcome) in enumerate(zip(going, found, strict=True)):
                episode = episodes[index]
                start = len(episode.completion)
                episode.completion += written[place]
                episode.transcript += texts[place]
                if isinstance(outcome, WorldError):
                    self._break(episode, outcome)
                    continue
                episode.steps.append(
                    Step(
                        start,
                        len(episode.completion),
                        actions[place],
                        anchors[index],
                        outcome.reward,
                        outcome.valid,
                    )
                )
                episode.success, episode.done = outcome.success, outcome.done
                if not outcome.done:
                    kept.append(place)
                    following.append(_framed(later, outcome.view))
                    anchors[index] = outcome.view.anchor
            if not kept or turn + 1 == self.task.max_turns:
                break
            if len(kept) < len(going):
                talk.keep(torch.tensor(kept, device=model.device))
                going = [going[place] for place in kept]
            replies = _tokens(tokenizer, following)
            for index, text, ids in zip(going, following, replies, strict=True):
                episodes[index].transcript += text
                episodes[index].completion += ids
            talk.read(replies)
        return episodes

    def _break(self, episode: Episode, error: WorldError) -> None:
        stop_unless_counted(self._settings, episode.problem, f"the world failed: {error}", "episodes")
        episode.broken = str(error)

    def _each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """Call once for each, at the same time where the worlds live in processes of their own."""
        made: Iterable[T]
        if self._threads is None:
            made = (call(*one) for one in arguments)
        else:
            made = self._threads.map(lambda one: call(*one), arguments)
        return list(made)


def _framed(frame: str, view: View) -> str:
    return frame.replace("{observation}", view.text)


def _reset(world: World, problem: Problem) -> View | WorldError:
    try:
        return world.reset(problem)
    except WorldError as error:
        return error


def _act(world: World, action: str) -> Outcome | WorldError:
    try:
        outcome = world.act(action)
    except WorldError as error:
        return error
    if not math.isfinite(outcome.reward):
        return WorldError(f"expected a finite reward, found {outcome.reward}")
    return outcome


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
    return ids


def line_ends(tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end an action: those whose text holds a line's end."""
    pieces = tokenizer.batch_decode([[index] for index in range(len(tokenizer))])
    return tuple(index for index, piece in enumerate(pieces) if "\n" in piece)
