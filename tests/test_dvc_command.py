"""DVC's errors gathered: one line a reason, however many files it names."""

from __future__ import annotations

import os

import pytest

from onelayer.dvc_command import few, gathered, last_lines

ONE, OTHER = "d1" + "b" * 30, "e2" + "9" * 30


def refused(md5: str) -> str:
    return (
        f"ERROR: failed to transfer '{md5}' - Could not connect to the endpoint URL:"
        f' "http://127.0.0.1:5055/studies/files/md5/{md5[:2]}/{md5[2:]}"'
    )


def test_thousands_of_files_that_failed_alike_are_one_line() -> None:
    many = [f"{number:032x}" for number in range(3000)]
    lines = [*map(refused, many), "ERROR: failed to push data to the cloud - 3000 files failed to upload"]
    assert gathered(lines, {many[0]: "data/s/runs/base/manifest.json"}) == [
        'Could not connect to the endpoint URL: "http://127.0.0.1:5055/studies/files/md5/…" (3000 files, the first'
        " data/s/runs/base/manifest.json)"
    ]


def test_other_reasons_stand_apart_and_a_lone_file_is_named() -> None:
    lines = [refused(ONE), f"ERROR: failed to transfer '{OTHER}' - The specified key does not exist."]
    assert gathered(lines, {OTHER: "data/s/analysis.json"}) == [
        f'Could not connect to the endpoint URL: "http://127.0.0.1:5055/studies/files/md5/…" ({ONE})',
        "The specified key does not exist. (data/s/analysis.json)",
    ]


def test_a_copy_that_failed_names_the_projects_file() -> None:
    source, target = os.path.abspath("data/s/analysis.json"), os.path.abspath(f".dvc/cache/files/md5/d1/.{ONE}.tmp")
    line = f"ERROR: failed to transfer '{ONE}' - [Errno 28] No space left on device: '{source}' -> '{target}'"
    assert gathered([line], {}) == ["[Errno 28] No space left on device (data/s/analysis.json)"]


def test_an_error_of_no_file_stands_as_it_is() -> None:
    lines = [
        "ERROR: unexpected error - Unable to locate credentials",
        "",
        "Having any troubles? Hit us up at https://dvc.org/support",
        "ERROR: Can't remove the following unsaved files:",
        "/home/me/one",
        "/home/me/two",
    ]
    assert gathered(lines, {}) == [
        "Unable to locate credentials",
        "Can't remove the following unsaved files: /home/me/one /home/me/two",
    ]
    assert gathered(["WARNING: slow", "fine"], {}) == []


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (6, 6), (7, 6), (100, 6)])
def test_of_many_lines_the_first_are_shown(count: int, shown: int) -> None:
    lines = [str(number) for number in range(count)]
    assert len(few(lines)) == shown
    assert (few(lines)[-1] == f"and {count - 5} more") == (count > 6)


def test_what_a_command_said_last() -> None:
    assert last_lines("one\n\ntwo\nthree\nfour, see https://dvc.org/support\nfour\n") == "two three four"
    assert last_lines("") == "it said nothing"
