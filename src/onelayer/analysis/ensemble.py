"""Whether single-layer models together beat one of them, and full training with as much spent on it.

The m layers ranked highest on ``select`` answer together, each with one sample; everything is told on ``report``:

- ``vote``: the commonest answer; of equally common ones that of the highest-ranked voter;
- ``oracle``: whether any of them is right, 1 − Π_k (1 − p_k) with p_k the share of a problem's samples of voter k.

A team is one run of each voter; there are as many teams as the voter with the fewest runs has. A team votes once for
each sample that its runs have of a problem, and its figure is the mean. Against it stand, of full training and of the
best single layer, one sample, and as many samples as there are voters (maj@m and pass@m of
`onelayer.analysis.sampling`), from one run where it has enough, else from the runs of all seeds together; and the vote
of as many full runs as the voters' training took, m samples in all. docs/method.md, "Ensemble", has what the figures do
not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, product
from statistics import fmean
from typing import Any

import numpy as np

from onelayer.analysis.evidence import Evidence
from onelayer.analysis.overlap import overlap
from onelayer.analysis.problem_sets import Matrix
from onelayer.analysis.sampling import majority_chances, pass_chances
from onelayer.analysis.votes import Ballots, Form, form_of, read_ballots, vote
from onelayer.grid import Run, full_runs

_SPLIT = "report"


@dataclass(frozen=True)
class _Arm:
    """One way to answer.

    Attributes:
        label: in words.
        samples: answers that one answer is made from.
        runs: trainings that it is made from.
        seconds: what these took to train.
        figures: what it gets by problem, shape (teams, problems); None where the records do not tell.
        reason: why they do not.
        pooled: whether runs of several seeds answer together for want of samples.
    """

    label: str
    samples: int
    runs: int
    seconds: float
    figures: Matrix | None = None
    reason: str | None = None
    pooled: bool = False


def ensemble(evidence: Evidence, ranking: Sequence[int]) -> dict[str, Any]:
    """The ensemble's part of the analysis; nothing but a reason where fewer than two layers have records.

    Args:
        evidence: what the runs left.
        ranking: the layers with records, from the highest score on ``select`` to the lowest.
    """
    layers = evidence.layers
    if len(layers) < 2:
        return {"reason": f"an ensemble needs two single-layer models, and {len(layers)} has records"}
    chosen = list(ranking[: evidence.study.analysis.ensemble.layers])
    form = form_of(evidence.study)
    arms = _arms(evidence, chosen, None if isinstance(form, str) else form)
    bootstrap = evidence.bootstrap(_SPLIT, "ensemble")
    one_full = _seconds(evidence, evidence.of(full_runs(evidence.study)))
    draws = {name: bootstrap.scores(arm.figures) for name, arm in arms.items() if arm.figures is not None}
    values = {name: bootstrap.sets.score(arm.figures) for name, arm in arms.items() if arm.figures is not None}

    def figure(name: str, arm: _Arm) -> dict[str, Any]:
        return {
            "name": name,
            "label": arm.label,
            "samples": arm.samples,
            "runs": arm.runs,
            "training_in_full_runs": arm.seconds / one_full if one_full > 0 else None,
            "teams": None if arm.figures is None else len(arm.figures),
            "pooled": arm.pooled,
            "score": asdict(bootstrap.interval(values[name], draws[name])) if name in draws else None,
            "reason": arm.reason,
        }

    def difference(first: str, second: str) -> dict[str, Any]:
        both = first in draws and second in draws
        found = bootstrap.interval(values[first] - values[second], draws[first] - draws[second]) if both else None
        return {
            "first": first,
            "second": second,
            "difference": found and asdict(found),
            "reason": None if both else arms[second].reason or arms[first].reason,
        }

    return {
        "reason": None,
        "layers": chosen,
        "asked": evidence.study.analysis.ensemble.layers,
        "votes": form.words if isinstance(form, Form) else None,
        "no_votes": form if isinstance(form, str) else None,
        "scan_in_full_runs": sum(_seconds(evidence, runs) for runs in layers.values()) / one_full if one_full else None,
        "figures": [figure(name, arm) for name, arm in arms.items()],
        "differences": [difference(*pair) for pair in _COMPARED if pair[0] in arms and pair[1] in arms],
        "overlap": overlap(evidence, chosen),
    }


# What is held against what.
_COMPARED = (
    ("vote", "best"),
    ("vote", "full"),
    ("vote", "best_vote"),
    ("vote", "full_vote"),
    ("vote", "full_runs_vote"),
    ("vote", "fewer_full_runs_vote"),
    ("oracle", "best_pass"),
    ("oracle", "full_pass"),
)


def _arms(evidence: Evidence, chosen: list[int], form: Form | None) -> dict[str, _Arm]:
    """Every way to answer, by name, in the order of the report."""
    count = len(chosen)
    voters = [evidence.layers[layer] for layer in chosen]
    full = evidence.of(full_runs(evidence.study))
    ballots = read_ballots(evidence, [*chain.from_iterable(voters), *full], _SPLIT, form)
    teams = [[runs[team] for runs in voters] for team in range(min(map(len, voters)))]
    together = sum(_seconds(evidence, runs) for runs in voters)
    best, best_seconds = voters[0], _seconds(evidence, voters[0])
    full_seconds = _seconds(evidence, full)
    best_label = f"layer {chosen[0]}"
    arms = {
        "best": _Arm(f"{best_label}, the best single layer", 1, 1, best_seconds, evidence.matrix(_SPLIT, best)),
        "full": _Arm("full training", 1, 1, full_seconds, evidence.matrix(_SPLIT, full)),
    }
    if form is not None:
        arms["vote"] = _Arm(
            f"vote of {count} layers", count, count, together, np.stack([_vote(team, ballots) for team in teams])
        )
        arms["best_vote"] = _repeated(f"{best_label} votes", best, best_seconds, ballots, count, majority=True)
        arms["full_vote"] = _repeated("full training votes", full, full_seconds, ballots, count, majority=True)
        arms |= _full_runs_votes(full, full_seconds, together, ballots, count)
    shares = [evidence.matrix(_SPLIT, team) for team in teams]
    oracle = np.stack([1 - np.prod(1 - share, axis=0) for share in shares])
    arms["oracle"] = _Arm(f"any of {count} layers right", count, count, together, oracle)
    arms["best_pass"] = _repeated(f"{best_label}, any right", best, best_seconds, ballots, count, majority=False)
    arms["full_pass"] = _repeated("full training, any right", full, full_seconds, ballots, count, majority=False)
    return arms


def _seconds(evidence: Evidence, runs: Sequence[Run]) -> float:
    """What one training of a setting took, the mean over its seeds."""
    return fmean(evidence.trainings[run.name].wall_seconds for run in runs)


def _vote(team: Sequence[Run], ballots: dict[str, Ballots]) -> Matrix:
    """What a team's vote gets by problem, the mean over its samples; shape (problems,)."""
    cast = [ballots[run.name] for run in team]
    each = cast[0].answers.shape[1]
    votes = [
        vote(
            np.stack([one.answers[:, sample] for one in cast], axis=1),
            np.stack([one.right[:, sample] for one in cast], axis=1),
            ranked=True,
        )
        for sample in range(each)
    ]
    found: Matrix = np.mean(votes, axis=0)
    return found


def _repeated(
    label: str, runs: Sequence[Run], seconds: float, ballots: dict[str, Ballots], count: int, majority: bool
) -> _Arm:
    """A setting's own ``count`` samples: of one run, or of all its runs together where one has too few."""
    label = f"{label}, {count} samples"
    cast = [ballots[run.name] for run in runs]
    if min(one.fewest for one in cast) >= count:
        return _Arm(label, count, 1, seconds, np.stack([_chances([one], count, majority) for one in cast]))
    whole = sum(one.judged.sum(axis=1) for one in cast)
    fewest = int(np.min(whole))
    if len(cast) > 1 and fewest >= count:
        figures = _chances(cast, count, majority)[None]
        return _Arm(f"{label} of {len(cast)} runs", count, len(cast), seconds * len(cast), figures, pooled=True)
    reason = f"{count} samples of a problem are asked for, and the records hold {fewest}"
    return _Arm(label, count, 1, seconds, reason=reason)


def _chances(cast: Sequence[Ballots], count: int, majority: bool) -> Matrix:
    """maj@count or pass@count by problem of all the judged samples, shape (problems,)."""
    answers, right, judged = (
        np.concatenate([getattr(one, what) for one in cast], axis=1) for what in ("answers", "right", "judged")
    )
    if not majority:
        return pass_chances((right & judged).sum(axis=1), judged.sum(axis=1), count)
    outcomes = [own[there].tolist() for own, there in zip(right, judged, strict=True)]
    texts = [
        [None if text < 0 else text for text in own[there].tolist()] for own, there in zip(answers, judged, strict=True)
    ]
    return np.array(majority_chances(outcomes, texts, count))


def _full_runs_votes(
    full: Sequence[Run], seconds: float, together: float, ballots: dict[str, Ballots], count: int
) -> dict[str, _Arm]:
    """The vote of as many full runs as the voters' training took, and, where fewer are there, of those."""
    paid = together / seconds if seconds > 0 else 1.0
    wanted = min(max(1, int(paid)), count)  # of more runs than votes, some would have none
    label = "{} full run{} vote{}, {} samples"

    def arm(runs: int) -> _Arm:
        plural = ("s", "") if runs > 1 else ("", "s")
        named = label.format(runs, *plural, count)
        most = -(-count // runs)  # samples that one run gives at most
        fewest = min(ballots[run.name].answers.shape[1] for run in full)
        if most > fewest:
            each = "one run" if runs == 1 else f"each of {runs} runs"
            reason = f"{each} would give up to {most} samples of a problem, and the records hold {fewest}"
            return _Arm(named, count, runs, runs * seconds, reason=reason)
        groups = [full[start : start + runs] for start in range(0, len(full) - runs + 1, runs)]
        figures = np.stack([_dealt_vote([ballots[run.name] for run in group], count) for group in groups])
        return _Arm(named, count, runs, runs * seconds, figures)

    if wanted <= len(full):
        return {"full_runs_vote": arm(wanted)}
    reason = (
        f"the {count} voters' training would have paid for {paid:.1f} full runs, {wanted} of which would vote, and the"
        f" study has {len(full)}"
    )
    missing = _Arm(label.format(wanted, "s", "", count), count, wanted, wanted * seconds, reason=reason)
    return {"full_runs_vote": missing} | ({"fewer_full_runs_vote": arm(len(full))} if len(full) > 1 else {})


def _dealt_vote(cast: Sequence[Ballots], count: int) -> Matrix:
    """The vote of ``count`` samples dealt evenly over runs, the mean over deals; of tied answers each alike."""
    each = cast[0].answers.shape[1]
    fewer, more = divmod(count, len(cast))
    deals = []
    # Every run takes its turn at giving one sample more, and each of its samples to be the first.
    for turn, first in product(range(len(cast) if more else 1), range(each)):
        dealt = [
            (place, (first + number) % each)
            for place in range(len(cast))
            for number in range(fewer + ((place + turn) % len(cast) < more))
        ]
        deals.append(
            vote(
                np.stack([cast[place].answers[:, sample] for place, sample in dealt], axis=1),
                np.stack([cast[place].right[:, sample] for place, sample in dealt], axis=1),
                ranked=False,
            )
        )
    found: Matrix = np.mean(deals, axis=0)
    return found
