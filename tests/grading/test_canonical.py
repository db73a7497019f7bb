"""One way to write an answer: what the grader calls equal is one text, what it tells apart stays apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onelayer.grading.canonical import canonical
from onelayer.grading.math import grade_math

EQUAL = [
    [r"\frac12", "0.5", "$1/2$", r"\frac{2}{4}", "x = 1/2"],
    ["1,234", "1234", "1234.0", r"1{,}234"],
    ["(1, 2)", "(1,2)", r"\left(1,\,2\right)"],
    ["1, 2", "2, 1", r"\{2, 1\}", "1 and 2"],
    [r"\pm 2", "-2, 2"],
    [r"x \le 3", r"(-\infty, 3]"],
    [r"\text{Evelyn}", "evelyn", "Evelyn"],
    ["x + 1", "x+1"],
    [r"5\text{ cm}", "5 cm"],
    ["50\\%", "50 %"],
]


@pytest.mark.parametrize("texts", EQUAL, ids=lambda texts: texts[0])
def test_the_same_answer_is_one_text(texts: list[str]) -> None:
    assert len({canonical(text) for text in texts}) == 1


def test_different_answers_are_different_texts() -> None:
    assert len({canonical(texts[0]) for texts in EQUAL}) == len(EQUAL)
    for one, other in [("(1, 2)", "(2, 1)"), ("[1, 2)", "(1, 2)"), ("12", "1, 2"), ("0.333", "1/3"), ("5", "5 cm")]:
        assert canonical(one) != canonical(other)


@pytest.mark.parametrize("texts", EQUAL, ids=lambda texts: texts[0])
def test_the_grader_takes_equal_answers_for_equal(texts: list[str]) -> None:
    for text in texts[1:]:
        assert grade_math(texts[0], rf"\boxed{{{text}}}").correct


@given(st.text(alphabet=r"0123456789xy+-/\frac{}()[],.=<>% $", max_size=40))
def test_any_text_has_one_and_rewriting_changes_nothing_for_spaces_around(text: str) -> None:
    assert canonical(text) == canonical(f" {text} ")
