"""What a study's jobs ask of the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, write_study
from onelayer.cluster import KEYS, check_arrays, group_of, job_resources
from onelayer.config import Study, load_study
from onelayer.errors import UserError

pytestmark = pytest.mark.usefixtures("project")


def study(resources: dict[str, Any], name: str = "tiny", **changed: Any) -> Study:
    settings = deep_copy(TINY) | changed
    settings["resources"] = resources
    write_study(name, settings)
    return load_study(name)


def test_a_study_that_says_nothing_asks_for_cores_memory_and_time() -> None:
    asked = job_resources(study({"threads": 3, "base_threads": 5, "memory_mb": 700}), "train", 1)
    assert tuple(asked) == KEYS
    assert {key: value for key, value in asked.items() if value is not None} == {
        "cpus_per_task": 3,
        "mem_mb": 700,
        "runtime": 120,
    }
    assert job_resources(load_study("tiny"), "base", 1)["cpus_per_task"] == 5


def test_a_phase_asks_for_its_own_over_the_common() -> None:
    made = study(
        {
            "gpus": 1,
            "cluster": {
                "partition": "gpu",
                "account": "lab",
                "qos": "long",
                "constraint": "a100&nvlink",
                "minutes": 600,
                "most_minutes": 1500,
                "prepare": {"partition": "cpu", "minutes": 30, "cpus": 8},
                "evaluate": {"minutes": 60, "memory_mb": 9000},
                "suite": {"gres": "gpu:a100:2"},
            },
        }
    )
    train = job_resources(made, "train", 1)
    assert (train["slurm_partition"], train["slurm_account"], train["qos"]) == ("gpu", "lab", "long")
    assert (train["constraint"], train["gpu"], train["gres"], train["runtime"]) == ("a100&nvlink", 1, None, 600)
    prepare = job_resources(made, "prepare", 1)
    assert (prepare["slurm_partition"], prepare["gpu"], prepare["cpus_per_task"], prepare["runtime"]) == (
        "cpu",
        None,
        8,
        30,
    )
    assert job_resources(made, "evaluate", 1)["mem_mb"] == 9000
    suite = job_resources(made, "suite", 1)
    assert (suite["gpu"], suite["gres"], suite["runtime"]) == (None, "gpu:a100:2", 600)


def test_a_run_of_several_processes_has_a_device_and_cores_for_each() -> None:
    made = study({"threads": 2, "gpus": 1, "distributed": {"processes": 4}})
    train, evaluate = job_resources(made, "train", 1), job_resources(made, "evaluate", 1)
    assert (train["gpu"], train["cpus_per_task"]) == (4, 8)
    assert (evaluate["gpu"], evaluate["cpus_per_task"]) == (1, 2)
    assert job_resources(study({"cluster": {"gres": "gpu:2"}}), "train", 1)["gres"] == "gpu:2"
    without = study({"threads": 2, "distributed": {"processes": 4}})
    assert job_resources(without, "train", 1)["gpu"] is None


def test_the_time_limit_grows_with_the_attempt_up_to_the_most() -> None:
    made = study({"cluster": {"minutes": 600, "most_minutes": 1500, "evaluate": {"minutes": 60}}})
    assert [job_resources(made, "train", attempt)["runtime"] for attempt in (1, 2, 3, 4)] == [600, 1200, 1500, 1500]
    assert [job_resources(made, "evaluate", attempt)["runtime"] for attempt in (1, 2)] == [60, 120]


def test_the_base_has_devices_only_where_it_is_trained() -> None:
    made = study({"gpus": 2, "cluster": {"gres": "gpu:a100:2"}})
    assert job_resources(made, "base", 1)["gres"] == job_resources(made, "train", 1)["gres"] == "gpu:a100:2"
    hub = {"kind": "hub", "id": "some/model", "revision": "main", "layers": 2, "precision": "float32"}
    resolved = study({"gpus": 2, "cluster": {"gres": "gpu:a100:2"}}, model=hub)
    assert job_resources(resolved, "base", 1)["gres"] is job_resources(resolved, "base", 1)["gpu"] is None
    assert job_resources(resolved, "evaluate", 1)["gres"] == "gpu:a100:2"


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"gres": "gpu:1", "gpus": 1}, "expected gres or gpus, found both"),
        ({"minutes": 10, "most_minutes": 5}, r"of prepare: expected most_minutes of at least minutes \(10\), found 5"),
        ({"most_minutes": 300, "train": {"minutes": 400}}, r"of train: .* at least minutes \(400\), found 300"),
        ({"partition": "a b"}, r"studies/tiny.yaml: resources.cluster.partition: found 'a b'"),
        ({"train": {"gpu": 1}}, "resources.cluster.train.gpu: unknown key"),
        ({"gres": "'gpu:1'"}, "resources.cluster.gres: found \"'gpu:1'\""),
    ],
)
def test_what_cannot_be_asked_for_is_refused(cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        study({"cluster": cluster})


def test_a_runs_phases_are_one_group_only_where_the_study_says_so() -> None:
    assert group_of(study({}), "full-s0") is None
    assert group_of(study({"cluster": {"together": True}}), "full-s0") == "tiny-full-s0"


def test_arrays_are_refused_where_the_plugin_would_go_wrong() -> None:
    one, other = study({}), study({"memory_mb": 1}, name="other")
    check_arrays([one], "train, evaluate", 200)
    check_arrays([one, one], "train", None)
    with pytest.raises(UserError, match="these studies ask for different ones: tiny, other"):
        check_arrays([one, other], "train", 200)
    with pytest.raises(UserError, match="found --jobs 3, expected at least the studies' 4"):
        check_arrays([one], "train", 3)
    with pytest.raises(UserError, match="found all; expected train or evaluate or weigh or suite"):
        check_arrays([one], "all", 200)


def test_it_imports_no_torch() -> None:
    code = "import sys, onelayer.cluster; sys.exit(bool({'torch', 'transformers', 'trl'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert Path("studies/tiny.yaml").exists()
