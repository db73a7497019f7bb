"""From a study's settings to what its jobs ask of the machine, as Snakemake's resources; pure, no torch."""

from __future__ import annotations

from collections.abc import Sequence

from onelayer.cluster_settings import Phase
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import jobs as grid_jobs

# Snakemake's names of what a job can ask for; all but mem_mb and runtime (in minutes) are the Slurm plugin's.
KEYS = ("slurm_partition", "slurm_account", "qos", "constraint", "gres", "gpu", "cpus_per_task", "mem_mb", "runtime")

# The phases that a study has a job a run of.
_IN_ARRAYS: tuple[Phase, ...] = ("train", "evaluate", "weigh", "suite")

Resource = int | str | None


def _computes(study: Study, phase: Phase) -> bool:
    """Whether a job of this phase runs a model, and so uses devices where it is given some."""
    return phase in ("train", "evaluate", "suite") or (phase == "base" and study.model.kind == "micro")


def job_gpus(study: Study, phase: Phase) -> int:
    """The devices that a job of this phase has for itself; of a run that several processes train, one each at least."""
    resources = study.resources
    if not _computes(study, phase):
        return 0
    if phase == "train" and resources.distributed is not None and resources.gpus:
        return max(resources.gpus, resources.distributed.processes)
    return resources.gpus


def job_resources(study: Study, phase: Phase, attempt: int) -> dict[str, Resource]:
    """What a job asks for, by Snakemake's name; None of what is left to the cluster.

    Args:
        study: its settings.
        phase: what the job does.
        attempt: 1 for the first; the time limit grows with it.
    """
    resources = study.resources
    asked = resources.cluster.of(phase)
    computes = _computes(study, phase)
    gpus = job_gpus(study, phase) if asked.gpus is None or not computes else asked.gpus
    minutes = asked.minutes
    if minutes is not None:
        minutes = minutes * attempt
        if asked.most_minutes is not None:
            minutes = min(minutes, asked.most_minutes)
    threads = {"base": resources.base_threads, "train": resources.training_threads}.get(phase, resources.threads)
    return {
        "slurm_partition": asked.partition,
        "slurm_account": asked.account,
        "qos": asked.qos,
        "constraint": asked.constraint,
        "gres": asked.gres if computes else None,
        "gpu": gpus if gpus and not (computes and asked.gres) else None,
        "cpus_per_task": asked.cpus or threads,
        "mem_mb": asked.memory_mb or resources.memory_mb,
        "runtime": minutes,
    }


def group_of(study: Study, job: str) -> str | None:
    """The group whose jobs are one job of Slurm; None where each is its own."""
    return f"{study.name}-{job}" if study.resources.cluster.together else None


def check_arrays(studies: Sequence[Study], array_jobs: str, at_once: int | None) -> None:
    """Refuse job arrays where the Slurm plugin (2.8.0) would do the wrong thing with them.

    It submits an array with its first job's resources for all, and it loses jobs that become ready while others of
    their rule are held back by the limit on jobs at once (its issue 473): Snakemake then waits for them for ever.

    Args:
        studies: those that run.
        array_jobs: the plugin's setting: rules by name, or ``all``.
        at_once: the limit on jobs at once; None for no limit.

    Raises UserError.
    """
    rules = {name.strip() for name in array_jobs.replace(";", ",").split(",")}
    if unknown := rules - set(_IN_ARRAYS):
        raise UserError(
            f"--slurm-array-jobs: found {', '.join(sorted(unknown))}; expected {' or '.join(_IN_ARRAYS)}:"
            " of other rules a study has one job"
        )
    for phase in _IN_ARRAYS:
        if phase not in rules:
            continue
        wishes = {study.name: tuple(job_resources(study, phase, 1).values()) for study in studies}
        if len(set(wishes.values())) > 1:
            raise UserError(
                f"--slurm-array-jobs {phase}: an array has one set of resources, and these studies ask for different"
                f" ones: {', '.join(wishes)}; start one of them at a time, with --config 'studies=[{studies[0].name}]'"
            )
        count = sum(len(grid_jobs(study)) for study in studies)
        if at_once is not None and at_once < count:
            raise UserError(
                f"--slurm-array-jobs {phase}: found --jobs {at_once}, expected at least the studies' {count}: jobs that"
                " wait for a free place are lost in an array"
            )
