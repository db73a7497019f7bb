"""A small text household without Java: find a thing, and bring it to a room.

Rooms are the capital letters, things the small ones. The first view names the wish, ``a>C`` (bring thing a to room C);
every view names the thing in hand (or ``-``), the room one is in, and the things in sight there:

    a>C -Bbc

An action is a line of one character: a room's letter goes there, a thing's letter takes it, ``.`` puts down what is in
hand. As a view holds all there is to see, the same state comes back with the same view, within an episode and across
the episodes of one instance: its text is the anchor by which GiGPO compares steps.

The corpus that the base learns from is played by an agent that knows how, but wanders: with the chance ``careless`` an
action is any one that is possible. The base so learns both ways of acting, and reinforcement learning can teach it to
keep to the one that leads somewhere.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

from onelayer.task_settings import HouseholdTask
from onelayer.tasks.contract import Line, Outcome, Problem, Split, View
from onelayer.tasks.generated import draw_splits, split_of

_PUT = "."
_EMPTY = "-"


@dataclass
class _State:
    wish: str
    target: str
    place: dict[str, str]
    room: str
    hand: str = _EMPTY

    @classmethod
    def named(cls, instance: str) -> _State:
        """The state that an instance's name tells: ``a>C B a:A b:D``."""
        wish, room, *places = instance.split(" ")
        thing, _, target = wish.partition(">")
        return cls(thing, target, {place[0]: place[2] for place in places}, room)

    def name(self) -> str:
        places = " ".join(f"{thing}:{room}" for thing, room in sorted(self.place.items()))
        return f"{self.wish}>{self.target} {self.room} {places}"

    def seen(self) -> list[str]:
        return sorted(thing for thing, room in self.place.items() if room == self.room)

    def view(self) -> str:
        return f"{self.hand}{self.room}{''.join(self.seen())} "

    def possible(self, rooms: str) -> list[str]:
        put = [_PUT] if self.hand != _EMPTY else []
        take = self.seen() if self.hand == _EMPTY else []
        return [room for room in rooms if room != self.room] + take + put

    def act(self, action: str) -> bool:
        """Change by an action that is possible; tell whether the wish is fulfilled."""
        if action == _PUT:
            self.place[self.hand], self.hand = self.room, _EMPTY
        elif action in self.place:
            del self.place[action]
            self.hand = action
        else:
            self.room = action
        return self.place.get(self.wish) == self.target


class HouseholdWorld:
    """One household, in this process."""

    def __init__(self, rooms: str) -> None:
        self._rooms = rooms
        self._state: _State | None = None

    def reset(self, problem: Problem) -> View:
        """Begin the episode that the problem's prompt names."""
        self._state = _State.named(problem.prompt)
        view = self._state.view()
        return View(f"{self._state.wish}>{self._state.target} {view}", view)

    def act(self, action: str) -> Outcome:
        """Take an action; one that is not possible here changes nothing."""
        assert self._state is not None, "reset comes first"
        valid = action in self._state.possible(self._rooms)
        success = self._state.act(action) if valid else False
        view = self._state.view()
        return Outcome(View(view, view), float(success), success, success, valid)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Household:
    """The household domain."""

    settings: HouseholdTask
    seed: int

    frames = ("{observation}", "{observation}")
    isolated = False  # its worlds live in this process: there is nothing in them that could hang or crash

    @property
    def rooms(self) -> str:
        """The rooms' letters."""
        return string.ascii_uppercase[: self.settings.rooms]

    @property
    def things(self) -> str:
        """The things' letters."""
        return string.ascii_lowercase[: self.settings.things]

    @property
    def alphabet(self) -> str:
        """Every character of a view or an action."""
        return f"{self.rooms}{self.things}> {_EMPTY}{_PUT}\n"

    @property
    def max_turns(self) -> int:
        """After so many actions an episode is over."""
        return self.settings.max_turns

    def world(self) -> HouseholdWorld:
        """Make a household."""
        return HouseholdWorld(self.rooms)

    def splits(self) -> dict[str, Split]:
        """Draw the instances."""
        return draw_splits(self.seed, self.settings.sizes, self._problem)

    def corpus(self, seed: int) -> Iterator[Line]:
        """Episodes of the wandering agent, on instances of the train share; its actions are what is learned."""
        rng = random.Random(seed)
        while True:
            state = self._instance(rng)
            if split_of(self.seed, state.name()) == "train":
                yield self._episode(state, rng)

    def _episode(self, state: _State, rng: random.Random) -> Line:
        pieces = [(f"{state.wish}>{state.target} {state.view()}", False)]
        visited = {state.room}
        for _ in range(self.settings.max_turns):
            action = _sensible(state, self.rooms, visited, rng)
            if rng.random() < self.settings.careless:
                action = rng.choice(state.possible(self.rooms))
            done = state.act(action)
            visited.add(state.room)
            pieces.append((f"{action}\n", True))
            if done:
                break
            pieces.append((state.view(), False))
        return tuple(pieces)

    def _instance(self, rng: random.Random) -> _State:
        place = {thing: rng.choice(self.rooms) for thing in self.things}
        wish = rng.choice(self.things)
        target = rng.choice([room for room in self.rooms if room != place[wish]])
        return _State(wish, target, place, rng.choice(self.rooms))

    def _problem(self, rng: random.Random) -> Problem:
        name = self._instance(rng).name()
        return Problem(id=name, prompt=name, answer="")


def _sensible(state: _State, rooms: str, visited: set[str], rng: random.Random) -> str:
    """What leads on: bring the thing, take it, or look where one has not been."""
    if state.hand == state.wish:
        return _PUT if state.room == state.target else state.target
    if state.hand != _EMPTY:
        return _PUT
    if state.wish in state.seen():
        return state.wish
    fresh = [room for room in rooms if room not in visited]
    return rng.choice(fresh or [room for room in rooms if room != state.room])
