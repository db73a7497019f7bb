from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from onelayer.errors import UserError
from onelayer.source_settings import RowSizes
from onelayer.task_settings import QuestionsTask
from onelayer.tasks.answers import accepted_answers, as_one_text
from onelayer.tasks.contract import Problem
from onelayer.tasks.questions import Questions

REPEATED = "already in another row or split"


def by_id(problem: Problem) -> str:
    return problem.id


def rows(path: Path, count: int, start: int = 0) -> None:
    lines = [{"question": f"What is {i} and one?", "answer": f"Add. #### {i + 1}"} for i in range(start, start + count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def task(train: Any, evaluation: Any, sizes: tuple[int, int, int] = (5, 3, 4), **more: object) -> Questions:
    settings = QuestionsTask(
        kind="questions",
        sources={"train": train, "select": evaluation, "report": evaluation},
        sizes=dict(zip(("train", "select", "report"), sizes, strict=True)),
        **{"answer_after": "####", **more},
    )
    return Questions(settings, seed=0)


def test_one_file_serves_all_splits_without_overlap(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 12)
    splits = task(path, path).splits()
    prompts = [p.prompt for split in splits.values() for p in split.problems]
    assert len(set(prompts)) == len(prompts) == 12
    assert splits["train"].problems[0].prompt.endswith("?\n")
    for split in splits.values():
        for problem in split.problems:
            assert int(problem.answer) == int(problem.prompt.split()[2]) + 1
            assert problem.id.startswith("all:")


def test_repeats_across_files_are_left_out_and_counted(tmp_path: Path) -> None:
    train, evaluation = tmp_path / "train.jsonl", tmp_path / "eval.jsonl"
    rows(evaluation, 7)
    rows(train, 20)
    copied = train.read_text().replace("What is 3 and one?", "what  is 3 AND one?")
    train.write_text(copied + json.dumps({"question": "What is 19 and one?", "answer": "#### 20"}) + "\n")
    made = task(train, evaluation, sizes=(13, 3, 4)).splits()["train"]
    assert made.dropped == {"copies of eval": 7, "already in another row or split": made.dropped[REPEATED]}
    assert made.copies is not None
    assert {copy.evaluation_id for copy in made.copies} == {f"eval:{row}" for row in range(1, 8)}
    assert not {copy.problem.id for copy in made.copies} & {problem.id for problem in made.problems}
    plain = task(train, evaluation, sizes=(13, 3, 4), decontamination=None).splits()["train"]
    assert plain.copies is None
    assert plain.dropped[REPEATED] >= 7
    assert plain.problems == made.problems
    everything = task(train, evaluation, sizes=(13, 3, 4)).settings.model_copy(
        update={"sizes": RowSizes(train="all", select=3, report=4)}
    )
    drawn = Questions(everything, 0).splits()["train"]
    assert sorted(drawn.problems, key=by_id) == sorted(made.problems, key=by_id)
    assert drawn.dropped == {"copies of eval": 7, REPEATED: 1}
    with pytest.raises(UserError, match=r"asks for 14 problems, found 13 .*\(21 rows, 7 of them copies"):
        task(train, evaluation, sizes=(14, 3, 4)).splits()


def test_growing_train_leaves_evaluation_alone(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 30)
    small, large = task(path, path).splits(), task(path, path, sizes=(20, 3, 4)).splits()
    assert small["select"] == large["select"]
    assert small["report"] == large["report"]
    assert large["train"].problems[:5] == small["train"].problems


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "row 2: expected a JSON object, found:"),
        ("[1]", "row 2: expected a JSON object, found list"),
        ('{"question": "q"}', "row 2: expected a value in 'answer', found the fields ['question']"),
        ('{"question": " ", "answer": "#### 1"}', "row 2: expected a value in 'question'"),
        ('{"question": "q", "answer": null}', "row 2: expected a value in 'answer'"),
        ('{"question": "q", "answer": "7"}', "row 2: expected '####' in 'answer', found '7'"),
        ('{"question": "q", "answer": "#### none"}', "row 2: expected a number as the answer, found 'none'"),
    ],
)
def test_bad_rows(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "ok", "answer": "#### 1"}\n' + line + "\n")
    with pytest.raises(UserError) as caught:
        task(path, path).splits()
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a readable JSON Lines file"):
        task(tmp_path / "none.jsonl", tmp_path / "none.jsonl").splits()
    path = tmp_path / "binary.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="expected a readable JSON Lines file"):
        task(path, path).splits()


def test_grading(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 12)
    number, exact = task(path, path), task(path, path, grading="exact")
    problem = Problem("a", "q", "1,200")
    assert number.grade(problem, "So the answer is 1200.0 apples").correct
    assert not number.grade(problem, "It is 120").correct
    assert number.grade(problem, "no idea").extracted is None
    assert exact.grade(problem, " 1,200\n").correct
    assert not exact.grade(problem, "1200").correct
    assert exact.grade(problem, " ").extracted is None


def test_a_line_separator_inside_a_question_is_no_new_row(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 11)
    extra = json.dumps({"question": "one\u2028two", "answer": "#### 2"}, ensure_ascii=False)
    path.write_text(path.read_text() + extra + "\n")
    made = task(path, path).splits()
    assert any("\u2028" in p.prompt for split in made.values() for p in split.problems)


def test_filters_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    lines = [
        {"question": f"Problem {i} of a set?" + "." * (40 * (i % 2)), "level": f"Level {i % 4}", "worked": f"#### {i}"}
        for i in range(40)
    ] + [{"question": f"A problem without an answer {i}", "level": "Level 1", "worked": "none"} for i in range(3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"path": str(path), "where": {"level": ["Level 1", "Level 2"]}, "shortest": 20, "unusable": "drop"}
    made = task(source, source, sizes=(2, 2, 2), answer="worked").splits()
    for split in made.values():
        (received,) = split.sets
        assert received["rows"] == 43
        assert received["dropped"]["left out by where.level"] == 20
        assert received["dropped"]["left out as unusable"] == 3
        assert received["dropped"]["shorter than 20 characters"] == 2
        assert {int(problem.answer) % 4 for problem in split.problems} <= {1, 2}
    longest = task({**source, "shortest": None, "longest": 24}, str(path), sizes=(2, 2, 2), answer="worked")
    with pytest.raises(UserError, match="row 41: expected '####' in 'worked', found 'none'"):
        longest.splits()  # the second source stops at such a row
    for changed, message in (
        ({"where": {"level": 1}}, r"found none of 43 \(43 left out by where.level; 'level' holds 'Level 0', 'Level 1'"),
        ({"where": {"levels": 1}}, "row 1: expected a value in 'levels', found the fields"),
        ({"longest": 3, "shortest": None}, "found none of 43 .*longer than 3 characters"),
        ({"answer": "level"}, "row 2: expected '####' in 'level'"),
    ):
        bad = {**source, **changed}
        with pytest.raises(UserError, match=message):
            task(bad, bad, sizes=(2, 2, 2), answer="worked").splits()


DATA = ROOT.parent / "shared/data"


def drawn(rows: list[dict[str, object]], tmp_path: Path, **fields: object) -> Problem:
    """The problem of the last of three rows alike but for their number."""
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = ("train", "select", "report")
    settings = QuestionsTask.model_validate(
        {"kind": "questions", "sources": dict.fromkeys(splits, str(path)), "sizes": dict.fromkeys(splits, 1),
         "decontamination": None, "grading": "exact", **fields}
    )  # fmt: skip
    made = Questions(settings, 0).splits()
    (problem,) = [p for split in made.values() for p in split.problems if p.id == "set:3"]
    return problem


@pytest.mark.parametrize(
    ("value", "answer", "fields"),
    [
        (27.0, "27", {}),
        (0.5, "0.5", {}),
        (-3, "-3", {}),
        (" 18 ", "18", {}),
        (["$(6,3)$"], "$(6,3)$", {}),
        (["2", "7"], '["2", "7"]', {}),
        ([2.0, 7], '["2", "7"]', {}),
        ("[1, 2]", "[1, 2]", {}),
        ('["a"]', '["[\\"a\\"]"]', {}),
        ("48 + 24 #### 72 #### 73", "73", {"answer_after": "####"}),
        (r"so \boxed{1}, no: \boxed{\frac{1}{2}} done \boxed{", r"\frac{1}{2}", {"answer_boxed": True}),
        (r"\boxed {\{1, 2\}}", r"\{1, 2\}", {"answer_boxed": True}),
    ],
)
def test_forms_of_an_answer(tmp_path: Path, value: object, answer: str, fields: dict[str, object]) -> None:
    rows = [{"question": f"Question {i}?", "answer": value} for i in range(3)]
    assert drawn(rows, tmp_path, **fields).answer == answer


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_accepted_answers_come_back(answers: list[str]) -> None:
    assert accepted_answers(as_one_text(answers)) == tuple(answers)


def test_any_accepted_answer_is_right(tmp_path: Path) -> None:
    rows = [{"question": f"Question {i}?", "answer": ["2", "-2"]} for i in range(3)]
    problem = drawn(rows, tmp_path)
    path = tmp_path / "set.jsonl"
    for grading in ("exact", "number"):
        made = task(path, path, grading=grading, answer_after=None)
        assert made.grade(problem, "-2").correct
        assert made.grade(problem, "2").correct
        assert not made.grade(problem, "3").correct


@pytest.mark.parametrize(
    ("row", "options", "answer"),
    [
        ({"options": ["x", "y", "z"], "answer": "b"}, {"fields": "options"}, "B"),
        ({"options": ["x", "y", "z"], "answer": "(C)"}, {"fields": "options"}, "C"),
        ({"options": ["x", "y", "z"], "answer": 2}, {"fields": ["options"], "answer": "index"}, "C"),
        ({"A": "x", "B": "y", "C": "z", "answer": "C"}, {"fields": ["A", "B", "C"]}, "C"),
        ({"right": "z", "w1": "x", "w2": "y", "answer": "z"},
         {"fields": ["right", "w1", "w2"], "answer": "text"}, "A"),
        ({"choices": {"text": ["x", "y", "z"]}, "answer": "C"}, {"fields": "choices.text"}, "C"),
    ],
)  # fmt: skip
def test_options(tmp_path: Path, row: dict[str, object], options: dict[str, object], answer: str) -> None:
    rows = [row | {"question": f"Which {i}?"} for i in range(3)]
    problem = drawn(rows, tmp_path, options=options, prompt="{question}\n{options}\nAnswer:")
    assert problem.answer == answer
    lines = problem.prompt.split("\n")
    assert lines[0] == "Which 2?"
    assert sorted(line[3:] for line in lines[1:4]) == ["x", "y", "z"]
    assert [line[0] for line in lines[1:4]] == ["A", "B", "C"]


def test_shuffled_options_keep_their_answer(tmp_path: Path) -> None:
    rows = [{"question": f"Which {i}?", "right": "z", "w1": "x", "w2": "y"} for i in range(60)]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = task(
        path, path, sizes=(20, 20, 20), answer_after=None, answer="right", grading="exact",
        options={"fields": ["right", "w1", "w2"], "answer": "text", "shuffle": True},
        prompt="{question}\n{options}\n",
    ).splits()  # fmt: skip
    problems = [problem for split in made.values() for problem in split.problems]
    assert {problem.answer for problem in problems} == {"A", "B", "C"}
    assert all(f"{problem.answer}. z" in problem.prompt for problem in problems)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"options": ["x"], "answer": "A"}, "expected 2 to 10 options, found 1"),
        ({"options": ["x", "y"], "answer": "C"}, "expected a letter from A to B in 'answer', found 'C'"),
        ({"options": "x, y", "answer": "A"}, "expected a list of options in 'options', found str"),
        ({"answer": "A"}, "expected a value in 'options', found the fields ['answer', 'question']"),
    ],
)
def test_bad_options(tmp_path: Path, row: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        drawn([row | {"question": "q"}], tmp_path, options={"fields": "options"}, prompt="{question} {options}")


def test_options_and_prompt_must_agree() -> None:
    splits = ("train", "select", "report")
    for more in ({"options": {"fields": "choices"}}, {"prompt": "{question} {options}"}):
        with pytest.raises(ValueError, match=r"prompt must contain \{options\} exactly where the rows have options"):
            QuestionsTask.model_validate(
                {"kind": "questions", "sources": dict.fromkeys(splits, "a.jsonl"),
                 "sizes": dict.fromkeys(splits, 1), **more}
            )  # fmt: skip


def test_options_are_no_numbers() -> None:
    splits = ("train", "select", "report")
    with pytest.raises(ValueError, match=r"grading number compares numbers, found options in sources\.train\[0\]"):
        QuestionsTask.model_validate(
            {"kind": "questions", "sources": dict.fromkeys(splits, "a.jsonl"), "sizes": dict.fromkeys(splits, 1),
             "options": {"fields": "choices"}, "prompt": "{question} {options}"}
        )  # fmt: skip


def test_a_prompt_puts_nothing_into_a_question(tmp_path: Path) -> None:
    rows = [{"question": f"What is {{question}} and {{options}} {i}?", "answer": "1"} for i in range(3)]
    assert drawn(rows, tmp_path).prompt == "What is {question} and {options} 2?\n"


@pytest.mark.skipif(not DATA.is_dir(), reason="the public benchmark files are not beside the repository")
def test_public_rows_need_a_mapping_alone() -> None:
    """GSM8K, MATH-500 by its answers and by its worked solutions, AMC23: each set has fields of its own."""
    math500, boxed = {"path": str(DATA / "math500_test.jsonl"), "question": "problem"}, {"answer": "solution"}
    task = QuestionsTask.model_validate({
        "kind": "questions", "grading": "exact", "decontamination": None,
        "sizes": {"train": 800, "select": "all", "report": "all"},
        "sources": {
            "train": {"path": str(DATA / "gsm8k_test.jsonl"), "answer_after": "####"},
            "select": [{**math500, **boxed, "answer_boxed": True, "name": "math500-hard",
                        "where": {"level": ["Level 4", "Level 5"]}}],
            "report": [{**math500, "name": "math500", "where": {"level": ["Level 1", "Level 2", "Level 3"]}},
                       {"path": str(DATA / "amc23_test.jsonl"), "name": "amc"}],
        },
    })  # fmt: skip
    made = Questions(task, 0).splits()
    rows = [json.loads(line) for line in (DATA / "math500_test.jsonl").read_text().splitlines()]
    hard = {problem.id: problem.answer for problem in made["select"].problems}
    easy = [problem for problem in made["report"].problems if problem.id.startswith("math500:")]
    assert len(hard) + len(easy) == 500
    same = sum(rows[int(name.rpartition(":")[2]) - 1]["answer"].strip() == answer for name, answer in hard.items())
    assert same >= 0.98 * len(hard)
    assert {problem.id.rpartition(":")[0] for problem in made["report"].problems} == {"math500", "amc"}
    assert {problem.answer for problem in made["report"].problems if problem.id == "amc:1"} == {"27"}
    assert len(made["train"].problems) == 800
    assert all(problem.answer.replace(",", "").lstrip("-").isdigit() for problem in made["train"].problems)
