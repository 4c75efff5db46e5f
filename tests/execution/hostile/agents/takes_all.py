"""Takes all it can of what the kernel counts for a user or a machine, says how much of it, and holds it."""

import ctypes
import fcntl
import os
import signal
import socket
import threading

libc = ctypes.CDLL(None, use_errno=True)
held, forever = [], threading.Event()


def until_refused(what, most):
    """How often `what` could be done, at most `most` times."""
    for done in range(most):
        try:
            found = what()
        except (OSError, RuntimeError):
            return done
        if isinstance(found, int) and found < 0:
            return done
        held.append(found)
    return most


def a_pipe():
    ends = os.pipe()
    fcntl.fcntl(ends[1], 1031, 1 << 20)  # its largest size for who is not root
    return ends


def a_name():
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(b"\0" + os.urandom(16))
    bound.listen()
    return bound


def a_timer():
    return libc.timer_create(0, None, ctypes.byref(ctypes.c_void_p()))


def a_signal():
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN, None)


def a_process():
    pid = os.fork()
    while pid == 0:
        signal.pause()
    return pid


def a_thread():
    thread = threading.Thread(target=forever.wait, daemon=True)
    thread.start()
    return thread


threading.stack_size(65536)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
found = {
    "watchers": until_refused(lambda: libc.inotify_init1(0), 200),
    "pipes": until_refused(a_pipe, 100),
    "names": until_refused(a_name, 200),
    "files": until_refused(lambda: os.open("/dev/null", os.O_RDONLY), 5000),
    "timers": until_refused(a_timer, 10_000),
    "signals": until_refused(a_signal, 10_000),
    "processes": until_refused(a_process, 300),
    "threads": until_refused(a_thread, 10_000),
}
print("holding", found, flush=True)
while True:
    signal.pause()
