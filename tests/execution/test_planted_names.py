"""An agent plants links, folders and pipes under every name the Host opens in its folders: nothing
outside changes.

The names are not listed here: a Run is traced from its start to its end, with a kill and a resume,
and with all that reads it afterwards. A name that the Host begins to use tomorrow is planted
tomorrow."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import isolation
from evopolicy.kernel.session.record import load_run
from tests.execution import planted_host
from tests.execution.planted_host import KEY, KINDS

pytestmark = pytest.mark.xdist_group("planted_names")
LEVELS = [found.level for found in isolation.probe_all() if found.works]
TRACER = """
import fcntl, os, sys
_own = os.open(os.path.join(os.environ["TRACED"], f"{os.getpid()}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_fd = fcntl.fcntl(_own, fcntl.F_DUPFD_CLOEXEC, 200)  # out of the way of the low numbers that a sandbox is given
os.close(_own)
_events = {"open": 1, "os.rename": 2, "os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.chmod": 1, "os.scandir": 1,
           "os.listdir": 1, "os.symlink": 2, "os.link": 2, "os.truncate": 1, "os.utime": 1, "os.chdir": 1}
def _audit(event, arguments):
    for name in arguments[:_events.get(event, 0)]:
        if isinstance(name, (str, bytes)):
            os.write(_fd, os.fsencode(name) + b"\\0")
sys.addaudithook(_audit)
"""
UNFORESEEABLE = re.compile(r"[0-9a-f]{16}")
PLACES = {
    "workspace": (
        "",
        ".evopolicy",
        "analysis",
        "feedback",
        "feedback/0001",
        "program",
        "skills",
        "z",
    ),
    "home": ("", ".tool", "z"),
}


def host(
    root: Path,
    level: str,
    *words: str,
    places: Iterable[Any] = (),
    rotation: int = 0,
    traced: bool = False,
) -> str:
    """Run the Host to its end; returns what it printed. A Host that hangs ends the test."""
    plan = {"places": list(places), "rotation": rotation, "victim": str(root / "victim" / "file")}
    (root / "plan.json").write_text(json.dumps(plan))
    command = [
        sys.executable,
        planted_host.__file__,
        str(root),
        level,
        str(root / "plan.json"),
        *words,
    ]
    return run(command, root, traced=traced, killed="killed" in words)


def run(command: list[str], root: Path, *, traced: bool = False, killed: bool = False) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if traced:
        (root / "tracer").mkdir(exist_ok=True)
        (root / "traced").mkdir(exist_ok=True)
        (root / "tracer" / "sitecustomize.py").write_text(TRACER)
        environment |= {
            "PYTHONPATH": f"{root / 'tracer'}:{environment['PYTHONPATH']}",
            "TRACED": str(root / "traced"),
        }
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=400, check=False
    )
    assert done.returncode == (-9 if killed else 0), done.stdout + done.stderr
    return done.stdout


def traced_paths(root: Path) -> set[str]:
    return {
        os.fsdecode(name)
        for file in (root / "traced").iterdir()
        for name in file.read_bytes().split(b"\0")
    }


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name the Host uses in an agent's folders, whatever the level, but those nobody can
    foresee."""
    found: set[str] = set()
    for level in LEVELS:
        root = tmp_path_factory.mktemp(level)
        host(root, level, "killed", traced=True)
        folder = Path(json.loads(host(root, level, traced=True).splitlines()[-1])["folder"])
        own = [str(folder / "workspace"), str(folder / "agent" / "home")]
        for path in traced_paths(root):
            below = [
                path.removeprefix(f"{place}/") for place in own if path.startswith(f"{place}/")
            ]
            # By a descriptor a name comes alone; a relative path with more in it is no work in a
            # folder of another.
            found.update(below or ([path] if path and "/" not in path else []))
    return {
        part
        for path in found
        for part in path.split("/")
        if part not in ("", ".", "..", "mine", "z")
    }


def test_the_trace_sees_what_the_host_does(names: set[str]) -> None:
    assert {
        "feedback",
        "analysis",
        ".evopolicy",
        "session.json",
        "skills",
        "skill",
        "TASK.md",
        "program",
    } <= names
    assert {"0001", "0002", "home", ".tool", "auth.json", "z.sh"} <= names


def test_what_reads_a_run_afterwards_opens_nothing_an_agent_wrote(tmp_path: Path) -> None:
    """No report and no tracking goes there: what is in the record was copied by the Host."""
    level = LEVELS[-1]
    folder = Path(json.loads(host(tmp_path, level).splitlines()[-1])["folder"])
    command = [sys.executable, "-m", "evopolicy.cli.main"]
    run([*command, "report", f"source={folder}"], tmp_path, traced=True)
    run(
        [*command, "track", f"source={folder}", f"output={tmp_path / 'output'}"],
        tmp_path,
        traced=True,
    )
    opened = traced_paths(tmp_path)
    assert any(path.startswith(f"{folder}/") for path in opened)
    assert [
        path for path in opened if path.startswith((f"{folder}/workspace", f"{folder}/agent/home"))
    ] == []


CASES = [("landlock", number) for number in range(len(KINDS))] + [("bubblewrap", 0), ("none", 2)]


@pytest.mark.parametrize(("level", "rotation"), [case for case in CASES if case[0] in LEVELS])
def test_whatever_lies_under_a_name_leads_nowhere(
    tmp_path: Path, names: set[str], level: str, rotation: int
) -> None:
    victim = tmp_path / "victim" / "file"
    victim.parent.mkdir()
    victim.write_text(f"the user's own {KEY}")
    victim.chmod(0o640)
    before = victim.stat()
    usual = sorted(name for name in names if not UNFORESEEABLE.search(name))
    places = [
        (where, folder, name)
        for where, folders in PLACES.items()
        for folder in folders
        for name in usual
        if (folder, name) != ("z", "z.sh")
    ]
    host(tmp_path, level, "killed", places=places, rotation=rotation)
    said = json.loads(host(tmp_path, level, places=places, rotation=rotation).splitlines()[-1])
    run = load_run(said["folder"])
    assert said["valid"] and [s.status for s in run.state.submissions] == [
        "published",
        "published",
    ], said
    assert (run.state.agent_ended, run.state.agent_attempts) == ("finished", 2)
    after = victim.stat()
    assert victim.read_text() == f"the user's own {KEY}" and [
        path.name for path in victim.parent.iterdir()
    ] == ["file"]
    assert (after.st_mode, after.st_ino, after.st_mtime_ns) == (
        before.st_mode,
        before.st_ino,
        before.st_mtime_ns,
    )
    assert {path.name for path in run.folder.iterdir()} == {
        "record.json", "journal.jsonl", "programs", "submissions", "evaluations", "workspace", "agent",
    }  # fmt: skip
    assert not (run.folder / "agent" / "home").exists()
    for place in ("workspace", "agent/attempt-2/home"):
        assert (run.folder / place / "z" / "z.sh").read_text() == "echo ***"
    for path in run.folder.rglob("*"):
        if stat.S_ISREG(path.lstat().st_mode):
            assert KEY.encode() not in path.read_bytes(), path
