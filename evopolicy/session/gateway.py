"""The Host's end of the agent's socket: one line of JSON in, one line out, whatever the peer
does."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import ExecutionError, Refused
from evopolicy.kernel.ports.protocols import SessionHandler
from evopolicy.session.client import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES

log = logging.getLogger(__name__)

MAX_PATH_BYTES = 100
"""A Unix address holds 107 bytes; some are kept for a sandbox that mounts the folder elsewhere."""
_PREFIX, _SOCKET, _LOCK = "evopolicy-s-", "session.sock", "host.lock"


@dataclass(frozen=True)
class SocketGateway:
    """Port Gateway on a Unix socket in a private folder of its own."""

    read_seconds: float = 30.0
    """A peer that has not sent its line by then is hung up on."""
    close_seconds: float = 5.0
    """How long closing waits for calls in flight; what still blocks in the handler then is left to
    end alone."""
    connections: int = 32
    """Calls served at once; further ones are refused as busy."""

    @contextlib.contextmanager
    def open(self, handler: SessionHandler) -> Iterator[Path]:
        """Serve `handler` while the context is open; yields the socket's path, shorter than 100
        bytes.

        Raises ExecutionError where no folder can hold a socket.
        """
        with (
            _private_folder() as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        ):
            path = folder / _SOCKET
            listener.bind(os.fspath(path))
            path.chmod(0o600)
            listener.listen(self.connections)
            server = _Server(self, handler, listener)
            server.start()
            try:
                yield path
            finally:
                server.stop()


class _Server:
    """One accepting thread, and one thread for each call: a `wait` may block while `status` is
    asked."""

    def __init__(
        self, gateway: SocketGateway, handler: SessionHandler, listener: socket.socket
    ) -> None:
        self._gateway = gateway
        self._handler = handler
        self._listener = listener
        self._calls: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="evopolicy-session", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Hang up on every peer and wait, bounded, for every thread."""
        deadline = time.monotonic() + self._gateway.close_seconds
        with self._lock:
            self._closing = True
            calls = dict(self._calls)
        # Closing a listener does not wake accept(); shutting it down does.
        for end in (self._listener, *calls.values()):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD if end is not self._listener else socket.SHUT_RDWR)
        for thread in (self._thread, *calls):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closing:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                time.sleep(0.05)  # out of file descriptors: calls in flight will free some
                continue
            self._begin(peer)

    def _begin(self, peer: socket.socket) -> None:
        thread = threading.Thread(
            target=self._serve, args=(peer,), name="evopolicy-session-call", daemon=True
        )
        with (
            self._lock,
            contextlib.suppress(RuntimeError),
        ):  # no further thread can be started: busy as well
            if not self._closing and len(self._calls) < self._gateway.connections:
                thread.start()
                self._calls[thread] = peer
                return
        with contextlib.suppress(OSError), peer:
            _send_last(
                peer,
                _refusal("busy", "Too many calls are open at once.", "Let one of them end first."),
                0.2,
            )

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer:
                line = _read_line(peer, self._gateway.read_seconds)
                if line is not None:
                    _send_last(peer, answer(self._handler, line), self._gateway.read_seconds)
        except OSError:
            pass  # the peer left; what it asked for stands
        finally:
            with self._lock:
                self._calls.pop(threading.current_thread(), None)


def _read_line(peer: socket.socket, seconds: float) -> bytes | None:
    """The request line, without bound only in time and size; None where the peer sent none."""
    deadline = time.monotonic() + seconds
    received = bytearray()
    while b"\n" not in received and len(received) <= MAX_REQUEST_BYTES:
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        part = peer.recv(65536)
        if not part:
            break
        received += part
    return bytes(received.split(b"\n", 1)[0]) if received else None


def _send_last(peer: socket.socket, response: Mapping[str, Any], seconds: float) -> None:
    """Send and hang up. What the peer still writes is read first: closing over it would reset the
    line, answer lost."""
    peer.settimeout(seconds)
    peer.sendall(_encode(response))
    peer.shutdown(socket.SHUT_WR)
    until = time.monotonic() + min(seconds, 0.2)
    for _ in range(64):
        # In all: who refuses a call as busy takes the next one, and nobody's dripping keeps him
        # from it.
        peer.settimeout(max(0.001, until - time.monotonic()))
        if not peer.recv(65536):
            return


# --- one call -------------------------------------------------------------------------------------


def answer(handler: SessionHandler, line: bytes) -> dict[str, Any]:
    """The response to one request line. Never raises; tells the peer nothing of the Host beyond
    what it refuses."""
    try:
        verb, arguments = _parse(line)
        return {"ok": True, "result": dict(handler.handle(verb, arguments))}
    except Refused as refused:
        return _refusal(refused.code, refused.reason, refused.remedy)
    except Exception:
        log.exception("the Session failed while it answered a call")
        return _refusal(
            "internal",
            "The Host met a fault of its own while it answered; your Program is not to blame.",
            "Call `evopolicy-session status` to see what stands, then try again.",
        )


def _parse(line: bytes) -> tuple[str, dict[str, Any]]:
    if len(line) > MAX_REQUEST_BYTES:
        raise Refused(
            "too_long",
            f"The call is longer than {MAX_REQUEST_BYTES} bytes.",
            "Use ranges in the selector.",
        )
    try:
        call = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused(
            "bad_request", "The call is not one line of JSON.", "Use `evopolicy-session`."
        ) from None
    if not isinstance(call, dict) or not isinstance(call.get("verb"), str):
        raise Refused("bad_request", 'The call has no "verb".', "Use `evopolicy-session`.")
    verb, arguments = call["verb"], call.get("arguments", {})
    if not isinstance(arguments, Mapping):
        raise Refused(
            "bad_request", 'The call\'s "arguments" are not an object.', "Use `evopolicy-session`."
        )
    return verb, dict(arguments)


def _refusal(code: str, reason: str, remedy: str = "") -> dict[str, Any]:
    return {"ok": False, "code": code, "reason": reason, "remedy": remedy}


def _encode(response: Mapping[str, Any]) -> bytes:
    try:
        line = json.dumps(response, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"
    except (TypeError, ValueError, RecursionError):
        log.exception("the Session's answer is not a JSON value")
        line = _encode(
            _refusal("internal", "The Host's answer could not be written down.", "Try `status`.")
        )
    if len(line) > MAX_RESPONSE_BYTES:
        reason = f"The answer would be longer than {MAX_RESPONSE_BYTES} bytes."
        line = _encode(
            _refusal("too_long", reason, "Read the Feedback's files in the workspace instead.")
        )
    return line


# --- the folder -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder only this user may enter, with a short path, locked while the Host lives and removed
    afterwards."""
    folder = _make_folder()
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear_dead(folder.parent)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    tried = []
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        name = os.path.join(parent, _PREFIX + "x" * 8, _SOCKET)  # noqa: PTH118
        if len(os.fsencode(name)) >= MAX_PATH_BYTES:
            tried.append(f"{parent} (its path is too long for a socket)")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 0700
        except OSError as error:
            tried.append(f"{parent} ({error.strerror})")
    raise ExecutionError(
        f"no folder can hold the Session's socket: {', '.join(tried)}; set TMPDIR to a short, "
        "writable path"
    )


def _clear_dead(parent: Path) -> None:
    """Remove the folders of Hosts that were killed: their lock is free. A folder in the making has
    no lock yet."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                age = time.time() - os.fstat(lock).st_mtime
                if age > 60 and folder.stat().st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
