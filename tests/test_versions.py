"""What is put in place where files of a recorded folder are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from onelayer.record import Output, Recorded
from onelayer.versions import _owner, _targets

STUDY = Path("data/s")
FILES = (
    "analysis.json",
    "runs/base/a",
    "runs/base/b",
    "runs/full-s0/a",
    "runs/full-s0/suite/c",
    "runs/full-s0/suite/d",
)


def recorded(path: Path, md5: str = "0" * 32) -> Recorded:
    return Recorded(path, md5, Path("cache") / md5)


FOLDER = Output("study@s", STUDY, (recorded(STUDY, "0" * 32 + ".dir"), *(recorded(STUDY / name) for name in FILES)))
PAGE = Output("report", Path("reports/report.html"), (recorded(Path("reports/report.html")),))


@pytest.mark.parametrize(
    ("lacking", "targets"),
    [
        ((), ["."]),
        (("runs/base/a",), ["analysis.json", "runs/base/b", "runs/full-s0"]),
        (("runs/full-s0/suite/d",), ["analysis.json", "runs/base", "runs/full-s0/a", "runs/full-s0/suite/c"]),
        (("analysis.json", "runs/base/a", "runs/base/b"), ["runs/full-s0"]),
        (("",), []),
        (FILES, []),
    ],
    ids=["nothing", "a file", "a file deep down", "a whole run", "the list itself", "everything"],
)
def test_the_largest_parts_that_lack_nothing(lacking: tuple[str, ...], targets: list[str]) -> None:
    wanted = [str(STUDY / name) for name in targets]
    if lacking == ("",):  # then it is not known what belongs to it
        only_list = Output("study@s", STUDY, FOLDER.files[:1])
        assert _targets(only_list, {STUDY}) == wanted
    else:
        assert _targets(FOLDER, {STUDY / name for name in lacking}) == wanted


def test_a_file_by_itself() -> None:
    assert _targets(PAGE, set()) == ["reports/report.html"]
    assert _targets(PAGE, {Path("reports/report.html")}) == []


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("data/s/runs/full-s0/suite/c", "s/full-s0"),
        ("data/s/runs/full-s0/a", "s/full-s0"),
        ("data/s/analysis.json", "s"),
        ("data/s", "s"),
        ("reports/report.html", "reports/report.html"),
    ],
)
def test_what_a_file_belongs_to(path: str, owner: str) -> None:
    assert _owner(Path(path)) == owner
