from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onelayer.grading.extraction import final_answer, option_letter


@pytest.mark.parametrize(
    ("completion", "text", "way"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}", "box"),
        (r"\boxed{a{b}\}c}", r"a{b}\}c", "box"),
        (r"\boxed{1} then \boxed{2}", "2", "box"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2", "box"),
        (r"\boxed{1}\boxed{2}", "2", "box"),
        (r"\boxed{2} and cut off \boxed{3", "2", "box"),
        (r"\boxed{3", None, "unclosed box"),
        (r"The answer is 4, so \boxed{", None, "unclosed box"),
        (r"\boxed{}", None, "none"),
        (r"\boxed{\boxed{5}}", r"\boxed{5}", "box"),
        (r"\boxed 5 and the answer is 6", "5", "box"),
        (r"#### 7 and \boxed{8}", "8", "box"),
        ("2+2=<<2+2=4>>4\n#### 4", "4", "####"),
        ("#### 3\n#### 4\nmore", "4", "####"),
        ("##### A heading\n5", "5", "last line"),
        ("The answer is $x=3$. So there.", "$x=3$", "statement"),
        ("The answer is 3.5.", "3.5", "statement"),
        ("The answer is 3. The answer is 4.", "4", "statement"),
        ("**Answer:** \\(\\frac{1}{2}\\)", r"\(\frac{1}{2}\)", "statement"),
        ("Answer:\n\n12", "12", "statement"),
        ("The answer is \\[\n\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}\n\\]", None, "statement"),
        ("The answer is $\\frac{1", None, "none"),
        ("The answer is", None, "none"),
        ("The answer is 3 or 4 but I cannot say which", None, "none"),
        ("He has 9 apples left in the basket.", "9", "last line"),
        ("He ate 2 of the 9 apples that were left.", None, "none"),
        ("In all that makes 3 + 4 = 7 apples of the 9.", "7", "last line"),
        ("It costs $4 for one and $8 for two of them, so $12.", None, "none"),
        ("We add 3 and 4 and so we get 3 + 4 =", None, "none"),
        ("Hence \\[ x = 5 \\]", r"\[ x = 5 \]", "last line"),
        ("<think>no</think> 6", "6", "last line"),
        ("<think>The answer is 6", None, "unclosed thought"),
        ("", None, "none"),
    ],
)
def test_final_answer(completion: str, text: str | None, way: str) -> None:
    found = final_answer(completion)
    if text is None and way == "statement":  # a display over several lines is taken whole
        assert found.text is not None
        assert found.text.endswith("\\]")
        return
    assert (found.text, found.way) == (text, way)


@pytest.mark.parametrize(
    ("completion", "letter"),
    [
        ("C", "C"),
        ("(C)", "C"),
        ("C.", "C"),
        ("**C**", "C"),
        ("**(C)**", "C"),
        ("C) because it is round", "C"),
        ("[C]", "C"),
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{(C)}}", "C"),
        (r"$\boxed{\textbf{(C)}\ 12}$", "C"),
        ("The answer is C.", "C"),
        ("The answer is (C).", "C"),
        ("The correct answer is **C**", "C"),
        ("Answer: C", "C"),
        ("answer: (c)", "C"),
        ("(A) is wrong, and so is (B).\nThe answer is C", "C"),
        ("The answer is option C", "C"),
        ("The answer is C because A and B are wrong.", None),
        ("The answer is C since it is the longest.", "C"),
        ("#### D", "D"),
        ("The answer is C or D", None),
        ("(C) or (D)", None),
        ("A, B, C, D", None),
        ("ABCD", None),
        (r"\boxed{A}, \boxed{B}", None),
        ("A good question has many sides", None),
        ("I think so", None),
        ("C4", None),
        ("Z", None),
        ("c", None),
        ("12", None),
        ("", None),
    ],
)
def test_option_letter(completion: str, letter: str | None) -> None:
    assert option_letter(completion) == letter


def test_only_the_question_s_letters_count() -> None:
    assert option_letter("The answer is E", "ABCD") is None
    assert option_letter("The answer is E", "ABCDE") == "E"


@pytest.mark.parametrize(
    "piece", ["\\boxed{", "\\boxed{1}", "{", "answer is ", "answer to ", "$", "1 or ", "<<", "a. ", "\\("]
)
def test_a_loop_of_a_model_takes_no_time(piece: str) -> None:
    start = time.process_time()
    final_answer(piece * 16000)
    option_letter(piece * 16000)
    assert time.process_time() - start < 5


@given(st.text(max_size=200), st.sampled_from([r"\boxed{%s}", "The answer is %s.", "#### %s", "%s"]))
def test_never_raises_and_holds_nothing_unprintable(text: str, frame: str) -> None:
    found = final_answer(frame.replace("%s", text) + "\ud800\x00")
    assert (found.text is None) == (found.way in ("none", "unclosed box", "unclosed thought"))
    (found.text or "").encode()
    option_letter(frame.replace("%s", text))
