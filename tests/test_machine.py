from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from onelayer.cost import Phase
from onelayer.errors import UserError
from onelayer.machine import CALIBRATION, GPUS, Rates, calibrated, find_machine, reference_machines


def test_seconds_by_hand() -> None:
    phase = Phase(tokens=9, flops=1000, bytes=300, passes=20, steps=2)
    assert Rates(0.5, 0.001, 0.01, 3).seconds(phase) == 10 + 1 + 3 + 6


@pytest.mark.usefixtures("project")
class TestFinding:
    def test_this_machine_comes_before_the_reference(self, tmp_path: Path) -> None:
        assert find_machine(None, 1, "float32") in reference_machines()
        own = [replace(reference_machines()[0], name="mine", threads=count) for count in (1, 4)]
        CALIBRATION.write_text(json.dumps([machine.as_row() for machine in own]))
        assert calibrated() == own
        assert find_machine(None, 3, "float32").threads == 4
        assert find_machine(None, 1, "float32") == own[0]

    def test_a_broken_calibration_is_refused(self) -> None:
        for text, complaint in (("[{}]", r"0\.name: Field required"), ("{", "expected JSON, found")):
            CALIBRATION.write_text(text)
            with pytest.raises(UserError, match=rf"^calibration\.json: {complaint}[^\n]*`onelayer calibrate`"):
                find_machine(None, 1, "float32")

    def test_a_gpu_is_known_by_its_peaks(self) -> None:
        slow, fast = find_machine("a100", 1, "bfloat16"), find_machine("h100", 1, "bfloat16")
        work = Phase(flops=1e18, bytes=1e12)
        assert slow.training.seconds(work) / fast.training.seconds(work) == pytest.approx(989 / 312, rel=0.01)
        assert find_machine("a100", 1, "float32").training.seconds(work) > slow.training.seconds(work)
        assert all("estimate" in find_machine(name, 1, "bfloat16").source for name in GPUS)

    def test_an_unknown_device_is_refused(self) -> None:
        with pytest.raises(UserError, match="device 'tpu': expected one of a100, h100, h200"):
            find_machine("tpu", 1, "bfloat16")
