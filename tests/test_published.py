"""The paper replayed from its published figures alone, and what is refused in such a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.test_contribution import PAPER
from analysis.test_study import CLEAR, make_study
from conftest import ROOT, write_params
from onelayer.analysis.contribution import contribution
from onelayer.analysis.study import analyze
from onelayer.compare import compare, headlines
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.published import load_published, published_files, shown_published

FILES = ROOT / "studies/published"


@pytest.fixture
def published(project: Path) -> Path:
    """A project with the published studies; the folder of their files."""
    shutil.copytree(FILES, project / "studies/published")
    return project / "studies/published"


@pytest.mark.usefixtures("published")
class TestThePaper:
    def test_all_seven_models(self) -> None:
        found = {study.model: (study.layers_of_model, study.algorithm) for study in shown_published()}
        assert found == {
            "Qwen3-1.7B-Base": (28, "GRPO"),
            "Qwen3-4B-Base": (36, "GRPO"),
            "Qwen3-8B-Base": (36, "GRPO"),
            "Qwen2.5-Math-1.5B": (28, "Dr. GRPO"),
            "Qwen2.5-1.5B-Instruct": (28, "GiGPO"),
            "Qwen2.5-3B-Instruct": (36, "GiGPO"),
            "DeepSeek-R1-Distill-Qwen-7B": (28, "GRPO"),
        }

    def test_contributions_of_all_28_layers(self) -> None:
        """The paper's scores by layer are not at hand, its C is: what is checked is that scores of one decimal, as the
        paper prints them, give that C again by our formula."""
        study = load_published("qwen3-1.7b-numina")
        assert list(study.contributions.values()) == PAPER
        again = [contribution(round(score, 1), study.base, study.full) for score in study.scores.values()]
        assert again == pytest.approx(PAPER, abs=0.02)

    @pytest.mark.parametrize(
        ("name", "layer", "printed"),
        [
            ("qwen3-4b-numina", 16, 1.06),
            ("qwen3-8b-numina", 16, 1.07),
            ("qwen2.5-math-1.5b-math", 14, 1.01),
            ("qwen2.5-1.5b-alfworld", 14, 1.02),
            ("qwen2.5-3b-alfworld", 18, 1.01),
            ("r1-distill-qwen-7b-skywork", 16, 1.05),
        ],
    )
    def test_contributions_from_published_scores(self, name: str, layer: int, printed: float) -> None:
        """Where a layer's score is published beside its C, the score gives that C."""
        study = load_published(name)
        assert next(one.score for one in study.layers if one.layer == layer) is not None
        assert study.contributions[layer] == pytest.approx(printed, abs=0.01)
        assert study.ranking[0] == layer

    def test_the_worked_example(self) -> None:
        example = load_published("qwen3-1.7b-numina").worked_example
        assert example is not None
        assert example.contribution == pytest.approx(7.7 / 6.7)
        assert example.contribution == pytest.approx(1.15, abs=0.005)

    def test_sets_of_layers(self) -> None:
        study = load_published("qwen3-1.7b-numina")
        assert study.best(5) == [10, 12, 9, 2, 13]
        assert study.best(10)[:9] == [10, 12, 9, 2, 13, 15, 11, 14, 0]
        assert study.best(10)[9] in (1, 6)  # the tie at two decimals
        assert study.contributions[1] == study.contributions[6]
        assert study.middle(5) == [11, 12, 13, 14, 15]
        assert load_published("qwen3-4b-numina").middle(5) == [15, 16, 17, 18, 19]
        with pytest.raises(ValueError, match="3 of 36 scanned layers are known"):
            load_published("qwen3-4b-numina").best(5)

    @pytest.mark.parametrize(
        ("name", "strategy", "share"),
        [
            ("qwen3-1.7b-numina", "boost-best10", 0.43),
            ("qwen3-4b-numina", "only-best5", 0.27),
            ("qwen3-8b-numina", "only-best10", 0.32),
        ],
    )
    def test_what_the_best_strategy_adds(self, name: str, strategy: str, share: float) -> None:
        gains = load_published(name).added_gains
        assert gains[strategy] == pytest.approx(share, abs=0.005)
        assert max(gains, key=lambda one: gains[one]) == strategy

    def test_weak_readings_are_marked(self) -> None:
        weak = {one.name for one in load_published("qwen3-8b-numina").strategies if one.weak}
        assert weak == {"boost-worst5", "boost-worst10", "only-worst5", "only-worst10"}

    def test_beside_ours(self) -> None:
        analyze(make_study(CLEAR))
        compare(["tiny"])
        metrics = json.loads(Path("reports/metrics.json").read_text())
        assert list(metrics) == ["tiny", "correlations", "published"]
        assert len(metrics["published"]) == 7
        found = metrics["published"]["qwen3-8b-numina"]
        assert found["source"].endswith("read from tables")
        assert found["base"] == {"score": 0.58}
        assert found["full"] == {"score": 0.665, "gain": 0.085}
        assert found["best_layer"]["contribution"] == pytest.approx(9.1 / 8.5)
        assert found["contribution"]["layer-00"] == -0.51
        assert found["strategies"]["only-best10"]["added_gain"] == pytest.approx(0.318, abs=0.001)
        assert found["correlations"] == {"C on math, C on all categories": 0.65}
        assert len(headlines()) == 1
        write_params(["tiny"], report={"published": ["qwen3-4b-numina"]})
        compare(["tiny"])
        assert list(json.loads(Path("reports/metrics.json").read_text())["published"]) == ["qwen3-4b-numina"]
        write_params(["tiny"], report={"published": []})
        compare(["tiny"])
        assert "published" not in json.loads(Path("reports/metrics.json").read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bsae": 1}, "bsae: unknown key"),
        ({"base": 66.5}, r"full: found 66\.5, expected more than base, 66\.5"),
        ({"base": "high"}, "base: found 'high'"),
        ({"layers_scanned": 3}, r"layers_scanned: found 3, expected 4 \(the layers given\) to 36"),
        ({"layers": []}, "layers: found"),
        (
            {"layers": [{"layer": 36, "contribution": 1}]},
            r"layers\[0\].layer: found 36, expected each layer once, 0 to 35",
        ),
        ({"layers": [{"layer": 1, "contribution": 1}] * 2}, r"layers\[1\].layer: found 1, expected each layer once"),
        (
            {"layers": [{"layer": 16, "contribution": 1.12, "score": 67.1}]},
            r"layers\[0\].contribution: found 1\.12, but the score 67\.1 gives 1\.071",
        ),
        ({"strategies": [{"kind": "middle", "count": 5, "score": 60}]}, "strategies: found middle5; expected full"),
        ({"strategies": [{"kind": "boost", "count": 5, "score": 60}]}, "layers: found None in boost"),
        ({"strategies": [{"kind": "full", "count": 5, "score": 60}]}, "count: found 5 in full"),
        ({"correlations": [{"first": "a", "second": "b", "statistic": "r", "value": 0}]}, "statistic: found 'r'"),
        ({"name": "other"}, "name: unknown key"),
    ],
)
def test_what_is_refused(published: Path, change: dict[str, Any], message: str) -> None:
    path = published / "qwen3-8b-numina.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(UserError, match=message) as caught:
        shown_published()
    assert str(caught.value).startswith("studies/published/qwen3-8b-numina.yaml: ")


@pytest.mark.usefixtures("published")
def test_a_published_study_is_no_study_of_ours() -> None:
    with pytest.raises(UserError, match=r"studies/published/qwen3-8b-numina\.yaml: found a folder in the study's name"):
        load_study("published/qwen3-8b-numina")
    with pytest.raises(UserError, match=r"studies/published\.yaml: found a study named 'published'"):
        compare(["published"])


@pytest.mark.usefixtures("project")
def test_without_the_folder_there_is_none() -> None:
    assert published_files() == []
    assert shown_published() == []
    write_params(["tiny"], report={"published": ["paper"]})
    with pytest.raises(UserError, match=r"studies/published/paper\.yaml: not found"):
        shown_published()
