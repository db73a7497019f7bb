"""Versions that travel: DVC's commit, push and pull, with the checks that DVC leaves to its user.

DVC's commit records whatever stands, whoever made it; its pull leaves out a whole study where one file of it is
missing, and the next `dvc repro` would train all of it again. These commands refuse what is not what the settings ask
for, put in place all that can be had, and say of the rest what it belongs to.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from onelayer.config import Study, load_params, load_study
from onelayer.dvc_command import few, last_lines, run_dvc
from onelayer.errors import UserError
from onelayer.phases import phase_standings
from onelayer.prepare import is_prepared
from onelayer.record import LOCK, Output, Recorded, read_record, unsound
from onelayer.state import StudyState
from onelayer.store import DATA, study_folder, study_page, write_bytes

REPORT_STAGE = "report"
# By phase, what is wrong where it is not done.
_NOT_SO = {
    "trained": "not trained as its settings say",
    "evaluated": "no valid records",
    "weighed": "its change of weights is not measured",
    "suite": "not scored on the suite",
}
_MENDED = "DVC's cache held it damaged, and holds it again"


def stage_of(study: str) -> str:
    """DVC's stage of a study."""
    return f"study@{study}"


def commit(studies: Sequence[str]) -> Iterator[str]:
    """Record studies with DVC, each only where all of it is what its settings ask for; and the report, with all active.

    Every checkpoint and record is hashed against its manifest, every manifest held against the settings, and Snakemake
    asked whether anything is left to do.

    Yields a line for each thing that was recorded. Raises UserError, after recording those that hold, where a study
    does not hold; and where the cache did not take all of them, with `dvc.lock` as it was.
    """
    active = load_params().studies
    for name in studies:
        if name not in active:
            raise UserError(
                f"params.yaml: studies: found {', '.join(active)}; expected {name} among them, for DVC records the"
                " active studies"
            )
    refused: dict[str, list[str]] = {name: faults(load_study(name)) for name in studies}
    stages = [stage_of(name) for name in studies if not refused[name]]
    # The report is made of every active study, whichever are recorded now.
    if stages and len(stages) == len(active) and not (left := _left_to_do([])):
        stages.append(REPORT_STAGE)
    elif stages and len(stages) == len(active):
        refused[REPORT_STAGE] = left
    if stages:
        yield from _record(stages)
    if any(refused.values()):
        said = [f"{name}: {reason}" for name, reasons in refused.items() for reason in few(reasons)]
        raise UserError("\n".join([*said, "what is named here was not recorded"]))


def _record(stages: list[str]) -> Iterator[str]:
    before = LOCK.read_bytes() if LOCK.exists() else None
    result = run_dvc("commit", "--force", *stages)
    outputs = read_record(stages)
    # A damaged file of the cache was taken for sound by DVC; the project's own file is whole, for it was just hashed.
    mended = [file for file in unsound(outputs) if file.drop_damaged() and file.put_back()]
    if result.failed or unsound(outputs):
        if before is None:
            LOCK.unlink(missing_ok=True)
        else:
            write_bytes(LOCK, before)
        raise UserError(
            f"nothing was recorded, for DVC's cache did not take all files: {result.reason}; {LOCK} is as it was. Mend"
            " that, and `onelayer commit` stores the rest"
        )
    yield from (f"{file.path}: {_MENDED}" for file in mended)
    yield from (f"{output.path}: recorded, {_count(output)}" for output in outputs)


def faults(study: Study) -> list[str]:
    """Why a study may not be recorded: whatever is not there, not whole, or not what its settings ask for."""
    state = StudyState(study, thorough=True)
    found = [] if is_prepared(study) else ["its problems are not those that its settings ask for"]
    absent, told = [], set()
    for receipt, phase, standings in phase_standings(study, state):
        for run, standing in standings.items():
            # What waits for an earlier phase of its run says nothing new.
            if not standing.done and run not in told:
                told.add(run)
                found.append(f"{run}: {_NOT_SO[phase]} ({standing.reason})")
        if not receipt.exists():
            absent.append(f"{receipt}: missing")
    absent += [f"{path} no longer follows from the records" for path in state.void_choices()]
    return found or absent or _left_to_do([str(study_page(study.name))])


def _left_to_do(targets: list[str]) -> list[str]:
    """What Snakemake would still do; nothing where the graph is done."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "--quiet", "rules", "--", *targets]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        raise UserError(f"snakemake --dry-run: {last_lines(result.stdout)}")
    if "Nothing to be done" in result.stdout:
        return []
    rules = dict.fromkeys(re.findall(r"^(\w+) +\d+$", result.stdout, re.MULTILINE))
    return [
        f"the graph is not done ({', '.join(rule for rule in rules if rule not in ('all', 'total'))} would run):"
        f" `snakemake --cores all{''.join(f' {target}' for target in targets)}` does what is left"
    ]


def recorded_faults(studies: Sequence[str]) -> list[str]:
    """What `dvc.lock`, as git is about to commit it, says of these studies that is not so; a git hook asks this.

    Only studies whose record changes are looked at: the files of the others need not be here.
    """
    found = []
    for name in studies:
        stage = stage_of(name)
        if _locked("", stage) == _locked("HEAD", stage):
            continue
        found += [f"{name}: {reason}" for reason in few(faults(load_study(name)))]
        result = run_dvc("status", "--json", stage)
        if result.failed:
            raise UserError(f"dvc status: {result.reason}")
        if json.loads(result.output):
            found.append(f"{name}: {LOCK} does not record what {study_folder(name)} holds; `onelayer commit` does")
    return found


def _locked(commit: str, stage: str) -> object:
    """A stage of dvc.lock in git's index, or at a commit."""
    shown = subprocess.run(["git", "show", f"{commit}:{LOCK}"], capture_output=True, text=True, check=False)
    return (yaml.safe_load(shown.stdout) or {}).get("stages", {}).get(stage) if shown.returncode == 0 else None


def push(remote: str | None) -> Iterator[str]:
    """Send all that is recorded to the remote, after seeing that the cache holds it as it was recorded.

    Yields what to say. Raises UserError where the cache has a damaged or missing file that neither the project nor
    the remote holds, and where the remote does not take all; what it took stays there.
    """
    outputs = read_record()
    found = unsound(outputs)
    damaged = [file for file in found if file.drop_damaged()]
    if [file for file in found if not file.put_back()]:
        fetched = run_dvc("fetch", *_remote(remote), paths=_by_md5(outputs))  # the remote may hold it from before
        outputs = read_record(fetch_lists=True, remote=remote)
        if lost := unsound(outputs):
            raise UserError(
                f"nothing was sent, for DVC's cache lacks {_files(lost)}, and neither the project nor the remote has"
                f" it ({fetched.reason}); `dvc repro` makes it again"
            )
    yield from (f"{file.path}: {_MENDED}" for file in damaged)
    result = run_dvc("push", *_remote(remote), paths=_by_md5(outputs))
    if result.failed:
        raise UserError(f"not all was sent: {result.reason}; what was sent stays, and `onelayer push` sends the rest")
    yield from result.said


def pull(remote: str | None) -> Iterator[str]:
    """Fetch all that is recorded and put it in place; where files are missing, all the others all the same.

    Yields what to say. Raises UserError at the end where files could not be had, saying what they belong to, and
    where DVC will not replace a file of the project that is recorded nowhere.
    """
    fetched = run_dvc("fetch", *_remote(remote), paths=_by_md5(read_record()))
    outputs = read_record(fetch_lists=True, remote=remote)
    damaged = [file for file in unsound(outputs) if file.drop_damaged()]
    if damaged:
        yield from (f"{file.path}: DVC's cache held it damaged; fetched again" for file in damaged)
        fetched = run_dvc("fetch", *_remote(remote), paths=_by_md5(outputs))
    lacking = {file.path for file in unsound(outputs) if not file.put_back()}
    targets = [target for output in outputs for target in _targets(output, lacking)]
    if targets:
        _checkout(targets)
        # Where DVC noted a file as restored, it does not look at its content again; here it is looked at.
        wrong = [
            file
            for output in outputs
            for file in output.files
            if not file.is_list and file.path not in lacking and not file.in_place
        ]
        if wrong:
            for file in wrong:
                file.path.unlink(missing_ok=True)
            _checkout([str(file.path) for file in wrong])
            yield from (f"{file.path}: was damaged, and is as it was recorded again" for file in wrong)
    whole = sum(file.path not in lacking for output in outputs for file in output.files if not file.is_list)
    yield f"{whole} recorded files are in place"
    if lacking:
        raise UserError(
            f"{_files(unsound(outputs))} could not be had ({fetched.reason}); `onelayer pull` tries again, and `dvc"
            f" repro` makes again what it belongs to: {', '.join(sorted({_owner(path) for path in lacking}))}"
        )


def _targets(output: Output, lacking: set[Path]) -> list[str]:
    """What to ask DVC to put in place: an output, or, where files of it are missing, the largest parts
    of it that lack none.

    DVC removes the whole output where it fails to restore one file of it.
    """
    broken = lacking | {parent for path in lacking for parent in path.parents}
    if output.path not in broken:
        return [str(output.path)]
    found: dict[Path, None] = {}
    for file in output.files:
        whole = [path for path in (*reversed(file.path.parents), file.path) if path not in broken]
        if whole and not file.is_list:
            found[whole[0]] = None
    return [str(path) for path in found]


def _checkout(targets: list[str]) -> None:
    result = run_dvc("checkout", *targets)
    if result.failed:
        raise UserError(
            f"what was fetched was not put in place: {result.reason} (`dvc checkout --force` gives up what is recorded"
            " nowhere)"
        )


def _owner(path: Path) -> str:
    """The run, or else the study or file, that a path of the project belongs to."""
    parts = path.parts
    if parts[0] != DATA.name or len(parts) < 2:
        return str(path)
    return f"{parts[1]}/{parts[3]}" if len(parts) > 4 and parts[2] == "runs" else parts[1]


def _by_md5(outputs: Sequence[Output]) -> dict[str, str]:
    return {file.md5: str(file.path) for output in outputs for file in output.files}


def _files(files: Sequence[Recorded]) -> str:
    names = ["the list of " * file.is_list + str(file.path) for file in files]
    return ", ".join(few(names))


def _count(output: Output) -> str:
    count = sum(not file.is_list for file in output.files)
    return f"{count} file{'s' * (count != 1)}"


def _remote(remote: str | None) -> list[str]:
    return [] if remote is None else ["--remote", remote]
