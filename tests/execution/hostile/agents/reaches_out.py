"""Looks for other Runs, and does to each of their parts what it can. Says ESCAPED for each thing that could be done.

`victims.json` beside it names them. It says 'watching' and goes on once the pipe `go` in its workspace is closed.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
victims = json.loads(pathlib.Path(__file__).with_name("victims.json").read_text())
apart = victims["level"] == "bubblewrap"  # where what is another's has no name at all
CREATED = 0x100
escaped = []


def could(what, do):
    try:
        found = do()
    except (OSError, ValueError):
        return
    if found is not False:
        escaped.append(what)
        print("ESCAPED:", what, found, flush=True)


def watched():
    """Whether it is told of names that are made in folders it cannot list."""
    instance = libc.inotify_init1(os.O_NONBLOCK)
    for folder in victims["folders"]:
        libc.inotify_add_watch(instance, folder.encode(), CREATED)
    print("watching", flush=True)
    (pathlib.Path.cwd() / "go").read_text()
    could("names of others", lambda: os.read(instance, 1 << 16))


def processes():
    for pid in victims["processes"]:
        could(f"kill {pid}", lambda: os.kill(pid, signal.SIGKILL))
        could(f"kill the group {pid}", lambda: os.killpg(pid, signal.SIGKILL))
        could(f"queue a signal for {pid}", lambda: libc.sigqueue(pid, signal.SIGKILL, None) == 0)
        could(f"its file descriptor {pid}", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
        could(
            f"attach to {pid}",
            lambda: libc.ptrace(16, pid, None, None) == 0 or libc.ptrace(0x4206, pid, None, None) == 0,
        )
        could(f"limit {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
        could(f"bind {pid}", lambda: os.sched_setaffinity(pid, {0}))
        could(f"renice {pid}", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
        for name in ("mem", "environ", "cmdline", "maps", "fd", "root", "cwd", "task"):
            path = f"/proc/{pid}/{name}"
            could(f"read {path}", lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
        _signal_by_descriptor(pid)
    if not escaped:  # The same rule for each process: it meets no other one either.
        libc.kill(-1, signal.SIGKILL)


def _signal_by_descriptor(pid):
    """What is written to a pipe of its own has the kernel send its owner a signal that ends who does not expect it."""
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b"x")
    except OSError:
        pass


def memory():
    key, mine = victims["key"], victims["key"] + 1
    # Before it has one itself: in a namespace of its own its first could have the same number.
    could("shmctl of another", lambda: libc.shmctl(victims["segment"], 0, None) == 0)
    for call in (libc.shmget, libc.msgget, libc.semget):
        arguments = () if call is libc.msgget else (1,)
        could(f"{call.__name__} of another", lambda: call(key, *arguments, 0o600) >= 0)
        libc.__getattr__(call.__name__)(mine, *arguments, 0o1600)  # left behind, if it is made
    for place in ("/dev/shm", "/tmp", "/var/tmp"):
        try:
            pathlib.Path(place, victims["name"]).write_text("left behind")
        except OSError:
            pass


def sockets():
    for number, name in enumerate(victims["abstract"]):
        with socket.socket(socket.AF_UNIX) as link:
            could(f"connect to abstract socket {number}", lambda: link.connect(f"\0{name}"))
    for path in victims["sockets"] if apart else ():
        with socket.socket(socket.AF_UNIX) as link:
            could(f"connect to {path}", lambda: link.connect(path))


def files():
    for path in map(pathlib.Path, victims["files"]):
        could(f"read {path}", path.read_bytes)
        could(f"write {path}", lambda: path.open("r+b").close())
        could(f"add to {path}", lambda: path.open("ab").close())
        could(f"cut {path}", lambda: os.truncate(path, 0))
        could(f"remove {path}", path.unlink)
        could(f"replace {path}", lambda: path.rename(path.with_name("moved")))
        could(f"link {path}", lambda: os.link(path, "linked"))
        could(f"add beside {path}", lambda: path.with_name("planted").write_text("x"))
        could(f"add a folder beside {path}", lambda: path.with_name("folder").mkdir())
        could(f"list beside {path}", lambda: os.listdir(path.parent))
        if apart:
            could(f"stat {path}", path.stat)
            could(f"change the mode of {path}", lambda: path.chmod(0))


def stays():
    """Two of it in sessions of their own, deaf to whoever asks them to end, one holding a name of the machine's."""
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            with socket.socket(socket.AF_UNIX) as held:
                try:
                    held.bind(f"\0{victims['name']}")
                    held.listen()
                except OSError:
                    pass
                signal.pause()


watched()
for part in (files, sockets, memory, processes, stays):
    part()
print("done", flush=True)
