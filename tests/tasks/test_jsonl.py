from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from onelayer.config import Grading
from onelayer.errors import UserError
from onelayer.grading.worker import Grader
from onelayer.task_settings import JsonlTask
from onelayer.tasks.contract import Grade, Problem
from onelayer.tasks.jsonl import Jsonl


def rows(path: Path, count: int, start: int = 0) -> None:
    lines = [{"question": f"What is {i} and one?", "answer": f"Add. #### {i + 1}"} for i in range(start, start + count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def task(train: Path, evaluation: Path, sizes: tuple[int, int, int] = (5, 3, 4), **more: object) -> Jsonl:
    settings = JsonlTask(
        kind="jsonl",
        files={"train": train, "select": evaluation, "report": evaluation},
        sizes=dict(zip(("train", "select", "report"), sizes, strict=True)),
        **{"answer_after": "####", **more},
    )
    return Jsonl(settings, seed=0)


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
    train.write_text(copied)
    made = task(train, evaluation, sizes=(13, 3, 4)).splits()
    assert made["train"].dropped == {"already in another row or split": 7} or len(made["train"].problems) == 13
    held_out = {p.prompt.lower() for name in ("select", "report") for p in made[name].problems}
    assert not held_out & {" ".join(p.prompt.lower().split()) + "\n" for p in made["train"].problems}
    with pytest.raises(UserError, match="asks for 14 problems, found 13"):
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


def test_mathematics_and_options(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 12)
    maths, choice = task(path, path, grading="math"), task(path, path, grading="choice")
    half = Problem("a", "q", r"\frac{1}{2}")
    maths.get_ready()
    assert maths.grade(half, r"\boxed{0.5}").correct
    assert not maths.grade(half, r"\boxed{0.5, 2}").correct
    assert maths.overdue == Grade(False, None, "timeout")
    assert choice.overdue is None
    with closing(Grader(maths, Grading(seconds=60))) as grader:
        grades = grader.grade([(half, r"\boxed{0.5}"), (half, r"\boxed{9^{9^{9^9}}}"), (half, "50 %")])
    assert [grade.correct for grade in grades] == [True, False, False]
    option = Problem("a", "q", "C")
    assert choice.grade(option, "The answer is (C).") == Grade(True, "C")
    assert choice.grade(option, "(C) or (D)") == Grade(False, None)
    assert choice.grade(option, "D") == Grade(False, "D")


@pytest.mark.parametrize(
    ("grading", "answer", "message"),
    [
        ("choice", "12", "expected the letter of an option as the answer, found '12'"),
        ("math", "$$", "expected a mathematical answer, found one that holds nothing: '$$'"),
        ("math", "1, " * 100, "is of more than 64 parts"),
    ],
)
def test_a_gold_answer_that_cannot_be_graded_is_refused(
    tmp_path: Path, grading: str, answer: str, message: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"question": "q", "answer": answer}) + "\n")
    with pytest.raises(UserError) as caught:
        task(path, path, grading=grading, answer_after=None).splits()
    assert f"{path}: row 1" in str(caught.value)
    assert message in str(caught.value)


def test_a_line_separator_inside_a_question_is_no_new_row(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows(path, 11)
    extra = json.dumps({"question": "one\u2028two", "answer": "#### 2"}, ensure_ascii=False)
    path.write_text(path.read_text() + extra + "\n")
    made = task(path, path).splits()
    assert any("\u2028" in p.prompt for split in made.values() for p in split.problems)
