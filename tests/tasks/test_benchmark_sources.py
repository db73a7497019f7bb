"""The suite's benchmarks and the study's own sets are read in one way: from the hub, from files, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import COMMIT, FakeHub, json_lines, parquet, run, serving

from conftest import TINY, deep_copy, write_params, write_study
from onelayer.analysis.problem_sets import set_of
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import problems_payload
from onelayer.lengths import expected_lengths
from onelayer.prepare import is_prepared, prepare
from onelayer.source_settings import CodeSource, QuestionSource
from onelayer.study_sources import held_out, source_files
from onelayer.suite.library import SUITE_PROBLEMS

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heron", "islet", "jetty", "knoll", "lagoon")
MATH = ["math500", "gsm8k", "olympiadbench", "amc"]
SMALL = {"train": 4, "select": 2, "report": 2}


def asked(first: int, count: int) -> list[str]:
    """Questions of many words that share hardly any."""
    return [" ".join(f"{word}{number}" for word in WORDS) + "?" for number in range(first, first + count)]


def rows(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"question": text, "answer": f"so #### {number}", **more} for number, text in enumerate(asked(first, count))
    ]


def study(task: dict[str, Any], suite: list[Any] | None = None) -> dict[str, Any]:
    changed = deep_copy(TINY)
    Path("model").mkdir(exist_ok=True)
    Path("model/config.json").write_text('{"num_hidden_layers": 2}')
    changed["model"] = {"kind": "folder", "path": "model"}
    changed["task"] = {"kind": "questions", "sizes": SMALL, "answer_after": "####", **task}
    changed["evaluation"]["suite"] = suite or []
    return changed


def loaded(task: dict[str, Any], suite: list[Any] | None = None) -> Study:
    write_study("tiny", study(task, suite))
    return load_study("tiny")


def refused(task: dict[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        loaded(task)
    return str(caught.value)


def files(**numbers: int) -> dict[str, str]:
    """A file a split, with questions from the number that is given on."""
    for split, first in numbers.items():
        Path(f"{split}.jsonl").write_bytes(json_lines(rows(first, 10)))
    return {split: f"{split}.jsonl" for split in numbers}


# A benchmark as a study's own set.


@pytest.mark.usefixtures("project")
def test_a_benchmark_by_name_is_a_set_of_a_split() -> None:
    made = loaded({"sources": {**files(train=0, select=20), "report": [{"benchmark": name} for name in MATH]},
                   "grading": "math", "question": "question"})  # fmt: skip
    report = made.task.sources.report  # type: ignore[union-attr]
    assert [source.set_name for source in report] == MATH
    suite = Study(name="x", **study({"sources": files(train=0, select=1, report=2)}, MATH)).suite
    for source, benchmark in zip(report, suite, strict=True):
        assert source == benchmark.named_source  # type: ignore[union-attr]
    # The task's own fields are for sets that have none: MATH-500's answers follow no mark.
    assert (report[0].question, report[0].answer_after, report[1].answer_after) == ("problem", None, "####")
    assert made.task.sources.train[0].answer_after == "####"  # type: ignore[union-attr]


@pytest.mark.usefixtures("project")
def test_what_a_study_says_of_a_benchmark_counts() -> None:
    Path("copy.jsonl").write_bytes(json_lines([{"problem": text, "answer": "7"} for text in asked(50, 5)]))
    Path("amc.jsonl").write_bytes(json_lines([{"question": text, "answer": 27.0} for text in asked(80, 5)]))
    made = loaded({
        "sources": {**files(train=0, select=20), "report": [{"benchmark": "math500", "path": "copy.jsonl"},
                                                           {"benchmark": "amc", "path": "amc.jsonl", "name": "amc23"}]},
        "sizes": {"train": 4, "select": 2, "report": "all"}, "grading": "math",
    })  # fmt: skip
    report = prepare(made)["report"]
    problems = [json.loads(line) for line in report.text.splitlines()]
    assert [set_of(problem["id"]) for problem in problems] == ["math500"] * 5 + ["amc23"] * 5
    assert {problem["answer"] for problem in problems} == {"7", "27"}
    assert source_files(made)[-2:] == (Path("copy.jsonl"), Path("amc.jsonl"))


@pytest.mark.usefixtures("project")
def test_what_is_no_benchmark_of_the_kind_is_refused() -> None:
    own = files(train=0, select=20)
    message = refused({"sources": {**own, "report": [{"benchmark": "maths"}]}})
    assert message.startswith(
        "studies/tiny.yaml: task.sources.report[0]: found benchmark 'maths'; expected one of math500"
    )
    assert "humaneval" not in message
    for name, judge in (("humaneval-plus", "code"), ("ifeval", "harness")):
        message = refused({"sources": {**own, "report": {"benchmark": name}}})
        assert (
            f"report[0]: found benchmark {name}, which is judged by {judge}; expected one of math500, gsm8k" in message
        )
    assert "report[0].color: unknown key" in refused({"sources": {**own, "report": {"benchmark": "amc", "color": 1}}})
    message = refused({"sources": {**own, "report": {"benchmark": "olympiadbench"}}, "grading": "number"})
    assert "grading number compares one answer, found answers: all in sources.report[0]: use math" in message
    code: dict[str, Any] = {"kind": "code", "sources": {**own, "report": {"benchmark": "livecodebench"}}}
    del code["sources"]["select"], code["sources"]["train"]
    code["sources"] |= {"train": "a.jsonl", "select": "a.jsonl"}
    changed = study({}) | {"task": {"sizes": SMALL, **code}}
    write_study("tiny", changed)
    with pytest.raises(UserError, match="complete_prompt must be false where questions are no code, found true and"):
        load_study("tiny")
    changed["task"]["complete_prompt"] = False
    write_study("tiny", changed)
    (source,) = load_study("tiny").task.sources.report  # type: ignore[union-attr]
    assert isinstance(source, CodeSource)
    assert (source.format, source.set_name, source.question) == ("livecodebench", "livecodebench", "question_content")


def test_all_of_several_answers_are_one(tmp_path: Path) -> None:
    from onelayer.task_settings import QuestionsTask
    from onelayer.tasks.questions import Questions

    path = tmp_path / "several.jsonl"
    path.write_bytes(json_lines([{"question": text, "final_answer": ["$2$", "$3$"]} for text in asked(0, 6)]))
    for answers, right, wrong in (("all", r"\boxed{3, 2}", r"\boxed{2}"), ("any", r"\boxed{2}", r"\boxed{4}")):
        source = {"path": str(path), "answer": "final_answer", "answers": answers}
        task = Questions(
            QuestionsTask.model_validate({
                "kind": "questions", "sources": dict.fromkeys(("train", "select", "report"), source),
                "sizes": dict.fromkeys(("train", "select", "report"), 1), "grading": "math",
            }), 0,
        )  # fmt: skip
        (problem,) = task.splits()["report"].problems
        assert task.grade(problem, right).correct, answers
        assert not task.grade(problem, wrong).correct, answers


# Decontamination against the suite.


@pytest.mark.usefixtures("project")
def test_training_rows_are_held_against_the_suite() -> None:
    own = files(train=0, select=20, report=40)
    copied = asked(3, 2)
    Path("suite.jsonl").write_bytes(json_lines([{"question": copied[0], "answer": "#### 1"},
                                                {"question": asked(99, 1)[0], "answer": "#### 1"}]))  # fmt: skip
    Path("code.jsonl").write_bytes(json_lines([{"text": copied[1], "test_list": ["assert f(1)"],
                                                "test_setup_code": ""}]))  # fmt: skip
    suite = [{"benchmark": "gsm8k", "path": "suite.jsonl"}, {"benchmark": "mbpp", "path": "code.jsonl"}, "ifeval"]
    sizes = {"train": "all", "select": 2, "report": 2}
    made = loaded({"sources": own, "sizes": sizes}, suite)
    assert [source.set_name for source in held_out(made)] == ["gsm8k", "mbpp"]  # the harness reads its own
    prepare(made)
    receipt = json.loads(Path("data/tiny/problems.json").read_text())
    assert receipt["splits"]["train"]["problems"] == 8
    assert receipt["splits"]["train"]["dropped"] == {
        "copies of gsm8k": 1, "copies of mbpp": 1,
    }  # fmt: skip
    assert receipt["held_out"] == [{"set": "gsm8k", "path": "suite.jsonl"}, {"set": "mbpp", "path": "code.jsonl"}]
    dropped = [json.loads(line) for line in Path("data/tiny/problems/dropped.jsonl").read_text().splitlines()]
    assert [(row["id"], row["evaluation_id"]) for row in dropped] == [("train:4", "gsm8k:1"), ("train:5", "mbpp:1")]
    assert is_prepared(made)
    # Its rows decide the training set, so a change of them is one of the problems.
    Path("suite.jsonl").write_bytes(json_lines([{"question": asked(99, 1)[0], "answer": "#### 1"}]))
    assert not is_prepared(made)
    # Without a suite, or without decontamination, nothing is held against it, and the fingerprint has no word of it.
    assert "held_out" not in problems_payload(loaded({"sources": own, "sizes": sizes}), {})
    off = loaded({"sources": own, "sizes": sizes, "decontamination": None}, suite)
    assert held_out(off) == ()
    assert json.loads(prepare(off)["train"].text.splitlines()[3])["id"]
    assert json.loads(Path("data/tiny/problems.json").read_text())["splits"]["train"]["problems"] == 10
    Path("suite.jsonl").unlink()
    with pytest.raises(UserError, match=r"suite\.jsonl: not found; the study tiny takes problems from it"):
        prepare(made)


@pytest.mark.usefixtures("project")
def test_a_benchmark_that_is_trained_on_leaves_nothing_to_train_on() -> None:
    own = files(train=0, select=20, report=40)
    made = loaded({"sources": own}, [{"benchmark": "gsm8k", "path": "train.jsonl"}])
    with pytest.raises(UserError, match=r"found 0 that no other split holds \(10 rows, 10 of them copies"):
        prepare(made)


# Cost.


@pytest.mark.usefixtures("project")
def test_how_many_problems_there_are_is_known_before_they_are_prepared() -> None:
    own = files(train=0, select=20)
    Path("select.jsonl").write_bytes(json_lines(rows(20, 6, level=1) + rows(40, 3, level=2)))
    select = {"path": "select.jsonl", "where": {"level": [1]}}
    sizes = {"train": 4, "select": "all", "report": "all"}
    report: Any = [{"benchmark": "math500"}, {"benchmark": "amc"}]
    made = loaded({"sources": {**own, "select": select, "report": report}, "sizes": sizes, "grading": "math"})
    counted = expected_lengths(made).problems
    assert counted == {"train": 4, "select": 6, "report": SUITE_PROBLEMS["math500"] + SUITE_PROBLEMS["amc"]}
    # Of each set, where a split has several.
    made = loaded({"sources": {**own, "report": report}, "sizes": SMALL, "grading": "math"})
    assert expected_lengths(made).problems == {"train": 4, "select": 2, "report": 4}
    other = {"hub": "org/x", "revision": "main", "split": "t"}
    for unknown in ({"benchmark": "math500", "where": {"level": [5]}}, other, "nowhere.jsonl"):
        made = loaded(
            {"sources": {**own, "report": [unknown, {"benchmark": "amc"}]}, "sizes": sizes, "grading": "math"}
        )
        assert "report" not in expected_lengths(made).problems


# From the hub.


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    card = b"---\nconfigs:\n- config_name: main\n  data_files:\n  - {split: test, path: main/test-*}\n---\n"
    sums = [{"question": f"{a}#{b}=", "answer": f"so #### {b}"} for a in (10, 35) for b in (21, 42, 63)]
    held = {
        "org/sums": {"README.md": card, "main/test-0.parquet": parquet(sums)},
        "org/words": {"README.md": card, "main/test-0.parquet": parquet(rows(3, 4))},
        "org/script": {"script.py": b"", "one.jsonl": json_lines(rows(0, 3)), "two.jsonl": json_lines(rows(3, 4)),
                       "three.parquet": parquet(rows(7, 2))},
    }  # fmt: skip
    with serving(FakeHub(held)) as served:
        yield served


def of_hub(name: str) -> dict[str, str]:
    return {"hub": f"org/{name}", "revision": "main"}


@pytest.mark.usefixtures("project")
def test_a_benchmark_of_the_hub_is_fetched_and_scored_at_one_commit(hub: FakeHub) -> None:
    changed = deep_copy(TINY)
    entry = {"benchmark": "gsm8k", "source": of_hub("sums"), "samples": 2, "max_tokens": 3, "prompt": "{question}"}
    changed["evaluation"]["suite"] = [entry]
    write_params(["tiny"])
    write_study("tiny", changed)
    early, fetched, *made = run("plan tiny", "fetch tiny", "prepare tiny", "base tiny", "plan tiny", hub=hub)
    assert early.code == 0, early.error  # a plan asks no hub
    assert fetched.out == f"tiny: 6 rows of org/sums@{COMMIT} (test, main)\n"
    assert json.loads(Path("data/tiny/commits.json").read_text()) == {"org/sums@main": COMMIT}
    assert [done.code for done in made] == [0, 0, 0]
    # A node without network: the commit is known, the rows are in the cache.
    scored, again = run("suite tiny base", "suite tiny base", HF_HUB_OFFLINE="1")
    assert scored.code == 0, scored.error
    assert "tiny/base: gsm8k: 12 answers" in scored.out
    assert "already scored on the suite" in again.out
    manifest = json.loads(Path("data/tiny/runs/base/suite/gsm8k.json").read_text())
    assert manifest["settings"]["rows"] == f"org/sums@{COMMIT} (test, main)"


@pytest.mark.usefixtures("project")
def test_a_study_is_held_against_benchmarks_of_the_hub(hub: FakeHub) -> None:
    own = files(train=0, select=20, report=40)
    write_study("tiny", study({"sources": own}, [{"benchmark": "gsm8k", "source": of_hub("words")}]))
    prepared, plan = run("prepare tiny", "plan tiny", hub=hub)
    assert prepared.code == 0, prepared.error
    assert "4 copies of gsm8k" in prepared.out
    assert plan.code == 0, plan.error
    receipt = json.loads(Path("data/tiny/problems.json").read_text())
    assert receipt["held_out"] == [
        {"set": "gsm8k", "hub": "org/words", "commit": COMMIT, "subset": "main", "split": "test"}
    ]
    assert json.loads(Path("data/tiny/commits.json").read_text()) == {"org/words@main": COMMIT}


@pytest.mark.usefixtures("project")
def test_files_of_a_set_that_comes_with_a_script(hub: FakeHub) -> None:
    script = {**of_hub("script"), "files": ["one.jsonl", "two.jsonl", "three.parquet"]}
    own = {**files(train=20, select=40), "report": script}
    write_study("tiny", study({"sources": own, "sizes": {"train": 4, "select": 2, "report": "all"}}))
    write_study("split", study({"sources": own | {"report": {**of_hub("script"), "split": "train"}}}))
    write_study("lost", study({"sources": own | {"report": {**script, "files": ["one.jsonl", "four.jsonl"]}}}))
    done, split, lost, fetched = run("prepare tiny", "prepare split", "prepare lost", "fetch tiny", hub=hub)
    assert done.code == 0, done.error
    problems = [json.loads(line) for line in Path("data/tiny/problems/report.jsonl").read_text().splitlines()]
    by_row = sorted(problems, key=lambda problem: int(problem["id"].rpartition(":")[2]))
    assert [problem["id"] for problem in by_row] == [f"script:{number}" for number in range(1, 10)]
    assert [problem["prompt"].strip() for problem in by_row] == asked(0, 9)
    (report,) = json.loads(Path("data/tiny/problems.json").read_text())["sources"]["report"]
    assert (report["commit"], report["files"], report["rows"]) == (COMMIT, script["files"], 9)
    assert f"9 rows of org/script@{COMMIT} (one.jsonl, two.jsonl, three.parquet)" in fetched.out
    assert split.code == lost.code == 2
    assert (
        "org/script comes with a loading script, which is not run: name its JSON Lines or Parquet files" in split.error
    )
    assert "org/script has no file 'four.jsonl'" in lost.error


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"files": ["a.jsonl"], "split": "test"}, "files stand in place of subset and split, found both for org/x"),
        ({"files": ["a.csv"]}, "String should match pattern"),
        ({}, "needs revision .* and split .or files., found no split for org/x"),
    ],
)
def test_files_or_a_split(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuestionSource.model_validate({"hub": "org/x", "revision": "main", **more})
    with pytest.raises(ValueError, match="files belongs to a data set of the hub"):
        QuestionSource.model_validate({"path": "a.jsonl", "files": ["b.jsonl"]})
