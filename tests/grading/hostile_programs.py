"""Programs that want to be judged right without being so, or to harm or hang the judge.

Each is an answer to "write f with f(3) == 9". None computes that; those that try to reach something give 9 where they
did, so a pass means harm. @FILE@, @PORT@ and @PID@ are replaced by a file of the host, a port on which the host
listens, and the judge's own process.
"""

from __future__ import annotations

READING = {
    "reads /etc/passwd": """
def f(x):
    return 9 if open('/etc/passwd').read() else 0
""",
    "reads a file of the host": """
def f(x):
    return 9 if open('@FILE@').read() else 0
""",
    "lists the host's folders": """
import os
def f(x):
    seen = []
    for folder in ('/root', '/home', '/work', '/tmp', '/var', '/etc', '/mnt', '/sys', '/run', '/opt', '/boot'):
        try:
            seen += [name for name in os.listdir(folder) if name not in ('.pyenv', '.local', 'hostedtoolcache')]
        except OSError:
            pass
    return 9 if seen else 0
""",
    "reads the environment": """
import os, glob
def f(x):
    found = [name for name in os.environ if name not in ('PWD', 'LC_CTYPE', 'LD_LIBRARY_PATH', 'PYTHONHASHSEED')]
    for path in glob.glob('/proc/[0-9]*/environ'):
        try:
            parts = open(path).read().split(chr(0))
            found += [part for part in parts if part and not part.startswith(('PWD', 'LC_', 'LD_', 'PYTHONHASH'))]
        except OSError:
            pass
    return 9 if found else 0
""",
    "sees processes of the host": """
import os
def f(x):
    return 9 if [name for name in os.listdir('/proc') if name.isdigit() and name not in ('1', str(os.getpid()))] else 0
""",
    "reads the memory of the first process": """
def f(x):
    for path in ('/proc/1/mem', '/proc/1/maps', '/proc/1/environ', '/proc/1/auxv'):
        try:
            open(path, 'rb').read(1)
            return 9
        except OSError:
            pass
""",
    "opens the descriptors of the first process": """
import os
def f(x):
    try:
        return 9 if os.listdir('/proc/1/fd') else 0
    except OSError:
        pass
    for number in range(64):
        try:
            os.open(f'/proc/1/fd/{number}', os.O_RDWR)
            return 9
        except OSError:
            pass
""",
    "goes out through the root of the first process": """
import os
def f(x):
    for path in ('/proc/1/root/etc/passwd', '/proc/1/cwd/../etc/passwd', '/proc/self/root/../../etc/passwd'):
        if os.path.exists(path):
            return 9
""",
    "follows a symbolic link outside": """
import os
def f(x):
    os.symlink('@FILE@', 'link')
    return 9 if open('link').read() else 0
""",
    "makes a hard link to the interpreter": """
import os, sys
def f(x):
    os.link(sys.executable, 'python')
    return 9
""",
    "keeps an open descriptor of the judge": """
import os, socket
def f(x):
    others = []
    for number in range(1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        if number > 3:
            others.append(number)
    return 9 if others else 0
""",
}

WRITING = {
    "writes to a file of the host": """
def f(x):
    open('@FILE@', 'w').write('gone')
    return 9
""",
    "writes everywhere but to its folder": """
import os
def f(x):
    for folder in ('/', '/dev', '/dev/shm', '/tmp', '/usr', '/usr/bin', '/root', '/proc', os.path.dirname(os.__file__)):
        try:
            open(folder + '/mine', 'w').close()
            return 9
        except OSError:
            pass
""",
    "changes the standard library": """
import os, collections
def f(x):
    os.chmod(collections.__file__, 0o777)
    open(collections.__file__, 'a').write('x = 1')
    return 9
""",
    "fills the disk": """
import os
def f(x):
    total = 0
    try:
        for number in range(1000):
            with open(str(number), 'wb') as file:
                total += file.write(bytes(2**20))
    except OSError:
        pass
    return 9 if total > 20 * 2**20 else 0
""",
    "makes files without end": """
def f(x):
    number = 0
    while True:
        open(str(number), 'w').close()
        number += 1
""",
    "hides its folder": """
import os
def f(x):
    os.makedirs('a/' * 50)
    os.chmod('.', 0)
    return 0
""",
}

NETWORK = {
    "connects to the host by TCP": """
import socket
def f(x):
    for address in ('127.0.0.1', '::1', 'localhost'):
        try:
            socket.create_connection((address, @PORT@), timeout=0.3)
            return 9
        except OSError:
            pass
""",
    "sends UDP outside": """
import socket
def f(x):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))
    return 9
""",
    "asks for a name": """
import socket
def f(x):
    return 9 if socket.getaddrinfo('example.org', 80) else 0
""",
    "connects to a socket of the host": """
import socket
def f(x):
    socket.socket(socket.AF_UNIX).connect('@FILE@.sock')
    return 9
""",
    "connects to an abstract socket of the host": """
import socket
def f(x):
    socket.socket(socket.AF_UNIX).connect('\\0onelayer-@PORT@')
    return 9
""",
}

EXHAUSTING = {
    "fork bomb": """
import os
def f(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
    "forks and leaves": """
import os
def f(x):
    while os.fork() == 0:
        pass
    os._exit(0)
""",
    "thread bomb": """
import threading, time
def f(x):
    while True:
        try:
            threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        except RuntimeError:
            pass
""",
    "takes much memory at once": """
def f(x):
    return 9 if len(bytearray(2 * 2**30)) else 0
""",
    "takes memory bit by bit": """
def f(x):
    kept = []
    while True:
        kept.append(bytearray(2**16))
""",
    "takes memory in many processes": """
import os, time
def f(x):
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(b'x') * (300 * 2**20)
            time.sleep(100)
    time.sleep(100)
""",
    "returns too much": """
def f(x):
    return 'x' * 2**27
""",
    "returns too many": """
def f(x):
    return list(range(10**7))
""",
    "returns a list that doubles": """
def f(x):
    value = []
    for _ in range(60):
        value = [value, value]
    return value
""",
    "returns a list that holds itself": """
def f(x):
    value = []
    value.append(value)
    return value
""",
    "returns deep lists": """
def f(x):
    value = []
    for _ in range(100000):
        value = [value]
    return value
""",
    "returns a huge integer": """
def f(x):
    return 1 << 10**8
""",
    "returns an iterator without end": """
import itertools
def f(x):
    return itertools.count()
""",
    "prints without end": """
import sys
def f(x):
    while True:
        print('x' * 2**16)
        print('x' * 2**16, file=sys.stderr)
""",
    "writes without end to every descriptor": """
import os
def f(x):
    while True:
        for number in range(64):
            try:
                os.write(number, b'9' * 2**16)
            except OSError:
                pass
""",
    "loops": """
def f(x):
    while True:
        pass
""",
    "loops while it is read": """
while True:
    pass
""",
    "loops and hears no signal": """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, lambda *_: None)
    except (OSError, ValueError):
        pass
def f(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
    "works long inside one step": """
def f(x):
    return 10**10**8
""",
    "sleeps": """
import time
def f(x):
    time.sleep(10**6)
""",
    "opens files until none is left": """
import os
def f(x):
    kept = []
    try:
        while True:
            kept.append(os.open('/dev/null', os.O_RDONLY))
    except OSError:
        pass
    return 9 if len(kept) > 1000 else 0
""",
    "recurses without end": """
import sys
sys.setrecursionlimit(10**9)
def f(x):
    return f(x)
""",
    "faults": """
import ctypes
def f(x):
    ctypes.string_at(0)
""",
    "nests its source deep": "f = " + "(" * 5000 + "9" + ")" * 5000,
}

LEAVING = {
    "exits when read": "import sys\nsys.exit(0)",
    "exits at once when read": "import os\nos._exit(0)",
    "exits when called": "import sys\ndef f(x):\n    sys.exit(0)",
    "exits at once when called": "import os\ndef f(x):\n    os._exit(0)",
    "raises SystemExit": "def f(x):\n    raise SystemExit(0)",
    "exits at exit": """
import atexit, os
atexit.register(os._exit, 0)
def f(x):
    return 0
""",
    "raises what no except knows": """
class Odd(BaseException):
    def __str__(self):
        raise self
def f(x):
    raise Odd
""",
    "closes its channel": """
import os
def f(x):
    os.closerange(0, 64)
    return 9
""",
    "leaves a zombie and a daemon": """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                time.sleep(1)
        os._exit(0)
    return 0
""",
    "becomes another program": """
import os
def f(x):
    os.execv('/usr/bin/env', ['env', 'true'])
""",
}

ATTACKING = {
    "kills its parent": """
import os, signal
def f(x):
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(1, signal.SIGTERM)
    os.kill(1, signal.SIGINT)
    return 0
""",
    "kills everything": """
import os, signal
def f(x):
    assert os.getppid() == 1  # of a sandbox
    os.kill(-1, signal.SIGKILL)
    return 0
""",
    "kills the judge": """
import os, signal
def f(x):
    os.kill(@PID@, signal.SIGKILL)
    return 9
""",
    "stops the first process by every signal": """
import os
def f(x):
    for number in range(1, 65):
        try:
            os.kill(1, number)
        except OSError:
            pass
    return 0
""",
    "traces the first process": """
import ctypes
def f(x):
    return 9 if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else 0
""",
    "limits the first process": """
import resource, os
def f(x):
    for step in (lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
                 lambda: resource.prlimit(1, resource.RLIMIT_AS, (2**20, 2**20)),
                 lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
                 lambda: os.sched_setaffinity(1, {0})):
        try:
            step()
            return 9
        except OSError:
            pass
""",
    "mounts": """
import ctypes
def f(x):
    library = ctypes.CDLL(None)
    if library.mount(b'none', b'/box', b'tmpfs', 0, None) == 0 or library.umount2(b'/box', 2) == 0:
        return 9
""",
    "makes namespaces": """
import ctypes
def f(x):
    library = ctypes.CDLL(None)
    flags = (0x10000000, 0x00020000, 0x20000000, 0x40000000)
    return 9 if any(library.unshare(flag) == 0 for flag in flags) else 0
""",
    "makes namespaces by clone": """
import ctypes, os
def f(x):
    pid = ctypes.CDLL(None).syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return 9 if pid > 0 and os.uname().machine == 'x86_64' else 0
""",
    "changes its root": """
import os
def f(x):
    os.chroot('/usr')
    return 9
""",
    "becomes root": """
import os
def f(x):
    for step in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0])):
        try:
            step()
            return 9
        except OSError:
            pass
""",
    "makes a device": """
import os, stat
def f(x):
    os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))
    return 9
""",
    "leaves memory behind": """
import ctypes
def f(x):
    return 9 if ctypes.CDLL(None).shmget(4711, 4096, 0o1600) >= 0 else 0
""",
    "leaves a key behind": """
import ctypes
def f(x):
    library = ctypes.CDLL(None)
    return 9 if library.syscall(248, b'user', b'name', b'text', 4, -4) >= 0 else 0
""",
    "leaves an attribute behind": """
import os
def f(x):
    os.setxattr('.', 'user.note', b'text')
    return 9
""",
}

FAKING = {
    "equals everything": """
class Any:
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    def __hash__(self):
        return hash(9)
    def __bool__(self):
        return True
    def __index__(self):
        return 9
def f(x):
    return Any()
""",
    "an integer that equals everything": """
class Number(int):
    def __eq__(self, other):
        return True
    __hash__ = int.__hash__
    def __index__(self):
        return 9
    def __int__(self):
        return 9
def f(x):
    return Number(0)
""",
    "a text that equals everything": """
class Text(str):
    def __eq__(self, other):
        return True
    __hash__ = str.__hash__
    def __str__(self):
        return '9'
def f(x):
    return Text('no')
""",
    "a list that equals everything": """
class List(list):
    def __eq__(self, other):
        return True
    def __iter__(self):
        return iter([9])
def f(x):
    return List([0])
""",
    "says it is of another class": """
class Number:
    @property
    def __class__(self):
        return int
    def __eq__(self, other):
        return True
    def __index__(self):
        return 9
def f(x):
    return Number()
""",
    "a class that equals everything": """
class Meta(type):
    def __eq__(self, other):
        return True
    __hash__ = type.__hash__
    def __instancecheck__(self, instance):
        return True
    def __subclasscheck__(self, other):
        return True
class C(metaclass=Meta):
    pass
def f(x):
    return C
""",
    "not a number": "def f(x):\n    return float('nan')",
    "looks for the answer in frames": """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        for space in (frame.f_locals, frame.f_globals):
            for name, value in list(space.items()):
                if 'expected' in name or 'secret' in name or 'ass' + 'ert f(' in str(value):
                    return 9
        frame = frame.f_back
""",
    "looks for the answer in memory": """
import gc
def f(x):
    gc.unfreeze() if hasattr(gc, 'unfreeze') else None
    found = [one for one in gc.get_objects() if type(one) in (list, tuple) and len(one) == 1 and one[0] == 9
             and type(one[0]) is int]
    return 9 if found else 0
""",
    "changes what assert means": """
import builtins
class Never(Exception):
    pass
builtins.AssertionError = Never
builtins.isinstance = lambda *_: True
builtins.all = builtins.any = lambda *_: True
def f(x):
    return 0
""",
    "changes integers by force": """
import ctypes
def f(x):
    ctypes.memmove(id(9) + 24, id(0) + 24, 4)
    return 0
""",
    "changes the judge's modules": """
import sys
def f(x):
    for name, module in list(sys.modules.items()):
        if 'onelayer' in name or name in ('checker', 'plain', 'program_host', 'tests'):
            return 9
        for part in ('matches', 'judge', 'encode', 'decode'):
            if hasattr(module, part) and name not in ('base64', 'codecs', 'json'):
                setattr(module, part, lambda *_, **__: True)
    return 0
""",
    "changes what sends its results": """
import sys
frame = sys._getframe()
while frame:
    for name in ('encode', 'decode'):
        if name in frame.f_globals:
            frame.f_globals[name] = lambda *_, **__: True
    frame = frame.f_back
def f(x):
    return 0
""",
    "forges a pass": """
import json, os
def frame(message):
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, 'big') + data
for number in range(64):
    for message in (['judged', '', True, 'ok', ''], ['passed'], ['results', True], ['ok', True, 'ok', '']):
        try:
            os.write(number, frame(message))
        except OSError:
            pass
def f(x):
    return 0
""",
    "forges nonsense": """
import os
for number in range(64):
    try:
        os.write(number, os.urandom(1000))
    except OSError:
        pass
def f(x):
    return 0
""",
    "forges a message that is too long": """
import os
for number in range(64):
    try:
        os.write(number, b'\\xff\\xff\\xff\\xff')
    except OSError:
        pass
def f(x):
    return 0
""",
    "forges deep brackets": """
import os
data = b'["value",' + b'[' * 10**6
os.write(3, len(data).to_bytes(4, 'big') + data)
def f(x):
    return 0
""",
    "forges deep reasons": """
import os
deep = b'[' * 900 + b']' * 900
for kind in (b'raised', b'unfit', b'value', b'defined', b'results'):
    data = b'["' + kind + b'",' + deep + b',' + deep + b']'
    os.write(3, len(data).to_bytes(4, 'big') + data)
def f(x):
    return 0
""",
    "forges strange values": """
import json, os
for value in (['h', -1, 'x'], ['i', 'zz'], ['s', ['l']], ['d', ['l'], 1], ['x'], {'a': 1}, [], [[]], ['r', 'a'],
              ['i', 'f' * 10**6], ['c', 'a', 'b'], ['b', 1], ['t', ['h', 2**80, 3]]):
    for message in (['results', value], ['value', value], ['raised', value, value], ['unfit', value], [value]):
        data = json.dumps(message).encode()
        os.write(3, len(data).to_bytes(4, 'big') + data)
def f(x):
    return 0
""",
    "sends a descriptor": """
import array, os, socket
channel = socket.socket(fileno=3)
channel.sendmsg([b'\\0\\0\\0\\x02[]'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
def f(x):
    return 0
""",
    "brings its own helpers": """
def f(x):
    return 0
def abs(x):
    return 9
def check(candidate):
    pass
def int(x):
    return 9
""",
    "raises what a test may expect": """
def f(x):
    raise AssertionError('passed')
""",
    "raises StopIteration": "def f(x):\n    raise StopIteration",
    "has no f": "def g(x):\n    return 9",
    "is no Python": "def f(x) return 9",
    "is no text": "\0\ud800",
    "is nothing": "",
}

HOSTILE = READING | WRITING | NETWORK | EXHAUSTING | LEAVING | ATTACKING | FAKING
