"""Run a command while no other process runs one under the same lock; refuse at once, in one line, where one does.

Use: python exclusive.py LOCKFILE COMMAND [ARGUMENT ...]. It needs nothing but Python, for it runs before anything is
installed. The lock is the kernel's and ends with its owner, however the owner ends.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

lock, *command = sys.argv[1:]
Path(lock).parent.mkdir(parents=True, exist_ok=True)
with open(lock, "a+") as handle:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        print(
            f"error: {lock}: held by process {owner}, which is already at work in this folder;"
            " wait for it to end, or stop it",
            file=sys.stderr,
        )
        sys.exit(2)
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    # The children do not inherit the lock (Python opens files that way), so it ends with this process.
    sys.exit(subprocess.run(command, check=False).returncode)
