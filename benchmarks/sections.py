"""The sections of the benchmarks' README that a benchmark writes itself."""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).with_name("README.md")


def write_section(name: str, table: str) -> None:
    """Put a table between the marks of its benchmark, and say so."""
    before, _, rest = README.read_text().partition(f"<!-- {name} -->\n")
    after = rest.partition("<!-- end -->")[2]
    README.write_text(f"{before}<!-- {name} -->\n{table}\n<!-- end -->{after}")
    print(f"written: {README}", file=sys.stderr)
