"""lm-evaluation-harness on local task files with a tiny model: its logs as our records, its scores as ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from onelayer.errors import UserError
from onelayer.model_settings import FolderModel, MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer
from onelayer.records import SCHEMA
from onelayer.suite import harness
from onelayer.suite.benchmarks import HarnessBenchmark
from onelayer.suite.harness import run_harness, task_files_sha

pytest.importorskip("lm_eval", reason="the extra `suite` (lm-evaluation-harness) is not installed")

ALPHABET = "0123456789=+ "
SETTINGS = MicroModel(
    kind="micro", layers=2, width=16, intermediate=32, heads=2, kv_heads=1, context=64, pretraining={"steps": 1},
)  # fmt: skip


def write_tasks(folder: Path) -> None:
    """A task that writes, one that chooses by likelihood, and a group of both choosing ones."""
    folder.mkdir()
    rows = [{"question": f"{a}+{b}=", "answer": str((a + b) % 10)} for a in range(4) for b in range(5)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    shared: dict[str, Any] = {"dataset_path": "json", "test_split": "test", "doc_to_text": "{{question}}"}

    def data(name: str) -> dict[str, Any]:
        return {"dataset_kwargs": {"data_files": {"test": str(folder / name)}}}

    writing = {
        "task": "local_writing", **shared, **data("rows.jsonl"), "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["="], "max_gen_toks": 6, "do_sample": False},
        "filter_list": [
            {"name": "first", "filter": [
                {"function": "regex", "regex_pattern": "([0-9])"}, {"function": "take_first"}]},
            {"name": "last", "filter": [
                {"function": "regex", "regex_pattern": "([0-9])", "group_select": -1}, {"function": "take_first"}]},
        ],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1.5},
    }  # fmt: skip
    choosing = {
        **shared, "output_type": "multiple_choice", "doc_to_choice": list("0123456789"),
        "doc_to_target": "{{answer | int}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1.0},
    }  # fmt: skip
    for name, task in (
        ("writing", writing),
        ("many", {"task": "local_many", **choosing, **data("rows.jsonl")}),
        ("few", {"task": "local_few", **choosing, **data("few.jsonl")}),
        (
            "group",
            {
                "group": "local_group",
                "task": ["local_many", "local_few"],
                "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": True}],
                "metadata": {"version": 1.0},
            },
        ),
    ):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task, sort_keys=False))


Run = Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture(scope="module")
def run_task(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a local task on the tiny model."""
    folder = tmp_path_factory.mktemp("harness") / "tasks"
    write_tasks(folder)
    torch.set_num_threads(1)
    tokenizer = make_micro_tokenizer(ALPHABET, 64)
    model = make_micro_model(SETTINGS, tokenizer, 5).eval()

    def run(task: str, metric: str, filter_: str = "none") -> tuple[list[dict[str, Any]], dict[str, Any]]:
        benchmark = HarnessBenchmark(
            name="mmlu-pro", category="reasoning", judge="harness", task=task, path=folder, metric=metric,
            filter=filter_,
        )  # fmt: skip
        return run_harness(benchmark, "base", model, tokenizer, 8, SETTINGS)

    return run


def test_written_answers(run_task: Run) -> None:
    records, how = run_task("local_writing", "exact_match", "first")
    assert len(records) == 20
    assert {*records[0]} == set(SCHEMA.names)
    theirs = how["tasks"]["local_writing"]
    assert sum(record["correct"] for record in records) / 20 == pytest.approx(theirs["score"])
    assert (theirs["version"], theirs["few_shot"], theirs["generation"]["max_gen_toks"]) == (1.5, 0, 6)
    assert [record["problem"] for record in records[:2]] == ["local_writing:0", "local_writing:1"]
    for index, record in enumerate(records):
        digits = [one for one in record["completion"] if one.isdigit()]
        assert record["extracted"] == (digits[0] if digits else None)
        assert record["correct"] == (record["extracted"] == str((index // 5 + index % 5) % 10))
        assert record["tokens"] == len(record["completion"]) <= 6
        assert record["clipped"] == (record["tokens"] == 6)
    # The other filter of the same answers.
    last, _ = run_task("local_writing", "exact_match", "last")
    assert [one["completion"] for one in last] == [one["completion"] for one in records]
    for record in last:
        digits = [one for one in record["completion"] if one.isdigit()]
        assert record["extracted"] == (digits[-1] if digits else None)


def test_choices_and_a_group_weighted_by_size(run_task: Run) -> None:
    records, how = run_task("local_group", "acc")
    assert len(records) == 23
    assert set(how["tasks"]) == {"local_many", "local_few"}
    assert how["seeds"]["fewshot_seed"] == 1234
    for record in records:
        index = int(record["problem"].rpartition(":")[2])
        assert record["correct"] == (record["extracted"] == str((index // 5 + index % 5) % 10))
        assert (record["tokens"], record["clipped"], record["completion"]) == (0, False, record["extracted"])
    # Its constant favourite is right for some sums and wrong for others: a reader that reads nothing would be seen.
    assert 0 < sum(record["correct"] for record in records) < 23


def test_a_score_that_is_not_the_records_mean_is_refused(run_task: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    original = harness._record

    def misread(*arguments: Any) -> dict[str, Any]:
        record = original(*arguments)
        return {**record, "correct": True}

    monkeypatch.setattr(harness, "_record", misread)
    with pytest.raises(
        UserError, match=r"local_many: the records' mean is 1\.0, the harness reports 0\.\d+ as its acc"
    ):
        run_task("local_many", "acc")


@pytest.mark.parametrize(
    ("task", "metric", "filter_", "expected"),
    [
        ("local_none", "acc", "none", "has no task 'local_none', and none of that name is in"),
        ("local_few", "exact_match", "none", "expected one of the metrics acc, found 'exact_match'"),
        ("local_writing", "exact_match", "none", "expected one of the filters first, last, found 'none'"),
    ],
)
def test_what_does_not_exist(
    run_task: Run, monkeypatch: pytest.MonkeyPatch, task: str, metric: str, filter_: str, expected: str
) -> None:
    # Reading the harness's own index takes most of a minute, and a name that is nowhere would need it.
    index = harness._index
    monkeypatch.setattr(harness, "_index", lambda folder, defaults: index(folder, False))
    with pytest.raises(UserError, match=expected):
        run_task(task, metric, filter_)


def local(path: Path | None) -> HarnessBenchmark:
    return HarnessBenchmark(
        name="ifeval", category="language", judge="harness", task="t", path=path, metric="acc"
    )  # fmt: skip


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed; `pip install 'onelayer\[suite\]'` installs it"):
        harness.check_harness(local(None))


def test_local_task_files_are_hashed(tmp_path: Path) -> None:
    assert task_files_sha(local(None)) is None
    with pytest.raises(UserError, match="expected a folder of task files, found none"):
        harness.check_harness(local(tmp_path / "none"))
    write_tasks(tmp_path / "tasks")
    before = task_files_sha(local(tmp_path / "tasks"))
    assert before == task_files_sha(local(tmp_path / "tasks"))
    (tmp_path / "tasks" / "few.jsonl").write_text("{}\n")
    assert task_files_sha(local(tmp_path / "tasks")) != before


def test_a_metric_that_is_neither_right_nor_wrong(run_task: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    original = harness._rows

    def graded(*arguments: Any) -> Any:
        for task, sample in original(*arguments):
            yield task, {**sample, "acc": 0.5}

    monkeypatch.setattr(harness, "_rows", graded)
    with pytest.raises(UserError, match=r"local_few, document 0: expected acc to be 0 or 1, found 0\.5"):
        run_task("local_few", "acc")


def test_a_chat_model_is_spoken_to_as_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tasks(tmp_path / "tasks")
    tokenizer = make_micro_tokenizer(ALPHABET, 64)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    model = make_micro_model(SETTINGS, tokenizer, 5).eval()
    heard: list[list[dict[str, str]]] = []
    original = tokenizer.apply_chat_template

    def listen(messages: list[dict[str, str]], *arguments: Any, **more: Any) -> Any:
        heard.append(messages)
        return original(messages, *arguments, **more)

    monkeypatch.setattr(tokenizer, "apply_chat_template", listen)
    benchmark = HarnessBenchmark(
        name="mgsm", category="language", judge="harness", task="local_few", path=tmp_path / "tasks", metric="acc"
    )  # fmt: skip
    run_harness(benchmark, "base", model, tokenizer, 8, SETTINGS)
    assert not heard
    chat = FolderModel(kind="folder", path="model", chat={"system": "1+1"})
    records, _ = run_harness(benchmark, "base", model, tokenizer, 8, chat)
    assert len(records) == 3
    assert [(one["role"], one["content"]) for one in heard[0]] == [("system", "1+1"), ("user", "0+0=")]
