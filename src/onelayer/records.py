"""Records: one sampled answer to one problem a row (or one episode); every score is a pure function of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from onelayer.analysis.problem_sets import ProblemSets
from onelayer.errors import UserError
from onelayer.store import RECORDS, SCORES, read_json, replacing, run_folder

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),
        pa.field("decoding", pa.string(), nullable=False),  # "sample" or "greedy"
        pa.field("sample", pa.int32(), nullable=False),  # 0 … k − 1; 0 for greedy
        pa.field("completion", pa.string(), nullable=False),
        pa.field("extracted", pa.string()),  # null where no answer was found
        pa.field("correct", pa.bool_(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("clipped", pa.bool_(), nullable=False),  # the limit (of an episode: of its turns) came before the end
        pa.field("status", pa.string(), nullable=False),  # of the judgement; see onelayer.tasks.contract
    ]
)


def write_records(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write records atomically as Parquet."""
    write_record_table(path, pa.Table.from_pylist(rows, schema=SCHEMA))


def write_record_table(path: Path, table: pa.Table) -> None:
    """Write a table of ``SCHEMA`` atomically as Parquet."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


# What scores follow from: everything but the answers' own text, which is most of a file.
SCORED = ("run", "split", "problem", "decoding", "sample", "extracted", "correct", "tokens", "clipped", "status")
# Columns of few different values.
_NAMES = ("run", "split", "problem", "decoding", "status")


def read_records(study: str, run: str, columns: Sequence[str] | None = None, categories: bool = False) -> pd.DataFrame:
    """Read a run's records; of some columns alone, where these are named.

    Columns of few different values come as ``categories`` where that is asked for, which is much faster; theirs is the
    order of the file, not of the alphabet. Raises UserError where there are no records or the file is not what
    `onelayer evaluate` writes.
    """
    made_by = f"onelayer evaluate {study} {run}"
    return read_record_file(run_folder(study, run) / RECORDS, made_by, columns, categories)


def read_record_file(
    path: Path, made_by: str, columns: Sequence[str] | None = None, categories: bool = False
) -> pd.DataFrame:
    """Read one file of records. Raises UserError, naming the command that makes it, where it is none."""
    names = list(_NAMES) if categories else None
    try:
        with pq.ParquetFile(path, read_dictionary=names) as file:
            found = file.schema_arrow.names
            table = file.read(columns=columns) if found == SCHEMA.names else None
    except FileNotFoundError:
        raise UserError(f"{path}: no records yet; `{made_by}` makes them") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: expected Parquet, found: {error}; `{made_by}` makes it anew") from None
    if table is None:
        raise UserError(f"{path}: expected the columns {SCHEMA.names}, found {found}")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def read_scores(study: str, run: str) -> dict[str, dict[str, Any]]:
    """Read the summary that stands beside a run's records. Raises UserError where there is none."""
    scores: dict[str, dict[str, Any]] = read_json(run_folder(study, run) / SCORES, f"onelayer evaluate {study} {run}")
    return scores


def problem_means(records: pd.DataFrame, split: str) -> pd.Series:
    """Each problem's share of right samples, by problem id, sorted: the mean of this is avg@k.

    A sample whose judgement broke is neither right nor wrong and counts for nothing. Returns a float series of as many
    values as the split has problems. Raises UserError where every sample of a problem broke.
    """
    return judged_means(records[(records["split"] == split) & (records["decoding"] == "sample")])


def judged_means(records: pd.DataFrame) -> pd.Series:
    """Each problem's share of right answers among these records that were judged, by problem id, sorted.

    Raises UserError where every answer to a problem broke.
    """
    codes, problems = pd.factorize(records["problem"].to_numpy(dtype=object), sort=True)
    judged = (records["status"] != "broken").to_numpy()
    counts = np.bincount(codes[judged], minlength=len(problems))
    lost = problems[counts == 0]
    if len(lost):
        first = records.iloc[0]
        raise UserError(
            f"records of {first['run']} on {first['split']}: the judgement of every sample of problem {lost[0]} broke"
            f" ({len(lost)} such problems); evaluate the run again once what failed is mended"
        )
    right = np.bincount(codes[judged], weights=records["correct"].to_numpy()[judged], minlength=len(problems))
    return pd.Series(right / counts, index=pd.Index(problems, dtype="str", name="problem"), name="correct")


def aligned(series: list[pd.Series]) -> npt.NDArray[np.float64]:
    """Stack runs' problem means into shape (runs, problems).

    Raises UserError where the runs were not scored on the same problems.
    """
    first = series[0]
    for other in series[1:]:
        if not other.index.equals(first.index):
            raise UserError(
                "records: expected every run to hold the same problems; evaluate the study again"
                f" ({len(first)} problems against {len(other)})"
            )
    return np.stack([one.to_numpy(dtype=np.float64) for one in series])


def summarize(records: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The scores of a run by split, with what a score alone hides.

    ``score`` is avg@k: the mean over problems of the share of right samples, and over the problems' sets where there
    are several (``sets`` then gives each one's own); ``greedy`` the share of right greedy
    answers, null where none could be judged. ``clipped`` and ``unparsed`` are shares of the samples, ``mean_tokens``
    their mean length, ``right_tokens`` and ``wrong_tokens`` that of the right and of the wrong ones (null of none), and
    ``timeout``, ``crashed`` and ``broken`` the shares whose judgement came about so.
    """
    return {split: summary for split, (summary, _) in scored(records).items()}


@lru_cache(maxsize=8)
def _sets(problems: tuple[str, ...]) -> ProblemSets:
    """The sets of a split's problems, which are the same in every run of a study."""
    return ProblemSets.of_ids(problems)


def scored(records: pd.DataFrame) -> dict[str, tuple[dict[str, Any], pd.Series]]:
    """By split, the scores as `summarize` gives them, and each problem's share of right samples (`problem_means`)."""
    result = {}
    for split in sorted(records["split"].unique()):
        part = records[records["split"] == split]
        sampled = (part["decoding"] == "sample").to_numpy()
        samples = part[sampled]
        means = judged_means(samples)
        sets = _sets(tuple(means.index))
        greedy = part["correct"].to_numpy()[~sampled & (part["status"] != "broken").to_numpy()]
        summary = {
            "score": sets.score(means.to_numpy()),
            **({"sets": sets.by_set(means.to_numpy())} if len(sets.names) > 1 else {}),
            "greedy": float(greedy.mean()) if len(greedy) else None,
            "problems": len(means),
            "samples": int(samples["sample"].max()) + 1,
            "clipped": float(samples["clipped"].mean()),
            "unparsed": float(samples["extracted"].isna().mean()),
            "mean_tokens": float(samples["tokens"].mean()),
            **_tokens_by_outcome(samples[samples["status"] != "broken"]),
            **{status: float((samples["status"] == status).mean()) for status in ("timeout", "crashed", "broken")},
        }
        result[str(split)] = summary, means
    return result


def _tokens_by_outcome(judged: pd.DataFrame) -> dict[str, float | None]:
    lengths = judged.groupby("correct")["tokens"].mean().to_dict()
    return {"right_tokens": lengths.get(True), "wrong_tokens": lengths.get(False)}
