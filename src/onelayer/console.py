"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

# Into a file or a pipe nothing may be cut off at the width of a terminal that is not there.
_WIDTH_OF_A_FILE = 200


def console() -> Console:
    """The terminal; into a file or a pipe, tables of their full width."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH_OF_A_FILE)
