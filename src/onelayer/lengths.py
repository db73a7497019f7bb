"""How long prompts and responses are, on average: measured where a run has been, else stated, else supposed."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass, field, replace

from onelayer.config import Study
from onelayer.grid import all_runs
from onelayer.manifest import read_manifest
from onelayer.model_settings import MicroModel
from onelayer.prepare import is_prepared
from onelayer.records import read_scores
from onelayer.source_settings import Source
from onelayer.state import StudyState
from onelayer.store import HISTORY, SPLITS, prepared_receipt, read_json, run_folder
from onelayer.suite.library import SUITE_PROBLEMS, library
from onelayer.task_settings import CodeTask, HouseholdTask, QuestionsTask, WorldSettings
from onelayer.tasks import make_corpus
from onelayer.tasks.contract import Line
from onelayer.tasks.sources import count_taken

# What a prompt is supposed to have where nothing says how long it is.
_PROMPT_TOKENS = 200.0
# Lines of a micro model's corpus that are looked at.
_LINES = 200


@dataclass(frozen=True)
class Lengths:
    """Mean tokens, of every run alike.

    Attributes:
        prompt: of a prompt; of an episode, of its first view.
        response: of a response in training; of an episode, of all that follows its first view.
        evaluated: of a response in evaluation.
        source: where the figures come from, in words.
        problems: how many each split has, where they are prepared, or can be counted before.
    """

    prompt: float
    response: float
    evaluated: float
    source: str
    problems: dict[str, int] = field(default_factory=dict)


def turns(study: Study) -> int:
    """How often the model writes in one answer: once, or as often as an episode has turns."""
    return study.task.max_turns if isinstance(study.task, (HouseholdTask, WorldSettings)) else 1


def corpus_lines(study: Study) -> list[Line]:
    """The first lines that a micro model learns from."""
    return list(itertools.islice(make_corpus(study).corpus(study.seed), _LINES))


def expected_lengths(study: Study, response_tokens: float | None = None) -> Lengths:
    """The mean lengths that a study's cost is counted with.

    Args:
        study: measured runs of it come first, what its ``cost`` states second; a micro model's corpus is like its
            answers; of any other model every response is supposed to reach its limit.
        response_tokens: overrides all of these.
    """
    found = replace(_measured(study) or _supposed(study), problems=_problems(study))
    if response_tokens is None:
        return found
    return replace(
        found,
        response=response_tokens,
        evaluated=response_tokens,
        source=f"responses of {response_tokens:g} tokens as asked for; prompts: {found.source}",
    )


def _problems(study: Study) -> dict[str, int]:
    """How many problems each split has, or will have at the most; without a split of which that is not known yet."""
    if is_prepared(study):
        receipt = read_json(prepared_receipt(study.name), f"onelayer prepare {study.name}")
        return {split: int(found["problems"]) for split, found in receipt["splits"].items()}
    task = study.task
    if not isinstance(task, (QuestionsTask, CodeTask)):
        return {}
    found = {}
    for split in SPLITS:
        wanted: int | str = getattr(task.sizes, split)
        counts = [_rows(one) if wanted == "all" else int(wanted) for one in getattr(task.sources, split)]
        if None not in counts:
            found[split] = sum(count for count in counts if count is not None)
    return found


def _rows(source: Source) -> int | None:
    """How many rows a source gives: counted in a local file, or as a benchmark's authors say; else None."""
    if source.path is not None:
        return count_taken(source) if source.path.is_file() else None
    if source.where or source.shortest or source.longest:
        return None
    for name, benchmark in library()["benchmarks"].items():
        if benchmark["judge"] == source.judge:
            published = type(source).model_validate({"benchmark": name})
            if published.origin == source.origin:
                return SUITE_PROBLEMS[name]
    return None


def _measured(study: Study) -> Lengths | None:
    state = StudyState(study)
    settings = study.training
    answers = settings.prompts_per_batch * settings.group_size * math.ceil(settings.steps / settings.steps_per_rollout)
    rows, responses, evaluated, taken = [], [], [], []
    for run in all_runs(study):
        if run.kind == "base" or not state.training(run).done:
            continue
        manifest = read_manifest(run_folder(study.name, run.name))
        assert manifest is not None  # its standing was just seen
        history = read_json(run_folder(study.name, run.name) / HISTORY, f"onelayer train {study.name} {run.name}")
        rows.append(manifest.details["tokens"] / answers)
        responses.append(statistics.fmean(row["mean_tokens"] for row in history if "mean_tokens" in row))
        taken += [row["turns"] for row in history if "turns" in row]
        if state.evaluation(run).done and not study.is_agent:
            evaluated += [split["mean_tokens"] for split in read_scores(study.name, run.name).values()]
    if not rows:
        return None
    row, response = statistics.fmean(rows), statistics.fmean(responses)
    prompt = row - response
    if study.is_agent:
        # A run counts the agent's own tokens; what the world says between two of its turns is supposed.
        response += (statistics.fmean(taken) - 1) * _view(study, prompt)
    return Lengths(
        prompt,
        response,
        statistics.fmean(evaluated) if evaluated else response,
        f"measured in {len(rows)} {'run' if len(rows) == 1 else 'runs'}",
    )


def _supposed(study: Study) -> Lengths:
    stated = study.cost
    if isinstance(study.model, MicroModel):
        lines = corpus_lines(study)
        prompt = statistics.fmean(len(line[0][0]) for line in lines)
        response = statistics.fmean(sum(len(text) for text, _ in line[1:]) + 1 for line in lines)
        source = "as in the lines that the base learns from"
    else:
        prompt = _PROMPT_TOKENS
        most = turns(study)
        response = study.training.max_tokens * most + _view(study, prompt) * (most - 1)
        source = f"prompts (and views) of {prompt:g} tokens and responses at their limit, supposed"
    if stated.response_tokens is None and stated.prompt_tokens is None:
        return Lengths(prompt, response, _limited(study, response), source)
    response = stated.response_tokens or response
    words = [
        f"{name} of {value:g} tokens"
        for name, value in (("prompts", stated.prompt_tokens), ("responses", stated.response_tokens))
        if value is not None
    ]
    return Lengths(
        stated.prompt_tokens or prompt,
        response,
        _limited(study, response),
        f"{' and '.join(words)}, as the study's cost states",
    )


def _view(study: Study, prompt: float) -> float:
    """Mean tokens that the world says between two turns: as in the corpus, else as many as the first view has."""
    if not isinstance(study.model, MicroModel):
        return prompt
    views = [len(text) for line in corpus_lines(study) for text, learned in line[1:] if not learned]
    return statistics.fmean(views) if views else prompt


def _limited(study: Study, response: float) -> float:
    """A response in evaluation: as in training, but no longer than evaluation lets it be."""
    if study.is_agent:
        return response
    return min(response, float(study.evaluation.max_tokens))


def mean_line(study: Study) -> float:
    """Mean tokens of a line of the corpus that a micro model learns from, its end included."""
    return statistics.fmean(sum(len(text) for text, _ in line) + 1 for line in corpus_lines(study))
