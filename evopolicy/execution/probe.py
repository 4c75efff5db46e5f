"""Applies the level `landlock` to itself and tries what must not be possible; prints what was, as a
JSON list.

Run as `python -m evopolicy.execution.probe [--outside JSON] PATH...`: the paths are files that must
become unreadable. With `--outside` it runs inside bubblewrap, and tries first what the namespaces
alone must hold back."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.sandbox import landlock
from evopolicy.kernel.files.folders import HeldFolder


@dataclass(frozen=True)
class Outside:
    """What there is outside of bubblewrap, and its bounds."""

    pid: int
    listener: str
    """An abstract socket that listens, its first byte left out."""
    hidden: str
    """A file."""
    shared: str
    """A folder that is seen read-only."""
    scratch: str
    scratch_bytes: int


def let_through(outside: Outside) -> list[str]:
    """Sentences about what bubblewrap let through."""
    attempts: dict[str, Callable[[], object]] = {
        "reaching an abstract socket of the Host": lambda: _connect(outside.listener),
        "seeing a file of the Host": lambda: Path(outside.hidden).stat(),
        "writing to the root": lambda: Path("/evopolicy-probe").mkdir(),
        "writing to the shared folder": lambda: Path(outside.shared, "probe").mkdir(),
        "reading the process table": lambda: list(Path("/proc/self").iterdir()),
        "filling the scratch folder beyond its bound": lambda: _fill(
            outside.scratch, outside.scratch_bytes + 1
        ),
    }
    if outside.pid not in (1, os.getpid()):
        attempts["signalling the Host"] = lambda: os.kill(outside.pid, 0)
    failed = [f"{what} was possible" for what, attempt in attempts.items() if _possible(attempt)]
    networks = [name for _, name in socket.if_nameindex() if name != "lo"]
    if networks:
        failed.append(f"it sees the network of the machine: {networks}")
    if os.getppid() not in (0, 1):
        failed.append("it has the process numbers of the machine")
    return failed


def _connect(listener: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"\0{listener}")


def _fill(folder: str, size: int) -> None:
    path = Path(folder, "filled")
    try:
        path.write_bytes(bytes(size))
    finally:
        path.unlink()


def main(paths: list[str]) -> list[str]:
    """Sentences about what the sandbox let through, or about what refused to be applied."""
    with HeldFolder("probe") as folder:
        scratch = folder / "scratches" / "one"
        other = folder / "scratches" / "other"
        scratch.mkdir(parents=True)
        other.mkdir()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            failed = _confined(folder, scratch, other, paths)
            os.write(writing, json.dumps(failed).encode()[:60_000])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            text = answer.read()
        os.waitpid(child, 0)
    return list(json.loads(text)) if text else ["the confined process ended without an answer"]


def _confined(folder: Path, scratch: Path, other: Path, paths: list[str]) -> list[str]:
    config = sandbox.SandboxConfig("landlock", landlock.abi(), (), (), 4 << 30, 1 << 20, 60.0)
    try:
        confinement = sandbox.confine_fork_server(config, (), (str(scratch.parent),))
        domain = sandbox.own_domain(confinement)
        if domain is not None:
            domain.allow(scratch, landlock.CHANGE)
        sandbox.confine_child(confinement, domain)
        (scratch / "file").write_text("x")
    except OSError as error:
        return [f"it cannot be applied: {error}"]
    attempts: dict[str, Callable[[], object]] = {
        f"reading {path}": Path(path).read_bytes for path in paths
    }
    attempts |= {
        "opening a socket": socket.socket,
        "starting a process": os.fork,
        "signalling its parent": lambda: os.kill(os.getppid(), 0),
        "writing outside its scratch folder": (other / "file").touch,
        "reading its parent folder": lambda: list(folder.iterdir()),
    }
    return [f"{what} was possible" for what, attempt in attempts.items() if _possible(attempt)]


def _possible(attempt: Callable[[], object]) -> bool:
    try:
        if attempt() == 0:  # A fork that worked, seen from the new process.
            os._exit(0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    arguments, found = sys.argv[1:], []
    if arguments[:1] == ["--outside"]:
        found = let_through(Outside(**json.loads(arguments[1])))
        arguments = arguments[2:]
    print(json.dumps(found + main(arguments)))
