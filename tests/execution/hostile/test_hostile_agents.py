"""Agents that reach for others, take all they can and run wild: no Run beside or after theirs is
another for it."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from evopolicy import build
from evopolicy.execution.agent import bubblewrap as agent_bubblewrap
from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.execution.sandbox import landlock
from evopolicy.execution.sandbox.descendants import descendants
from evopolicy.kernel.ports.protocols import (
    AgentProcess,
    AgentSite,
    AgentTask,
    Invocation,
    Isolation,
)
from evopolicy.session import client
from tests.execution.conftest import alive, becomes
from tests.execution.hostile.conftest import GROUPED
from tests.execution.hostile.innocent_host import PROGRAM, config_of, told
from tests.execution.hostile.innocents import Innocents

AGENTS = Path(__file__).parent / "agents"
SCOPED = 6
"""Landlock's ABI from which on it parts processes and abstract sockets: docs/isolation.md says what
is open before."""
_LIBC = ctypes.CDLL(None, use_errno=True)


pytestmark = pytest.mark.parametrize(
    "level", [found for found in GROUPED if found.values[0] != "none"]
)


@pytest.fixture
def beside(level: Isolation, innocents: Callable[[Isolation], Innocents]) -> Innocents:
    return innocents(level)


@contextmanager
def started(
    level: Isolation, folder: Path, name: str, **files: str
) -> Iterator[tuple[AgentProcess, AgentSite]]:
    """The agent of that name, with `files` beside it, in a sandbox of its own."""

    def invoke(task: AgentTask) -> Invocation:
        beside = {f"{stem}.json": text for stem, text in files.items()}
        argv = (str(task.python), "-B", str(task.staging / "main.py"))
        return Invocation(argv, files={"main.py": (AGENTS / f"{name}.py").read_text(), **beside})

    site = AgentSite(folder / "workspace", folder / "no.sock", folder / "logs", "", 0)
    site.workspace.mkdir(exist_ok=True)
    launcher = LocalAgentLauncher(isolation=level, client=Path(client.__file__), policy_packages=())
    process = launcher.start(site, invoke)
    try:
        yield process, site
    finally:
        process.stop()


def said(site: AgentSite) -> str:
    return "".join((site.logs / name).read_text() for name in ("stdout.log", "stderr.log"))


def says(process: AgentProcess, site: AgentSite, word: str) -> None:
    """Wait until the agent has said `word`."""
    assert becomes(lambda: word in said(site) or process.wait(0) is not None)
    assert word in said(site), said(site)


@pytest.fixture
def segment() -> Iterator[tuple[int, int]]:
    """Key and number of a shared memory of this machine."""
    key = secrets.randbelow(1 << 30) * 2 + 2
    number = _LIBC.shmget(key, 4096, 0o1600)
    assert number >= 0
    yield key, number
    assert _LIBC.shmctl(number, 0, None) == 0, "it was removed"


@pytest.fixture
def listening() -> Iterator[str]:
    """An abstract socket of this machine."""
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"evopolicy-innocent-{secrets.token_hex(8)}"
        listener.bind(f"\0{name}")
        listener.listen()
        yield name


def test_an_agent_that_reaches_for_other_runs_finds_none(
    level: Isolation, beside: Innocents, tmp_path: Path, segment: tuple[int, int], listening: str
) -> None:
    """What is read, written, signalled and watched for is each part of the innocents' Host and of
    its Run."""
    if level == "landlock" and landlock.abi() < SCOPED:
        pytest.skip(
            "isolation 'landlock': before Linux 6.12 it parts neither processes nor abstract "
            "sockets"
        )
    name = f"evopolicy-left-{secrets.token_hex(8)}"
    run = beside.run
    temporary = Path(tempfile.gettempdir())
    victims = {
        "level": level,
        "processes": [beside.host, *descendants(beside.host)],
        "folders": sorted(
            {
                str(temporary),
                "/tmp",
                "/dev/shm",
                *(str(path) for path in (run, run.parent, run / "submissions")),
            }
        ),
        "files": [str(path) for path in _files(run)],
        "sockets": [str(path) for path in temporary.glob("evopolicy-s-*/session.sock")],
        "abstract": [listening],
        "key": segment[0],
        "segment": segment[1],
        "name": name,
    }
    os.mkfifo(_made(tmp_path / "workspace") / "go")
    with started(level, tmp_path, "reaches_out", victims=json.dumps(victims)) as (process, site):
        says(process, site, "watching")
        with beside.beside(ends=True):
            pass
        with beside.beside():  # another Run, with another Session
            pass
        with beside.beside():
            (site.workspace / "go").write_text("")
            assert process.wait(300) == 0, said(site)
    assert said(site) == "watching\ndone\n"
    with beside.beside():
        pass
    assert _LIBC.shmget(segment[0] + 1, 1, 0) < 0 and _LIBC.semget(segment[0] + 1, 1, 0) < 0
    assert [path for path in ("/dev/shm", "/tmp", "/var/tmp") if Path(path, name).exists()] == []
    with socket.socket(socket.AF_UNIX) as link, pytest.raises(ConnectionRefusedError):
        link.connect(f"\0{name}")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _files(run: Path) -> list[Path]:
    """One of each name there is in the folder of a Run."""
    found: dict[str, Path] = {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[path.name] = path
    assert {
        "record.json",
        "journal.jsonl",
        "notes",
        "policy.py",
        "feedback.json",
        "stdout.log",
    } <= set(found)
    return list(found.values())


def test_an_agent_that_takes_all_it_can_leaves_enough_for_others(
    level: Isolation, beside: Innocents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_bubblewrap, "PROCESSES", 400)
    with started(level, tmp_path, "takes_all") as (process, site):
        says(process, site, "holding")
        for _ in range(3):
            with beside.beside():
                pass
        assert process.wait(0) is None, said(site)
        with beside.beside():
            process.stop()
    with beside.beside():
        pass


def test_a_run_whose_agent_runs_wild_is_whole_and_so_are_all_others(
    level: Isolation, beside: Innocents, tmp_path: Path
) -> None:
    here = _made(tmp_path / "agent")
    shutil.copy(AGENTS / "runs_wild.py", here)
    (here / "policy.py").write_text(PROGRAM)
    victim = beside.run / "workspace"
    argv = ["{python}", "-B", str(here / "runs_wild.py"), str(here), str(victim)]
    config = config_of(tmp_path / "output", level, {"argv": argv, "readable": [str(here)]})
    with ThreadPoolExecutor(1) as alone:
        running = alone.submit(build.run_cell, config)
        pause = 0.1
        while not wait([running], timeout=pause).done:
            pause *= 2  # a few times while it goes on, however long that is
            with beside.beside():
                pass
    run = running.result()
    logs = run.folder / "agent" / "attempt-1"
    printed = (logs / "stderr.log").read_text()[-3000:] + (logs / "stdout.log").read_text()[-3000:]
    assert told(run) == beside.ended_alone, printed
    assert [(s.status, s.score) for s in run.state.submissions] == [
        ("published", beside.alone[0]["score"])
    ], printed
    assert not alive(str(here))
    assert (victim / "mine" / "policy.py").read_text() == PROGRAM and (
        victim / "notes"
    ).read_text() == "mine"
    with beside.beside():
        pass
