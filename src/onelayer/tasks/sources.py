"""Reading rows: of a JSON Lines file, a Parquet file, or a split of a data set on the hub; and which rows are taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from onelayer.errors import UserError
from onelayer.source_settings import Source
from onelayer.tasks.hub import load_file, load_split

Row: TypeAlias = dict[str, Any]

# Rows of a Parquet file that are in memory at once.
_BATCH = 1000
# Values of a field that a message lists.
_SHOWN = 5


def rows_of(source: Source, numbers: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Read rows with their numbers, from 1; of JSON Lines the number of its line.

    Args:
        source: where they lie.
        numbers: the ones to read; every one where it is None.

    Raises UserError where the rows cannot be read or, where every one is asked for, there are none.
    """
    if source.path is not None:
        rows = _file_rows(source.path, str(source.path), numbers)
    elif source.files:
        rows = _hub_file_rows(source, numbers)
    else:
        rows = _hub_rows(source, numbers)
    found = numbers is not None
    for number, row in rows:
        found = True
        yield number, row
    if not found:
        raise UserError(f"{source.origin}: expected rows, found none")


def length_of(source: Source) -> int:
    """How many rows a source holds, whatever its filters take. Raises UserError where they cannot be had."""
    if source.path is not None:
        return _length(source.path)
    if source.files:
        return sum(_length(load_file(source, name)) for name in source.files)
    return len(load_split(source))


def count_taken(source: Source) -> int:
    """How many rows a source's filters take. Raises UserError where they cannot be read."""
    taken = Filter(source)
    count = 0
    for number, row in rows_of(source):
        where = f"{source.origin}: row {number}"
        count += taken.takes(row, where) and taken.takes_question(str(field_of(row, source.question, where)).strip())
    return count


class Filter:
    """Which rows of a source are taken, and a count of those that are not, by reason."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rows = 0
        self.dropped: Counter[str] = Counter()
        self._seen: dict[str, set[str]] = {}
        self._first_refused = ""

    def takes(self, row: Row, where: str) -> bool:
        """Tell whether a row is taken. Raises UserError where a field is missing that decides it."""
        self.rows += 1
        source = self._source
        for field, values in source.where.items():
            found = field_of(row, field, where)
            if not any(found == value and isinstance(found, bool) == isinstance(value, bool) for value in values):
                self.dropped[f"left out by where.{field}"] += 1
                seen = self._seen.setdefault(field, set())
                if len(seen) < _SHOWN:
                    seen.add(repr(found))
                return False
        return True

    def refuse(self, why: str) -> None:
        """Count a row of which no problem can be made."""
        self.dropped["left out as unusable"] += 1
        self._first_refused = self._first_refused or f"; {why}"

    def described(self) -> str:
        """What was left out, and why: values that were found where others were asked for, and the first refusal."""
        values = "".join(f"; {field!r} holds {', '.join(sorted(seen))}, …" for field, seen in self._seen.items())
        return ", ".join(f"{count} {why}" for why, count in self.dropped.items()) + values + self._first_refused

    def takes_question(self, question: str) -> bool:
        """Tell whether a question is of the length that is asked for."""
        source = self._source
        if source.shortest is not None and len(question) < source.shortest:
            self.dropped[f"shorter than {source.shortest} characters"] += 1
            return False
        if source.longest is not None and len(question) > source.longest:
            self.dropped[f"longer than {source.longest} characters"] += 1
            return False
        return True


def field_of(row: Row, field: str, where: str) -> Any:
    """What a row's field holds; None too. Raises UserError where there is no such field."""
    if field in row:
        return row[field]
    value: Any = row
    for part in field.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise UserError(f"{where}: expected a value in {field!r}, found the fields {sorted(row)}")
    return value


def value_of(row: Row, field: str, where: str) -> Any:
    """A row's value. Raises UserError where there is none."""
    value = field_of(row, field, where)
    # Of a number that is none, too: Parquet writes a missing number so.
    if value is None or value == [] or value != value or not str(value).strip():
        raise UserError(f"{where}: expected a value in {field!r}, found {value!r} (the row's fields: {sorted(row)})")
    return value


def _hub_rows(source: Source, numbers: Collection[int] | None) -> Iterator[tuple[int, Row]]:
    rows = load_split(source)
    if numbers is None:
        yield from enumerate(rows, start=1)
    else:
        ordered = sorted(numbers)
        yield from zip(ordered, rows.select([number - 1 for number in ordered]), strict=True)


def _hub_file_rows(source: Source, numbers: Collection[int] | None) -> Iterator[tuple[int, Row]]:
    """The rows of several files, numbered on from one file to the next."""
    before = 0
    for name in source.files:
        path = load_file(source, name)
        wanted = None if numbers is None else {number - before for number in numbers}
        for number, row in _file_rows(path, f"{source.origin}: {name}", wanted):
            yield before + number, row
        before += _length(path)


def _length(path: Path) -> int:
    """How many rows a file has room for: lines, or a Parquet file's rows."""
    import pyarrow.parquet

    if path.suffix == ".parquet":
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def _file_rows(path: Path, name: str, numbers: Collection[int] | None) -> Iterator[tuple[int, Row]]:
    """The rows of a file, which messages call by its name."""
    return (_json_rows if path.suffix == ".jsonl" else _parquet_rows)(path, name, numbers)


def _json_rows(path: Path, name: str, numbers: Collection[int] | None) -> Iterator[tuple[int, Row]]:
    try:
        # Only "\n" ends a row: a question may hold any other separator of lines.
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip() and (numbers is None or number in numbers):
                    yield number, _parsed(line, f"{name}: row {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: expected a readable JSON Lines file, found: {error}") from None


def _parsed(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: expected a JSON object, found: {error}") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(row).__name__}")
    return row


def _parquet_rows(path: Path, name: str, numbers: Collection[int] | None) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    if numbers is None or number in numbers:
                        yield number, row
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{name}: expected a readable Parquet file, found: {error}") from None
