"""The phases as the command line and the graph call them: do what is missing, then leave a receipt.

Work that a manifest already holds, with its fingerprint and sound files, is not done again, and torch is not
even imported; its receipt is written again all the same, for the graph deletes a job's outputs before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from onelayer.cluster import job_gpus
from onelayer.cluster_settings import Phase
from onelayer.config import Study
from onelayer.devices import take_devices
from onelayer.errors import UserError
from onelayer.grid import BASE, Run, is_weighed, jobs
from onelayer.interruption import check, listening
from onelayer.manifest import EVALUATION_MANIFEST, RUN_MANIFEST, WEIGHING_MANIFEST, read_manifest
from onelayer.prepare import is_prepared, prepare
from onelayer.progress import failures_noted
from onelayer.state import Standing, StudyState
from onelayer.store import (
    analysis_file,
    exclusive,
    job_receipt,
    prepared_receipt,
    problems_file,
    run_folder,
    study_page,
    suite_folder,
    write_json,
)
from onelayer.suite.standing import SuiteState, benchmark_manifest, scored_jobs
from onelayer.trackers import check_trackers


def prepare_phase(study: Study) -> None:
    """Write the study's problems where they are not there already.

    Raises UserError, before anything is done, where a tracker that its training asks for is not installed.
    """
    check_trackers(study)
    with exclusive(study.name, "problems"):
        if is_prepared(study):
            print(f"{study.name}: the problems are there already: {prepared_receipt(study.name)}")
            return
        for name, split in prepare(study).items():
            left_out = "".join(f", {count} {why}" for why, count in split.dropped.items() if count)
            print(f"{problems_file(study.name, name)}: {split.problems} problems{left_out}")


def base_phase(study: Study) -> None:
    """Make the base where it is not there already."""

    def work(study: Study, _: Run) -> None:
        if study.model.kind == "micro":
            from onelayer.pretraining import pretrain_base

            pretrain_base(study, study.model)
        else:
            from onelayer.pinning import pin_base

            pin_base(study, study.model)

    with listening():
        _each(study, [BASE], "base", "trained", work, lambda state, run: state.training(run))
    _leave_receipt(study, BASE.name, [BASE], "trained", RUN_MANIFEST)


def train_phase(study: Study, runs: Sequence[Run], job: str | None) -> None:
    """Train the runs that are not trained already. Raises UserError where a tracker asked for is not installed."""
    check_trackers(study)

    def work(study: Study, run: Run) -> None:
        if study.resources.distributed is not None:
            from onelayer.distributed import train_together

            train_together(study, run)
            return
        from onelayer.train import train_run

        train_run(study, run)

    with listening():
        _each(study, runs, "train", "trained", work, lambda state, run: state.training(run))
    if job is not None:
        _leave_receipt(study, job, runs, "trained", RUN_MANIFEST)


def evaluate_phase(study: Study, runs: Sequence[Run], job: str | None) -> None:
    """Sample and grade the runs that have no valid records."""

    def work(study: Study, run: Run) -> None:
        from onelayer.evaluate import evaluate_run

        evaluate_run(study, run)

    _each(study, runs, "evaluate", "evaluated", work, lambda state, run: state.evaluation(run))
    if job is not None:
        _leave_receipt(study, job, runs, "evaluated", EVALUATION_MANIFEST)


def weigh_phase(study: Study, runs: Sequence[Run], job: str | None) -> None:
    """Measure how far the runs moved the weights, where that is not known already.

    Raises UserError for the base and the search's runs.
    """
    for run in runs:
        if not is_weighed(run):
            raise UserError(f"{study.name}/{run.name}: the base and the search's runs are not weighed")

    def work(study: Study, run: Run) -> None:
        from onelayer.weights import weigh_run

        weigh_run(study, run)

    # Another lock than training's: a run is weighed while its answers are sampled.
    _each(study, runs, "weigh", "weighed", work, lambda state, run: state.weighing(run), hold=".weights")
    if job is not None:
        _leave_receipt(study, job, runs, "weighed", WEIGHING_MANIFEST)


def suite_phase(study: Study, runs: Sequence[Run], job: str | None) -> None:
    """Score the runs on the evaluation suite where they have no valid records of it.

    Raises UserError where the study names no suite, or a run is the search's.
    """
    if not study.suite:
        raise UserError(f"{study.name}: evaluation.suite names no benchmark, so there is nothing to score a run on")
    for run in runs:
        if run.kind == "search":
            raise UserError(f"{study.name}/{run.name}: the search's runs choose a rate and are not scored on the suite")

    def work(study: Study, run: Run) -> None:
        from onelayer.suite.run import score_run

        score_run(study, run)

    _each(study, runs, "suite", "scored on the suite", work, lambda state, run: SuiteState(study, state).run(run))
    if job is not None:
        receipt: dict[str, dict[str, dict[str, str]]] = {}
        for run in runs:
            receipt[run.name] = {}
            for benchmark in study.suite:
                folder = suite_folder(study.name, run.name)
                manifest = read_manifest(folder, benchmark_manifest(benchmark.name))
                assert manifest is not None  # it was written, or found whole, a moment ago
                receipt[run.name][benchmark.name] = {
                    "fingerprint": manifest.fingerprint,
                    "content": manifest.content,
                }
        write_json(job_receipt(study.name, job, "suite"), receipt)


def verify(study: Study, thorough: bool) -> list[str]:
    """Hold a study's manifests against its settings and files, and take back each receipt that is not true.

    The graph then does those jobs again, and each does only what is missing. The analysis and its page are taken back
    with them, for Snakemake makes a missing file anew only on the way to a target.

    Args:
        study: the study.
        thorough: hash every file; else only see that it is there.

    Returns what was found damaged.
    """
    state = StudyState(study, thorough=thorough)
    found = []
    whole = is_prepared(study)
    if not whole:
        prepared_receipt(study.name).unlink(missing_ok=True)
    for receipt, _, standings in phase_standings(study, state):
        for run_name, standing in standings.items():
            if "damaged: " in standing.reason:
                found.append(f"{study.name}/{run_name}: {standing.reason.replace('damaged: ', '')}")
        if not receipt.exists() or not all(standing.done for standing in standings.values()):
            receipt.unlink(missing_ok=True)
            whole = False
    for path in state.void_choices():
        path.unlink()
    if not whole:
        analysis_file(study.name).unlink(missing_ok=True)
        study_page(study.name).unlink(missing_ok=True)
    return found


def phase_standings(study: Study, state: StudyState) -> Iterator[tuple[Path, str, dict[str, Standing]]]:
    """Each job's phases: its receipt, the phase as the receipt names it, and by run where it stands."""
    suite = SuiteState(study, state)
    scored = scored_jobs(study)
    for job in jobs(study):
        phases = [("trained", state.training), ("evaluated", state.evaluation)]
        if is_weighed(job.runs[0]):
            phases.append(("weighed", state.weighing))
        if job in scored:
            phases.append(("suite", suite.run))
        for phase, standing_of in phases:
            receipt = job_receipt(study.name, job.name, phase)
            yield receipt, phase, {run.name: standing_of(run) for run in job.runs}


def _each(
    study: Study,
    runs: Sequence[Run],
    phase: Phase,
    verb: str,
    work: Callable[[Study, Run], None],
    standing_of: Callable[[StudyState, Run], Standing],
    hold: str = "",
) -> None:
    for run in runs:
        name = f"{study.name}/{run.name}"
        check(name)
        with exclusive(study.name, run.name + hold, while_waiting=partial(check, name)):
            standing = standing_of(StudyState(study, thorough=True), run)
            if standing.done:
                print(f"{name}: already {verb}", flush=True)
                continue
            print(f"{name}: to be {verb} ({standing.reason})", flush=True)
            take_devices(job_gpus(study, phase))
            with failures_noted(study.name, run.name):
                work(study, run)
            print(f"{name}: {verb}: {run_folder(study.name, run.name)}", flush=True)


def _leave_receipt(study: Study, job: str, runs: Sequence[Run], phase: str, manifest_name: str) -> None:
    receipt = {}
    for run in runs:
        manifest = read_manifest(run_folder(study.name, run.name), manifest_name)
        assert manifest is not None  # it was written, or found whole, a moment ago
        receipt[run.name] = {"fingerprint": manifest.fingerprint, "content": manifest.content}
    write_json(job_receipt(study.name, job, phase), receipt)
