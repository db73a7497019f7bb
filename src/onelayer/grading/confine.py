"""The wall around a sandbox: bubblewrap's command line and the filter of system calls.

Inside there are /usr, the interpreter, a bare /proc and /dev, and one small folder in memory, the only place that can
be written to. There is no network, no environment, no other process and no capability, and no new user namespace can be
made. As root, the user is first changed to one that owns nothing, for no limit on processes binds root.

Several programs run in one sandbox after another. What the filter of system calls (seccomp(2)) takes away is what would
outlive a program there or change another process of its user: System V and POSIX queues and memory, keys, extended
attributes, priorities and limits of others. Nothing that a right answer needs is among it.
"""

from __future__ import annotations

import errno
import itertools
import os
import platform
import struct
import sys
import sysconfig
from pathlib import Path

# The numbers of what is refused on x86_64 and on aarch64 (Linux's asm/unistd.h).
_REFUSED = {
    "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51), "fanotify_init": (300, 262), "fsconfig": (431, 431),
    "file_setattr": (469, 469), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430),
    "io_uring_setup": (425, 425), "ioprio_set": (251, 30), "keyctl": (250, 219), "lsetxattr": (189, 6),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "msgget": (68, 186), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "request_key": (249, 218),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "semget": (64, 190), "setns": (308, 268), "setpriority": (141, 140),
    "setxattr": (188, 5), "setxattrat": (463, 463), "shmget": (29, 194), "sync": (162, 81), "syncfs": (306, 267),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip
_CLONE, _CLONE3, _PRLIMIT = (56, 220), (435, 435), (302, 261)
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag of clone(2)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # the column above, and AUDIT_ARCH_…

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_turns = itertools.count()

# All that a program finds there, but for what the loader needs.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


def system_call_filter() -> bytes | None:
    """The filter as bubblewrap takes it (an array of sock_filter), or None on a processor whose numbers we lack."""
    if platform.machine() not in _ARCHITECTURES:
        return None
    column, architecture = _ARCHITECTURES[platform.machine()]

    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    refuse = step(_RETURN, _ERROR | errno.EPERM)
    program = [
        step(_LOAD, _ARCHITECTURE),
        step(_EQUAL, architecture, then=1),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER),
        # The x32 numbers of the same calls.
        step(_AT_LEAST, 0x40000000, otherwise=1),
        step(_RETURN, _KILL),
        # The C library falls back from clone3, whose flags no filter can read, to clone, whose it can.
        step(_EQUAL, _CLONE3[column], otherwise=1),
        step(_RETURN, _ERROR | errno.ENOSYS),
    ]
    for numbers in _REFUSED.values():
        program += [step(_EQUAL, numbers[column], otherwise=1), refuse]
    allow = step(_RETURN, _ALLOW)
    program += [
        step(_EQUAL, _CLONE[column], otherwise=4),
        step(_LOAD, _FIRST_ARGUMENT),
        step(_ANY_BIT, _NEW_NAMESPACES, otherwise=1),
        refuse,
        allow,
        # A process may set limits of its own, which it names 0.
        step(_EQUAL, _PRLIMIT[column], otherwise=3),
        step(_LOAD, _FIRST_ARGUMENT),
        step(_EQUAL, 0, then=1),
        refuse,
        allow,
    ]
    return b"".join(program)


def interpreter() -> Path:
    """The interpreter itself, outside any virtual environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def command(bwrap: str, folder: str, folder_bytes: int) -> list[str]:
    """The command line of a sandbox, in which ``folder`` can be written to; ``--`` and the program are to follow.

    As root it goes through util-linux's ``unshare``, ``mount`` and ``setpriv``: the interpreter often lies where no
    other user can go (/root), and is then made to be seen at /mnt, in a mount namespace of bubblewrap's own.
    """
    prefix = str(Path(sys.base_prefix).resolve())
    program = interpreter()
    source = prefix
    before: list[str] = []
    if os.geteuid() == 0:
        # systemd's range for users that exist for a while; one that is in use elsewhere does no harm.
        user = 61184 + (os.getpid() * 8 + next(_turns)) % 4336
        before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        if not _under(prefix, "/usr"):
            source = "/mnt"
            script = 'mount --bind "$1" /mnt && shift && exec "$@"'
            before = ["unshare", "--mount", "--", "sh", "-c", script, "sh", prefix, *before]
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    options += ["--clearenv", "--hostname", "sandbox", "--as-pid-1", "--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            options += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            options += ["--ro-bind", name, name]
    options += ["--proc", "/proc", "--dev", "/dev"]
    if not _under(prefix, "/usr"):
        options += ["--ro-bind", source, prefix]
    if not _under(str(program), prefix) and not _under(str(program), "/usr"):
        options += ["--ro-bind", str(program), str(program)]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        # Where the loader would look it up (/etc/ld.so.cache) is outside.
        options += ["--setenv", "LD_LIBRARY_PATH", str(sysconfig.get_config_var("LIBDIR"))]
    options += ["--perms", "0700", "--size", str(folder_bytes), "--tmpfs", folder, "--chdir", folder]
    options += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*before, bwrap, *options]


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
