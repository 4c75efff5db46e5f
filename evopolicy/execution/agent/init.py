#!/usr/bin/env python3
"""The first process of an agent's sandbox: starts the agent, carries its connections to the Host,
tells how it ended.

Runs as `python3 init.py PLAN` with process number 1: when it ends, the kernel ends whatever else is
left. One file, standard library only: it is mounted with `seccomp_notify` into sandboxes that hold
nothing else of EvoPolicy."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

if __package__:
    from evopolicy.execution.sandbox import seccomp_notify
else:
    sys.path.insert(
        0, str(Path(__file__).parent)
    )  # isolated, Python looks for no module beside a program
    import seccomp_notify  # type: ignore[no-redef, import-not-found]

CONNECTIONS = 64
"""Open at once between the agent and the Host's proxy; further ones wait to be accepted."""
SEND_SECONDS, LAST_SECONDS = 60, 5.0
"""For an agent to make room for more of an answer, and to end its own way once the Host has ended:
as the proxy gives it. Whoever never reads, or never closes, keeps no connection from being accepted
for longer."""
_CHUNK = 1 << 16
_DUMPABLE = 4


def main(path: str) -> None:
    """Start what the plan at `path` says; write its raw wait status to the plan's descriptor once
    it has ended."""
    plan = json.loads(Path(path).read_bytes())
    report = int(plan["report"])
    os.set_inheritable(report, False)
    # Nobody in here may look into this process or through its descriptors.
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
    listener = _listen(plan["port"]) if plan["port"] else None
    os.write(report, b"ready\n")
    agent = _start(plan)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: _pass_on(agent, received))
    if listener is not None:
        threading.Thread(target=_forward, args=(listener, plan["proxy"]), daemon=True).start()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == agent:
            os.write(report, struct.pack("<i", status))
            os._exit(0)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(CONNECTIONS)
    return listener


def _start(plan: dict[str, Any]) -> int:
    """Fork the agent into a session of its own and keep its processes; returns its process
    number."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        with ours:
            listener = seccomp_notify.handed(ours)
        if listener >= 0:
            seccomp_notify.Listener(
                listener, plan["processes"], lambda: int(seccomp_notify.tasks(_processes(pid)))
            ).start()
        seccomp_notify.TaskLimit(plan["processes"], lambda: _processes(pid)).start()
        return pid
    try:
        os.setsid()
        for number in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):  # Ignored by Python, and by whatever it would execute so.
            signal.signal(number, signal.SIG_DFL)
        # Beside the count: the kernel's own bounds, the first of which holds only for who is not
        # root.
        _limit(resource.RLIMIT_NPROC, plan["limit"])
        _limit(resource.RLIMIT_SIGPENDING, plan["signals"])
        argv, environment, folder = plan["argv"], plan["environment"], plan["folder"]
        os.chdir(str(folder))
        with theirs:
            seccomp_notify.install_and_hand_on(
                bytes.fromhex(plan["counted"]), bytes.fromhex(plan["uncounted"]), theirs
            )
        os.execvpe(argv[0], argv, environment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"the agent cannot be started: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _limit(kind: int, most: int) -> None:
    """Lower a limit to `most`; 0: leave it."""
    ceiling = resource.getrlimit(kind)[1]
    if most and not 0 <= ceiling < most:
        resource.setrlimit(kind, (most, most))


def _processes(agent: int) -> list[int]:
    """The processes in this sandbox beside this one, the agent first and then the oldest."""
    numbers = {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}
    return [agent, *sorted(numbers - {1, agent})]


def _pass_on(agent: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(agent, number)


def _forward(listener: socket.socket, proxy: str) -> None:
    """Give every connection one of its own to the Host's socket."""
    free = threading.BoundedSemaphore(CONNECTIONS)
    while True:
        free.acquire()
        try:
            peer, _ = listener.accept()
            threading.Thread(target=_serve, args=(peer, proxy, free), daemon=True).start()
        except (OSError, RuntimeError):
            free.release()


def _serve(peer: socket.socket, proxy: str, free: threading.BoundedSemaphore) -> None:
    try:
        with peer, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as host:
            peer.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0)
            )
            host.connect(proxy)
            up = threading.Thread(target=_pump, args=(peer, host), daemon=True)
            up.start()
            _pump(host, peer)
            up.join(LAST_SECONDS)
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            up.join()
    except (OSError, RuntimeError):
        pass  # the Host's proxy is gone: the agent sees its connection closed
    finally:
        free.release()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way until that way ends; a way that breaks breaks the other too."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(sys.argv[1])
