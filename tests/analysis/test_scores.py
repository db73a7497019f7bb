from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from analysis.test_contribution import PAPER


def contribution(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["onelayer", "contribution", "/dev/stdin", *options],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_papers_worked_example() -> None:
    result = contribution("layer,score\n10,51.8\n", "--base", "44.1", "--full", "50.8")
    assert result.returncode == 0
    assert "1.149" in result.stdout


def test_the_papers_28_layers() -> None:
    rows = "".join(f"{layer},{44.1 + c * 6.7}\n" for layer, c in enumerate(PAPER))
    result = contribution("layer,score\n" + rows, "--base", "44.1", "--full", "50.8", "--json")
    found = json.loads(result.stdout)
    assert [row["contribution"] for row in found["layers"]] == pytest.approx(PAPER)
    assert found["sets"]["10"]["best"][:9] == [10, 12, 9, 2, 13, 15, 11, 14, 0]
    assert found["sets"]["10"]["best"][9] in (1, 6)
    assert found["sets"]["5"]["middle"] == [11, 12, 13, 14, 15]
    assert found["sets"]["5"]["worst"] == [24, 23, 20, 25, 26]
    assert found["layers"][27]["depth"] == 1.0
    table = contribution("layer,score\n" + rows, "--base", "44.1", "--full", "50.8")
    assert "best 5: 10, 12, 9, 2, 13" in table.stdout
    assert "middle 5: 11, 12, 13, 14, 15" in table.stdout


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("layer,score\n1,2\n", ["--base", "5", "--full", "5"], "contributions are undefined"),
        ("layer,score\n1,2\n", ["--base", "nan", "--full", "5"], "contributions are undefined"),
        (
            "layer,points\n1,2\n",
            ["--base", "1", "--full", "5"],
            "expected the columns layer,score; found layer,points",
        ),
        ("layer,score\n1,two\n", ["--base", "1", "--full", "5"], "row 2: expected a layer number and a score"),
        ("layer,score\n1,2\n1,3\n", ["--base", "1", "--full", "5"], "row 3: layer 1 stands twice"),
        ("layer,score\n-1,2\n", ["--base", "1", "--full", "5"], "row 2: expected a layer of 0 or more"),
        ("layer,score\n1,inf\n", ["--base", "1", "--full", "5"], "and a finite score"),
        ("layer,score\n", ["--base", "1", "--full", "5"], "expected at least one row"),
        ("", ["--base", "1", "--full", "5"], "expected a CSV"),
        ("layer,score\n9,2\n", ["--base", "1", "--full", "5", "--layers", "8"], "layer 9 lies beyond --layers 8"),
    ],
)
def test_bad_input(text: str, options: list[str], message: str) -> None:
    result = contribution(text, *options)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_missing_file(tmp_path: Path) -> None:
    result = subprocess.run(
        ["onelayer", "contribution", str(tmp_path / "none.csv"), "--base", "1", "--full", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "none.csv: expected a CSV" in result.stderr
