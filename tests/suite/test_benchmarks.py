"""The named benchmarks, and what a study may change of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, write_study
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, evaluation_settings, suite_settings, training_settings
from onelayer.grid import all_runs
from onelayer.suite.benchmarks import (
    CodeBenchmark,
    HarnessBenchmark,
    QuestionsBenchmark,
    benchmark_names,
    category_of,
    composites,
    leaves,
)

TWELVE = [
    "math500", "gsm8k", "olympiadbench", "amc", "humaneval-plus", "mbpp", "livecodebench", "gpqa-diamond", "mmlu-pro",
    "c-eval", "ifeval", "mgsm",
]  # fmt: skip


def study_with(suite: Any, **changes: Any) -> Study:
    settings = deep_copy(TINY) | changes
    settings["evaluation"]["suite"] = suite
    return Study(name="tiny", **settings)


def refused(suite: Any) -> str:
    settings = deep_copy(TINY)
    settings["evaluation"]["suite"] = suite
    write_study("tiny", settings)
    with pytest.raises(UserError) as caught:
        load_study("tiny")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("studies/tiny.yaml: evaluation.suite")
    return message


def test_the_papers_benchmarks_categories_and_composites() -> None:
    assert [one.name for one in study_with(["overall"]).suite] == TWELVE
    assert {
        name: [category_of(leaf) for leaf in parts] for name, parts in composites().items() if name != "overall"
    } == {
        "math": ["math"] * 4,
        "code": ["code"] * 3,
        "reasoning": ["reasoning"] * 2,
        "language": ["language"] * 3,
        "math6": ["math"] * 6,
    }
    assert leaves("overall", composites()) == tuple(TWELVE)
    assert set(leaves("math6", composites())) == {"aime24", "aime25", "amc", "math500", "minerva", "olympiadbench"}
    amc = study_with(["amc"]).suite[0]
    assert isinstance(amc, QuestionsBenchmark)
    assert amc.samples == 32


def test_every_benchmark_is_judged_where_the_domain_is_trained_or_by_the_harness() -> None:
    kinds = {"math": QuestionsBenchmark, "code": CodeBenchmark}
    for one in study_with(list(benchmark_names())).suite:
        assert isinstance(one, kinds.get(one.category, HarnessBenchmark))
        if not isinstance(one, HarnessBenchmark):
            assert one.source.hub is not None
            assert len(one.source.revision or "") == 40  # a commit, not a branch that moves


def test_groups_and_changes() -> None:
    suite = study_with(["math", {"benchmark": "gsm8k", "path": "gsm8k.jsonl", "samples": 1, "temperature": None}]).suite
    assert [one.name for one in suite] == TWELVE[:4]
    changed = suite[1]
    assert isinstance(changed, QuestionsBenchmark)
    assert (changed.samples, changed.temperature) == (1, None)
    assert changed.source.path == Path("gsm8k.jsonl")
    assert changed.source.hub is None
    assert changed.source.answer_after == "####"  # the fields stay the benchmark's
    other = study_with([{"benchmark": "amc", "source": {"path": "a.jsonl", "question": "problem"}}, "math"]).suite
    assert [one.name for one in other] == ["amc", "math500", "gsm8k", "olympiadbench"]
    assert isinstance(other[0], QuestionsBenchmark)
    assert (other[0].source.question, other[0].source.answer) == ("problem", "answer")
    local = study_with([{"benchmark": "ifeval", "path": "tasks", "task": "mine"}]).suite[0]
    assert isinstance(local, HarnessBenchmark)
    assert (local.task, local.path, local.metric) == ("mine", Path("tasks"), "prompt_level_strict_acc")


@pytest.mark.usefixtures("project")
class TestRefusals:
    def test_unknown_name(self) -> None:
        message = refused(["maths"])
        assert "unknown benchmark 'maths'; expected one of math500, gsm8k," in message
        assert "one of math, code, reasoning, language, overall, math6" in message
        assert "unknown benchmark 'maths'" in refused([{"benchmark": "maths"}])

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            ({"benchmark": "gsm8k", "samples": 0}, "benchmark gsm8k: samples: found 0; Input should be greater than"),
            ({"benchmark": "gsm8k", "task": "x"}, "benchmark gsm8k: task: found 'x'; unknown key for it"),
            ({"benchmark": "gsm8k", "color": 1}, "color: unknown key"),
            (
                {"benchmark": "gsm8k", "temperature": None},
                "greedy answers (temperature null) are all alike: expected samples 1, found 4",
            ),
            ({"benchmark": "gsm8k", "prompt": "?"}, "prompt must contain {question}, found '?'"),
            ({"benchmark": "gsm8k", "grading": "kind"}, "benchmark gsm8k: grading: found 'kind'"),
            ({"benchmark": "gsm8k", "source": {"row": 1}}, "benchmark gsm8k: source.row: found 1; unknown key for it"),
            ({"benchmark": "ifeval", "samples": 4}, "benchmark ifeval: samples: found 4; unknown key for it"),
            ({"benchmark": "ifeval", "source": {}}, "source belongs to benchmarks that we sample ourselves"),
            (3, "expected a name or a mapping with benchmark, found 3"),
            ({"path": "x"}, "expected a name or a mapping with benchmark"),
        ],
    )
    def test_one_line_each(self, entry: Any, expected: str) -> None:
        assert expected in refused([entry])

    def test_twice(self) -> None:
        twice = [{"benchmark": "amc", "samples": 2}, {"benchmark": "amc", "samples": 3}]
        assert "expected each benchmark once, found amc more than once" in refused(twice)
        assert study_with(["amc", "amc", "math"]).suite[0].name == "amc"

    def test_no_list(self) -> None:
        assert "found 'math'; Input should be a valid tuple" in refused("math")


def test_a_suite_changes_no_other_fingerprint() -> None:
    plain, with_suite = Study(name="tiny", **deep_copy(TINY)), study_with(["math", "ifeval"])
    for run in all_runs(plain):
        assert evaluation_settings(plain, run) == evaluation_settings(with_suite, run)
        assert training_settings(plain, run) == training_settings(with_suite, run)


def test_what_a_benchmarks_fingerprint_covers() -> None:
    run = all_runs(study_with(["gsm8k"]))[0]

    def fingerprint(entry: Any) -> str:
        study = study_with([entry])
        return digest(suite_settings(study, run, study.suite[0]))

    base = {"benchmark": "gsm8k", "path": "a.jsonl"}
    assert fingerprint(base) == fingerprint({**base, "path": "elsewhere/b.jsonl"})  # its content counts, not its place
    assert fingerprint({"benchmark": "gsm8k", "samples": 4}) == fingerprint("gsm8k")
    for key, value in (("samples", 5), ("temperature", 0.5), ("max_tokens", 7), ("prompt", "Q: {question}")):
        assert fingerprint({**base, key: value}) != fingerprint(base), key
    assert fingerprint("gsm8k") != fingerprint("math500")


def test_the_plan_and_the_reports_import_neither_torch_nor_the_harness() -> None:
    code = (
        "import sys, onelayer.overview, onelayer.phases, onelayer.analysis.study\n"
        "sys.exit(' '.join({'torch', 'transformers', 'datasets', 'lm_eval'} & set(sys.modules)) or 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
