# Settings for the rules. Snakemake compares the digests given as `params`, so a job runs again where a setting
# that decides its result changed; the command itself then does only what its fingerprint says is missing.
from onelayer import cluster, fingerprint, grid
from onelayer.config import load_params, load_study
from onelayer.errors import UserError
from onelayer.phases import verify
from onelayer.published import published_files
from onelayer.store import learning_rate_file
from onelayer.suite.standing import local_rows, scored_jobs
from onelayer.study_sources import source_files


def refuse(error):
    """A mistake in the settings: one message, no traceback."""
    import sys

    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)


STUDIES = config["studies"]
_settings = {}


def study(name):
    """A study's settings, read once. Any file of studies/ can be asked for, active or not."""
    if name not in _settings:
        try:
            _settings[name] = load_study(name)
        except UserError as error:
            refuse(error)
    return _settings[name]


try:
    PARAMS = load_params()
except UserError as error:
    refuse(error)
for name in STUDIES:
    study(name)  # mistakes in any active study are refused before anything runs


onstart:
    # What was asked of the Slurm plugin is known only now; nothing has been sent yet.
    array_jobs = getattr(workflow.executor_settings, "array_jobs", None)
    if array_jobs:
        try:
            cluster.check_arrays(
                [study(name) for name in STUDIES],
                array_jobs,
                workflow.resource_settings.nodes,
            )
        except UserError as error:
            refuse(error)


if workflow.is_main_process:
    # Fingerprints decide what is done. Snakemake alone would miss work whose receipt a failed job took with it, where
    # later files of an earlier state still stand.
    for name in STUDIES:
        verify(study(name), thorough=False)


_runs = {}


def job_runs(wildcards):
    """The runs of a job. A study's jobs are listed once, for a graph has thousands."""
    name = wildcards.study
    if name not in _runs:
        _runs[name] = {job.name: job.runs for job in grid.jobs(study(name))}
    if wildcards.job not in _runs[name]:
        grid.find_job(study(name), wildcards.job)  # which says what there is
    return _runs[name][wildcards.job]


def receipts(wildcards, phase, wanted=lambda run: True):
    """The receipts of the study's jobs whose runs are wanted."""
    return [
        f"data/{wildcards.study}/jobs/{job.name}.{phase}.json"
        for job in grid.jobs(study(wildcards.study))
        if wanted(job.runs[0])
    ]


def rates(name):
    """The files of a study's learning rates: its own, and each baseline's."""
    baselines = [family.name for family in grid.families(study(name))]
    return [str(learning_rate_file(name, family)) for family in (None, *baselines)]


def suite_receipts(wildcards):
    """The receipts of the jobs that are scored on the suite; none where the study names no benchmark."""
    return [
        f"data/{wildcards.study}/jobs/{job.name}.suite.json"
        for job in scored_jobs(study(wildcards.study))
    ]


# A scheduler may tell every process of a job to stop (SIGTERM). A run that trains then saves first: so the shell waits
# for it, and what keeps its log hears it out.
shell.prefix(
    """set -euo pipefail; trap : TERM; keep_log() {{ trap '' TERM; exec tee "$1"; }}; """
)


# Seconds of work, which no cluster need queue for.
localrules:
    choose_rate,
    choose_baseline_rate,
    rank_layers,
    study_page,
    compare,
    report,


def asked(phase):
    """What a job of this phase asks of the machine, by Snakemake's names: its study's settings say."""

    def value(key):
        return lambda wildcards, attempt: cluster.job_resources(
            study(wildcards.study), phase, attempt
        )[key]

    return {key: value(key) for key in cluster.KEYS}


def together(wildcards):
    """The group of a run's jobs, for studies that have them sent to Slurm as one."""
    return cluster.group_of(study(wildcards.study), wildcards.job)


wildcard_constraints:
    study=r"[a-z0-9][a-z0-9._-]*",
    job=r"[a-z0-9][a-z0-9.+_-]*",
    baseline=r"[a-z0-9][a-z0-9-]*",
