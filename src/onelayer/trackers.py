"""Training curves in a tracker of the user's choice, through TRL's ``report_to``; none where none is named.

What a tracker is sent is no result: histories and records are kept whether there is one or not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from onelayer.config import Study, study_file
from onelayer.errors import UserError
from onelayer.store import LOGS


def check_trackers(study: Study) -> None:
    """Raise UserError where a tracker's package is not installed."""
    for name in study.resources.report_to:
        try:
            version(name)
        except PackageNotFoundError:
            raise UserError(
                f"{study_file(study.name)}: resources.report_to: found {name}, whose package is not installed:"
                f" `pip install {name}`"
            ) from None


@contextmanager
def tracking(study: Study, run: str) -> Iterator[None]:
    """Let the trackers of a run write under ``logs/<study>/``, as a run of the study's project.

    What the user has set in the environment (such as WANDB_PROJECT) stands. Trackio keeps a folder of its own.
    """
    folder = (LOGS / study.name).absolute()
    places = {
        "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard" / run),
        "WANDB_PROJECT": study.name,
        "WANDB_DIR": str(folder),
    }
    ours = (
        {name: place for name, place in places.items() if name not in os.environ} if study.resources.report_to else {}
    )
    if ours:
        folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(ours)
    try:
        yield
    finally:
        if "wandb" in study.resources.report_to and (wandb := sys.modules.get("wandb")) is not None:
            wandb.finish()  # transformers leaves it open, and the next run of this process would go on in it
        for name in ours:
            del os.environ[name]
