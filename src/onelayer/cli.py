"""The command line: arguments in, one function called, errors of the user's as one message and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onelayer.errors import UserError
from onelayer.interruption import COME_BACK, InterruptedWorkError
from onelayer.ownership import OwnershipLostError

if TYPE_CHECKING:
    from onelayer.config import Study
    from onelayer.grid import Run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="How much of reinforcement learning's gain can one transformer layer carry?",
)

grade = typer.Typer(no_args_is_help=True, help="Grade answers of a file, to audit a grader.")
app.add_typer(grade, name="grade")

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="A file of studies/, without .yaml.")]
StudyNames = Annotated[
    list[str] | None, typer.Argument(metavar="[STUDY]...", help="Default: the active studies of params.yaml.")
]
RunNames = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Such as full-s0 or layer-07-s1.")]
RemoteName = Annotated[str | None, typer.Option("--remote", "-r", help="One of DVC's remotes. Default: its default.")]
JobName = Annotated[
    str | None,
    typer.Option("--job", help="Do a job of the graph: runs that share a process; leaves its receipt."),
]


@app.command()
def plan(
    studies: StudyNames = None,
    cost: Annotated[bool, typer.Option("--cost", help="Show what the studies cost instead.")] = False,
    device: Annotated[
        str | None,
        typer.Option(help="With --cost: a100, h100 or h200, by its published peaks. Default: this machine."),
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(min=1, help="With --cost: mean tokens of a response, whatever was measured.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With --cost: print JSON.")] = False,
) -> None:
    """Show every run: what is done, what would run, and why; or what it all costs."""
    if cost:
        from onelayer.cost_table import print_costs, print_costs_json, study_cost

        costs = [study_cost(study, device, tokens) for study in _studies(studies)]
        (print_costs_json if json else print_costs)(costs)
        return
    if device or tokens or json:
        raise UserError("plan: --device, --tokens and --json belong to --cost")
    from onelayer.overview import print_plan

    print_plan(_studies(studies))


@app.command()
def calibrate(
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads to measure with. Default: 1, and every core.")
    ] = None,
) -> None:
    """Measure how fast this machine is, for `plan --cost`: writes calibration.json."""
    from onelayer.calibrate import write_calibration
    from onelayer.machine import CALIBRATION

    for machine in write_calibration(threads or [], CALIBRATION):
        print(f"{machine.name}, {machine.threads} threads: {machine.source}")
    print(f"calibration: {CALIBRATION}")


@app.command()
def status(
    studies: StudyNames = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show, anew all the time, the runs at work and those that stopped or failed."),
    ] = False,
    every: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="With --watch: how often. Default: 5.")
    ] = None,
) -> None:
    """Show where every run stands: step, reward and time left of those at work, scores of those done, errors."""
    from onelayer.watch import print_status, watch_status

    if watch:
        watch_status(_studies(studies), every or 5.0)
        return
    if every:
        raise UserError("status: --every belongs to --watch")
    print_status(_studies(studies))


@app.command()
def prepare(study: StudyName) -> None:
    """Make a study's problems: the splits train, select and report."""
    from onelayer.config import load_study
    from onelayer.phases import prepare_phase

    prepare_phase(load_study(study))


@app.command()
def fetch(study: StudyName) -> None:
    """Download what a study takes from the hub, so that a machine without network can run it."""
    from onelayer.config import load_study
    from onelayer.fetch import fetch as fetch_all

    for line in fetch_all(load_study(study)):
        print(line)


@app.command()
def base(study: StudyName) -> None:
    """Make the base: pre-train a micro model, or resolve and pin a real one."""
    from onelayer.config import load_study
    from onelayer.phases import base_phase

    base_phase(load_study(study))


@app.command()
def train(study: StudyName, runs: RunNames = None, job: JobName = None) -> None:
    """Train runs, each only where its fingerprint is not there yet."""
    from onelayer.config import load_study
    from onelayer.phases import train_phase

    settings = load_study(study)
    train_phase(settings, _chosen(settings, runs, job, "train"), job)


@app.command()
def evaluate(study: StudyName, runs: RunNames = None, job: JobName = None) -> None:
    """Sample and grade runs' answers into records."""
    from onelayer.config import load_study
    from onelayer.phases import evaluate_phase

    settings = load_study(study)
    evaluate_phase(settings, _chosen(settings, runs, job, "evaluate"), job)


@app.command()
def weigh(study: StudyName, runs: RunNames = None, job: JobName = None) -> None:
    """Measure how far trained runs moved the weights, by layer and matrix."""
    from onelayer.config import load_study
    from onelayer.phases import weigh_phase

    settings = load_study(study)
    weigh_phase(settings, _chosen(settings, runs, job, "weigh"), job)


@app.command()
def suite(study: StudyName, runs: RunNames = None, job: JobName = None) -> None:
    """Score runs on the benchmarks of the study's evaluation suite."""
    from onelayer.config import load_study
    from onelayer.phases import suite_phase

    settings = load_study(study)
    suite_phase(settings, _chosen(settings, runs, job, "suite"), job)


@app.command()
def choose_rate(
    study: StudyName,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Choose a baseline's own rate, such as that of lora-r16 or tuned-layer-07."),
    ] = None,
) -> None:
    """Choose the learning rate from the search's records on select."""
    from onelayer.config import load_study
    from onelayer.grid import find_family
    from onelayer.search import choose_rate as choose

    settings = load_study(study)
    chosen = choose(settings, find_family(settings, baseline) if baseline else None)
    for row in chosen["search"]:
        print(f"{study}/{row['run']}: {row['select_score']:.4f} on select")
    of = f"{study}, {baseline}" if baseline else study
    print(f"{of}: learning rate {chosen['learning_rate']:g}")


@app.command()
def rank(study: StudyName) -> None:
    """Rank the layers by their scores on select, for runs that take their layers from the ranking."""
    from onelayer.config import load_study
    from onelayer.search import rank_layers

    for row in rank_layers(load_study(study))["layers"]:
        print(f"{study}: layer {row['layer']}: {row['select_score']:.4f} on select")


@app.command()
def analyze(
    study: StudyName,
    partial: Annotated[
        bool, typer.Option("--partial", help="Analyse the runs that have records, and say which have none.")
    ] = False,
) -> None:
    """Compute contributions, with intervals, from the records."""
    from onelayer.analysis.study import analyze as run_analysis
    from onelayer.config import load_study
    from onelayer.store import analysis_file

    result = run_analysis(load_study(study), partial)
    for note in result["notes"]:
        print(f"{study}: {note}")
    print(f"{study}: analysis: {analysis_file(study)}")


@app.command()
def compare(studies: StudyNames = None) -> None:
    """Gather the studies' figures into reports/metrics.json."""
    from onelayer.compare import compare as gather

    print(f"metrics: {gather([study.name for study in _studies(studies)])}")


@app.command()
def report(
    studies: StudyNames = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Write each study's own page instead: data/STUDY/report.html.")
    ] = False,
) -> None:
    """Write reports/report.html and the tables behind it."""
    from onelayer.config import load_params
    from onelayer.report.html import write_report, write_study_page

    if alone:
        for study in _studies(studies):
            print(f"report: {write_study_page(study.name)}")
        return
    path = write_report([study.name for study in _studies(studies)], load_params().report)
    print(f"report: {path}")


@app.command()
def summary() -> None:
    """Say in a line a study what was found, and where the report lies."""
    from onelayer.compare import headlines
    from onelayer.store import REPORT

    for line in headlines():
        print(line)
    print(f"report: {REPORT}")


@app.command()
def verify(
    studies: StudyNames = None,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", help="Check what dvc.lock is about to record in git instead, and change nothing."),
    ] = False,
) -> None:
    """Hash every checkpoint and record against its manifest, so that the graph makes damaged ones again."""
    if recorded:
        from onelayer.versions import recorded_faults

        if faults := recorded_faults([study.name for study in _studies(studies)]):
            raise UserError("\n".join(faults))
        return
    from onelayer.phases import verify as check

    for study in _studies(studies):
        found = check(study, thorough=True)
        for line in found:
            print(f"{line}; the run will be made again")
        if not found:
            print(f"{study.name}: every file is as its manifest says")


@app.command()
def commit(studies: StudyNames = None) -> None:
    """Record finished studies with DVC; refuse any that is not, file by file, what its settings ask for."""
    from onelayer.versions import commit as record

    for line in record([study.name for study in _studies(studies)]):
        print(line)


@app.command()
def push(remote: RemoteName = None) -> None:
    """Send what is recorded to DVC's remote, after hashing it."""
    from onelayer.versions import push as send

    for line in send(remote):
        print(line)


@app.command()
def pull(remote: RemoteName = None) -> None:
    """Fetch what is recorded from DVC's remote and put it in place, hashed; if files are missing, all the others."""
    from onelayer.versions import pull as get

    for line in get(remote):
        print(line)


@app.command()
def export(study: StudyName, run: str, folder: Path) -> None:
    """Write a run as a full Hugging Face model folder."""
    from onelayer.config import load_study
    from onelayer.grid import find_runs
    from onelayer.models import export_model

    settings = load_study(study)
    find_runs(settings, [run])
    export_model(settings, run, folder)
    print(f"{study}/{run}: model folder: {folder}")


@app.command()
def contribution(
    scores: Annotated[Path, typer.Argument(metavar="SCORES.csv", help="Columns layer and score.")],
    base: Annotated[float, typer.Option(help="The base's score.")],
    full: Annotated[float, typer.Option(help="The score after full training.")],
    layers: Annotated[
        int | None,
        typer.Option(min=1, help="Layers of the model. Default: the highest layer given, plus one."),
    ] = None,
    k: Annotated[list[int] | None, typer.Option(min=1, help="Sizes of the layer sets. Default: 5 and 10.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute contributions and layer sets from anyone's own layer scores."""
    from onelayer.analysis.scores import describe, print_description

    description = describe(scores, base, full, layers, tuple(k or (5, 10)))
    print_description(description, as_json=json)


@grade.command("math")
def grade_math(
    rows: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Rows with answer and completion.")],
    seconds: Annotated[
        float, typer.Option(min=0.1, max=600, help="Processor time that comparing one answer may take.")
    ] = 5.0,
) -> None:
    """Judge mathematical answers: one JSON object a row (correct, extracted, reason), in order."""
    import json

    from onelayer.grading.audit import math_verdicts

    for verdict in math_verdicts(rows, seconds):
        print(json.dumps(verdict), flush=True)


def _studies(names: list[str] | None) -> list[Study]:
    from onelayer.config import load_params, load_study

    return [load_study(name) for name in names or load_params().studies]


def _chosen(study: Study, runs: list[str] | None, job: str | None, command: str) -> tuple[Run, ...]:
    from onelayer.grid import find_job, find_runs

    if (job is None) == (not runs):
        raise UserError(f"{command}: expected runs or --job JOB, found {'both' if job else 'neither'}")
    return find_job(study, job).runs if job else find_runs(study, runs or [])


def main() -> None:
    """Run the command line.

    Exit codes: 0, done; 2, what the user gave cannot be used, or the disk is full; 75, the work stopped before its end
    and goes on when it is started again (EX_TEMPFAIL of BSD's sysexits.h).
    """
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except (InterruptedWorkError, OwnershipLostError) as error:
        print(error, file=sys.stderr)
        sys.exit(COME_BACK)
