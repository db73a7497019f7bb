from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from onelayer.grading.numbers import final_number, same_number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("18", "18"),
        ("He has 3 apples and 4 pears, so 7.", "7"),
        ("work 5 #### 1,234", "1,234"),
        ("#### 12 and then some 99", "12"),
        (r"so \boxed{42} of 100", "42"),
        ("The answer is -3.5 not 7", "-3.5"),
        ("1/2", "1/2"),
        ("$2,000.50", "2,000.50"),
        ("1,23", "23"),
        ("none", None),
        ("", None),
        ("####", None),
        ("#### none but 5", "5"),
        ("-.5", "-.5"),
    ],
)
def test_final_number(text: str, found: str | None) -> None:
    assert final_number(text) == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("18", "18.0", True),
        ("1,000", "1000", True),
        ("1/2", "0.5", True),
        ("2/4", "1/2", True),
        ("1/0", "1/0", False),
        ("18", "19", False),
        ("-3", "3", False),
        ("9" * 60, "9" * 60, False),  # a loop, not an answer
        ("a", "a", False),
    ],
)
def test_same_number(one: str, other: str, same: bool) -> None:
    assert same_number(one, other) is same


@given(st.text(max_size=300))
def test_never_raises(text: str) -> None:
    found = final_number(text)
    assert found is None or found in text
    same_number(text, text)


@given(st.integers(-(10**12), 10**12))
def test_thousands_separators(number: int) -> None:
    assert same_number(f"{number:,}", str(number))


def test_gsm8k_answers_are_found_in_their_own_solutions() -> None:
    path = ROOT.parent / "shared" / "data" / "gsm8k_test.jsonl"
    if not path.is_file():
        pytest.skip("the public GSM8K test file does not lie beside the project")
    answers = [json.loads(line)["answer"] for line in path.read_text().splitlines()]
    assert len(answers) == 1319
    for answer in answers:
        found = final_number(answer)
        assert found is not None
        assert same_number(found, answer.rpartition("####")[2].strip())
