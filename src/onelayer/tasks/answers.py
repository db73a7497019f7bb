"""The answer of a row, whatever form its data set gives it: text, number, list, worked solution, or option.

A problem's answer is one text. Where a row lists several accepted answers, the text is their JSON list, which
`accepted_answers` reads back.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from onelayer.errors import UserError
from onelayer.grading.extraction import LETTERS, boxed_answer
from onelayer.seeds import derive_seed
from onelayer.source_settings import Options, QuestionFields
from onelayer.tasks.sources import Row, value_of


def plain_text(value: Any) -> str:
    """A value as the text that it is compared by: a float that is a whole number without its fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip()


def read_answers(row: Row, fields: QuestionFields, where: str) -> tuple[str, ...]:
    """Every accepted answer of a row without options; where all of a list are asked for, they are one answer.

    Raises UserError where there is none.
    """
    value = value_of(row, fields.answer, where)
    parts = value if isinstance(value, list) else [value]
    answers = tuple(dict.fromkeys(_within(plain_text(part), fields, where) for part in parts if part is not None))
    if not answers or not all(answers):
        raise UserError(f"{where}: expected an answer in {fields.answer!r}, found {str(value)[-60:]!r}")
    return (", ".join(answers),) if fields.answers == "all" else answers


def read_options(row: Row, fields: QuestionFields, options: Options, seed: int, where: str) -> tuple[str, str]:
    """The options of a row as lines, and the letter of the right one.

    Args:
        row: the row.
        fields: where its answer is.
        options: where its options are.
        seed: decides their order, with the row's question, where they are shuffled.
        where: names the row in messages.

    Raises UserError where the row has too few or too many options, or its answer is none of them.
    """
    texts = [plain_text(text) for text in _listed(row, options, where)]
    if not 2 <= len(texts) <= len(LETTERS):
        raise UserError(f"{where}: expected 2 to {len(LETTERS)} options, found {len(texts)}")
    given = value_of(row, fields.answer, where)
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    right = _position(given, texts, fields, options, where)
    order = list(range(len(texts)))
    if options.shuffle:
        random.Random(derive_seed(seed, "options", value_of(row, fields.question, where))).shuffle(order)
    lines = [f"{letter}. {texts[index]}" for letter, index in zip(LETTERS, order, strict=False)]
    return "\n".join(lines), LETTERS[order.index(right)]


def as_one_text(answers: Sequence[str]) -> str:
    """Several accepted answers as one text; a single one as it is, unless it would be taken for several."""
    if len(answers) == 1 and accepted_answers(answers[0]) == tuple(answers):
        return answers[0]
    return json.dumps(list(answers), ensure_ascii=False)


def accepted_answers(text: str) -> tuple[str, ...]:
    """The accepted answers that a problem's text of its answer stands for."""
    if text.startswith("["):
        try:
            answers = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            return (text,)
        if isinstance(answers, list) and answers and all(isinstance(one, str) for one in answers):
            return tuple(answers)
    return (text,)


def _within(text: str, fields: QuestionFields, where: str) -> str:
    """The answer in the text of its field."""
    if fields.answer_after is not None:
        _, mark, tail = text.rpartition(fields.answer_after)
        if not mark:
            raise UserError(f"{where}: expected {fields.answer_after!r} in {fields.answer!r}, found {text[-60:]!r}")
        return tail.strip()
    if fields.answer_boxed:
        boxed = boxed_answer(text)
        if boxed is None or boxed.text is None:
            raise UserError(f"{where}: expected \\boxed{{}} in {fields.answer!r}, found {text[-60:]!r}")
        return boxed.text
    return text


def _listed(row: Row, options: Options, where: str) -> list[Any]:
    values = [value_of(row, field, where) for field in options.fields]
    if len(values) > 1:
        return values
    if not isinstance(values[0], list):
        raise UserError(
            f"{where}: expected a list of options in {options.fields[0]!r}, found {type(values[0]).__name__}"
        )
    return values[0]


def _position(given: Any, texts: list[str], fields: QuestionFields, options: Options, where: str) -> int:
    """The place of the right option."""
    text = _within(plain_text(given), fields, where)
    if options.answer == "text":
        places = [index for index, option in enumerate(texts) if option == text]
    elif options.answer == "index":
        places = [int(text)] if text.isdecimal() and int(text) < len(texts) else []
    else:
        letter = text.strip("(). ").upper()
        places = [LETTERS.index(letter)] if len(letter) == 1 and letter in LETTERS[: len(texts)] else []
    if len(places) != 1:
        expected = {"text": "the text of one option", "index": f"an index below {len(texts)}"}.get(
            options.answer, f"a letter from A to {LETTERS[len(texts) - 1]}"
        )
        raise UserError(f"{where}: expected {expected} in {fields.answer!r}, found {text[-60:]!r}")
    return places[0]
