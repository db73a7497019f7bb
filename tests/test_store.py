from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from onelayer import store
from onelayer.errors import UserError


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    store.write_json(path, {"x": 1})

    def fail() -> None:
        with store.replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert json.loads(path.read_text()) == {"x": 1}
    assert os.listdir(path.parent) == ["b.json"]


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the disk is full") as caught, store.replacing(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path / "x") in str(caught.value)
    with pytest.raises(UserError, match="cannot be written"), store.disk_errors(tmp_path):
        raise OSError(errno.EROFS, "Read-only file system")
    for text in (
        "I/O error: No space left on device (os error 28)",
        "[enforce fail] PytorchStreamWriter failed writing file",
    ):
        with pytest.raises(UserError, match="the disk is full"), store.disk_errors(tmp_path):
            raise RuntimeError(text)
    with pytest.raises(ConnectionError), store.disk_errors(tmp_path):
        raise ConnectionError  # everything else passes through


def test_equal_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    store.write_json(path, [1.5])
    before = path.stat().st_mtime_ns, path.stat().st_ino
    store.write_json(path, [1.5])
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    store.write_json(path, [2.5])
    assert path.stat().st_ino != before[1]


def test_figures_must_be_finite(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not os.listdir(tmp_path)


def test_unreadable_json_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not found; `onelayer analyze x` makes it"):
        store.read_json(tmp_path / "none.json", "onelayer analyze x")
    (tmp_path / "bad.json").write_text('{"a": ')
    with pytest.raises(UserError, match="expected JSON, found"):
        store.read_json(tmp_path / "bad.json", "onelayer analyze x")
