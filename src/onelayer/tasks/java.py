"""What the worlds that run in Java share: whether it is there, how it starts, and how it is seen to end."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from onelayer.errors import UserError
from onelayer.tasks.contract import WorldError
from onelayer.tasks.worlds import ending

# Many worlds run side by side, each with a Java of its own, and Java by default takes a quarter of the machine's memory
# and a thread for every core. Java reads these from its environment; the packages offer no argument for them.
_OPTIONS = "-Xmx512m -Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:+ExitOnOutOfMemoryError"
# How long a Java process whose connection broke may take to be gone.
_GONE_SECONDS = 2.0


def need_java(package: str, world: str) -> None:
    """Raise UserError where the package of a world, or the Java that it runs on, is missing."""
    if importlib.util.find_spec(package) is None:
        raise UserError(
            f"{world}: the Python package {package!r} was not found; install it with pip install 'onelayer[agents]'"
        )
    if shutil.which("java") is None:
        raise UserError(
            f"{world}: no java was found on the path; Java 17 is needed: apt install openjdk-17-jre-headless"
        )


def started(package: str, environment: str, world: str) -> Any:
    """Start an environment of a package, which starts its Java, with options for many side by side.

    Where JAVA_TOOL_OPTIONS is set already, that stands instead. Raises UserError where the package or Java is missing,
    or Java does not start.
    """
    need_java(package, world)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", _OPTIONS)
    make: Callable[[], Any] = getattr(importlib.import_module(package), environment)
    try:
        return make()
    except ValueError as error:  # the first line that Java prints is its port; no line means no Java
        raise UserError(f"{world}: Java did not start ({error}); does `java -version` show Java 17?") from None


@contextlib.contextmanager
def watched(env: Any, world: str) -> Iterator[None]:
    """Turn every failure of the Java side into a WorldError that says whether its process still runs."""
    try:
        yield
    except Exception as error:
        process = env._gateway.java_process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GONE_SECONDS if _is_network(error) else 0)
        if process.poll() is not None:
            raise WorldError(f"the Java process behind {world} ended ({ending(process.returncode)})") from None
        if type(error).__module__.startswith("py4j"):
            said = " ".join(str(error).splitlines()[:2])
            raise WorldError(f"{world} failed in Java: {said}") from None
        raise


def _is_network(error: Exception) -> bool:
    return isinstance(error, OSError) or "Network" in type(error).__name__
