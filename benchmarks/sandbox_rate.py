"""How many trivial programs a second are judged in the sandbox, beside bare starts of Python.

Two processes each, as on two cores; the ways take turns, several rounds, so that a drift of the machine's speed falls
on all alike. Figures are medians over rounds, of rates and of each round's ratio. What starts a sandbox is not counted:
it starts once for many programs.

Use: python benchmarks/sandbox_rate.py [--rounds 20] [--seconds 0.5] [--write]   (--write puts the table into README.md)
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from onelayer.grading.confine import interpreter
from onelayer.grading.sandbox import Sandbox
from sections import write_section

WAYS = ("python -I -S -c pass", "judge_calls", "judge_tests")
PROCESSES = 2
PROGRAM = "def f(x):\n    return x * x\n"


def work(way: str, pipe: Connection) -> None:
    """Answer every number of seconds with how many programs a second were judged in them."""
    sandbox = Sandbox()

    def start() -> None:
        subprocess.run([interpreter(), "-I", "-S", "-c", "pass"], check=True)

    def calls() -> None:
        assert sandbox.judge_calls(PROGRAM, "f", [(3,), (4,)], [9, 16]).passed

    def tests() -> None:
        assert sandbox.judge_tests(PROGRAM, "assert f(3) == 9\nassert f(4) == 16").passed

    step: Callable[[], None] = {WAYS[0]: start, WAYS[1]: calls, WAYS[2]: tests}[way]
    step()
    pipe.send("ready")
    while seconds := pipe.recv():
        count, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + seconds:
            step()
            count += 1
        pipe.send(count / (time.perf_counter() - begin))
    sandbox.close()


def main() -> None:
    """Measure every way and print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    options = parser.parse_args()
    pipes: dict[str, list[Connection]] = {way: [] for way in WAYS}
    processes = []
    for way in WAYS:
        for _ in range(PROCESSES):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(way, theirs))
            process.start()
            assert ours.recv() == "ready"
            pipes[way].append(ours)
            processes.append(process)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(options.rounds):
        for way in WAYS:
            print(f"round {turn + 1} of {options.rounds}: {way}", file=sys.stderr, flush=True)
            for pipe in pipes[way]:
                pipe.send(options.seconds)
            rates[way].append(sum(pipe.recv() for pipe in pipes[way]))
    for way in WAYS:
        for pipe in pipes[way]:
            pipe.send(0)
    for process in processes:
        process.join()
    table = render(rates)
    print(table)
    if options.write:
        write_section("sandbox_rate", table)


def render(rates: dict[str, list[float]]) -> str:
    """The table: medians and ranges over rounds, and the ratio to bare starts."""
    lines = ["| | programs a second | lowest to highest | ÷ bare starts |", "|---|---|---|---|"]
    for way, found in rates.items():
        ratio = statistics.median(one / bare for one, bare in zip(found, rates[WAYS[0]], strict=True))
        middle, low, high = statistics.median(found), min(found), max(found)
        lines.append(f"| `{way}` | {middle:.0f} | {low:.0f} to {high:.0f} | {ratio:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
