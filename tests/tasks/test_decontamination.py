from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from onelayer.source_settings import Decontamination, QuestionSource
from onelayer.task_settings import QuestionsTask
from onelayer.tasks.contract import Copy, Split
from onelayer.tasks.decontamination import EvaluationQuestions, tokens
from onelayer.tasks.questions import Questions

DATA = ROOT.parent / "shared/data"
CLIPS = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did"
    " Natalia sell altogether in April and May?"
)
FRACTION = r"Simplify $\frac{1}{2} + \left(\frac{3}{4}\right)$, where $x - 1 \leq 2,000$ and $y = 3$."


def index(*questions: str, **settings: Any) -> EvaluationQuestions:
    made = EvaluationQuestions(Decontamination(**settings))
    for number, question in enumerate(questions, start=1):
        made.add("eval", f"eval:{number}", question)
    return made


@pytest.mark.parametrize(
    "copy",
    [
        CLIPS,
        CLIPS.upper(),
        CLIPS.replace(" ", "\n  \t"),
        CLIPS.replace(",", "").replace("?", " ."),
        CLIPS.replace("N", "Ｎ"),
        "Solve this problem, step by step, and put the answer in a box. " * 20 + CLIPS + " Think about it well." * 20,
        CLIPS[:-40],
    ],
)
def test_planted_copies_are_found(copy: str) -> None:
    found = index("Quite another question about nothing at all?", CLIPS).find(copy)
    assert found is not None
    assert (found.set, found.id) == ("eval", "eval:2")
    assert found.share == 1.0 or copy == CLIPS[:-40]


@pytest.mark.parametrize(
    "near",
    [
        # One template, other figures and names.
        "Weng sold clips to 36 of his cousins in June, and then he sold twice as many clips in July. How many clips did"
        " Weng sell altogether in June and July?",
        # A shared sentence in a problem of its own.
        "A shop has 48 boxes. How many clips did Natalia sell altogether in April and May if each box held 10 clips and"
        " every one of them was sold by the end of the summer?",
        # The same words in another order.
        " ".join(sorted(CLIPS.split())),
        CLIPS[: len(CLIPS) // 3],
        "",
    ],
)
def test_near_misses_are_not(near: str) -> None:
    assert index(CLIPS).find(near) is None


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (FRACTION, r"simplify \dfrac{1}{2}+(\tfrac{3}{4}) , where \( x-1 \leq 2000 \) and y=3"),
        (FRACTION, r"Simplify \frac12 + \frac34".replace("12", "{1}{2}").replace("34", "{3}{4}")
         + r" \text{ where } x − 1 \leq 2,000 and y = 3"),
    ],
)  # fmt: skip
def test_typography_and_latex_layout_do_not_matter(text: str, copy: str) -> None:
    assert tokens(text) == tokens(copy)
    found = index(text).find("Please answer: " + copy)
    assert found is not None
    assert found.share == 1.0


def test_signs_matter() -> None:
    assert index("What is 2 + 3 in decimal?").find("What is 2 - 3 in decimal?") is None
    assert index("x < 3, x > 1").find("x > 3, x < 1") is None


def test_short_questions() -> None:
    # Four tokens of eight: found inside a longer text; fewer: only an equal question is a copy.
    assert index("Solve 2x = 6").find("First, solve 2x = 6. Then add 1.") is not None
    assert index("2 + 3").find("1 + 2 + 3") is None
    assert index("2 + 3").find("2+3 = ?") is None
    assert index("2 + 3").find(" 2+3.") is not None
    assert index("???").find("???") is None
    assert len(index("???", "a b")) == 1


def test_scripts_without_spaces() -> None:
    question = "下列关于细胞膜的叙述，正确的是哪一项？"
    assert index(question).find("请回答：" + question) is not None
    assert index(question).find("下列关于细胞核的说法，错误的有几个？") is None


@given(st.lists(st.sampled_from("abcdefghijklmnop"), min_size=9, max_size=40), st.integers(1, 39))
def test_the_threshold_is_a_share_of_the_question(words: list[str], kept: int) -> None:
    """A prefix of k words holds k − 7 of the question's runs of eight, where the runs are all different."""
    words = [f"{word}{'xyz'[place % 3]}q" + "w" * place for place, word in enumerate(words)]
    kept = min(kept, len(words))
    share = max(0, kept - 7) / (len(words) - 7)
    for threshold in (0.01, 0.5, 1.0):
        found = index(" ".join(words), threshold=threshold).find(" ".join(words[:kept]))
        assert (found is not None) == (share >= threshold)
        assert found is None or found.share == pytest.approx(share)


@given(st.text(), st.text(), st.text(alphabet=" \n\t\u00a0", min_size=1))
def test_case_and_spacing_never_matter(left: str, right: str, space: str) -> None:
    assert tokens(left + " " + right) == tokens(left + space + right)
    assert tokens(left.casefold()) == tokens(left)


@given(st.text(), st.text(max_size=40), st.text(max_size=40))
def test_an_embedded_question_is_found_whatever_it_is(question: str, before: str, after: str) -> None:
    made = index(question)
    assert (made.find(question) is not None) == bool(tokens(question))
    if 2 * len(tokens(question)) >= 8:
        # A full stop, so that no sign or digit at the edge grows into a longer token.
        found = made.find(f"{before} . {question} . {after}")
        assert found is not None
        assert found.share == 1.0


def test_the_most_copied_question_is_named() -> None:
    words = [f"word{'abcdefghijklmnopqrstuvwxyz'[i]}" for i in range(26)]
    made = index(" ".join(words[:20]), " ".join(words[:12]), " ".join(words[:12]))
    found = made.find(" ".join(words[:14]))
    assert found is not None
    assert (found.id, found.share) == ("eval:2", 1.0)


# In a study.


def write(path: Path, questions: list[str]) -> str:
    path.write_text("".join(json.dumps({"question": text, "answer": "1"}) + "\n" for text in questions))
    return str(path)


def distinct(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join("".join(rng.choices("abcdefghij", k=6)) for _ in range(15)) + "?" for _ in range(count)]


def made(sources: dict[str, Any], sizes: dict[str, Any], against: tuple[QuestionSource, ...] = ()) -> dict[str, Split]:
    task = QuestionsTask.model_validate({"kind": "questions", "sources": sources, "sizes": sizes})
    return Questions(task, 0, against).splits()


def copies_of(split: Split) -> tuple[Copy, ...]:
    assert split.copies is not None
    return split.copies


def test_every_set_is_held_against_and_reported(tmp_path: Path) -> None:
    one, two, suite, clean = (distinct(10, seed) for seed in range(4))
    sources = {
        "train": write(tmp_path / "train.jsonl", [*clean, one[3].upper(), two[5] + " Why?", suite[0], two[6]]),
        "select": write(tmp_path / "one.jsonl", one),
        "report": [write(tmp_path / "two.jsonl", two), write(tmp_path / "more.jsonl", distinct(10, 9))],
    }
    further = QuestionSource.model_validate({"path": write(tmp_path / "suite.jsonl", suite)})
    train = made(sources, {"train": "all", "select": 2, "report": 1}, (further,))["train"]
    assert [(copy.problem.id, copy.set, copy.evaluation_id) for copy in copies_of(train)] == [
        ("train:11", "one", "one:4"), ("train:12", "two", "two:6"), ("train:13", "suite", "suite:1"),
        ("train:14", "two", "two:7"),
    ]  # fmt: skip
    assert {copy.overlap for copy in copies_of(train)} == {1.0}
    assert {key: count for key, count in train.dropped.items() if count} == {
        "copies of one": 1, "copies of two": 2, "copies of suite": 1,
    }  # fmt: skip
    assert sorted(int(problem.id.rpartition(":")[2]) for problem in train.problems) == list(range(1, 11))


def test_a_set_that_also_trains_gives_only_what_evaluation_drew(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", distinct(30, 1))
    splits = made(dict.fromkeys(("train", "select", "report"), path), {"train": "all", "select": 5, "report": 5})
    assert len(splits["train"].problems) == 20
    assert copies_of(splits["train"]) == ()
    nearly = [question + extra for question in distinct(15, 1) for extra in ("", " Really?")]
    path = write(tmp_path / "all.jsonl", nearly)
    splits = made(dict.fromkeys(("train", "select", "report"), path), {"train": "all", "select": 5, "report": 5})
    ids = {name: {int(p.id.rpartition(":")[2]) for p in split.problems} for name, split in splits.items()}
    dropped = {int(copy.problem.id.rpartition(":")[2]) for copy in copies_of(splits["train"])}
    for row in ids["select"] | ids["report"]:
        twin = row + 1 if row % 2 else row - 1
        assert twin in dropped | ids["select"] | ids["report"]


def test_a_training_set_does_not_depend_on_how_much_of_a_set_is_sampled(tmp_path: Path) -> None:
    evaluation = distinct(12, 2)
    sources = {
        "train": write(tmp_path / "train.jsonl", [*distinct(20, 3), *evaluation[:6]]),
        "select": write(tmp_path / "eval.jsonl", evaluation),
        "report": str(tmp_path / "eval.jsonl"),
    }
    small = made(sources, {"train": 15, "select": 2, "report": 2})["train"]
    large = made(sources, {"train": 15, "select": 5, "report": 7})["train"]
    assert small == large
    assert len(copies_of(small)) == 6


@pytest.mark.skipif(not DATA.is_dir(), reason="the public benchmark files are not beside the repository")
def test_public_questions_copy_themselves_and_hardly_each_other() -> None:
    """Every question of four benchmarks is found in a longer text; few of them look like a copy of another."""
    benchmarks = {"gsm8k_test": "question", "math500_test": "problem", "amc23_test": "question", "mbpp_test": "prompt"}
    questions = {
        name: [json.loads(line)[field] for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
        for name, field in benchmarks.items()
    }
    for name, asked in questions.items():
        made = index(*asked)
        long = [(number, text) for number, text in enumerate(asked[:300], start=1) if len(tokens(text)) >= 4]
        assert len(long) >= min(298, len(asked))
        for number, question in long:
            found = made.find(f"Answer this. {re.sub(' ', '  ', question.upper())} Explain.")
            assert found is not None, question
            assert found.share == 1.0
            assert found.id == f"eval:{number}" or tokens(asked[int(found.id[5:]) - 1]), name
        others = [text for other, texts in questions.items() if other != name for text in texts]
        assert sum(made.find(text) is not None for text in others) <= 3
