"""How long `dvc repro` takes to find that nothing is to be done, with the paper's nine studies recorded.

    python benchmarks/repeated_repro.py [--write]

Makes a project in a temporary folder whose nine studies have left every file that their runs leave, by name and number,
each with a line of content: DVC compares sizes and time stamps, whatever is in them. All of it is recorded, and then
`dvc repro` is timed. ``--write`` puts the table into README.md beside this file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from onelayer import store
from onelayer.config import Study, load_study
from onelayer.grid import all_runs, families, is_weighed, jobs
from onelayer.manifest import EVALUATION_MANIFEST, RUN_MANIFEST, WEIGHING_MANIFEST
from onelayer.suite.standing import benchmark_manifest, scored_jobs, scored_runs
from sections import write_section

ROOT = Path(__file__).parents[1]
NINE = (
    "qwen3-1.7b-numina",
    "qwen3-1.7b-deepscaler",
    "qwen3-1.7b-deepcoder",
    "qwen3-4b-numina",
    "qwen3-8b-numina",
    "qwen2.5-math-1.5b-math",
    "qwen2.5-1.5b-alfworld",
    "qwen2.5-3b-alfworld",
    "r1-distill-qwen-7b-skywork",
)
REPEATS = 5


def files_of(study: Study) -> Iterator[Path]:
    """Every file that a study leaves."""
    name = study.name
    yield from (store.problems_file(name, split) for split in store.SPLITS)
    yield from (store.prepared_receipt(name), store.learning_rate_file(name), store.analysis_file(name))
    yield from (store.learning_rate_file(name, family.name) for family in families(study))
    yield store.study_page(name)
    for run in all_runs(study):
        folder = store.run_folder(name, run.name)
        for file in (store.ADAPTED, RUN_MANIFEST, store.HISTORY, store.RECORDS, store.SCORES, EVALUATION_MANIFEST):
            yield folder / file
        if is_weighed(run):
            yield from (folder / store.WEIGHTS, folder / WEIGHING_MANIFEST)
    for run in scored_runs(study):
        folder = store.suite_folder(name, run.name)
        for benchmark in study.suite:
            yield from (folder / f"{benchmark.name}.parquet", folder / benchmark_manifest(benchmark.name))
        yield store.suite_scores_file(name, run.name)
    for job in jobs(study):
        phases = ("trained", "evaluated", "weighed") if is_weighed(job.runs[0]) else ("trained", "evaluated")
        yield from (store.job_receipt(name, job.name, phase) for phase in phases)
    yield from (store.job_receipt(name, job.name, "suite") for job in scored_jobs(study))


def make_project() -> tuple[int, int]:
    """Fill the current folder with nine recorded studies; gives their runs and files."""
    for name in ("Snakefile", "dvc.yaml", ".gitignore"):
        shutil.copy(ROOT / name, ".")
    for name in ("workflow", "profiles", "studies"):
        shutil.copytree(ROOT / name, name)
    params = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"studies": list(NINE)}
    Path("params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    studies = [load_study(name) for name in NINE]
    paths = [path for study in studies for path in files_of(study)]
    report = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]["report"]
    for group in ("outs", "metrics", "plots"):
        paths += [Path(entry if isinstance(entry, str) else next(iter(entry))) for entry in report[group]]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path}\n")
    Path("data/sources").mkdir()
    shutil.copy(ROOT / "data/.gitignore", "data")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["dvc", "init", "-q"], check=True)
    subprocess.run(["dvc", "config", "core.analytics", "false"], check=True)
    subprocess.run(["dvc", "commit", "-q", "-f"], check=True)
    return sum(len(all_runs(study)) for study in studies), len(paths)


def measure() -> list[float]:
    """Seconds of each `dvc repro`. Raises RuntimeError where one finds anything to do."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = subprocess.run(["dvc", "repro"], capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - start)
        if "Data and pipelines are up to date" not in result.stdout + result.stderr:
            raise RuntimeError(f"dvc repro found something to do: {(result.stdout + result.stderr)[-2000:]}")
    return seconds


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runs, files = make_project()
        seconds = measure()
        os.chdir(ROOT)
    table = (
        "| studies | runs | files | seconds, median | lowest to highest |\n|---|---|---|---|---|\n"
        f"| {len(NINE)} | {runs} | {files} | {statistics.median(seconds):.1f} |"
        f" {min(seconds):.1f} to {max(seconds):.1f} |"
    )
    if write:
        write_section("repeated_repro", table)
    else:
        print(table)


if __name__ == "__main__":
    main()
