"""One run by several processes, on a CPU: real groups of two, held against one process; and how a group ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import distributed_cases
from conftest import TINY, deep_copy, new_project, write_study
from distributed_cases import CASES, PROCESSES, Case
from onelayer import distributed, phases
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import training_settings
from onelayer.grid import Run, find_runs
from onelayer.interruption import COME_BACK
from onelayer.manifest import read_manifest
from onelayer.rl import grpo
from onelayer.tasks.contract import Grade, Problem

HERE = Path(__file__).parent
ONE_STEP_A_ROLLOUT = [case for case in CASES if "prompts_per_minibatch" not in case.training]


def eventually(what: Callable[[], bool], seconds: float = 900.0) -> None:  # a busy machine's
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a group of two processes made of every case."""
    folder = tmp_path_factory.mktemp("group")
    distributed_cases.save_base(folder)
    command = [*distributed.launch_command(PROCESSES, 1, folder), str(HERE / "distributed_cases.py"), str(folder)]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def made(group: Path, case: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    return load_file(group / f"{case}.safetensors"), json.loads((group / f"{case}.json").read_text())


@pytest.mark.parametrize("case", ONE_STEP_A_ROLLOUT, ids=lambda case: case.name)
def test_a_group_does_what_one_process_does(group: Path, case: Case) -> None:
    expected, alone = distributed_cases.train(case, group, 1)
    tensors, found = made(group, case.name)
    assert found["answers"] == alone["answers"]
    assert found["asks"] == alone["asks"]
    assert found["moved"] is alone["moved"] is True
    exact = case.precision == "float32"
    for one, other in zip(found["history"], alone["history"], strict=True):
        assert one == pytest.approx(other, rel=1e-4 if exact else 5e-3, abs=1e-6)
    assert tensors.keys() == expected.keys()
    start = {k: v.detach().clone() for k, v in _untrained(case, group).items()}
    for name, tensor in tensors.items():
        if exact:
            assert torch.allclose(tensor, expected[name], rtol=0, atol=1e-6), name
        assert not torch.equal(tensor, start[name]), name


def _untrained(case: Case, folder: Path) -> dict[str, torch.Tensor]:
    with distributed_cases.trainer_of(case, folder, 1) as trainer:
        return dict(trainer.model.named_parameters())


def test_the_gradient_stops_below_the_trained_layer_in_a_group_too(group: Path) -> None:
    for case in ("ddp-layer", "fsdp-layer", "fsdp-bfloat16"):
        assert made(group, case)[1]["asks"] == [[False], [False], [False], [True]], case


def test_every_process_finds_out_a_frozen_tensor_that_changed(group: Path) -> None:
    # The first process changed its own: that is all of it where each holds the whole model.
    assert made(group, "ddp-layer")[1]["caught"] == [True, False]
    assert made(group, "fsdp-layer")[1]["caught"] == [True, True]


def test_both_strategies_agree_where_a_batch_makes_several_steps(group: Path) -> None:
    one, other = (made(group, f"{strategy}-minibatches") for strategy in ("ddp", "fsdp"))
    assert one[1]["answers"] == other[1]["answers"]
    for name, tensor in one[0].items():
        assert torch.allclose(tensor, other[0][name], rtol=0, atol=1e-6), name


def with_processes(settings: dict[str, Any], strategy: str, **training: Any) -> dict[str, Any]:
    changed = deep_copy(settings)
    changed["training"] |= training
    changed["resources"]["distributed"] = {"processes": PROCESSES, "strategy": strategy}
    return changed


@pytest.fixture(scope="module")
def with_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with-base")
    with new_project(folder):
        study = load_study("tiny")
        phases.prepare_phase(study)
        phases.base_phase(study)
    return folder


def onelayer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["onelayer", *arguments], capture_output=True, text=True, check=False)


def trained(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "data/tiny/runs/layer-01-s0/adapted.safetensors")


def test_a_killed_group_goes_on_to_the_same_result_by_either_strategy(
    with_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: tmp_path / name for name in ("one", "whole", "killed", "other")}
    for name, place in places.items():
        shutil.copytree(with_base, place)
        monkeypatch.chdir(place)
        settings = deep_copy(TINY) | {"training": TINY["training"] | {"steps": 20}}
        write_study("tiny", settings if name == "one" else with_processes(TINY, "fsdp", steps=20))
    monkeypatch.chdir(places["one"])
    study = load_study("tiny")
    phases.train_phase(study, find_runs(study, ["layer-01-s0"]), None)

    monkeypatch.chdir(places["killed"])
    at_work = subprocess.Popen(["onelayer", "train", "tiny", "layer-01-s0"], stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: any(Path(".work").glob("tiny/layer-01-s0/*/checkpoint-*/complete.json")))
        everyone = map(int, filter(str.isdigit, os.listdir("/proc")))
        members = [pid for pid in everyone if _is_member(pid, places["killed"])]
    finally:
        at_work.kill()
    at_work.wait()
    assert len(members) == PROCESSES
    eventually(lambda: not any(map(alive, members)))
    assert not Path("data/tiny/runs/layer-01-s0/manifest.json").exists()
    shutil.copytree(".work", places["other"] / ".work", dirs_exist_ok=True)

    # Told to stop, all of them save after their first rollout, and the command says to come back.
    told = subprocess.Popen(["onelayer", "train", "tiny", "layer-01-s0"], stdout=subprocess.PIPE, text=True)
    assert told.stdout is not None
    assert "to be trained" in told.stdout.readline()
    told.terminate()
    said, _ = told.communicate()
    assert told.returncode == COME_BACK, said
    assert said.count("goes on from step") == 1

    goes_on = onelayer("train", "tiny", "layer-01-s0")
    assert goes_on.returncode == 0, goes_on.stderr
    assert "goes on from step" in goes_on.stdout
    assert not Path(".work/tiny/layer-01-s0").exists()
    monkeypatch.chdir(places["whole"])
    assert onelayer("train", "tiny", "layer-01-s0").returncode == 0
    monkeypatch.chdir(places["other"])
    write_study("tiny", with_processes(TINY, "ddp", steps=20))
    by_other = onelayer("train", "tiny", "layer-01-s0")
    assert by_other.returncode == 0, by_other.stderr
    assert by_other.stdout.count("goes on from step") == 1  # the first process speaks for all

    whole = trained(places["whole"])
    assert all(torch.equal(tensor, whole[name]) for name, tensor in trained(places["killed"]).items())
    for place in ("one", "other"):
        for name, tensor in trained(places[place]).items():
            assert torch.allclose(tensor, whole[name], rtol=0, atol=1e-5), (place, name)
    manifests = {name: read_manifest(place / "data/tiny/runs/layer-01-s0") for name, place in places.items()}
    assert len({manifest.fingerprint for manifest in manifests.values() if manifest is not None}) == 1
    details = {name: manifest.details for name, manifest in manifests.items() if manifest is not None}
    assert details["whole"]["distributed"] == {"processes": 2, "strategy": "fsdp"}
    assert details["other"]["distributed"] == {"processes": 2, "strategy": "ddp"}
    assert "distributed" not in details["one"]
    assert details["whole"]["tokens"] == details["one"]["tokens"]


def _is_member(pid: int, folder: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return (
            "onelayer.distributed" in command
            and "launch" not in "".join(command)
            and (Path(f"/proc/{pid}/cwd").resolve() == folder)
        )
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def test_what_a_group_refuses_is_one_message(with_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(with_base, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    write_study("tiny", with_processes(TINY, "ddp"))
    Path("data/tiny/runs/base/model.safetensors").write_bytes(b"nothing")
    refused = onelayer("train", "tiny", "layer-01-s0")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr
    assert refused.stderr.count("sha256") == 1
    assert not Path("data/tiny/runs/layer-01-s0").exists()


GROUP, RUN = Study(name="tiny", **with_processes(TINY, "ddp")), Run("full-s0", "full", seed=0)

# A launcher that starts processes whose training is made up: they say where they are, then do as told.
_MADE_UP = """
import os, subprocess, sys
member = '''
import os, signal, sys, time, types
from pathlib import Path
made_up = types.ModuleType("onelayer.train")
def train_run(study, run):
    Path(sys.argv[2], os.environ["RANK"]).write_text(str(os.getpid()))
    while len(os.listdir(sys.argv[2])) < 2:
        time.sleep(0.01)
    from onelayer.errors import UserError
    if os.environ["RANK"] == "1":
        {does}
    time.sleep(600)
made_up.train_run = train_run
sys.modules["onelayer.train"] = made_up
from onelayer import distributed
distributed._check_devices = lambda distributed: None
distributed.main(sys.argv[1])
'''
members = [
    subprocess.Popen([sys.executable, "-c", member, sys.argv[-1], {folder!r}], env=os.environ | {{"RANK": str(rank)}})
    for rank in range(2)
]
for one in members:
    one.wait()
"""


@pytest.mark.parametrize(
    ("does", "error", "message"),
    [
        ("raise UserError('the second refuses')", UserError, "^the second refuses$"),
        (
            "raise ValueError('the second fails')",
            RuntimeError,
            "(?s)tiny/full-s0: .* failed:.*ValueError: the second fails",
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", RuntimeError, "tiny/full-s0: a process that trained it was killed"),
    ],
)
def test_one_that_fails_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "pids").mkdir()
    script = _MADE_UP.format(does=does, folder=str(tmp_path / "pids"))
    monkeypatch.setattr(distributed, "launch_command", lambda *_: [sys.executable, "-c", script])
    with pytest.raises(error, match=message):
        distributed.train_together(GROUP, RUN)
    pids = [int(path.read_text()) for path in (tmp_path / "pids").iterdir()]
    assert len(pids) == 2
    eventually(lambda: not any(map(alive, pids)))  # the kernel closes a process's files before it is gone


def test_a_launcher_that_ends_early_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (0, 3):
        ends = [sys.executable, "-c", f"raise SystemExit({code})"]
        monkeypatch.setattr(distributed, "launch_command", lambda *_, ends=ends: ends)
        with pytest.raises(RuntimeError, match=f"ended with code {code} before the run did"):
            distributed.train_together(GROUP, RUN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resources": {"distributed": {"processes": 1}}}, "distributed.processes: found 1; Input should be greater"),
        (
            {"resources": {"distributed": {"processes": 2, "strategy": "deepspeed"}}},
            "distributed.strategy: found 'deep",
        ),
        ({"resources": {"distributed": {"processes": 3}}}, "processes: found 3; expected a divisor of 16"),
        ({"training": {"microbatch": 1}}, "processes: found 2; expected a divisor of 1,"),
        ({"generation": {"backend": "vllm"}}, "several processes sample with transformers, found generation.backend"),
        ({"runs": {"lora": {"rank": 2}}}, "distributed.strategy: found fsdp; the adapters of runs.lora"),
    ],
)
def test_settings_that_cannot_be_are_refused(project: Path, change: dict[str, Any], message: str) -> None:
    settings = with_processes(TINY, "fsdp")
    for key, value in change.items():
        settings[key] = {**settings.get(key, {}), **value}
    write_study("tiny", settings)
    with pytest.raises(UserError, match=message):
        load_study("tiny")


def test_a_job_asks_for_the_threads_of_all_its_processes(project: Path) -> None:
    settings = with_processes(TINY, "ddp")
    settings["resources"]["threads"] = 3
    assert Study(name="tiny", **settings).resources.training_threads == 6
    assert Study(name="tiny", **TINY).resources.training_threads == 1


def test_there_is_a_device_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = GROUP.resources.distributed
    assert asked is not None
    distributed._check_devices(asked)  # on a CPU, any number of processes
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: PROCESSES)
    distributed._check_devices(asked)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="processes: found 2, and 1 CUDA devices"):
        distributed._check_devices(asked)


def test_the_share_of_broken_judgements_is_that_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge:
        def grade(self, pairs: list[Any]) -> list[Grade]:
            return [Grade(answer != "odd", None, "broken" if answer == "odd" else "ok") for _, answer in pairs]

    problems = [Problem("1", "1", "1")]
    for own, others, expected in ((["1", "odd"], [False, False], 0.25), (["1", "1"], [True, False], 0.25)):
        monkeypatch.setattr(grpo, "gather_object", lambda found, others=others: found + others)
        logged: dict[str, float] = {}
        rewards = grpo.make_reward(Judge(), problems)(own, [0, 0], log_metric=logged.__setitem__)  # type: ignore[arg-type]
        assert rewards == [1.0, None if own[1] == "odd" else 1.0]
        assert logged == {"broken": expected}


def test_processes_are_no_part_of_a_fingerprint() -> None:
    alone, group = Study(name="tiny", **TINY), Study(name="tiny", **with_processes(TINY, "fsdp"))
    for run in find_runs(alone, ["full-s0", "layer-01-s0"]):
        assert training_settings(alone, run) == training_settings(group, run)


def test_an_interrupt_ends_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pids").mkdir()
    script = _MADE_UP.format(does="os.kill(int(os.environ['PARENT']), signal.SIGINT)", folder=str(tmp_path / "pids"))
    monkeypatch.setattr(distributed, "launch_command", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setenv("PARENT", str(os.getpid()))
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            distributed.train_together(GROUP, RUN)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert not any(alive(int(path.read_text())) for path in (tmp_path / "pids").iterdir())
