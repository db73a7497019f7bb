from __future__ import annotations

from typing import Any

import pytest

from conftest import TINY, deep_copy, write_study
from onelayer.config import Study, load_study
from onelayer.grid import all_runs
from onelayer.lengths import expected_lengths, turns
from onelayer.manifest import Manifest, write_manifest
from onelayer.phases import prepare_phase
from onelayer.state import Standing, StudyState
from onelayer.store import HISTORY, SCORES, run_folder, write_json

FOLDER: dict[str, Any] = {
    "model": {
        "kind": "hub", "id": "some/model", "layers": 2,
        "shape": {"layers": 2, "width": 8, "intermediate": 16, "heads": 2, "vocabulary": 50},
    },
    "task": {"kind": "textworld-express", "max_turns": 5, "sizes": {"train": 4, "select": 2, "report": 2}},
    "training": {**TINY["training"], "max_tokens": 16},
}  # fmt: skip


def study(**changed: Any) -> Study:
    write_study("tiny", {**deep_copy(TINY), **changed})
    return load_study("tiny")


@pytest.mark.usefixtures("project")
class TestSupposed:
    def test_a_micro_models_answers_are_like_its_corpus(self) -> None:
        found = expected_lengths(study())
        assert (found.prompt, found.response, found.evaluated) == (6, 3, 3)  # 12#34= and 34, with its end
        assert "lines" in found.source

    def test_what_the_study_states_comes_first(self) -> None:
        found = expected_lengths(study(cost={"prompt_tokens": 11, "response_tokens": 5}))
        assert (found.prompt, found.response) == (11, 5)
        assert found.evaluated == TINY["evaluation"]["max_tokens"]  # which lets no answer be longer
        assert "as the study's cost states" in found.source

    def test_what_is_asked_for_overrides_all(self) -> None:
        found = expected_lengths(study(cost={"response_tokens": 5}), response_tokens=2)
        assert (found.prompt, found.response, found.evaluated) == (6, 2, 2)

    def test_an_episode_is_as_long_as_its_turns(self) -> None:
        one = study(**FOLDER)
        assert turns(one) == 5
        found = expected_lengths(one)
        assert found.response == 5 * 16 + 4 * found.prompt
        assert found.evaluated == found.response
        assert "supposed" in found.source


@pytest.mark.usefixtures("project")
def test_problems_are_counted_once_they_are_prepared() -> None:
    one = study()
    assert expected_lengths(one).problems == {}
    prepare_phase(one)
    assert expected_lengths(one).problems == {"train": 30, "select": 8, "report": 14}


@pytest.mark.usefixtures("project")
class TestMeasured:
    def finished(
        self, monkeypatch: pytest.MonkeyPatch, one: Study, tokens: int, history: list[dict[str, float]]
    ) -> None:
        """Two runs that are done, as their manifest and history tell it."""
        for run in all_runs(one)[1:3]:
            folder = run_folder(one.name, run.name)
            write_json(folder / HISTORY, history)
            write_json(folder / SCORES, {"report": {"mean_tokens": 2.0}})
            found: Manifest = write_manifest(folder, one.name, run.name, {}, [], 1.0, 1, {"tokens": tokens})
            assert found.details["tokens"] == tokens
        done = {run.name for run in all_runs(one)[1:3]}
        for phase in ("training", "evaluation"):
            monkeypatch.setattr(StudyState, phase, lambda self, run: Standing(run.name in done, ""))

    def test_runs_that_are_done_are_believed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = study(cost={"prompt_tokens": 100})
        answers = 3 * 16
        self.finished(monkeypatch, one, 9 * answers, [{"mean_tokens": 2.0}, {"mean_tokens": 3.0}, {"broken": 1.0}])
        found = expected_lengths(one)
        assert (found.prompt, found.response, found.evaluated) == (6.5, 2.5, 2.0)
        assert found.source == "measured in 2 runs"

    def test_what_a_world_says_is_added_to_what_its_agent_wrote(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = study(**FOLDER)
        answers = 3 * 16
        self.finished(monkeypatch, one, 30 * answers, [{"mean_tokens": 12.0, "turns": 3.0}])
        found = expected_lengths(one)
        assert found.prompt == 18
        assert found.response == found.evaluated == 12 + 2 * 18
