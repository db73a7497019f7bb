"""A model at play in twenty TextWorldExpress games at once, one of whose Javas is killed in mid-episode."""

from __future__ import annotations

import importlib.util
import shutil
import string
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from onelayer.config import Grading
from onelayer.grading.worker import GradingError
from onelayer.model_settings import MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.rl.episodes import Arena, line_ends
from onelayer.rl.rollout import Decoding
from onelayer.task_settings import TextWorldExpressTask
from onelayer.tasks.contract import Outcome, Problem, View
from onelayer.tasks.textworld_express import TextWorldExpress

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or importlib.util.find_spec("textworld_express") is None,
    reason="no java, or no package textworld_express",
)
SETTINGS = TextWorldExpressTask.model_validate(
    {"kind": "textworld-express", "game": "coin", "max_turns": 3, "sizes": {"train": 20, "select": 1, "report": 1}}
)
TOKENIZER = make_micro_tokenizer(string.printable, 4096)
MODEL = make_micro_model(
    MicroModel(
        kind="micro", layers=1, width=8, intermediate=8, heads=1, kv_heads=1, context=4096, pretraining={"steps": 1}
    ),
    TOKENIZER,
    0,
).eval()


@dataclass
class Doomed:
    """A world whose Java is killed before its second action."""

    world: Any
    actions: int = 0

    def reset(self, problem: Problem) -> View:
        self.actions = 0
        return self.world.reset(problem)  # type: ignore[no-any-return]

    def act(self, action: str) -> Outcome:
        self.actions += 1
        if self.actions == 2:
            (java,) = (
                p for p in psutil.Process(self.world._home._process.pid).children(recursive=True) if p.name() == "java"
            )
            java.kill()
        return self.world.act(action)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.world.close()


class OneDoomed(TextWorldExpress):
    """The seventh world that is made is doomed."""

    made: list[int] = []  # noqa: RUF012  (shared by the threads of one test)
    lock = threading.Lock()

    def world(self) -> Any:
        with self.lock:
            self.made.append(1)
            return Doomed(super().world()) if len(self.made) == 7 else super().world()


@pytest.mark.parametrize("failures", ["count", "stop"])
def test_twenty_at_once_and_a_killed_java_breaks_its_own_episode_alone(failures: str) -> None:
    OneDoomed.made.clear()
    task = OneDoomed(SETTINGS, 0)
    problems = task.splits()["train"].problems[: 20 if failures == "count" else 7]
    decoding = Decoding(12, (TOKENIZER.eos_token_id, *line_ends(TOKENIZER)), TOKENIZER.pad_token_id, 1.0)
    with closing(Arena(task, 20, Grading.model_validate({"failures": failures}))) as arena:
        if failures == "stop":
            with pytest.raises(GradingError, match=f"problem {problems[6].id}: the world failed: .*Java"):
                arena.play(MODEL, TOKENIZER, problems, decoding, list(range(7)))
            return
        episodes = arena.play(MODEL, TOKENIZER, problems, decoding, list(range(20)))
        assert [index for index, episode in enumerate(episodes) if episode.broken] == [6]
        assert "Java" in str(episodes[6].broken)
        for index, episode in enumerate(episodes):
            text = TOKENIZER.decode(episode.prompt, skip_special_tokens=True)
            assert "coin" in text
            assert text.endswith("\n> ")
            assert not episode.success
            if index != 6:
                assert len(episode.steps) == 3
                assert not any(step.valid for step in episode.steps)  # a model that knows nothing
        again = arena.play(MODEL, TOKENIZER, problems[:2], decoding, [0, 1])
        assert [episode.completion for episode in again] == [episode.completion for episode in episodes[:2]]
    left = [p for p in psutil.Process().children(recursive=True) if "onelayer.tasks.worlds" in " ".join(p.cmdline())]
    assert left == []
