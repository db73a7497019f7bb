"""Whatever of requirements.lock is installed here is of the lock's version; ends with exit code 1 where it is not."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


lines = [line for line in Path(sys.argv[1]).read_text().splitlines() if "==" in line]
lock = {normal(name): version for name, version in (line.split("==") for line in lines)}
# PyTorch alone names its build, behind a plus.
found = {normal(one.name): one.version.partition("+")[0] for one in distributions()}
wrong = [
    f"{name}: found {version}, expected {lock[name]}"
    for name, version in sorted(found.items())
    if lock.get(name, version) != version
]
sys.exit("error: " + "; ".join(wrong) if wrong else 0)
