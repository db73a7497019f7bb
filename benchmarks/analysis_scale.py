"""What analysing a large study takes: synthetic records of 1,000 runs, through analyze, compare and report.

The study's files are the product's own (problems, manifests, histories, records), filled with answers that are right
by a chance that rises over the depth of the model and falls with the difficulty of the problem. Only the commands are
timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from onelayer.config import Study, load_study
from onelayer.fingerprint import digest, evaluated_splits
from onelayer.grid import BASE, Run, all_runs
from onelayer.manifest import EVALUATION_MANIFEST, RUN_MANIFEST, Manifest, read_manifest, write_manifest
from onelayer.prepare import prepare, read_problems
from onelayer.records import SCHEMA, read_records, summarize, write_record_table
from onelayer.state import StudyState
from onelayer.store import ADAPTED, HISTORY, RECORDS, SCORES, file_sha256, run_folder, write_json
from sections import write_section

NAME = "large"
STEPS = 80
SETTINGS = {
    "model": {
        "kind": "micro",
        "layers": 333,
        "width": 16,
        "intermediate": 32,
        "heads": 2,
        "kv_heads": 1,
        "context": 16,
        "pretraining": {"steps": 100, "batch_size": 32, "learning_rate": 0.01},
    },
    "task": {
        "kind": "arithmetic",
        "digits": 2,
        "operations": ["+", "-", "#"],
        "careless": 0.5,
        "sizes": {"train": 1000, "select": 500, "report": 1500},
    },
    "algorithm": "grpo",
    "training": {"learning_rates": [0.001], "steps": STEPS, "prompts_per_batch": 32, "group_size": 8, "max_tokens": 4},
    "runs": {"seeds": [0, 1, 2]},
    "evaluation": {"samples": 4, "max_tokens": 4},
}


def main() -> None:
    """Make the study in a temporary folder, time the commands, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--layers", type=int, default=333, help="each of three runs, beside three full ones and the base"
    )
    parser.add_argument("--keep", type=Path, help="make the study in this folder, and leave it there")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/README.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(arguments.keep or folder)
        made = make(arguments.layers)
        table = measure(made)
    print(table)
    if arguments.write:
        write_section("analysis_scale", table)


def make(layers: int) -> int:
    """Write the study; returns how many runs it has."""
    Path("studies").mkdir(exist_ok=True)
    Path("params.yaml").write_text(yaml.safe_dump({"studies": [NAME]}))
    settings = SETTINGS | {"model": SETTINGS["model"] | {"layers": layers}}  # type: ignore[operator]
    Path(f"studies/{NAME}.yaml").write_text(yaml.safe_dump(settings))
    study = load_study(NAME)
    prepare(study)
    splits = {split: [problem.id for problem in read_problems(study, split)] for split in ("select", "report")}
    rng = np.random.default_rng(0)
    hardness = {split: rng.normal(size=len(ids)) for split, ids in splits.items()}
    state = StudyState(study)
    first: dict[str, Manifest] = {}
    runs = all_runs(study)
    for run in runs:
        folder = run_folder(NAME, run.name)
        folder.mkdir(parents=True, exist_ok=True)
        level = {"base": -0.5, "full": 1.0}.get(run.kind)
        if level is None:
            level = 0.2 + 0.6 * run.layers[0] / layers
        weights = folder / ("model.safetensors" if run is BASE else ADAPTED)
        weights.write_bytes(run.name.encode())
        files = [weights]
        if run is not BASE:
            history = [{"step": step, "reward": float(one)} for step, one in enumerate(curve(level, rng), start=1)]
            write_json(folder / HISTORY, history)
            files.append(folder / HISTORY)
        done(study, run, RUN_MANIFEST, state.expected_training(run), files, first)
        parts = [answers(run, split, splits[split], level - hardness[split], rng) for split in evaluated_splits(run)]
        write_record_table(folder / RECORDS, pa.concat_tables(parts))
        write_json(folder / SCORES, summarize(read_records(NAME, run.name)))
        files = [folder / RECORDS, folder / SCORES]
        done(study, run, EVALUATION_MANIFEST, state.expected_evaluation(run), files, first)
    return len(runs)


def curve(level: float, rng: np.random.Generator) -> np.ndarray:
    """What a run's batches earn by step."""
    return 0.4 + 0.3 * level * np.linspace(0, 1, STEPS) + rng.normal(scale=0.02, size=STEPS)


def answers(run: Run, split: str, ids: list[str], logits: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Four sampled answers and a greedy one to every problem."""
    chance = 1 / (1 + np.exp(-logits))
    sampled = rng.random((4, len(ids))) < chance
    greedy = chance > 0.5
    right = np.concatenate([sampled.T.reshape(-1), greedy])
    count, problems = len(right), len(ids)
    text = np.where(right, "34", "43")
    columns = {
        "run": [run.name] * count,
        "split": [split] * count,
        "problem": [one for one in ids for _ in range(4)] + ids,
        "decoding": ["sample"] * (4 * problems) + ["greedy"] * problems,
        "sample": np.concatenate([np.tile(np.arange(4), problems), np.zeros(problems, dtype=int)]),
        "completion": text,
        "extracted": text,
        "correct": right,
        "tokens": rng.integers(2, 5, size=count),
        "clipped": rng.random(count) < 0.01,
        "status": ["ok"] * count,
    }
    return pa.table([pa.array(columns[field.name], type=field.type) for field in SCHEMA], schema=SCHEMA)


def done(study: Study, run: Run, name: str, payload: object, files: list[Path], first: dict[str, Manifest]) -> None:
    """Leave a manifest: the first of its kind as the product writes it, later ones with its versions and commit."""
    assert isinstance(payload, dict), payload
    folder = run_folder(NAME, run.name)
    if name not in first:
        write_manifest(folder, study.name, run.name, payload, files, 20.0, 4 * 10**8, {"tokens": 40_000}, name=name)
        found = read_manifest(folder, name)
        assert found is not None
        first[name] = found
        return
    manifest = first[name].model_copy(
        update={
            "run": run.name,
            "settings": payload,
            "fingerprint": digest(payload),
            "files": {path.name: file_sha256(path) for path in files},
        }
    )
    write_json(folder / name, manifest.model_dump(mode="json"))


def measure(runs: int) -> str:
    """Time each command in a process of its own, as a table."""
    rows, whole, processor, highest = [], 0.0, 0.0, 0.0
    for command in (["analyze", NAME], ["compare", NAME], ["report", NAME]):
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", "from onelayer.cli import main; main()", *command])
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"onelayer {' '.join(command)} failed")
        seconds, gigabytes = time.perf_counter() - start, usage.ru_maxrss / 2**20
        busy = usage.ru_utime + usage.ru_stime
        whole, processor, highest = whole + seconds, processor + busy, max(highest, gigabytes)
        rows.append(f"| `onelayer {command[0]}` | {seconds:.1f} | {busy:.1f} | {gigabytes:.2f} |")
    page = Path("reports/report.html").stat().st_size / 1e6
    head = f"{runs} runs, 2,000 problems, 4 samples and a greedy answer to each; the page has {page:.1f} MB."
    total = f"| all | {whole:.1f} | {processor:.1f} | {highest:.2f} |"
    return "\n".join([head, "", "| | seconds | of a processor | peak memory, GiB |", "|---|---|---|---|", *rows, total])


if __name__ == "__main__":
    main()
