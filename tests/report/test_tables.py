"""What tables say on the page and in files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from onelayer.report import exhibit_files
from onelayer.report.answer import spans
from onelayer.report.exhibit_files import write_tables
from onelayer.report.section import Exhibit, Section
from onelayer.report.table_html import table_html


def cells(frame: pd.DataFrame, decimals: int = 3) -> list[str]:
    """The written cells of a table of one column."""
    return [row.partition("<")[0] for row in table_html(frame, decimals).split("<td>")[1:]]


@pytest.mark.parametrize(
    ("name", "column", "written"),
    [
        ("score", [0.5, 0.0, None], ["0.500", "0.000", "undefined"]),
        ("score", [None, None], ["undefined", "undefined"]),
        ("p", [0.00004, 0.5], ["4e-05", "0.5"]),
        ("seconds", [123.456, 9.87], ["123.5", "9.9"]),
        ("megabytes", [12345.6, 7.0], ["12346", "7"]),
        ("layer", [0, 27], ["0", "27"]),
        ("learning_rate", [0.0015, 5e-06, 0.003], ["0.0015", "5e-06", "0.003"]),
        ("shift", [-0.25, 0.125], ["-0.250", "0.125"]),
    ],
)
def test_numbers_of_a_column_are_written_alike(name: str, column: list[float | None], written: list[str]) -> None:
    assert cells(pd.DataFrame({name: column})) == written


def test_words_are_escaped_and_stand_at_the_left() -> None:
    frame = pd.DataFrame({"run_name": ["<b>", None], "chosen": [True, False], "layers": pd.array([3, None], "Int64")})
    text = table_html(frame, 3)
    assert "<th scope=col class=t>run name</th><th scope=col class=t>chosen</th><th scope=col>layers</th>" in text
    assert "<tr><td class=t>&lt;b&gt;</td><td class=t>yes</td><td>3</td></tr>" in text
    assert "<tr><td class=t></td><td class=t>no</td><td>undefined</td></tr>" in text


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([4], "4"),
        ([4, 5], "4 and 5"),
        ([4, 5, 6], "4–6"),
        ([0, 2, 3, 5, 6, 7], "0, 2, 3 and 5–7"),
        ([1, 3, 5], "1, 3 and 5"),
    ],
)
def test_layers_in_few_words(layers: list[int], words: str) -> None:
    assert spans(layers) == words


@pytest.mark.usefixtures("project")
def test_every_exhibit_has_a_file_of_all_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhibit_files, "ALWAYS", {})

    def votes(*rows: int) -> Section:
        table = pd.DataFrame({"m": list(rows)}, columns=["m"], dtype="int64")
        return Section("votes", "Votes", exhibits=(Exhibit("votes", "Votes", "How.", table), Exhibit("art", "Art", "")))

    published = Section("published", "Published", exhibits=(Exhibit("published", "", "", pd.DataFrame({"c": [0.5]})),))
    pairs = pd.DataFrame(columns=["first", "second"])
    write_tables([], {"one": [votes(1, 2)], "none": [votes()], "two": [votes(3)]}, [published], pairs)
    folder = Path("reports/tables")
    assert (folder / "votes.csv").read_text() == "study,m\none,1\none,2\ntwo,3\n"
    assert (folder / "published.csv").read_text() == "c\n0.5\n"
    assert (folder / "correlations.csv").read_text() == "first,second\n"
    assert sorted(path.name for path in folder.iterdir()) == ["correlations.csv", "published.csv", "votes.csv"]
    # What the next report has no more is not left to be read as its own; what is not the report's stays.
    (folder / "mine.csv").write_text("a,b\n1,2\n")
    write_tables([], {"one": []}, [], pairs)
    assert (folder / "votes.csv").read_text() == "study,m\n"
    assert (folder / "mine.csv").read_text() == "a,b\n1,2\n"
