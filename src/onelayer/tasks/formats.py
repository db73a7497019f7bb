"""How published code data sets hold their tests, each made into test code: `CodeFields.format` names one."""

from __future__ import annotations

import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onelayer.errors import UserError
from onelayer.source_settings import CodeSource
from onelayer.tasks.contest import Runner, contest_question, method_tests, stdin_tests
from onelayer.tasks.sources import Row, field_of, value_of

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


@dataclass(frozen=True)
class CodeRow:
    """A row's problem.

    Attributes:
        question: what is asked.
        tests: code that ends without an exception where a program is right.
        entry_point: the function that is asked for; None where the tests name what they call.
        setup: code that the tests need and the model does not write.
        runner: how the tests reach the program, where they do not just name its functions.
    """

    question: str
    tests: str
    entry_point: str | None = None
    setup: str = ""
    runner: Runner | None = None


def plain(row: Row, source: CodeSource, where: str) -> CodeRow:
    """A row in the manner of HumanEval or MBPP. Raises UserError where a field is missing."""
    tests = value_of(row, source.tests, where)
    tests = "\n".join(map(str, tests)) if isinstance(tests, list) else str(tests)
    entry_point = str(value_of(row, source.entry_point, where)) if source.entry_point else None
    if entry_point is not None and re.search(r"^def check\(", tests, re.MULTILINE):
        tests = f"{tests}\ncheck({entry_point})\n"
    setup = str(field_of(row, source.setup, where) or "") if source.setup else ""
    return CodeRow(str(value_of(row, source.question, where)), tests, entry_point, setup)


def evalplus(row: Row, source: CodeSource, where: str) -> CodeRow:
    """A row of HumanEval+: its tests, with what they need of numpy before them."""
    tests = value_of(row, source.tests, where)
    if not isinstance(tests, str):
        raise UserError(f"{where}: expected the tests as a text in {source.tests!r}, found {type(tests).__name__}")
    return plain({**row, source.tests: _IN_PLACE_OF_NUMPY + tests}, source, where)


def livecodebench(row: Row, source: CodeSource, where: str) -> CodeRow:
    """A row of LiveCodeBench (code_generation_lite): its public and private tests.

    A problem with starter code asks for a method of a class; any other for a program that reads stdin.
    Raises UserError where a row is not of that form.
    """
    try:
        cases = [*json.loads(row["public_test_cases"]), *_private(row["private_test_cases"])]
        method = json.loads(row["metadata"] or "{}").get("func_name")
        pairs = [(str(case["input"]), str(case["output"])) for case in cases]
        return _contest(row, source, where, method, pairs)
    except (KeyError, TypeError, ValueError, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise UserError(f"{where}: expected a row of LiveCodeBench, found: {type(error).__name__}: {error}") from None


def deepcoder(row: Row, source: CodeSource, where: str) -> CodeRow:
    """A row of DeepCoder-Preview-Dataset, whose subsets hold their tests in three forms.

    ``taco`` has a mapping of inputs and outputs, ``primeintellect`` and ``codeforces`` a list of cases, and ``lcbv5``
    LiveCodeBench's. Tests that call a function by other rules than LiveCodeBench's (``fn_name``) are refused.
    Raises UserError where a row is not of these forms.
    """
    try:
        tests = value_of(row, source.tests, where)
        tests = json.loads(tests) if isinstance(tests, str) else tests
        if isinstance(tests, dict):
            tests = [
                {"input": given, "output": wanted, **({"fn_name": tests["fn_name"]} if tests.get("fn_name") else {})}
                for given, wanted in zip(tests["inputs"], tests["outputs"], strict=True)
            ]
        methods = {_deepcoder_method(row, case) for case in tests}
        pairs = [(_text(case["input"]), _text(case["output"])) for case in tests]
        if len(methods) > 1:
            raise ValueError("tests of several kinds")
        return _contest(row, source, where, methods.pop() if methods else None, pairs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: expected a row of DeepCoder, found: {type(error).__name__}: {error}") from None


FORMATS: dict[str, Callable[[Row, CodeSource, str], CodeRow]] = {
    "rows": plain,
    "evalplus": evalplus,
    "livecodebench": livecodebench,
    "deepcoder": deepcoder,
}


def _contest(row: Row, source: CodeSource, where: str, method: str | None, pairs: Sequence[tuple[str, str]]) -> CodeRow:
    if not pairs:
        raise ValueError("no tests")
    runner: Runner = "stdin" if method is None else "method"
    tests = stdin_tests(pairs) if method is None else method_tests(method, pairs)
    text = str(value_of(row, source.question, where))
    return CodeRow(contest_question(text, runner, str(row.get("starter_code") or "")), tests, runner=runner)


def _deepcoder_method(row: Row, case: dict[str, Any]) -> str | None:
    """The method that a case calls; None where it feeds a program."""
    if case.get("fn_name") or case.get("type") == "function_call":
        raise ValueError("tests that call a function by fn_name, which are not supported")
    if case.get("testtype") != "functional":
        return None
    for holder in (case, row):
        metadata = holder.get("metadata") or {}
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        if metadata.get("func_name"):
            return str(metadata["func_name"])
    raise ValueError("tests of a function without its name")


def _text(value: Any) -> str:
    """An input or output; some rows wrap it in a list of its own."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise TypeError(f"an input or output that is no text, but {type(value).__name__}")
    return value


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
