"""Foreign code in a process of its own: with a deadline, a folder and a session of its own, and no
terminal.

Started as `python -m evopolicy.execution.foreign_call FD`. That process keeps another one, which
runs the code, and ends all that is left of it, whatever session it has fled to; the Host reads
plain values from FD and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from evopolicy.execution.engine.worker_handle import environment
from evopolicy.execution.sandbox import process
from evopolicy.execution.sandbox.descendants import kill_descendants
from evopolicy.kernel import errors
from evopolicy.kernel.errors import EvoPolicyError, ExecutionError
from evopolicy.kernel.files.folders import HeldFolder

IMPORT_SECONDS = 120.0
"""For what comes before the first call that is announced: an interpreter and large packages, on a
busy machine."""
LARGEST = 1 << 26
_CLOSE_SECONDS = 10.0
_SHOWN = 300
_STARTING = "while it was started"


def call(function: str, arguments: Mapping[str, Any], seconds: float) -> Any:
    """What `function` (`module:name`), called with `tell` and `arguments`, returns: a plain value,
    as are those.

    It calls `tell(phase)` ("while it was made") before whatever may hang: from then on it has
    `seconds`, at least IMPORT_SECONDS with `imports=True`. An error of EvoPolicy's that it raises
    is raised here. Raises ExecutionError, saying how and in which phase, where it ends in another
    way, does not return, or answers too much."""
    with HeldFolder("foreign") as folder:
        home, log = folder / "home", folder / "log"
        home.mkdir()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        asked = {
            "function": function,
            "arguments": dict(arguments),
            "path": path,
            "parent": os.getpid(),
        }
        request = folder / "asked.json"
        request.write_text(json.dumps(asked))
        reader, writer = os.pipe()
        try:
            try:
                child = _start(writer, request, home, log)
            finally:
                os.close(writer)
            try:
                return _heard(child, reader, log, seconds)
            finally:
                _end(child)
        finally:
            os.close(reader)


def _start(writer: int, request: Path, home: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "evopolicy.execution.foreign_call",
                str(writer),
                str(request),
            ],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=[writer],
            env=environment(),
            start_new_session=True,
        )


def _heard(child: subprocess.Popen[bytes], reader: int, log: Path, seconds: float) -> Any:
    held, phase, allowed = b"", _STARTING, max(seconds, IMPORT_SECONDS)
    until = time.monotonic() + allowed
    while True:
        if not select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
            raise ExecutionError(
                f"it did not return within {allowed:g} s {phase} (execution.limits.step_seconds "
                "allows it longer)"
            )
        data = os.read(reader, 1 << 18)
        if not data:
            raise ExecutionError(f"its process ended with {_how(child)} {phase}{_last_words(log)}")
        held += data
        if len(held) > LARGEST:
            raise ExecutionError(f"it answered more than {LARGEST} bytes {phase}")
        *lines, held = held.split(b"\n")
        for message in map(_message, lines):
            if "phase" in message:
                phase = str(message["phase"])[:200]
                allowed = max(seconds, IMPORT_SECONDS) if message.get("imports") else seconds
                until = time.monotonic() + allowed
            elif "error" in message:
                raise error_of(str(message["error"]), str(message.get("text")))
            else:
                return message.get("answer")


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    except (ValueError, RecursionError):
        pass
    raise ExecutionError(f"it wrote {line!r:.80} where its answer belongs")


def error_of(name: str, text: str) -> EvoPolicyError:
    """The error of EvoPolicy's that is called `name`, such as 'ConfigError'."""
    kind = getattr(errors, name, None)
    known = (
        isinstance(kind, type) and issubclass(kind, EvoPolicyError) and kind is not errors.Refused
    )
    return kind(text) if known else ExecutionError(text)  # type: ignore[misc]


def _how(child: subprocess.Popen[bytes]) -> str:
    code = child.wait()
    with contextlib.suppress(ValueError):
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    return f"signal {-code}"


def _last_words(log: Path) -> str:
    """The last line it wrote, as one that a terminal can show."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4_096))
        lines = [
            line.strip()
            for line in file.read().decode("utf-8", "replace").splitlines()
            if line.strip()
        ]
        if lines:
            return (
                "; it last wrote: "
                + "".join(c if c.isprintable() else " " for c in lines[-1])[-_SHOWN:]
            )
    return ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """It ends all it keeps, and then itself."""
    child.terminate()
    try:
        child.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


# --- the process that keeps, and the one that runs ------------------------------------------------


def main(fd: int, request: Path) -> None:
    """Run what `request` says in a process of its own; end as that one ended, once nothing of it is
    left."""
    asked = json.loads(request.read_bytes())
    process.adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    process.signal_with_parent(asked["parent"], signal.SIGTERM)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inner = os.fork()
    if not inner:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.set_inheritable(fd, False)
        _run(fd, asked)
        os._exit(0)
    _, status = os.waitpid(inner, 0)
    _end_all()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (
            signal.SIGKILL,
            signal.SIGSTOP,
        ) else None
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _leave(*_: object) -> None:
    _end_all()
    os._exit(0)


def _end_all() -> None:
    """Kill and reap everything below this process, until nothing is: what is orphaned meanwhile
    comes to it."""
    while True:
        kill_descendants()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _run(fd: int, asked: Mapping[str, Any]) -> None:
    def say(**message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(fd, line) :]

    sys.path[:] = asked["path"]
    module, _, name = asked["function"].partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    try:
        say(
            answer=function(
                lambda phase, imports=False: say(phase=phase, imports=imports), **asked["arguments"]
            )
        )
    except EvoPolicyError as error:
        say(error=type(error).__name__, text=str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
