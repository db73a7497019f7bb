"""Calls of DVC's command line, with what it says of thousands of files gathered into a few lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SHOWN = 5  # of a list of files or reasons


@dataclass(frozen=True)
class DvcResult:
    """How a call of DVC ended: its output, its errors gathered by reason, and whether it failed."""

    failed: bool
    output: str
    errors: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Its errors in one line."""
        return "; ".join(few(self.errors)) or last_lines(self.output)

    @property
    def said(self) -> list[str]:
        """What it printed."""
        return [line for line in self.output.splitlines() if line.strip()]


def run_dvc(*arguments: str, paths: dict[str, str] | None = None) -> DvcResult:
    """Run DVC to its end.

    Args:
        arguments: its command line.
        paths: by md5, how to call the files that it names by their hashes alone.
    """
    command = [sys.executable, "-m", "dvc", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = gathered(result.stderr.splitlines(), paths or {})
    # DVC ends a commit to a full disk with exit code 0.
    return DvcResult(result.returncode != 0 or bool(errors), result.stdout or result.stderr, errors)


_TRANSFER = re.compile(r"ERROR: failed to transfer '([0-9a-f]+(?:\.dir)?)' - (.*)")
_COPIED = re.compile(r": '([^']*)' -> '[^']*'$")
_HASHED = re.compile(r"[0-9a-f]{2}/[0-9a-f]{30}(\.dir)?")


def gathered(lines: Iterable[str], paths: dict[str, str]) -> list[str]:
    """DVC's errors, one a reason: it prints one for every file, and of a study there may be thousands."""
    files: dict[str, list[str]] = {}
    others = []
    for line in lines:
        if match := _TRANSFER.match(line):
            reason = match[2]
            path = paths.get(match[1], match[1])
            if copied := _COPIED.search(reason):
                reason, path = reason[: copied.start()], os.path.relpath(copied[1])
            files.setdefault(_HASHED.sub("…", reason), []).append(path)
        elif line.startswith("ERROR: "):
            others.append(_HASHED.sub("…", line.removeprefix("ERROR: ").removeprefix("unexpected error - ")))
        elif others and line.strip() and "dvc.org/" not in line:  # more of the last one, such as the files it is about
            others[-1] += f" {line.strip()}"
    # Beside errors of files, the others only add up how many there were.
    return [f"{reason} ({_first_of(paths)})" for reason, paths in files.items()] or others


def _first_of(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files, the first {paths[0]}"


def few(lines: Sequence[str]) -> list[str]:
    """The first of many lines, and how many more there are."""
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"and {more} more"] if more > 1 else list(lines)


def last_lines(text: str) -> str:
    """The end of what a command printed, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "dvc.org/support" not in line]
    return " ".join(lines[-3:]) or "it said nothing"
