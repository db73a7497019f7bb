"""A real Slurm of one pretended node on this machine, from Debian's packages, with all its files in one folder."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo")

# Eight cores and two devices are pretended, so that jobs run beside each other on a machine of two cores.
_CONFIGURATION = """\
ClusterName=pretended
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=600
KillWait=10
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=600 State=UP
PartitionName=long Nodes={host} MaxTime=6000 State=UP
"""


def missing_programs() -> list[str]:
    """Which of Slurm's and munge's programs this machine lacks."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for a condition; an AssertionError says what did not come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)


@dataclass
class Slurm:
    """The daemons, and the commands of a Slurm that finds them."""

    folder: Path
    host: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach this Slurm."""
        configuration = str(self.folder / "slurm.conf")
        return {"SLURM_CONF": configuration, "PATH": f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}"}

    def start(self) -> None:
        """Start munge, the controller and the node."""
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir()
        # The plugin takes SLURM_CONF, as all of Slurm's own variables, from what its jobs start.
        for name in ("srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct"):
            command = self.folder / "bin" / name
            command.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec /usr/bin/{name} "$@"\n')
            command.chmod(0o755)
        configuration = _CONFIGURATION.format(
            host=self.host,
            user=getpass.getuser(),
            folder=self.folder,
            controller_port=_free_port(),
            node_port=_free_port(),
        )
        (self.folder / "slurm.conf").write_text(configuration)
        # Devices that no program opens: Slurm counts and hands them out all the same.
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        # Every process that talks to munge, of whatever user, must reach its socket.
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        subprocess.run(["/usr/sbin/mungekey", "--create", f"--keyfile={key}"], check=True)
        at = f"--socket={self.folder}/munge.socket"
        self._launch(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            at,
            f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munged.log",
            f"--seed-file={self.folder}/munged.seed",
        )
        wait_until((self.folder / "munge.socket").exists, "munge's socket")
        self.start_controller()
        self._launch("slurmd", "-D", "-N", self.host)
        wait_until(lambda: "idle" in self.call("sinfo", "-h", "-o", "%T"), "an idle node")

    def start_controller(self) -> None:
        """Start the controller, with whatever an earlier one saved of its state."""
        self._launch("slurmctld", "-D")
        wait_until(lambda: "is UP" in self.call("scontrol", "ping"), "the controller")

    def _launch(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.out").open("ab") as out:
            self.daemons[program] = subprocess.Popen(
                [f"/usr/sbin/{program}", *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def end(self, program: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon and wait until it is gone."""
        daemon = self.daemons.pop(program)
        daemon.send_signal(how)
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def call(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it says, errors included."""
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, **self.environment},
        )
        return result.stdout

    def jobs(self, *states: str) -> dict[str, str]:
        """The jobs in these states (all that are waiting or running, where none is named): id → comment."""
        chosen = ("--states=" + ",".join(states),) if states else ()
        lines = self.call("squeue", "-h", "-o", "%i|%k", *chosen).splitlines()
        return dict(line.split("|", 1) for line in lines if "|" in line)

    def close(self) -> None:
        """Cancel what runs, and end the daemons."""
        if "slurmctld" in self.daemons:
            self.call("scancel", f"--user={getpass.getuser()}")
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not self.jobs(), "the end of every job", 40)
        for program in ("slurmd", "slurmctld", "munged"):
            if program in self.daemons:
                self.end(program)


@contextlib.contextmanager
def local_slurm(folder: Path) -> Iterator[Slurm]:
    """A Slurm that runs within the block, where its commands are first on the path."""
    slurm = Slurm(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm.environment.items():
            patch.setenv(name, value)
        try:
            slurm.start()
            yield slurm
        finally:
            slurm.close()
