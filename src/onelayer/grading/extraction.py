"""Finding the answer that a completion commits to; nothing here knows any mathematics.

In this order: the last balanced ``\\boxed{}``; what follows the last ``####``; what follows the last "the answer is" or
"Answer:"; and where there is none of these, what the last line ends on. Only the last of each counts, so that an answer
is not made right by being one of many. Everything is linear in the length of the completion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from onelayer.grading.normalizing import printable

Way = Literal["box", "####", "statement", "last line", "none", "unclosed box", "unclosed thought"]

# The letters of options: as many as MMLU-Pro has.
LETTERS = "ABCDEFGHIJ"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])[ \t]*")
# GSM8K's solutions hold notes of a calculator, and models imitate them: 2+2=<<2+2=4>>4.
_CALCULATOR = re.compile(r"<<[^<>\n]{0,100}>>")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BARE = re.compile(r"[^\s{}$\\.,;]{1,100}")
# Boxes with nothing between them but this are one answer of several parts.
_JOINT = re.compile(r"(?:\s|\$|\\\(|\\\)|\\[,;! ]|,|;|\b(?:and|or)\b|\\text\{\s*,?\s*(?:and|or)\s*\})*")
_STATEMENT = re.compile(
    r"\banswers?\b(?:[ \t]+(?:to|of|for)\b[^\n.:]{0,80}?)?[*_]*[ \t]*"
    r"(?:(?:(?:is|are)(?![A-Za-z])|=)(?:[ \t]+(?:therefore|thus|then|simply|just|exactly|equal to))?[ \t]*:?|:)"
    r"[*_ \t]*",
    re.IGNORECASE,
)
_NUMBER_TEXT = r"-?(?:\\?\$ ?)?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?: ?/ ?\d+)?(?: ?\\?%)?"
_NUMBER = re.compile(rf"(?<![\w.,]){_NUMBER_TEXT}(?!\w)")
_SAID = re.compile(rf"(?:=|\b(?:is|are|equals|was|were)\b)\s*(?:only |just |about )?({_NUMBER_TEXT})(?![\w.,/*+-]*\d)")
_FORMULA = re.compile(r"(?<!\\)\$(?:[^$\\]|\\.)+\$|\\\(.+?\\\)")
_UNFINISHED = re.compile(r"[=+*/<>(-]\s*\$$")  # what stands between two amounts of money
_MONEY = re.compile(r"\$ ?[\d,.]+(?=$|[\s?!)]+(?:$|[A-Za-z]{2})|[.,;:]?$|[.,]\s)")
_HEDGES = re.compile(r"\b(?:or|not|either|neither|between|maybe|perhaps)\b|n't\b", re.IGNORECASE)
_REASONS = re.compile(r"[,;]?\s+(?:because|since|as|which|where|so)\b", re.IGNORECASE)
_DANGLING = re.compile(r"(?:[=+\-*/^<>(\[{_&]|\\(?:times|cdot|div|frac|sqrt|pm|le|ge|left|cup|in)?)$")
_OPENERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_SENTENCE_END = re.compile(r"(?:(?<!\\)[.?]|(?<=[a-z])!)(?=[*_\"')]*(?:\s|$))")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_OPTION_WORD = re.compile(
    r"^(?:the )?(?:correct |right )?(?:option|choice|answer)s?(?: is| are)?\s*:?\s*", re.IGNORECASE
)
_PROSE = re.compile(r"[A-Za-z]{3,} |\d [a-z]{2,}")


@dataclass(frozen=True)
class Found:
    """What a completion commits to.

    Attributes:
        text: the answer as it stands there; None where there is none.
        way: where it stood, or why there is none.
    """

    text: str | None
    way: Way


def final_answer(completion: str) -> Found:
    """Find the answer that a completion commits to."""
    completion = _CALCULATOR.sub("", printable(completion))
    if "<think>" in completion or "</think>" in completion:
        _, closed, rest = completion.rpartition("</think>")
        if not closed or "<think>" in rest:
            return Found(None, "unclosed thought")
        completion = rest
    boxed = boxed_answer(completion)
    if boxed is not None:
        return boxed
    before, mark, after = completion.rpartition("####")
    if mark and not before.endswith("#"):  # five and more make a heading
        line = after.strip(" \t").partition("\n")[0].strip()
        if line:
            return Found(line, "####")
    stated = _stated(completion)
    if stated is not None:
        return _found(_value_in(_REASONS.split(stated)[0], stated=True), "statement")
    return _found(_last_line(completion), "last line")


def option_letter(completion: str, letters: str = LETTERS) -> str | None:
    """Find the one option that a completion commits to: ``(C)``, ``C.``, ``**C**``, "the answer is C".

    None where it names none of the letters, or more than one.
    """
    found = final_answer(completion)
    text = found.text or ""
    if found.way in ("statement", "last line", "none"):
        text = _stated(printable(completion)) or completion.strip().rpartition("\n")[2]
    text = re.sub(r"\\(?:text|textbf|mathrm|mathbf|mbox|textit)\s*\{([^{}]*)\}", r"\1", printable(text))
    text = re.sub(r"[*_`$]|\\[(),;! ]|\\", " ", text).strip()
    text = _OPTION_WORD.sub("", text)
    lone = re.fullmatch(r"\(([A-Za-z])\)\s*\.?|\[([A-Z])\]\s*\.?|([A-Z])\s*[).:]*", text)
    if lone:
        letter = next(group for group in lone.groups() if group).upper()
        return letter if letter in letters else None
    first = re.match(
        r"(?:\(([A-Z])\)|\[([A-Z])\]|([A-Z])[).:](?=\s)|([B-HJ-Z])(?=,?\s+(?:because|since|as|is|which)\b))", text
    )
    if not first:
        return None
    letter = next(group for group in first.groups() if group)
    rest = text[first.end() :]
    others = re.findall(r"\(([A-Z])\)|\b(?:or|and|not)\s+\(?([A-Z])\b(?!')|(?<![A-Za-z])([A-Z])\)", rest)
    named = {name for groups in others for name in groups if name} & set(letters)
    return letter if letter in letters and not named - {letter} else None


def boxed_answer(text: str) -> Found | None:
    """The last balanced box, with those that directly precede it in one list; None where there is no box at all."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    closers = _closers(text)
    spans = [(match.start(), _content(text, match.end(), closers)) for match in boxes]
    closed = [(start, *content) for start, content in spans if content is not None]
    if not closed:
        return Found(None, "unclosed box")
    # A box within another is a part of it.
    outer: list[tuple[int, int, int, int]] = []
    for span in closed:
        if not outer or span[0] >= outer[-1][3]:
            outer.append(span)
    parts = [outer[-1]]
    for span in reversed(outer[:-1]):
        between = text[span[3] : parts[0][0]]
        if len(between) > 40 or not between.strip() or not _JOINT.fullmatch(between):
            break
        parts.insert(0, span)
    contents = [text[start:end].strip() for _, start, end, _ in parts]
    answer = ", ".join(contents)
    return Found(answer or None, "box" if answer else "none")


def _content(text: str, start: int, closers: dict[int, int]) -> tuple[int, int, int] | None:
    """(start, end, end with the brace) of a box's content; None where it is not closed."""
    if text[start : start + 1] != "{":
        bare = _BARE.match(text, start)  # \boxed 5
        return (start, bare.end(), bare.end()) if bare else None
    end = closers.get(start)
    return None if end is None else (start + 1, end, end + 1)


def _closers(text: str) -> dict[int, int]:
    """Where each brace that is closed is closed."""
    found: dict[int, int] = {}
    open_: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            open_.append(brace.start())
        elif brace.group() == "}" and open_:
            found[open_.pop()] = brace.start()
    return found


def _found(text: str | None, way: Way) -> Found:
    """An answer, unless it was cut off: one that ends on an operator or an open bracket is none."""
    text = (text or "").strip().removesuffix("**").removesuffix("__").strip()
    if not text or _DANGLING.search(text) or text.count("{") > text.count("}"):
        return Found(None, "none")
    return Found(text, way)


def _stated(text: str) -> str | None:
    """The sentence after the last "the answer is"; None where there is none."""
    matches = list(_STATEMENT.finditer(text))
    return _sentence(text[matches[-1].end() :].lstrip(" \t\n*_")) if matches else None


def _sentence(text: str) -> str:
    """The start of a text, to the end of its sentence or line; a formula is taken whole, or not at all if cut off."""
    for opener, closer in _OPENERS.items():
        if text.startswith(opener) and not (opener == "$" and _MONEY.match(text)):
            end = text.find(closer, len(opener))
            if end < 0:
                return ""
            end += len(closer)
            return text[:end] + _to_sentence_end(text[end:])
    return _to_sentence_end(text)


def _to_sentence_end(text: str) -> str:
    line = text.partition("\n")[0]
    ending = _SENTENCE_END.search(line)
    return line[: ending.start()] if ending else line


def _last_line(text: str) -> str | None:
    """What the last line says: a display, a line that is no prose, or the last sentence's value."""
    stripped = text.strip()
    for opener, closer in (("\\[", "\\]"), ("$$", "$$")):
        if stripped.endswith(closer):
            start = stripped.rfind(opener, 0, len(stripped) - 2)
            return stripped[start:] if start >= 0 else None
    if stripped.startswith(("\\begin{", "$\\begin{")):
        return stripped
    line = stripped.rpartition("\n")[2].strip("*_` ")
    if len(line) > 2000:
        return None
    endings = [match.end() for match in _SENTENCE_END.finditer(line)]
    if endings and endings[-1] >= len(line.rstrip("*_\"') ")):
        endings.pop()
    return _value_in(line[endings[-1] :] if endings else line, stated=False)


def _value_in(text: str, stated: bool) -> str | None:
    """The one value in a sentence; the sentence itself where it is no prose. None where it does not commit to one."""
    text = text.strip()
    prose = re.sub(r"\\(?:text|mbox|mathrm|textbf)\s*\{[^{}]*\}|\\[A-Za-z]+", " ", text)
    words = _WORD.findall(prose)
    if len(words) <= 2:
        return text
    formulas = [
        match
        for match in _FORMULA.finditer(text)
        if not (_PROSE.search(match.group()) or _MONEY.match(match.group()) or _UNFINISHED.search(match.group()))
    ]
    if formulas and not _HEDGES.search(prose):
        chosen = formulas[0] if stated and formulas[0].start() == 0 else formulas[-1]
        outside = _NUMBER.search(_FORMULA.sub(" ", text))
        alone = len(formulas) == 1 and not outside
        leads = stated and formulas[0].start() == 0
        return chosen.group() if alone or leads or "=" in chosen.group() else None
    numbers: list[str] = _NUMBER.findall(text)
    said = next(reversed(list(_SAID.finditer(text))), None)
    if _HEDGES.search(prose) and not (said and said.group().startswith("=")):
        return None
    if len(set(numbers)) == 1:
        return numbers[0].strip()
    if said and (said.group().startswith("=") or not _NUMBER.search(text[said.end() :])):
        return said.group(1).strip()
    return text if not numbers and stated else None
