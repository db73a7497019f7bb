"""One run trained by several processes, which `accelerate launch` starts and ties together.

The process that holds the run's lock starts them, tells them the study and the run over a socket, and waits for each
one's last word: done, refused (a UserError), interrupted or crashed. The first word that is not "done" ends them all.
The socket is their leash as well: however the parent ends, they end with it, so no two groups are ever at work on a
run.

A process of the group is ``python -m onelayer.distributed SOCKET``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from multiprocessing.connection import Connection, wait
from pathlib import Path

import yaml

from onelayer.config import Distributed, Study
from onelayer.errors import UserError
from onelayer.grid import Run
from onelayer.interruption import InterruptedWorkError, ask_to_stop, listening, reason_to_stop
from onelayer.ownership import check_ownership

# Between two looks at whether the launcher still lives, and for a process of the group to end once told to.
_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_TO_END = 60.0


def train_together(study: Study, run: Run) -> None:
    """Train a run by the processes that the study asks for; returns once its manifest is written.

    Raises UserError with the message of the process that refused first, InterruptedWorkError where they saved and
    stopped because they should, OwnershipLostError where another process took the run over, and RuntimeError where one
    crashed or died.
    """
    distributed = study.resources.distributed
    assert distributed is not None
    where = f"{study.name}/{run.name}"
    with tempfile.TemporaryDirectory(prefix="onelayer-") as folder, socket.socket(socket.AF_UNIX) as door:
        address = Path(folder) / "door"
        door.bind(str(address))
        door.listen(distributed.processes)
        launcher = subprocess.Popen(
            [
                *launch_command(distributed.processes, study.resources.threads, Path(folder)),
                *("-m", "onelayer.distributed", str(address)),
            ],
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )
        links: list[Connection] = []
        try:
            _follow(where, (study, run), distributed.processes, door, launcher, links)
            if launcher.wait():
                raise RuntimeError(f"{where}: trained, but `accelerate launch` ended with code {launcher.returncode}")
        finally:
            _stop(launcher, links)


def launch_command(processes: int, threads: int, folder: Path) -> list[str]:
    """`accelerate launch` for this machine, whatever the user's own configuration of it says.

    ``MULTI_GPU`` is its name for processes that PyTorch's elastic launcher starts; on a CPU they find each other too.
    ``folder`` takes the settings; what the processes run follows as arguments.
    """
    settings = folder / "accelerate.yaml"
    settings.write_text(
        yaml.safe_dump(
            {
                "compute_environment": "LOCAL_MACHINE",
                "distributed_type": "MULTI_GPU",
                "num_processes": processes,
                "num_machines": 1,
                "machine_rank": 0,
                "main_process_port": 0,  # any that is free
                "mixed_precision": "no",  # the trainer's to say
                "use_cpu": False,
                "debug": False,
            }
        )
    )
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(settings)]
    return [*launch, "--num_cpu_threads_per_process", str(threads)]


def _follow(
    where: str,
    task: tuple[Study, Run],
    processes: int,
    door: socket.socket,
    launcher: subprocess.Popen[bytes],
    links: list[Connection],
) -> None:
    """Let the processes in, and wait until each has said that it is done."""
    working = processes
    asked: list[Connection] = []
    while working:
        check_ownership()
        if reason_to_stop() is not None:
            for link in links:
                if link not in asked:
                    asked.append(link)
                    with contextlib.suppress(OSError):  # one that is gone is found out below
                        link.send("save")
        ready = wait([door, *links], timeout=_SECONDS_BETWEEN_LOOKS)
        if not ready and launcher.poll() is not None:
            raise RuntimeError(f"{where}: `accelerate launch` ended with code {launcher.returncode} before the run did")
        for one in ready:
            if one is door:
                link = Connection(door.accept()[0].detach())
                with contextlib.suppress(OSError):  # one that is gone is found out below
                    link.send(task)
                links.append(link)
                continue
            assert isinstance(one, Connection)
            try:
                word, text = one.recv()
            except (EOFError, OSError):
                raise RuntimeError(
                    f"{where}: a process that trained it was killed, by lack of memory perhaps"
                ) from None
            if word == "refused":
                raise UserError(text)
            if word == "interrupted":
                raise InterruptedWorkError(text)
            if word == "crashed":
                raise RuntimeError(f"{where}: a process that trained it failed:\n{text}")
            links.remove(one)
            working -= 1


def _stop(launcher: subprocess.Popen[bytes], links: list[Connection]) -> None:
    """End the launcher, then what it started, and return when all have ended."""
    if launcher.poll() is None:
        os.killpg(launcher.pid, signal.SIGKILL)  # it would only report the others' end
        launcher.wait()
    for link in links:
        with contextlib.suppress(OSError):
            link.send("stop")
    while links:
        ready = wait(links, timeout=_SECONDS_TO_END)
        if not ready:
            raise RuntimeError(f"{len(links)} processes that trained a run do not end")
        for one in ready:
            assert isinstance(one, Connection)
            try:
                one.recv()  # a last word that nobody waits for any more
            except (EOFError, OSError):
                links.remove(one)


def _leash(link: Connection) -> None:
    """Pass on that this process should save and stop, and end it when the parent says so, or is gone."""
    with contextlib.suppress(EOFError, OSError):
        while link.recv() == "save":
            ask_to_stop()
    os._exit(0)


def _check_devices(distributed: Distributed | None) -> None:
    import torch

    assert distributed is not None
    found = torch.cuda.device_count()
    if torch.cuda.is_available() and found < distributed.processes:
        raise UserError(
            f"resources.distributed.processes: found {distributed.processes}, and {found} CUDA devices that this job"
            " sees; expected at most one process a device"
        )


def main(address: str) -> None:
    """Be one process of the group: do the work, say how it went."""
    door = socket.socket(socket.AF_UNIX)
    try:
        door.connect(address)
        link = Connection(door.detach())
        study, run = link.recv()
    except (EOFError, OSError):
        return  # the parent is gone already
    if int(os.environ["RANK"]):  # the first one speaks for all
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        warnings.simplefilter("ignore")
    with listening():
        threading.Thread(target=_leash, args=(link,), daemon=True).start()
        _work(link, study, run)


def _work(link: Connection, study: Study, run: Run) -> None:
    try:
        _check_devices(study.resources.distributed)
        from onelayer.train import train_run

        train_run(study, run)
    except UserError as error:
        link.send(("refused", str(error)))
    except InterruptedWorkError as error:
        if not int(os.environ["RANK"]):  # the others have nothing to mark, and may be here before the first has
            link.send(("interrupted", str(error)))
    except BaseException:
        link.send(("crashed", traceback.format_exc()))
    else:
        from accelerate import PartialState

        PartialState().destroy_process_group()
        sys.stdout.flush()
        link.send(("done", ""))
        return
    # The others are stopped with this one, not by its end: what they would say of that is no reason.
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
