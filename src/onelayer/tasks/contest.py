"""Contest problems: programs that read stdin, or a method of a class, and the test code that judges them.

As LiveCodeBench's own runner does it (lcb_runner/evaluation/testing_util.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

# How tests reach a program: a text on stdin, or a call of a method.
Runner: TypeAlias = Literal["stdin", "method"]

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


def stdin_tests(pairs: Sequence[tuple[str, str]]) -> str:
    """Test code that feeds a program each input and compares what it writes."""
    return f"{_COMPARE_OUTPUT}for _given, _wanted in {list(pairs)!r}:\n    assert _same(run_program(_given), _wanted)\n"


def method_tests(method: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Test code that calls a method of the class Solution.

    Args:
        method: its name.
        pairs: its arguments, JSON, one a line, and its result, JSON.

    Raises ValueError where they are not JSON.
    """
    calls = [([json.loads(line) for line in given.split("\n")], json.loads(wanted)) for given, wanted in pairs]
    return (
        f"{_COMPARE_RESULT}for _given, _wanted in {calls!r}:\n    assert _same(Solution().{method}(*_given), _wanted)\n"
    )


def contest_question(text: str, runner: Runner, starter_code: str) -> str:
    """A problem's text with how its answer is to be written."""
    if runner == "method":
        return f"{text}\n\nComplete this class, in one block of code:\n```python\n{starter_code}\n```"
    return (
        f"{text}\n\nWrite a Python program, in one block of code, that reads its input from stdin and writes its output"
        " to stdout."
    )


def contest_answer(completion: str) -> str | None:
    """The last fenced block of a completion, as LiveCodeBench takes it; None where there is none."""
    blocks = completion.split("```")
    if len(blocks) < 3:
        return None
    return blocks[-2].partition("\n")[2]  # the fence's own line names the language


def contest_program(program: str, runner: Runner) -> str:
    """A model's program as the tests call it: with the usual imports, and callable where it reads stdin."""
    if runner == "stdin":
        return f"PROGRAM = {_IMPORTS + program!r}\n{_CALLABLE}"
    return _IMPORTS + program
