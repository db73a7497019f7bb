"""Whether a completion answers a mathematical question: extraction, normalising, exact numbers, then math-verify.

What can be decided without computer algebra is: equal text, exact numbers, words, option letters. Only single
expressions that are left go to math-verify, after `onelayer.grading.limits` and within a bound of processor time.
docs/method.md, "Grading mathematics", has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onelayer.grading.comparison import Comparison
from onelayer.grading.exact import exact_value
from onelayer.grading.extraction import final_answer
from onelayer.grading.normalizing import TEXT, bare, normalize, split_unit, words_of
from onelayer.grading.structure import LONGEST, TooDeepError, as_list, take_apart
from onelayer.grading.symbolic import TooSlowError, UnreadableError, proportional, same_value, time_limit
from onelayer.tasks.contract import Grade

SECONDS = 5.0

_OPTION = re.compile(r"\(([A-J])\)")
_BASED = re.compile(r"([0-9A-Fa-f]+)\s*_\s*\{\s*(?:\\text\s*\{)?\s*(\d+|two|three|eight|ten|sixteen)\s*\}?\s*\}")


@dataclass(frozen=True)
class MathVerdict(Grade):
    """A judgement with its reason, in a few words."""

    reason: str = ""


def grade_math(answer: str | Sequence[str], completion: str, seconds: float = SECONDS) -> MathVerdict:
    """Judge a completion by the answer that it commits to.

    Args:
        answer: the right answer, or several of which each is right.
        completion: the model's text.
        seconds: the bound of processor time; an answer that takes longer is wrong, with the status ``timeout``.

    Raises RuntimeError outside the main thread of a process, where the time cannot be bounded.
    """
    found = final_answer(completion)
    if found.text is None:
        return MathVerdict(False, None, reason="no answer found" if found.way == "none" else found.way)
    extracted = found.text
    if len(extracted) > LONGEST:
        return MathVerdict(False, extracted[:LONGEST], reason=f"answer of more than {LONGEST} characters")
    reason = "different"
    try:
        with time_limit(seconds):
            for gold in [answer] if isinstance(answer, str) else answer:
                comparison = _Answer(gold)
                if comparison.equals(extracted):
                    return MathVerdict(True, extracted, reason=comparison.how)
                reason = comparison.refused or reason
    except TooSlowError:
        return MathVerdict(False, extracted, "timeout", "timeout")
    except TooDeepError as error:
        reason = str(error)
    return MathVerdict(False, extracted, reason=reason)


class _Answer:
    """A gold answer, and how what was compared with it was found to be equal.

    Attributes:
        how: what decided.
        refused: why an expression was not compared by computer algebra.
    """

    def __init__(self, gold: str) -> None:
        self._gold = normalize(gold)
        self.how = "same text"
        self.refused: str | None = None

    def equals(self, found: str) -> bool:
        gold, text = self._gold, normalize(found)
        if bare(gold) == bare(text):
            return bool(text)
        option = _OPTION.fullmatch(TEXT.sub(r"\1", gold).strip())
        if option:
            self.how = "same option"
            return _option_of(text) == option.group(1)
        words = words_of(gold)
        if words is not None:
            self.how = "same words"
            return _words_of_found(text) == words
        comparison = Comparison(self._same_leaf, self._same_equation)
        right = take_apart(gold)
        if comparison.same(right, take_apart(text)):
            return True
        listed = as_list(text)
        return listed is not None and comparison.same(right, listed)

    def _same_leaf(self, gold: str, found: str) -> bool:
        if bare(gold) == bare(found):
            return True
        (gold, gold_unit), (found, unit) = split_unit(gold), split_unit(found)
        if unit and gold_unit and unit != gold_unit:
            return False
        if bare(gold) == bare(found):
            return True
        based = _BASED.fullmatch(gold), _BASED.fullmatch(found)
        if based[0] or based[1]:
            self.how = "same numeral"
            return _same_in_base(gold, found)
        values = exact_value(_unparenthesized(gold)), exact_value(_unparenthesized(found))
        if values[0] is not None and values[1] is not None:
            self.how = "same number"
            return values[0] == values[1]
        words = words_of(gold), words_of(found)
        if words[0] or words[1]:
            self.how = "same words"
            return words[0] == words[1]
        self.how = "same value"
        try:
            return same_value(gold, found)
        except UnreadableError as error:
            self.refused = str(error)
            return False

    def _same_equation(self, gold: tuple[str, str], found: tuple[str, str]) -> bool:
        if all(bare(a) == bare(b) for a, b in zip(gold, found, strict=True)):
            return True
        self.how = "same equation"
        try:
            return proportional(gold, found)
        except UnreadableError as error:
            self.refused = str(error)
            return False


def _unparenthesized(text: str) -> str:
    text = text.strip()
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text


def _option_of(text: str) -> str | None:
    """The letter of an answer that is an option, with or without what stands behind it."""
    text = TEXT.sub(r"\1", text).strip()
    match = re.fullmatch(r"\(?([A-J])[).:]?", text) or re.match(r"\(([A-J])\)(?!.*\([A-J]\))", text)
    return match.group(1) if match else None


def _words_of_found(text: str) -> str | None:
    """The words of an answer, also as ``x = even`` or in plain letters."""
    return words_of(text.rpartition("=")[2].strip()) if "=" in text else words_of(text)


def _same_in_base(gold: str, found: str) -> bool:
    """Whether a numeral is the right one in the right base; its index may be missing, as a unit may."""
    (digits, base), (others, other) = _numeral(gold), _numeral(found)
    return digits == others and (other == base or other is None or (base is None and other == "10"))


def _numeral(text: str) -> tuple[str, str | None]:
    match = _BASED.fullmatch(text)
    if not match:
        return bare(text).replace(",", ""), None
    named = {"two": "2", "three": "3", "eight": "8", "ten": "10", "sixteen": "16"}
    return match.group(1).lstrip("0").upper(), named.get(match.group(2), match.group(2))
