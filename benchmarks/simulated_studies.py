"""What the statistics say of simulated studies whose truth is known (onelayer.analysis.simulation).

- Coverage: how often the interval of C holds the true C, and that of the gain the true gain; beside it the percentile
  interval of the bootstrap's drawn ratios.
- False alarms: how often some layer is said to beat full training where every layer's true C is 1.
- Reliability: what it says of a study's ranking, beside how well that ranking agrees with a repeat of the study.
- Selection: what is reported of the best layer where it is picked on the problems that it is reported on, and where it
  is picked on others.

Use: python benchmarks/simulated_studies.py [--studies 1000] [--write]   (--write puts the tables into README.md)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from onelayer.analysis.comparison import compare_arms, holm
from onelayer.analysis.contribution import Bootstrap, Scan, contribution, scan
from onelayer.analysis.correlation import reliability, spearman
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.analysis.simulation import Design, SimulatedSplit, repeats, simulate
from onelayer.seeds import derive_seed
from sections import write_section

RESAMPLES = 500
CONFIDENCE = 0.95


def main() -> None:
    """Simulate, measure, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000, help="of every row")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options = parser.parse_args()
    tables = ["\n".join(part(options.studies)) for part in (coverage, false_alarms, rankings, selection)]
    print("\n\n".join(tables))
    if options.write:
        write_section("simulated_studies", "\n\n".join(tables))


def coverage(studies: int) -> list[str]:
    """Shares of intervals that hold the truth: 8 to 28 layers with C from 0 to 1.1, 200 to 500 problems."""
    lines = [
        "| seeds | luck of a seed | C held | C under 0.5 | C over 0.9 | percentile interval | gain held | undefined |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [(3, 0, 0.15), (2, 0, 0.15), (5, 0, 0.15), (3, 0, 0), (3, 0.2, 0.2), (1, 0, 0), (1, 0.1, 0.1)]
    for seeds, least, most in rows:
        gains, truths, held, percentile = [], [], [], []
        for generator in _generators(studies, "coverage", seeds, least, most):
            design = Design(
                tuple(generator.permutation(np.linspace(0, 1.1, generator.integers(8, 29)))),
                problems=int(generator.integers(200, 501)),
                seeds=seeds,
                luck=float(generator.uniform(least, most)),
            )
            report = simulate(design, generator, ("report",))["report"]
            bootstrap = _bootstrap(design, generator)
            found = _scan(report, bootstrap)
            gains.append(found.gain.low <= design.full - design.base <= found.gain.high)
            for truth, (low, high), drawn in zip(
                design.contributions, _ends(found), _percentiles(report, bootstrap), strict=True
            ):
                truths.append(truth)
                held.append(low <= truth <= high if found.defined else np.nan)
                percentile.append(drawn[0] <= truth <= drawn[1] if found.defined else np.nan)
        where, of = np.array(held), np.array(truths)
        shares = [where, where[of < 0.5], where[of > 0.9], np.array(percentile)]
        lines.append(
            f"| {seeds} | {least:g}{f' to {most:g}' if most > least else ''} | "
            + " | ".join(f"{np.nanmean(one):.1%}" for one in shares)
            + f" | {np.mean(gains):.1%} | {np.isnan(where).mean():.1%} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def false_alarms(studies: int) -> list[str]:
    """Shares of studies of 28 layers, all with C = 1, in which some layer is said to beat full training."""
    lines = [
        "| seeds | luck of a seed | p at most 0.05 | corrected p at most 0.05 |",
        "|---|---|---|---|",
    ]
    for seeds, luck in ((3, 0.08), (2, 0.08), (3, 0.0), (3, 0.2), (2, 0.2)):
        design = Design((1.0,) * 28, seeds=seeds, luck=luck)
        said = []
        for generator in _generators(studies, "false alarms", seeds, luck):
            report = simulate(design, generator, ("report",))["report"]
            bootstrap = _bootstrap(design, generator)
            found = [compare_arms(runs, report.full, bootstrap) for runs in report.layers.values()]
            corrected = holm([one.p for one in found])
            above = np.array([one.difference.value > 0 for one in found])
            said.append(
                [
                    np.any(above & (np.array([one.p for one in found]) <= 1 - CONFIDENCE)),
                    np.any(above & (np.array(corrected) <= 1 - CONFIDENCE)),
                ]
            )
        lines.append(f"| {seeds} | {luck:g} | " + " | ".join(f"{one:.1%}" for one in np.mean(said, axis=0)) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def rankings(studies: int) -> list[str]:
    """Means over studies of 16 layers: the reliability of the ranking, and Spearman's rho with a repeat."""
    lines = [
        "| seeds | C of the layers | reliability | rho with new seeds | rho with new seeds and problems |",
        "|---|---|---|---|---|",
    ]
    for seeds, least in ((3, 0.0), (3, 0.6), (3, 0.8), (2, 0.6), (4, 0.6), (1, 0.6)):
        design = Design(tuple(np.linspace(least, 1, 16)), seeds=seeds)
        figures = []
        for generator in _generators(studies, "rankings", seeds, least):
            one, again = repeats(design, generator)
            other = simulate(design, generator, ("report",))["report"]
            figures.append(
                [
                    reliability(np.stack(list(one.layers.values())), int(generator.integers(2**32))) or 0.0,
                    float(spearman(_scores(one), _scores(again))),
                    float(spearman(_scores(one), _scores(other))),
                ]
            )
        means = np.mean(figures, axis=0)
        lines.append(f"| {seeds} | {least:g} to 1 | " + " | ".join(f"{one:.2f}" for one in means) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def selection(studies: int) -> list[str]:
    """What is reported of the best layer less its true C, and how often its interval holds the truth."""
    lines = [
        "| layers | C of the layers | luck of a seed | picked and reported on one set: bias | interval holds"
        " | picked on select, reported on report: bias | interval holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for layers, least, most, luck in (
        (28, 0.9, 0.9, 0.0),
        (28, 0.9, 0.9, 0.08),
        (28, 0.3, 1.0, 0.08),
        (8, 0.9, 0.9, 0.08),
    ):
        design = Design(tuple(np.linspace(least, most, layers)), luck=luck)
        figures = []
        for generator in _generators(studies, "selection", layers, least, luck):
            made = simulate(design, generator)
            report = made["report"]
            row: list[float] = []
            for split in (report, made["select"]):
                best = int(np.argmax(_scores(split)))
                truth = design.contributions[best]
                arms = replace(report, layers={best: report.layers[best]})
                found = contribution(*(float(one.mean()) for one in (report.layers[best], report.base, report.full)))
                low, high = _ends(_scan(arms, _bootstrap(design, generator)))[0]
                row += [found - truth, low <= truth <= high]
            figures.append(row)
        naive, naive_holds, ours, ours_holds = np.mean(figures, axis=0)
        spread = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        lines.append(
            f"| {layers} | {spread} | {luck:g} | {naive:+.3f} | {naive_holds:.1%} | {ours:+.3f} | {ours_holds:.1%} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _generators(studies: int, *row: object) -> Iterator[np.random.Generator]:
    """One generator a study, whatever rows stand before it."""
    for study in range(studies):
        yield np.random.Generator(np.random.Philox(derive_seed("simulated studies", *row, study)))


def _bootstrap(design: Design, generator: np.random.Generator) -> Bootstrap:
    sets = ProblemSets([""] * design.problems)
    return Bootstrap(sets, RESAMPLES, CONFIDENCE, int(generator.integers(2**32)))


def _scan(split: SimulatedSplit, bootstrap: Bootstrap) -> Scan:
    return scan(split.base, split.full, dict(split.layers), bootstrap)


def _ends(found: Scan) -> list[tuple[float, float]]:
    """The ends of every C's interval; without ends where C is undefined."""
    return [(one.interval.low, one.interval.high) if one else (-np.inf, np.inf) for one in found.contributions.values()]


def _percentiles(split: SimulatedSplit, bootstrap: Bootstrap) -> list[tuple[float, float]]:
    """The percentile interval of the drawn ratios, by layer."""
    base, full = bootstrap.scores(split.base), bootstrap.scores(split.full)
    drawn = [bootstrap.interval(0, (bootstrap.scores(runs) - base) / (full - base)) for runs in split.layers.values()]
    return [(one.low, one.high) for one in drawn]


def _scores(split: SimulatedSplit) -> Matrix:
    return np.array([runs.mean() for runs in split.layers.values()])


if __name__ == "__main__":
    main()
