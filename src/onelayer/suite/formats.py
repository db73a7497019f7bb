"""Rows of published code benchmarks whose tests need more than a field mapping: EvalPlus and LiveCodeBench."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Callable
from typing import Any

from onelayer.errors import UserError

Row = dict[str, Any]

# EvalPlus compares floats by numpy's allclose. The sandbox has the standard library alone, so its tests find this in
# numpy's place: allclose as numpy documents it, |a − b| <= atol + rtol · |b| for each of equally long parts, and types
# that no plain value is of. The arithmetic of a float is the same.
_IN_PLACE_OF_NUMPY = """
import sys as _sys, types as _types
def _close(a, b, rtol, atol):
    if isinstance(b, (list, tuple)) or isinstance(a, (list, tuple)):
        a_parts = a if isinstance(a, (list, tuple)) else [a] * len(b)
        b_parts = b if isinstance(b, (list, tuple)) else [b] * len(a)
        if len(a_parts) != len(b_parts):
            raise ValueError("operands could not be broadcast together")
        return all(_close(x, y, rtol, atol) for x, y in zip(a_parts, b_parts))
    return a == b or abs(a - b) <= atol + rtol * abs(b)
_numpy = _types.ModuleType("numpy")
_numpy.allclose = lambda a, b, rtol=1e-05, atol=1e-08: _close(a, b, rtol, atol)
_numpy.ndarray = type("ndarray", (), {})
_numpy.float32 = type("float32", (), {})
_numpy.float64 = type("float64", (), {})
_sys.modules["numpy"] = _numpy
"""

# How a program that reads stdin and writes stdout becomes a function that is called once a test. Its input lies in a
# real file, so that every way of reading works; its output is what it wrote to sys.stdout.
_CALLABLE = """
def run_program(given):
    import contextlib, io, os, sys, tempfile
    file = tempfile.TemporaryFile(dir=".")
    file.write(given.encode())
    file.seek(0)
    if file.fileno() != 0:
        os.dup2(file.fileno(), 0)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.stdin, sys.stdout
    sys.stdin, sys.stdout = open(0, encoding="utf-8", closefd=False), out
    try:
        exec(compile(PROGRAM, "program.py", "exec"), {"__name__": "__main__"})
    except SystemExit:
        pass
    finally:
        sys.stdin, sys.stdout = before
        with contextlib.suppress(OSError):  # the program may have closed its own input, which this then was
            file.close()
    out.flush()
    return out.buffer.getvalue().decode()
"""

# As LiveCodeBench's own runner compares (lcb_runner/evaluation/testing_util.py): outputs line by line without outer
# blanks, a line that differs as text as a row of decimal numbers; of a function's result, a tuple counts as a list.
_COMPARE_OUTPUT = """
from decimal import Decimal as _Decimal, InvalidOperation as _NoNumber
def _lines(text):
    return [line.strip() for line in text.strip().split("\\n")]
def _numbers(line):
    try:
        return [_Decimal(part) for part in line.split()]
    except _NoNumber:
        return None
def _alike(found, wanted):
    if found == wanted:
        return True
    numbers = _numbers(found)
    return numbers is not None and numbers == _numbers(wanted)
def _same(found, wanted):
    found, wanted = _lines(found), _lines(wanted)
    return len(found) == len(wanted) and all(map(_alike, found, wanted))
"""
_COMPARE_RESULT = """
def _same(found, wanted):
    return (list(found) if isinstance(found, tuple) else found) == wanted
"""

# LiveCodeBench's runner puts the standard library's names in front of every program, for solutions were written so.
_STARRED = ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics",
            "itertools", "functools", "operator", "typing")  # fmt: skip
_IMPORTS = "".join(
    [
        *(f"from {module} import *\n" for module in _STARRED),
        *(f"import {module}\n" for module in (*_STARRED, "io", "json", "sys")),
        "sys.setrecursionlimit(50000)\n",
    ]
)


def evalplus(row: Row, where: str) -> Row:
    """A row of HumanEval+: its tests, with what they need of numpy before them."""
    if not isinstance(row.get("test"), str):
        raise UserError(f"{where}: expected the tests as a text in 'test', found the fields {sorted(row)}")
    return {**row, "test": _IN_PLACE_OF_NUMPY + row["test"]}


def livecodebench(row: Row, where: str) -> Row:
    """A row of LiveCodeBench (code_generation_lite): its public and private tests as code, under the field ``tests``.

    A problem with starter code asks for a method of a class; any other for a program that reads stdin. The field
    ``question_content`` gets the starter code, or how input and output are to be handled.
    Raises UserError where a row is not of that form.
    """
    try:
        cases = [*json.loads(row["public_test_cases"]), *_private(row["private_test_cases"])]
        method = json.loads(row["metadata"] or "{}").get("func_name")
        pairs = [(str(case["input"]), str(case["output"])) for case in cases]
        if method is not None:
            pairs = [([json.loads(line) for line in given.split("\n")], json.loads(out)) for given, out in pairs]  # type: ignore[misc]
    except (KeyError, TypeError, ValueError, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise UserError(f"{where}: expected a row of LiveCodeBench, found: {type(error).__name__}: {error}") from None
    if not pairs:
        raise UserError(f"{where}: expected tests, found none")
    question = str(row["question_content"])
    if method is not None:
        body = f"for _given, _wanted in {pairs!r}:\n    assert _same(Solution().{method}(*_given), _wanted)\n"
        tests = _COMPARE_RESULT + body
        question += f"\n\nComplete this class, in one block of code:\n```python\n{row.get('starter_code') or ''}\n```"
    else:
        tests = _COMPARE_OUTPUT + f"for _given, _wanted in {pairs!r}:\n    assert _same(run_program(_given), _wanted)\n"
        question += (
            "\n\nWrite a Python program, in one block of code, that reads its input from stdin and writes its output to"
            " stdout."
        )
    return {**row, "question_content": question, "tests": tests}


FORMATS: dict[str, Callable[[Row, str], Row]] = {
    "rows": lambda row, where: row,
    "evalplus": evalplus,
    "livecodebench": livecodebench,
}


def livecodebench_program(program: str, tests: str) -> str:
    """A model's program as the tests call it: with the usual imports, and callable where it reads stdin."""
    if "run_program(" in tests:
        return f"PROGRAM = {_IMPORTS + program!r}\n{_CALLABLE}"
    return _IMPORTS + program


class _OnlyPlain(pickle.Unpickler):
    """Reads texts, numbers, lists and mappings; refuses to look up any class or function, for a pickle could run it."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a list of tests does not need")


def _private(text: str) -> list[dict[str, Any]]:
    """The private tests: JSON, or (base64 of zlib of a pickled text of) JSON."""
    try:
        plain: Any = json.loads(text)
    except ValueError:
        plain = _OnlyPlain(io.BytesIO(zlib.decompress(base64.b64decode(text)))).load()
        plain = json.loads(plain) if isinstance(plain, str) else plain
    if not isinstance(plain, list):
        raise TypeError(f"private tests are a list, not a {type(plain).__name__}")
    return plain
