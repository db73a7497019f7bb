"""Versions that travel, on real DVC, Snakemake, git and an S3 server: what is recorded, sent, fetched, and refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from graph_project import _untraced, finished, here, run, settings, snakemake, trained

from conftest import ROOT, write_study
from onelayer.record import Recorded, read_record
from small_disk import enlarge, small_disk

__all__ = ["_untraced", "finished", "here"]  # fixtures, by their names

pytestmark = pytest.mark.graph

CHECKPOINT = Path("data/tiny/runs/layer-01-s0/adapted.safetensors")


@contextmanager
def s3_server(port: int = 0, survives: int | None = None) -> Iterator[int]:
    """A server with an empty bucket; gives its port."""
    script = str(ROOT / "tests/end_to_end/s3_server.py")
    command = [sys.executable, script, str(port), *([] if survives is None else [str(survives)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            at = int(process.stdout.readline())
            client(at).create_bucket(Bucket="studies")
            yield at
        finally:
            process.kill()


def client(port: int) -> Any:
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")


def objects(port: int) -> list[str]:
    return [one["Key"] for one in client(port).list_objects_v2(Bucket="studies").get("Contents", [])]


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_MAX_ATTEMPTS", "1"),  # a dead server is asked again and again otherwise, for a minute
    ):
        monkeypatch.setenv(name, value)


def use_remote(url: str, **options: str) -> None:
    run("dvc", "remote", "add", "--default", "--force", "store", url)
    for name, value in options.items():
        run("dvc", "remote", "modify", "store", name, value)
    run("git", "commit", "-qam", "a remote")


def use_s3(port: int) -> None:
    use_remote("s3://studies/onelayer", endpointurl=f"http://127.0.0.1:{port}")


def clone(monkeypatch: pytest.MonkeyPatch, name: str = "clone") -> None:
    """Clone the project beside it, as the current folder."""
    run("git", "clone", "-q", ".", f"../{name}")
    monkeypatch.chdir(f"../{name}")


def recorded(path: Path) -> Recorded:
    return next(file for output in read_record() for file in output.files if file.path == path)


def corrupt(path: Path) -> None:
    """Change a byte of a file and leave it as read-only as it was, which is what DVC takes for sound."""
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(content)
    path.chmod(mode)


def results() -> dict[str, bytes]:
    """What is made of records: analyses, pages, tables, figures."""
    files = [*Path("reports").rglob("*"), *Path("data/tiny").glob("*")]
    return {str(path): path.read_bytes() for path in sorted(files) if path.is_file()}


def test_what_snakemake_made_is_recorded_sent_and_fetched_and_nothing_trains(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = settings()
    changed["analysis"]["resamples"] = 300
    write_study("tiny", changed)
    assert "tiny: the graph is not done (analyze, study_page would run)" in run("onelayer", "commit", expect=2)
    assert trained(snakemake()) == set()
    assert "data/tiny: recorded, " in run("onelayer", "commit")
    assert "Data and pipelines are up to date" in run("dvc", "repro")
    run("git", "commit", "-qam", "more draws")
    before = results()
    with s3_server() as port:
        use_s3(port)
        assert "files pushed" in run("onelayer", "push")
        assert "Everything is up to date" in run("onelayer", "push")
        clone(monkeypatch)
        assert "recorded files are in place" in run("onelayer", "pull")
        assert results() == before
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert run("git", "status", "--porcelain") == ""
        # DVC's own commands do the same where nothing is missing.
        clone(monkeypatch, "another")
        run("dvc", "pull")
        assert results() == before
        assert "Data and pipelines are up to date" in run("dvc", "repro")
    # Records are the only truth: without a checkpoint, everything is the same again.
    for path in Path("data").rglob("*.safetensors"):
        path.unlink()
    for name in before:
        if name.startswith("reports/") or name.endswith(("analysis.json", "report.html")):
            Path(name).unlink()
    run("onelayer", "analyze", "tiny")
    run("onelayer", "report", "tiny", "--alone")
    run("onelayer", "compare")
    run("onelayer", "report")
    assert results() == before


def test_a_checkpoint_that_the_remote_lost_is_trained_again_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as port:
        use_s3(port)
        run("onelayer", "push")
        md5 = recorded(CHECKPOINT).md5
        (key,) = [key for key in objects(port) if key.endswith(f"{md5[:2]}/{md5[2:]}")]
        client(port).delete_object(Bucket="studies", Key=key)
        clone(monkeypatch)
        output = run("onelayer", "pull", expect=2)
    assert f"error: {CHECKPOINT} could not be had (The specified key does not exist." in output
    assert "`dvc repro` makes again what it belongs to: tiny/layer-01-s0" in output
    plan = run("onelayer", "plan")
    assert "tiny: would train 1 runs: layer-01-s0" in plan
    output = run("dvc", "repro")
    assert f"tiny/layer-01-s0: {CHECKPOINT}: missing; the run will be made again" in output
    assert trained(output) == {"layer-01-s0"}
    assert CHECKPOINT.read_bytes() == (here / CHECKPOINT).read_bytes()


def test_the_server_dies_in_the_middle_of_a_push(here: Path) -> None:
    with s3_server(survives=5) as port:
        use_s3(port)
        output = run("onelayer", "push", expect=2)
        assert "error: not all was sent: Could not connect to the endpoint URL" in output
        assert "what was sent stays, and `onelayer push` sends the rest" in output
        assert len(output.splitlines()) < 5, output
        assert "Traceback" not in output
    with s3_server(port):
        assert "files pushed" in run("onelayer", "push")
        wanted = {file.md5 for output in read_record() for file in output.files}
        assert {"".join(key.split("/")[-2:]) for key in objects(port)} == wanted


def test_the_disk_is_full_in_the_middle_of_a_commit(here: Path) -> None:
    shutil.rmtree(".dvc/cache")
    before = Path("dvc.lock").read_bytes()
    with small_disk(Path(".dvc/cache"), 200):
        output = run("onelayer", "commit", expect=2)
        assert "error: nothing was recorded, for DVC's cache did not take all files: [Errno 28] No space left" in output
        assert len(output.splitlines()) < 5, output
        assert Path("dvc.lock").read_bytes() == before
        enlarge(Path(".dvc/cache"), 20_000)
        assert "data/tiny: recorded, " in run("onelayer", "commit")
        assert all(file.sound for output in read_record() for file in output.files)


def test_a_corrupt_file_of_the_cache_is_neither_sent_nor_restored(here: Path, tmp_path: Path) -> None:
    file = recorded(CHECKPOINT)
    whole = CHECKPOINT.read_bytes()
    use_remote(str(tmp_path / "folder"))
    corrupt(file.cached)
    assert f"{CHECKPOINT}: DVC's cache held it damaged, and holds it again" in run("onelayer", "push")
    assert (tmp_path / "folder/files/md5" / file.md5[:2] / file.md5[2:]).read_bytes() == whole
    # DVC itself restores it, and finds nothing wrong.
    CHECKPOINT.unlink()
    corrupt(file.cached)
    run("dvc", "checkout")
    assert CHECKPOINT.read_bytes() != whole
    assert "Data and pipelines are up to date" in run("dvc", "repro")
    assert f"{CHECKPOINT}: its sha256 is not the one its manifest records" in run("onelayer", "verify")
    output = run("onelayer", "pull")
    assert f"{CHECKPOINT}: DVC's cache held it damaged; fetched again" in output
    assert f"{CHECKPOINT}: was damaged, and is as it was recorded again" in output
    assert CHECKPOINT.read_bytes() == file.cached.read_bytes() == whole
    assert "every file is as its manifest says" in run("onelayer", "verify")
    # What was changed since, and is recorded nowhere, is not given up for it.
    analysis = Path("data/tiny/analysis.json")
    analysis.write_text("{}")
    assert f"unsaved files without confirmation. Use `--force` to force. {here / analysis}" in run(
        "onelayer", "pull", expect=2
    )
    assert analysis.read_text() == "{}"
    # What nobody has any more is not sent in part.
    for path in (file.cached, CHECKPOINT, tmp_path / "folder/files/md5" / file.md5[:2] / file.md5[2:]):
        path.unlink()
    output = run("onelayer", "push", expect=2)
    assert f"error: nothing was sent, for DVC's cache lacks {CHECKPOINT}, and neither the project nor" in output


def test_what_is_not_as_its_settings_say_is_not_recorded(here: Path) -> None:
    whole = CHECKPOINT.read_bytes()
    lock = Path("dvc.lock").read_bytes()

    def refused(reason: str) -> None:
        output = run("onelayer", "commit", expect=2)
        assert f"tiny: layer-01-s0: {reason}" in output
        assert "what is named here was not recorded" in output
        assert Path("dvc.lock").read_bytes() == lock

    CHECKPOINT.unlink()
    CHECKPOINT.write_bytes(whole[:-3] + b"abc")
    refused(f"not trained as its settings say (damaged: {CHECKPOINT}: its sha256 is not")
    CHECKPOINT.write_bytes(whole)
    changed = settings()
    changed["training"]["steps"] = 11
    write_study("tiny", changed)
    refused("not trained as its settings say (training.steps 10 → 11)")
    # Whoever calls DVC itself is stopped by git's hook.
    shutil.copy(ROOT / "workflow/hooks/pre-commit", ".git/hooks/pre-commit")
    run("dvc", "commit", "-q", "-f")
    run("git", "add", "-A")
    output = run("git", "commit", "-qm", "by hand", expect=1)
    assert "tiny: layer-01-s0: not trained as its settings say (training.steps 10 → 11)" in output
    run("git", "reset", "-q", "--hard")
    shutil.rmtree(CHECKPOINT.parent)
    refused("not trained as its settings say (new)")
    # Records that DVC does not have are no record either.
    run("dvc", "checkout", "-q", "--force")
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seed: 0", "seed: 0 # as before"))
    Path("data/tiny/jobs/layer-01-s0.trained.json").unlink()
    Path("dvc.lock").write_bytes(lock.replace(b"seed: 0", b"seed: 1"))
    run("git", "add", "-A")
    output = run("git", "commit", "-qm", "a record of something else", expect=1)
    assert "data/tiny/jobs/layer-01-s0.trained.json: missing" in output
    assert "dvc.lock does not record what data/tiny holds" in output
