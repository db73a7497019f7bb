"""Copies of evaluation questions among training rows, found by the runs of tokens (n-grams) that they share.

A training question is compared with every evaluation question: the overlap is the share of the evaluation question's
different n-grams that the training question holds. So a copy with text around it overlaps by 1, and a long training
question does not dilute it. An evaluation question of fewer than n tokens has the whole of it as its only run; one of
fewer than n/2 tokens says too little to be found inside a longer text, and only an equal question is its copy.

Texts are compared without regard to case, spacing, punctuation, typography (NFKC) and LaTeX's spacing and delimiters.
Signs of arithmetic stay: "2 + 3" and "2 - 3" differ.

The measure is that of Tülu 3 (arXiv 2411.15124, section 3.2: 8-grams, half of the test question), with the share taken
of n-grams, not of the tokens that they cover: one number changed in a short question then takes up to n n-grams with
it, and rows from one template with other numbers stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from onelayer.source_settings import Decontamination

# LaTeX that spaces, sizes, delimits or sets in a face, and the kinds of a fraction.
_LATEX_LAYOUT = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|q?quad|text(?:bf|it|rm)?|math(?:bf|it|rm)|mbox)(?![a-z])"
)
_LATEX_FRACTION = re.compile(r"\\[dtc]frac(?![a-z])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
_DASHES = str.maketrans({"−": "-", "–": "-", "—": "-", "‐": "-", "⁄": "/"})
# Scripts that put no spaces between words: each character is a token.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# A number with its decimal part, a word, or a sign of arithmetic; everything else only separates.
_TOKEN = re.compile(rf"\d+(?:\.\d+)?|[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W\d_])+|[-+*/=<>^%|±×÷≤≥≠√π∞]")


def tokens(text: str) -> list[str]:
    """Cut a text into the tokens that are compared."""
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    plain = _LATEX_FRACTION.sub(r"\\frac", _LATEX_LAYOUT.sub(" ", plain))
    return _TOKEN.findall(_HYPHEN.sub(" ", _THOUSANDS.sub("", plain)))


@dataclass(frozen=True)
class Overlap:
    """The evaluation question that a text copies most.

    Attributes:
        set: the evaluation set.
        id: the question's id.
        share: the share of its n-grams that the text holds.
    """

    set: str
    id: str
    share: float


class EvaluationQuestions:
    """An index of evaluation questions: which questions each n-gram stands in.

    N-grams are kept as hashes (64 bits): 5,000 questions take a few tens of MB, and a training question costs one
    look-up a token.
    """

    def __init__(self, settings: Decontamination) -> None:
        self._ngram = settings.ngram
        self._threshold = settings.threshold
        self._names: list[tuple[str, str]] = []
        self._sizes: list[int] = []
        self._holders: dict[int, int | list[int]] = {}
        # Questions shorter than an n-gram, by the length of their runs.
        self._short: dict[int, dict[int, int]] = {}
        self._whole: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def add(self, set_name: str, question_id: str, question: str) -> None:
        """Add a question. One without a single token is no text that could be copied, and is left out."""
        cut = tokens(question)
        if not cut:
            return
        number = len(self._names)
        self._names.append((set_name, question_id))
        self._whole.setdefault(hash(tuple(cut)), number)
        if len(cut) < self._ngram:
            self._sizes.append(1)
            if 2 * len(cut) >= self._ngram:
                self._short.setdefault(len(cut), {}).setdefault(hash(tuple(cut)), number)
            return
        runs = set(_runs(cut, self._ngram))
        self._sizes.append(len(runs))
        for run in runs:
            held = self._holders.get(run)
            if held is None:
                self._holders[run] = number
            elif isinstance(held, list):
                held.append(number)
            else:
                self._holders[run] = [held, number]

    def find(self, question: str) -> Overlap | None:
        """The evaluation question that a training question copies, most of all; None where it copies none."""
        cut = tokens(question)
        whole = self._whole.get(hash(tuple(cut)))
        if whole is not None:
            return Overlap(*self._names[whole], 1.0)
        for length, held in self._short.items():
            for run in _runs(cut, length):
                if run in held:
                    return Overlap(*self._names[held[run]], 1.0)
        shared: Counter[int] = Counter()
        for run in set(_runs(cut, self._ngram)):
            numbers = self._holders.get(run)
            if numbers is not None:
                shared.update(numbers if isinstance(numbers, list) else (numbers,))
        if not shared:
            return None
        # Of equal overlaps the question that was added first, so that the report does not depend on chance.
        number = min(shared, key=lambda one: (-shared[one] / self._sizes[one], one))
        share = shared[number] / self._sizes[number]
        return Overlap(*self._names[number], share) if share >= self._threshold else None


def _runs(cut: list[str], length: int) -> list[int]:
    """The hash of every run of a length; none where the text is shorter."""
    return [hash(run) for run in zip(*(cut[start:] for start in range(length)), strict=False)]
