"""The whole graph on the real engines, with a tiny study: what runs, what does not, and what a kill leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, write_params, write_study

pytestmark = pytest.mark.graph

RUNS = {"base", "full-s0", "layer-00-s0", "layer-01-s0"}


def settings() -> dict[str, Any]:
    """The tiny study, with a base that gets a third of the answers right: its scores can move."""
    changed = deep_copy(TINY)
    changed["model"] |= {"width": 32, "intermediate": 64}
    changed["model"]["pretraining"] |= {"steps": 250, "batch_size": 64}
    changed["task"]["sizes"] = {"train": 200, "select": 30, "report": 60}
    changed["training"] |= {"steps": 10, "prompts_per_batch": 8, "group_size": 8, "learning_rates": [0.003]}
    return changed


def run(*command: str, expect: int = 0, **more: Any) -> str:
    """Run a command to its end and return all it printed."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600, **more
    )
    assert result.returncode == expect, result.stdout[-5000:]
    return result.stdout


def snakemake(*arguments: str, expect: int = 0) -> str:
    return run("snakemake", "--cores", "2", *arguments, expect=expect)


def trained(output: str) -> set[str]:
    """The runs that a command's output says were trained, not found done."""
    return set(re.findall(r"tiny/(\S+): to be trained", output))


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("reports/metrics.json").read_text())
    return found


def everything() -> dict[str, bytes]:
    """What runs leave, less what says when and how long."""
    kept = ("records.parquet", "scores.json", "adapted.safetensors", "model.safetensors", "history.json")
    return {str(path): path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.name in kept}


@pytest.fixture(scope="module", autouse=True)
def _untraced() -> Iterator[None]:
    """Measure no coverage in these tests' many processes: tracing makes each start of torch and TRL much slower."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project under git and DVC whose study ran by `dvc repro`, committed."""
    from conftest import ROOT

    folder = tmp_path_factory.mktemp("finished") / "project"
    folder.mkdir()
    for name in ("Snakefile", "dvc.yaml", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    for name in ("workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "data/sources").mkdir(parents=True)
    (folder / "data/sources/README.md").write_text("own files\n")
    shutil.copy(ROOT / "data/.gitignore", folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(["tiny"], report={"title": "Tiny"})
        write_study("tiny", settings())
        run("git", "init", "-q")
        run("git", "config", "user.name", "tester")
        run("git", "config", "user.email", "tester@localhost")
        run("dvc", "init", "-q")
        run("dvc", "config", "core.analytics", "false")
        output = run("dvc", "repro")
        assert trained(output) == RUNS
        assert "report: reports/report.html" in output
        run("git", "add", "-A")
        run("git", "commit", "-qm", "first")
    return folder


@pytest.fixture
def here(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished project, as the current folder."""
    shutil.copytree(finished, tmp_path / "project", symlinks=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.usefixtures("here")
class TestNothingToDo:
    def test_repro_again(self) -> None:
        before = everything()
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert "Nothing to be done" in snakemake("-n")
        assert everything() == before
        assert run("git", "status", "--porcelain") == ""

    def test_touching_every_file_trains_nothing(self) -> None:
        for path in Path().rglob("*"):
            if path.is_file() and ".git" not in path.parts and ".dvc" not in path.parts:
                path.touch()
        assert trained(snakemake()) == set()
        assert "Data and pipelines are up to date" in run("dvc", "repro")

    def test_a_report_option_writes_the_report_alone(self) -> None:
        write_params(["tiny"], report={"title": "Another title", "decimals": 2})
        before = everything()
        output = run("dvc", "repro")
        assert trained(output) == set()
        assert "rule evaluate" not in output
        assert "<title>Another title</title>" in Path("reports/report.html").read_text()
        assert everything() == before

    def test_an_analysis_setting_trains_and_samples_nothing(self) -> None:
        changed = settings()
        changed["analysis"]["resamples"] = 300
        write_study("tiny", changed)
        before = everything()
        assert trained(run("dvc", "repro")) == set()
        assert everything() == before

    def test_a_comment_in_the_settings_trains_nothing(self) -> None:
        path = Path("studies/tiny.yaml")
        path.write_text("# a thought\n" + path.read_text())
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert "Nothing to be done" in snakemake("-n")

    def test_plan_imports_no_torch(self) -> None:
        code = (
            "import sys; from onelayer.cli import app\n"
            "try: app(['plan'])\nexcept SystemExit: pass\n"
            "sys.exit(bool({'torch', 'transformers', 'trl'} & set(sys.modules)))"
        )
        output = run("python", "-c", code)
        assert "tiny: would train nothing" in output
        assert "tiny: would sample nothing" in output


class TestChanges:
    """Exactly the runs that a change touches train, and the plan says so beforehand."""

    def changed(self, there: str, expected: set[str], commit: bool = False, engine: str = "dvc") -> None:
        plan = run("onelayer", "plan")
        planned = re.search(r"tiny: would train \d+ runs: (.*?)\ntiny:", plan, re.DOTALL)
        assert planned, plan
        assert set(planned[1].replace("\n", "").replace(" ", "").split(",")) == expected
        if engine == "dvc":
            assert trained(run("dvc", "repro")) == expected
            assert "Nothing to be done" in snakemake("-n")
        else:
            assert trained(snakemake()) == expected
            run("dvc", "commit", "-q", "-f")
            assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert there in run("onelayer", "status")
        if commit:
            run("git", "tag", "first")
            run("git", "commit", "-qam", "larger")
            run("git", "tag", "larger")
            run("git", "checkout", "-q", "first")
        # and back again
        run("git", "checkout", "-q", ".")
        run("dvc", "checkout", "-q")
        assert "would train nothing" in run("onelayer", "plan")
        assert "Data and pipelines are up to date" in run("dvc", "repro")
        assert trained(snakemake()) == set()

    def test_a_seed_by_snakemake_alone_then_dvc_commit(self, here: Path) -> None:
        more = settings()
        more["runs"]["seeds"] = [0, 1]
        write_study("tiny", more)
        before = everything()
        self.changed("layer-01-s1", {"full-s1", "layer-00-s1", "layer-01-s1"}, engine="snakemake")
        assert everything() == before

    def test_a_layer(self, here: Path) -> None:
        fewer = settings()
        fewer["runs"]["layers"] = [1]
        write_study("tiny", fewer)
        shutil.rmtree("data/tiny/runs/layer-00-s0")
        shutil.rmtree("data/tiny/jobs")
        assert trained(run("dvc", "repro")) == set()
        assert "A partial scan: 1 of 2 layers were trained." in Path("reports/report.html").read_text()
        assert "layer-00" not in metrics()["tiny"]["contribution"]
        run("git", "commit", "-qam", "one layer")
        write_study("tiny", settings())
        self.changed("layer-00-s0", {"layer-00-s0"})

    def test_the_size_of_the_training_set_and_a_search(self, here: Path) -> None:
        larger = settings()
        larger["task"]["sizes"]["train"] = 300
        larger["training"]["learning_rates"] = [0.003, 1e-6]
        write_study("tiny", larger)
        assert "waits for the learning-rate search" in run("onelayer", "plan")
        before = Path("data/tiny/runs/base/records.parquet").stat().st_mtime_ns
        search = {"search-0.003-s0", "search-1e-06-s0"}
        self.changed("full-s0", search | RUNS - {"base"}, commit=True)
        assert Path("data/tiny/runs/base/records.parquet").stat().st_mtime_ns == before
        shown = json.loads(run("dvc", "metrics", "diff", "first", "larger", "--json"))
        moved = shown.get("diff", shown)["reports/metrics.json"]
        assert "tiny.full.score" in moved
        assert not any(key.startswith("tiny.base") for key in moved)
        run("git", "checkout", "-q", "larger")
        run("dvc", "checkout", "-q")
        chosen = json.loads(Path("data/tiny/learning_rate.json").read_text())
        assert {row["run"] for row in chosen["search"]} == search


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def wait_for_save(run_name: str) -> None:
    for _ in range(1200):
        if list(Path(".work/tiny", run_name).glob("*/checkpoint-*/complete.json")):
            return
        time.sleep(0.05)
    raise AssertionError(f"{run_name} left no save in a minute")


def trainers() -> list[int]:
    """The processes that train in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"train" in words and (entry / "cwd").resolve() == Path.cwd():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def slow_settings() -> dict[str, Any]:
    slow = settings()
    slow["training"]["steps"] = 400
    slow["runs"]["layers"] = [1]
    return slow


@pytest.fixture(scope="module")
def undisturbed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What the slow study leaves where nothing disturbs it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(finished, folder, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_study("tiny", slow_settings())
        snakemake()
        return everything(), metrics()


@pytest.mark.parametrize(("engine", "victim"), [("dvc", "everything"), ("snakemake", "trainer")])
def test_kill_in_the_middle_and_start_again(
    here: Path, undisturbed: tuple[dict[str, bytes], dict[str, Any]], engine: str, victim: str
) -> None:
    """However hard it ends, the next start goes on, and every figure equals an undisturbed run's."""
    write_study("tiny", slow_settings())
    command = ("dvc", "repro") if engine == "dvc" else ("snakemake", "--cores", "2")
    process = start(*command)
    wait_for_save("full-s0")
    assert Path("data/tiny/runs/full-s0/manifest.json").read_text().count('"steps": 10')  # still the old one
    if victim == "everything":
        os.killpg(process.pid, signal.SIGKILL)
    for pid in trainers():
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode != 0
    output = run(*command)
    assert re.search(r"tiny/full-s0: goes on from step \d+, 400 steps", output)
    assert (everything(), metrics()) == undisturbed


def test_a_corrupt_checkpoint_is_found_and_trained_again(here: Path) -> None:
    path = Path("data/tiny/runs/layer-01-s0/adapted.safetensors")
    whole = path.read_bytes()
    path.unlink()  # DVC may have linked it to its cache
    path.write_bytes(whole[:-3] + b"abc")
    output = run("dvc", "repro")
    assert "layer-01-s0/adapted.safetensors: its sha256 is not the one its manifest records" in output
    assert trained(output) == {"layer-01-s0"}
    assert path.read_bytes() == whole


def test_two_drivers_at_once_train_nothing_twice(here: Path) -> None:
    shutil.rmtree("data/tiny/runs/layer-01-s0")
    first, second = start("snakemake", "--cores", "1"), start("snakemake", "--cores", "1")
    outputs = [process.communicate(timeout=600)[0] for process in (first, second)]
    started = [name for output in outputs for name in re.findall(r"tiny/(\S+): starts,", output)]
    assert started == ["layer-01-s0"], outputs
    snakemake()  # whatever the race left out
    assert "Nothing to be done" in snakemake("-n")


def test_bad_settings_stop_every_engine_before_anything_runs(here: Path) -> None:
    bad = settings()
    bad["runs"]["layers"] = [5]
    write_study("tiny", bad)
    before = {str(path): path.stat().st_mtime_ns for path in Path("data").rglob("*")}
    message = "studies/tiny.yaml: runs.layers[0]: found layer 5, expected 0 to 1 (the model has 2 layers)"
    for command, code in (
        (("onelayer", "plan"), 2),
        (("onelayer", "train", "tiny", "full-s0"), 2),
        (("snakemake", "--cores", "1"), 2),
    ):
        output = run(*command, expect=code)
        assert message in output
        assert "Traceback" not in output
    assert message in subprocess.run(["dvc", "repro"], capture_output=True, text=True, check=False).stderr
    assert {str(path): path.stat().st_mtime_ns for path in Path("data").rglob("*")} == before


def test_a_second_make_in_one_folder_is_refused(tmp_path: Path) -> None:
    from conftest import ROOT

    script = str(ROOT / "workflow/scripts/exclusive.py")
    lock = str(tmp_path / "locks" / "make.lock")
    first = start("python", script, lock, "sleep", "60")
    try:
        for _ in range(200):
            if Path(lock).exists() and Path(lock).read_text():
                break
            time.sleep(0.05)
        output = run("python", script, lock, "echo", "ran", expect=2)
        assert output == (
            f"error: {lock}: held by process {first.pid}, which is already at work in this folder; wait for it to"
            " end, or stop it\n"
        )
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    assert run("python", script, lock, "echo", "ran") == "ran\n"
    run("python", script, lock, "false", expect=1)
