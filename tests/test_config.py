from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, TINY, deep_copy, write_params, write_study
from onelayer.config import load_params, load_study
from onelayer.errors import UserError
from onelayer.training_settings import Training


def refused(settings: dict[str, Any]) -> str:
    write_study("tiny", settings)
    with pytest.raises(UserError) as caught:
        load_study("tiny")
    return str(caught.value)


def changed(*path: str, to: Any) -> dict[str, Any]:
    settings = deep_copy(TINY)
    place = settings
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return settings


@pytest.mark.usefixtures("project")
class TestRefusals:
    """Every mistake is one line that names the file, the key, what was found and what was expected."""

    @pytest.mark.parametrize(
        ("path", "value", "expected"),
        [
            (("training", "step"), 3, "studies/tiny.yaml: training.step: unknown key"),
            (("training", "steps"), 0, "training.steps: found 0; Input should be greater than or equal to 1"),
            (("training", "steps"), "many", "training.steps: found 'many'; Input should be a valid integer"),
            (("training", "group_size"), 1, "training.group_size: found 1;"),
            (("training", "learning_rates"), [0.1, 0.1], "learning_rates: expected each value once, found 0.1"),
            (("training", "learning_rates"), [], "training.learning_rates: found []"),
            (("training", "learning_rates"), [float("inf")], "training.learning_rates[0]: found inf"),
            (
                ("training", "microbatch"),
                7,
                "a mini-batch of 16 responses must be a multiple of microbatch, found 7",
            ),
            (("training", "prompts_per_minibatch"), 3, "multiple of prompts_per_minibatch, found 3"),
            (("runs", "seeds"), [0, 1, 1], "runs.seeds: expected each value once, found 1 more than once"),
            (("runs", "seeds"), [], "runs.seeds: found []"),
            (("runs", "layers"), [2], "runs.layers[0]: found layer 2, expected 0 to 1 (the model has 2 layers)"),
            (("runs", "layers"), [0, 0], "expected each value once, found 0 more than once"),
            (("model", "heads"), 3, "width 16 must be heads (3) times an even head size"),
            (("model", "kv_heads"), 3, "heads 2 must be a multiple of kv_heads, found 3"),
            (("model", "kind"), "huge", "model.kind: found 'huge'; expected one of 'micro', 'folder'"),
            (("model",), {}, "model.kind: missing"),
            (("runs", "layers"), "some", "runs.layers: expected all or a list of layers, found 'some'"),
            (
                ("runs", "tuned_layers"),
                {"layers": [2], "learning_rates": [1.0]},
                "tiny.yaml: runs.tuned_layers.layers[0]: found layer 2, expected 0 to 1 (the model has 2 layers)",
            ),
            (("runs", "tuned_layers"), {"layers": [0]}, "runs.tuned_layers.learning_rates: missing"),
            (
                ("runs", "tuned_layers"),
                {"layers": "worst", "learning_rates": [1.0]},
                "runs.tuned_layers.layers: expected best, all or a list, found 'worst'",
            ),
            (("task", "careless"), 1.5, "task.careless: found 1.5; Input should be less than or equal to 1"),
            (("task", "operations"), ["+", "+"], "expected each value once, found + more than once"),
            (("algorithm",), "ppo", "algorithm: found 'ppo'; Input should be 'grpo'"),
            (("name",), "other", "studies/tiny.yaml: name: unknown key (a study is named by its file)"),
        ],
    )
    def test_one_line_each(self, path: tuple[str, ...], value: Any, expected: str) -> None:
        message = refused(changed(*path, to=value))
        assert expected in message
        assert message.startswith("studies/tiny.yaml: ")
        assert "\n" not in message

    def test_missing_key(self) -> None:
        settings = deep_copy(TINY)
        del settings["training"]["steps"]
        assert refused(settings) == "studies/tiny.yaml: training.steps: missing"

    def test_every_mistake_is_named(self) -> None:
        settings = changed("training", "steps", to=0)
        settings["color"] = "blue"
        assert refused(settings).count("\n") == 1

    @pytest.mark.parametrize(
        "text", ["training: [", "a: 1\na: 2\n", "- 1\n", "", "just text", "\x00", "1: 2\n", "a: ${missing}\n"]
    )
    def test_unreadable_yaml(self, text: str) -> None:
        Path("studies/tiny.yaml").write_text(text)
        with pytest.raises(UserError, match=r"^studies/tiny.yaml: ") as caught:
            load_study("tiny")
        assert all(line.startswith("studies/tiny.yaml: ") for line in str(caught.value).split("\n"))

    def test_missing_study_and_missing_params(self) -> None:
        with pytest.raises(UserError, match=r"studies/none\.yaml: not found"):
            load_study("none")
        Path("params.yaml").unlink()
        with pytest.raises(UserError, match=r"params\.yaml: not found"):
            load_params()

    def test_params(self) -> None:
        write_params(["tiny", "tiny"])
        with pytest.raises(UserError, match="studies: expected each value once"):
            load_params()
        write_params([])
        with pytest.raises(UserError, match="studies: found"):
            load_params()
        write_params(["tiny"], report={"colour": 1})
        with pytest.raises(UserError, match=r"params\.yaml: report\.colour: unknown key"):
            load_params()

    def test_micro_model_needs_a_corpus(self) -> None:
        sources = {"train": "a.jsonl", "select": "a.jsonl", "report": "a.jsonl"}
        task = {"kind": "questions", "sources": sources, "sizes": TINY["task"]["sizes"]}
        assert "generated corpus (arithmetic, expressions, household), found task.kind questions" in refused(
            changed("task", to=task)
        )

    def test_an_algorithm_and_its_settings_must_fit_the_domain(self) -> None:
        assert "algorithm gigpo compares the steps of episodes and needs a domain of worlds" in refused(
            changed("algorithm", to="gigpo")
        )
        for key, settings, message in (
            ("gigpo", {"discount": 0.9}, "training.gigpo belongs to algorithm gigpo, found grpo"),
            ("agent", {"reward": "world"}, "training.agent belongs to a domain of worlds, found task.kind arithmetic"),
        ):
            assert message in refused(changed("training", key, to=settings))
        assert "algorithm: found 'ppo'" in refused(changed("algorithm", to="ppo"))
        household = {"kind": "household", "sizes": TINY["task"]["sizes"]}
        agent = changed("task", to=household)
        agent["algorithm"] = "gigpo"
        agent["training"]["gigpo"] = {"discount": 1.5}
        assert "training.gigpo.discount: found 1.5" in refused(agent)

    def test_a_world_must_be_put_to_the_agent(self) -> None:
        task = {"kind": "textworld-express", "sizes": TINY["task"]["sizes"], "turn": "> "}
        settings = changed("task", to=task)
        assert "turn must contain {observation}" in refused(settings)

    def test_prompt_must_hold_the_question(self) -> None:
        sources = {"train": "a.jsonl", "select": "a.jsonl", "report": "a.jsonl"}
        task = {"kind": "questions", "sources": sources, "sizes": TINY["task"]["sizes"], "prompt": "Answer:"}
        assert "prompt must contain {question}" in refused(changed("task", to=task))

    def test_folder_model(self) -> None:
        settings = changed("model", to={"kind": "folder", "path": "nowhere"})
        assert "nowhere/config.json: not found" in refused_raw(settings)
        Path("nowhere").mkdir()
        Path("nowhere/config.json").write_text("{}")
        assert "expected num_hidden_layers" in refused_raw(settings)
        Path("nowhere/config.json").write_text("{")
        assert "expected JSON" in refused_raw(settings)
        Path("nowhere/config.json").write_text('{"n_layer": 5}')
        write_study("tiny", settings)
        assert load_study("tiny").layers == (0, 1, 2, 3, 4)


def refused_raw(settings: dict[str, Any]) -> str:
    write_study("tiny", settings)
    with pytest.raises(UserError) as caught:
        load_study("tiny")
    return str(caught.value)


@pytest.mark.usefixtures("project")
def test_defaults_lie_under_the_studys_own_settings() -> None:
    write_params(["tiny"], defaults={"seed": 7, "runs": {"seeds": [4, 5], "search_seeds": [9]}})
    study = load_study("tiny")
    assert study.seed == 7
    assert study.runs.seeds == (0,)  # the study's own
    assert study.runs.search_seeds == (9,)  # the shared default


@pytest.mark.usefixtures("project")
def test_numbers_may_be_written_in_scientific_notation() -> None:
    path = Path("studies/tiny.yaml")
    path.write_text(path.read_text().replace("- 0.001", "- 5e-6"))
    assert load_study("tiny").training.learning_rates == (5e-6,)


def test_batches() -> None:
    training = Training(
        learning_rates=(1e-3,), steps=1, prompts_per_batch=8, group_size=4, prompts_per_minibatch=2, inner_epochs=3,
        microbatch=4,
    )  # fmt: skip
    assert training.minibatch_prompts == 2
    assert training.microbatch_rows == 4
    assert training.steps_per_rollout == 12  # 3 epochs of 4 mini-batches


def test_the_studies_of_the_repository_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names = {path.stem for path in Path("studies").glob("*.yaml")}
    assert {load_study(name).name for name in names} == names
    assert set(load_params().studies) <= names


def test_the_papers_studies_scan_as_many_layers_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    scanned = {
        "qwen3-1.7b-numina": (28, 28, "grpo"),
        "qwen3-4b-numina": (36, 36, "grpo"),
        "qwen3-8b-numina": (36, 36, "grpo"),
        "qwen2.5-math-1.5b-math": (28, 28, "dr_grpo"),
        "qwen2.5-1.5b-alfworld": (28, 8, "gigpo"),
        "qwen2.5-3b-alfworld": (36, 11, "gigpo"),
        "r1-distill-qwen-7b-skywork": (28, 8, "grpo"),
        "qwen3-1.7b-deepscaler": (28, 28, "grpo"),
        "qwen3-1.7b-deepcoder": (28, 28, "grpo"),
    }
    studies = {name: load_study(name) for name in scanned}
    found = {name: (one.model.layer_count(), len(one.layers), one.algorithm) for name, one in studies.items()}
    assert found == scanned
    assert all(one.runs.seeds == (0, 1, 2) for one in studies.values())  # three repeats of each setting
