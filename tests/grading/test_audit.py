"""`onelayer grade math`: rows in, one JSON object a row out, in order."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from onelayer.errors import UserError
from onelayer.grading.audit import math_verdicts


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_graded_in_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rows.jsonl",
        {"answer": "1/2", "completion": r"So \boxed{0.5}."},
        {"answer": "1/2", "completion": r"\boxed{9^{9^{9}}}", "more": 1},
        {"answer": 27.0, "completion": "The answer is 27."},
        {"answer": ["3", 4], "completion": "#### 4"},
        {"answer": "x", "completion": ""},
        {"answer": "x", "completion": "\ud800"},
    )
    with path.open("a") as file:
        file.write("\n")  # an empty line is no row
    result = subprocess.run(["onelayer", "grade", "math", str(path)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    verdicts = [json.loads(line) for line in result.stdout.splitlines()]
    assert verdicts[0] == {"correct": True, "extracted": "0.5", "reason": "same number"}
    assert [verdict["correct"] for verdict in verdicts] == [True, False, True, True, False, False]
    assert verdicts[4] == {"correct": False, "extracted": None, "reason": "no answer found"}
    assert all(list(verdict) == ["correct", "extracted", "reason"] for verdict in verdicts)


def test_a_row_out_of_time_is_wrong_and_the_rest_go_on(tmp_path: Path) -> None:
    # No expression is known that gets past the limits and takes so long; a bound of almost nothing does as well.
    hard = {"answer": r"\sqrt{2}", "completion": r"\boxed{\frac{\sin x + \cos^2 y}{\tan z} + \sqrt[3]{7}}"}
    path = write(tmp_path / "rows.jsonl", {"answer": "2", "completion": "2"}, hard, {"answer": "3", "completion": "3"})
    verdicts = list(math_verdicts(path, 0.005))
    assert [verdict["reason"] for verdict in verdicts] == ["same text", "timeout", "same text"]
    assert verdicts[1]["extracted"].startswith(r"\frac")
    assert [verdict["correct"] for verdict in math_verdicts(path, 5)] == [True, False, True]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "row 2: expected a JSON object, found: "),
        ("[1]", "row 2: expected a JSON object, found list"),
        ('{"completion": "1"}', "row 2: expected the field 'answer', found the fields ['completion']"),
        ('{"answer": "1"}', "row 2: expected the field 'completion', found the fields ['answer']"),
        (
            '{"answer": "", "completion": "1"}',
            "row 2: expected a text, a number or a list of these in 'answer', found ''",
        ),
        ('{"answer": true, "completion": "1"}', "in 'answer', found True"),
        ('{"answer": {"a": 1}, "completion": "1"}', "in 'answer', found {'a': 1}"),
        ('{"answer": [], "completion": "1"}', "row 2: expected at least one answer in 'answer', found []"),
        ('{"answer": ["1", null], "completion": "1"}', "in 'answer', found ['1', None]"),
        ('{"answer": "1", "completion": 1}', "row 2: expected a text in 'completion', found int"),
        ('{"answer": "1", "completion": null}', "row 2: expected a text in 'completion', found NoneType"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_graded(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"answer": "1", "completion": "1"}\n' + line + "\n")
    with pytest.raises(UserError) as caught:
        math_verdicts(path, 5)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_bad_file_ends_the_command_with_one_message(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", write(tmp_path / "bad.jsonl", {"answer": "1"})):
        result = subprocess.run(["onelayer", "grade", "math", str(path)], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {path}")
        assert result.stderr.count("\n") == 1
