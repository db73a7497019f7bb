from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onelayer import manifest as manifests
from onelayer.fingerprint import digest
from onelayer.manifest import Meter, damage, git_commit, read_manifest, write_manifest


def make(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"abc")
    write_manifest(folder, "study", "run", {"x": 1}, [folder / "a.bin"], 1.23456, 99, {"k": "v"})


def test_round_trip(tmp_path: Path) -> None:
    make(tmp_path / "run")
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    assert manifest.fingerprint == digest({"x": 1})
    assert manifest.files == {"a.bin": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    assert manifest.wall_seconds == 1.235
    assert {"torch", "transformers", "trl", "python", "onelayer"} <= manifest.versions.keys()
    assert damage(tmp_path / "run", manifest) == []


def test_damage_is_named(tmp_path: Path) -> None:
    make(tmp_path / "run")
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    (tmp_path / "run" / "a.bin").write_bytes(b"abd")
    assert damage(tmp_path / "run", manifest) == [
        f"{tmp_path}/run/a.bin: its sha256 is not the one its manifest records"
    ]
    (tmp_path / "run" / "a.bin").unlink()
    assert damage(tmp_path / "run", manifest) == [f"{tmp_path}/run/a.bin: missing"]


def test_an_unreadable_manifest_counts_as_none(tmp_path: Path) -> None:
    make(tmp_path / "run")
    for text in ("", "{", "{}", '{"study": 1}'):
        (tmp_path / "run" / "manifest.json").write_text(text)
        assert read_manifest(tmp_path / "run") is None


def test_digest_ignores_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_meter_forgets_an_earlier_peak() -> None:
    large = np.ones(50_000_000)  # 400 MB
    assert large[0] == 1
    before = Meter().peak_memory_bytes
    assert before > 400e6
    del large
    assert Meter().peak_memory_bytes < before - 300e6
    assert Meter().seconds >= 0


def test_git_commit_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert git_commit() is None


def test_on_a_gpu_the_peak_is_what_torch_allocated_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Cuda:
        def reset_peak_memory_stats(self) -> None:
            asked.append("reset")

        def max_memory_allocated(self) -> int:
            return 12_345

    monkeypatch.setattr(manifests, "_cuda", Cuda)
    assert Meter().peak_memory_bytes == 12_345
    assert asked == ["reset"]
    monkeypatch.setattr(manifests, "_cuda", lambda: None)
    assert Meter().peak_memory_bytes > 1_000_000
