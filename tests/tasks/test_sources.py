from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import COMMIT, FakeHub, json_lines, parquet, run, serving

from conftest import TINY, deep_copy, write_study
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, problems_payload
from onelayer.phases import prepare_phase
from onelayer.prepare import is_prepared
from onelayer.source_settings import QuestionSource
from onelayer.tasks.sources import field_of, rows_of

SMALL = {"train": 2, "select": 2, "report": 2}
ROWS = [{"question": f"What is {i} and one?", "answer": str(i + 1), "level": i % 5} for i in range(30)]


def source(path: Path, **more: Any) -> QuestionSource:
    return QuestionSource.model_validate({"path": path, **more})


def test_parquet_and_json_lines_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS))
    (tmp_path / "a.parquet").write_bytes(parquet(ROWS))
    expected = list(enumerate(ROWS, start=1))
    for name in ("a.jsonl", "a.parquet"):
        assert list(rows_of(source(tmp_path / name))) == expected
        assert list(rows_of(source(tmp_path / name), {3, 20})) == [expected[2], expected[19]]


def test_a_field_inside_a_field() -> None:
    row = {"reward": {"truth": "7"}, "prompt": [{"content": "q"}], "a.b": 1}
    assert field_of(row, "reward.truth", "x") == "7"
    assert field_of(row, "prompt.0.content", "x") == "q"
    assert field_of(row, "a.b", "x") == 1
    for missing in ("reward.lie", "prompt.1.content", "prompt.content", "reward.truth.x", "none"):
        with pytest.raises(UserError, match=rf"x: expected a value in '{missing}', found the fields \['a\.b'"):
            field_of(row, missing, "x")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "a.jsonl: expected rows, found none"),
        ("a.jsonl", b"\n \n", "a.jsonl: expected rows, found none"),
        ("a.parquet", parquet([])[:0] or b"PAR1", "a.parquet: expected a readable Parquet file, found"),
        ("a.parquet", parquet(ROWS)[:-3], "a.parquet: expected a readable Parquet file, found"),
        ("a.jsonl", b"\xff", "a.jsonl: expected a readable JSON Lines file, found"),
    ],
)
def test_files_without_rows(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(rows_of(source(tmp_path / name)))


# Settings.


def study(sources: Any, **task: Any) -> dict[str, Any]:
    changed = deep_copy(TINY)
    Path("model").mkdir(exist_ok=True)
    Path("model/config.json").write_text('{"num_hidden_layers": 2}')
    changed["model"] = {"kind": "folder", "path": "model"}
    changed["task"] = {
        "kind": "questions", "sources": sources, "sizes": {"train": 10, "select": 4, "report": 5}, **task,
    }  # fmt: skip
    return changed


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({}, r"task\.sources\.train\[0\]: expected path or hub, found neither"),
        ({"path": "a.jsonl", "hub": "a/b"}, r"task\.sources\.train\[0\]: expected path or hub, found both"),
        ("a.csv", r"task\.sources\.train\[0\]: path must end in \.jsonl or \.parquet, found 'a\.csv'"),
        ({"path": "a.jsonl", "split": "train"}, r"train\[0\]: split belongs to a data set of the hub"),
        ({"hub": "a/b", "split": "train"}, r"train\[0\]: .* needs revision .* found no revision for a/b"),
        ({"hub": "a/b/c", "revision": "main", "split": "x"}, r"task\.sources\.train\[0\]\.hub: found 'a/b/c'"),
        ({"path": "a.jsonl", "tests": "t"}, r"task\.sources\.train\[0\]\.tests: unknown key"),
        ({"path": "a.jsonl", "shortest": 9, "longest": 3}, r"shortest 9 must not exceed longest, found 3"),
        ({"path": "a.jsonl", "where": {"level": []}}, r"task\.sources\.train\[0\]\.where\.level: found"),
        ({"path": "a.jsonl", "answer_after": "#", "answer_boxed": True}, r"expected answer_after or answer_boxed"),
        (["x/a.jsonl", "y/a.jsonl"], r"task\.sources: expected each value once, found a more than once"),
        ([], r"task\.sources\.train: found"),
    ],
)
def test_impossible_sources_are_refused(train: Any, message: str) -> None:
    write_study("tiny", study({"train": train, "select": "a.jsonl", "report": "a.jsonl"}))
    with pytest.raises(UserError, match=message):
        load_study("tiny")


@pytest.mark.usefixtures("project")
def test_sizes_and_thresholds_are_checked() -> None:
    sources = dict.fromkeys(("train", "select", "report"), "a.jsonl")
    for task, message in (
        ({"sizes": {"train": "some", "select": 1, "report": 1}}, r"task\.sizes\.train: found 'some'"),
        ({"sizes": {"train": 0, "select": 1, "report": 1}}, r"task\.sizes\.train: found 0"),
        ({"decontamination": {"threshold": 0}}, r"task\.decontamination\.threshold: found 0"),
        ({"decontamination": {"ngram": 1}}, r"task\.decontamination\.ngram: found 1"),
    ):
        write_study("tiny", study(sources, **task))
        with pytest.raises(UserError, match=message):
            load_study("tiny")


@pytest.mark.usefixtures("project")
def test_a_source_takes_the_tasks_fields_and_may_differ() -> None:
    sources = {"train": "a.jsonl", "select": "a.jsonl", "report": {"path": "b.jsonl", "answer_after": None}}
    write_study("tiny", study(sources, question="problem", answer_after="####"))
    task = load_study("tiny").task
    train, report = task.sources.train[0], task.sources.report[0]  # type: ignore[union-attr]
    assert (train.question, train.answer_after) == ("problem", "####")
    assert (report.question, report.answer_after) == ("problem", None)
    before = digest(problems_payload(load_study("tiny"), {}))
    del sources["report"]["answer_after"]  # type: ignore[attr-defined]
    write_study("tiny", study(sources, question="problem", answer_after="####"))
    assert digest(problems_payload(load_study("tiny"), {})) != before


# Preparing.


def from_hub(**more: Any) -> dict[str, Any]:
    return {"hub": "org/Rows", "revision": "main", "subset": "main", "split": "test", **more}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    card = b"---\nconfigs:\n- config_name: main\n  data_files:\n" + b"".join(
        b"  - {split: %s, path: main/%s-*}\n" % (split, split) for split in (b"train", b"test")
    )
    files = {
        "org/Rows": {"README.md": card + b"---\n", "main/train-0.parquet": parquet(ROWS),
                     "main/test-0.parquet": parquet(ROWS[:3] + [row | {"question": f"And {row['question']}"}
                                                               for row in ROWS[:12]])},
        "org/lines": {"train.jsonl": json_lines(ROWS)},
        "org/gated": {"train.jsonl": json_lines(ROWS)},
    }  # fmt: skip
    with serving(FakeHub(files, gated=frozenset({"org/gated"}))) as served:
        yield served


@pytest.mark.usefixtures("project")
def test_from_the_hub_at_one_commit(hub: FakeHub) -> None:
    sources = {"train": {"hub": "org/lines", "revision": "main", "split": "train"},
               "select": from_hub(), "report": from_hub()}  # fmt: skip
    write_study("tiny", study(sources))
    done, again, plan = run("prepare tiny", "prepare tiny", "plan tiny", hub=hub)
    assert done.code == 0, done.error
    assert "data/tiny/problems/train.jsonl: 10 problems" in done.out
    assert "copies of Rows" in done.out
    receipt = json.loads(Path("data/tiny/problems.json").read_text())
    (train,), (report,) = receipt["sources"]["train"], receipt["sources"]["report"]
    assert (train["hub"], train["commit"], train["split"], train["rows"]) == ("org/lines", COMMIT, "train", 30)
    assert (report["hub"], report["commit"], report["subset"], report["rows"]) == ("org/Rows", COMMIT, "main", 15)
    copies = [json.loads(line) for line in Path("data/tiny/problems/dropped.jsonl").read_text().splitlines()]
    assert receipt["copies"]["rows"] == len(copies) == train["dropped"]["copies of Rows"]
    assert {row["set"] for row in copies} == {"Rows"}
    assert {row["id"] for row in copies} >= {"lines:1", "lines:2", "lines:3"}
    assert json.loads(Path("data/tiny/commits.json").read_text()) == {"org/lines@main": COMMIT, "org/Rows@main": COMMIT}
    assert "already" in again.out
    assert "waits for the base" in plan.out

    # Without a hub: a plan needs none, and other settings of the same data are prepared from the cache.
    write_study("fresh", study(sources))
    write_study("tiny", study(sources, prompt="Q: {question}\n"))
    other = from_hub(revision="f" * 40)
    write_study("other", study(dict.fromkeys(("train", "select", "report"), other), sizes=SMALL))
    fresh, refused = run("plan fresh", "prepare tiny")
    assert fresh.code == 0, fresh.error
    assert refused.code == 2
    assert refused.error.startswith("error: org/Rows@0123")
    assert "the hub cannot be reached (" in refused.error
    offline, wrong, unknown = run("prepare tiny", "prepare other", "prepare fresh", HF_HUB_OFFLINE="1")
    assert offline.code == 0, offline.error
    assert Path("data/tiny/problems/train.jsonl").read_text().count('"Q: ') == 10
    assert unknown.code == 2
    assert "the hub cannot be reached (" in unknown.error
    # The cache holds another commit than the one that is named, and `datasets` would take it.
    assert wrong.code == 2
    assert "expected the rows of this commit, found those of another in the cache" in wrong.error
    assert not Path("data/other/problems.json").exists()


REFUSED = {
    "none": (
        from_hub(hub="org/none"),
        "org/none@main (test, main): the hub has no data set org/none, or it is private",
    ),
    "gated": (from_hub(hub="org/gated", subset=None, split="train"), "org/gated is gated: ask for access on its page"),
    "tag": (from_hub(revision="v9"), "the hub has no revision 'v9' of org/Rows"),
    "commit": (from_hub(revision="f" * 40), f"the hub has no revision '{'f' * 40}' of org/Rows"),
    "split": (from_hub(split="dev"), "Unknown split \"dev\". Should be one of ['train', 'test']"),
    "subset": (from_hub(subset="other"), "BuilderConfig 'other' not found. Available: ['main']"),
    "column": (from_hub(question="problem"), "row 1: expected a value in 'problem', found the fields ['answer', 'lev"),
}


@pytest.mark.usefixtures("project")
def test_what_the_hub_refuses_is_one_message(hub: FakeHub) -> None:
    Path("eval.jsonl").write_bytes(json_lines(ROWS))
    for name, (train, _) in REFUSED.items():
        write_study(name, study({"train": train, "select": "eval.jsonl", "report": "eval.jsonl"}))
    for (name, (_, message)), refused in zip(
        REFUSED.items(), run(*(f"prepare {name}" for name in REFUSED), hub=hub), strict=True
    ):
        assert refused.code == 2, refused.error
        assert refused.error.startswith("error: "), refused.error
        assert message in refused.error
        assert refused.error.count("\n") == 1
        assert not Path(f"data/{name}").exists()


def test_fetching_before_the_network_is_gone(hub: FakeHub, project: Path) -> None:
    write_study("tiny", study(dict.fromkeys(("train", "select", "report"), from_hub()), sizes=SMALL))
    fetch = (
        "from onelayer.config import load_study; from onelayer.fetch import fetch_sources\n"
        "print(fetch_sources(load_study('tiny')))"
    )
    found = os.environ | {"HF_HOME": str(project / "hf"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    fetched = subprocess.run([sys.executable, "-c", fetch], env=found | {"HF_ENDPOINT": hub.url}, capture_output=True,
                             text=True, timeout=300, check=True)  # fmt: skip
    assert fetched.stdout.strip() == str([(f"org/Rows@{COMMIT} (test, main)", 15)])
    (done,) = run("prepare tiny", HF_HUB_OFFLINE="1")
    assert done.code == 0, done.error


@pytest.mark.usefixtures("project")
def test_a_lost_list_of_copies_is_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    Path("eval.jsonl").write_bytes(json_lines(ROWS))
    Path("train.jsonl").write_bytes(json_lines([{"question": f"Tell me: what is {i} and one?", "answer": 1}
                                                for i in range(20, 50)]))  # fmt: skip
    write_study("tiny", study({"train": "train.jsonl", "select": "eval.jsonl", "report": "eval.jsonl"}))
    made = load_study("tiny")
    prepare_phase(made)
    assert "train.jsonl: 10 problems, 10 copies of eval" in capsys.readouterr().out
    copies = Path("data/tiny/problems/dropped.jsonl")
    before = copies.read_bytes()
    assert is_prepared(made)
    copies.write_bytes(before[:-5])
    assert not is_prepared(made)
    copies.unlink()
    assert not is_prepared(made)
    prepare_phase(made)
    assert copies.read_bytes() == before
    assert is_prepared(made)
    assert not Path("data/tiny/commits.json").exists()
