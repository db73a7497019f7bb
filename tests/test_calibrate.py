from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onelayer.calibrate import CPU_TRIALS, GPU_TRIALS, Trial, device, fit, time_trial
from onelayer.cost import Phase
from onelayer.machine import Rates
from onelayer.shape import Shape

RATE = st.floats(1e-3, 1e3)


@given(st.tuples(RATE, RATE, RATE, RATE))
def test_constants_that_made_the_times_are_found_again(rates: tuple[float, float, float, float]) -> None:
    truth = Rates(*rates)
    phases = [
        Phase(flops=flops, bytes=size, passes=passes, steps=steps)
        for flops, size, passes, steps in ((9, 1, 2, 1), (1, 8, 1, 2), (2, 1, 7, 1), (1, 2, 3, 9), (5, 5, 1, 1))
    ]
    found = fit(phases, [truth.seconds(phase) for phase in phases])
    for phase in phases:
        assert found.seconds(phase) == pytest.approx(truth.seconds(phase), rel=1e-6)


def test_no_constant_is_below_zero() -> None:
    phases = [Phase(flops=1, passes=5), Phase(flops=2, passes=1), Phase(flops=4, passes=1)]
    found = fit(phases, [1.0, 5.0, 10.0])
    assert min(vars(found).values()) >= 0


@pytest.mark.parametrize("trials", [CPU_TRIALS, GPU_TRIALS])
@pytest.mark.parametrize("part", [0, 1])
def test_the_trials_tell_the_constants_apart(trials: tuple[Trial, ...], part: int) -> None:
    """No column of their work is a mixture of the others."""
    work = [trial.work[part] for trial in trials]
    columns = np.array([[one.passes, one.flops, one.bytes, one.steps] for one in work], dtype=float)
    assert np.linalg.matrix_rank(columns / np.linalg.norm(columns, axis=0)) == 4


def test_a_machine_is_named_by_what_training_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name, kind = device()
    assert kind == "CPU"
    assert name.endswith(" cores")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    assert device() == ("NVIDIA H100", "GPU")


def test_a_trial_takes_its_steps_on_this_machine() -> None:
    shape = Shape(layers=1, width=16, intermediate=16, heads=2, vocabulary=16, tied=True)
    timing = time_trial(Trial(shape, prompts=2, group=2, prompt=4, response=3, layer=0), threads=1)
    assert timing.sampling > 0
    assert timing.training > 0
