"""What must not change by accident: the fingerprints of the studies that stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conftest import ROOT
from onelayer import fingerprint
from onelayer.config import Study, load_study
from onelayer.grid import all_runs, jobs

# Of every run's settings, name and job. A new figure belongs here only where a study's file was edited or a recipe
# raised on purpose: everyone's runs of that study then train again.
STANDING = {
    "micro-math": "86a5792d6784139cf9eb5c0a36ceb867acbc1de3f0faaedbca07c88fafc2e99c",
    "micro-code": "2bf637cc067d9508f72854bafdc93a827f6b98e50005a8c7888875acfbb8e936",
    "micro-agent": "851a7535638f63292700e12287acc7e029cc09faeaa8d65f83a99fd004d20cbe",
    "micro-math-dr": "ab47635ad167a8721ae9751c21174f5d1652a856c6fb14b731adb0bc354fe7c6",
    "micro-agent-grpo": "b0340cca3a4ce5302ee38d345a5acfe382d8ebe6202ee915c05e09d17c4be12a",
}


# The same of the strategies' and the rate sensitivity's runs, which came later.
LATER = {
    "micro-math": "52a0e6d12add3059607ed78a3cbdf2e5bd89c5fd5856aa040eb10f6893a072a4",
    "micro-code": "265088dc0f4ddfddc2298782ef972445463526691d6bfd2c93e9be8bd6e83d2b",
    "micro-agent": "c5bae5368cf501b84dab1de3a03a5cb9754303b8f491d79b1858cd954c183bba",
}
LATER_KINDS = ("boost", "only", "middle", "spread", "random", "rate")


def digest(study: Study, kinds: Callable[[str], bool], **more: Any) -> str:
    found = {
        **more,
        "jobs": [job.name for job in jobs(study) if kinds(job.runs[0].kind)],
        "runs": {
            run.name: [
                fingerprint.training_settings(study, run),
                fingerprint.evaluation_settings(study, run),
                run.learning_rate,
            ]
            for run in all_runs(study)
            if kinds(run.kind)
        },
    }
    return fingerprint.digest(found)


@pytest.mark.parametrize("name", STANDING)
def test_a_new_setting_leaves_old_fingerprints_as_they_were(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    study = load_study(name)
    base, problems = fingerprint.base_settings(study), fingerprint.problems_payload(study, {})
    assert digest(study, lambda kind: kind not in LATER_KINDS, base=base, problems=problems) == STANDING[name]


@pytest.mark.parametrize("name", LATER)
def test_strategies_stay_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert digest(load_study(name), lambda kind: kind in LATER_KINDS) == LATER[name]
