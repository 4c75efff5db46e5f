"""A scripted handler behind the real gateway, and the real client as a subprocess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evopolicy.session import client
from evopolicy.session.gateway import SocketGateway
from tests.kernel.bench import wait_until

CLIENT = Path(client.__file__)


@dataclass
class Scripted:
    """Answers every verb with `{"state": "open"}` and what was asked, or with what a test puts into
    `answers`."""

    answers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def handle(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((verb, dict(arguments)))
        if verb in self.answers:
            return self.answers[verb](arguments)
        return {"state": "open", "verb": verb}


@dataclass
class Call:
    """How one client call ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.stdout)
        return value


def call_client(*argv: str, cwd: Path, **environment: str) -> Call:
    env = {
        key: value for key, value in os.environ.items() if not key.startswith("EVOPOLICY_")
    } | environment
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(CLIENT), *argv],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Call(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def handler() -> Scripted:
    return Scripted()


@pytest.fixture
def socket_path(handler: Scripted) -> Iterator[Path]:
    before = set(threading.enumerate())
    with SocketGateway().open(handler) as path:
        yield path
    wait_until(lambda: set(threading.enumerate()) <= before)  # the gateway leaves no thread
    assert not path.parent.exists()


@pytest.fixture
def workspace(tmp_path: Path, socket_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "program").mkdir(parents=True)
    (root / "program" / "policy.py").write_text("")
    (root / ".evopolicy").mkdir()
    (root / ".evopolicy" / "session.json").write_text(
        json.dumps({"socket": str(socket_path), "workspace": "."})
    )
    return root


@pytest.fixture
def ask(workspace: Path) -> Callable[..., Call]:
    def call(*argv: str, cwd: Path = workspace, **environment: str) -> Call:
        return call_client(*argv, cwd=cwd, **environment)

    return call
