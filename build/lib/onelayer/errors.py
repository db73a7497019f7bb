"""The errors a user can mend, told apart from the ones that are ours."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a state the user must mend; the command line prints it as one message and exits with 2.

    The message names the file, the key or row, what was found and what was expected.
    """
