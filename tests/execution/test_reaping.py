"""Nothing of an engine is left: no process, no folder, after any end."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.execution.engine.executor import LANES, LocalExecutor
from evopolicy.execution.sandbox.descendants import descendants
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.ports.protocols import Isolation
from tests.execution import toys
from tests.execution.conftest import LIMITS, PATIENCE, becomes

HOST = """
    import sys
    from pathlib import Path
    from evopolicy.execution.engine.executor import LANES, LocalExecutor
    from evopolicy.kernel.ports.protocols import Limits
    from tests.execution import toys
    limits = Limits(60.0, 600.0, 1 << 30, 1000, 1 << 20, 600.0, 20.0)
    engine = LocalExecutor(toys.reference(), limits, workers=2, isolation=sys.argv[1])
    try:
        engine.evaluate(Path(sys.argv[2]), toys.episodes(8))
    finally:
        engine.close()
"""
SLEEPS = """
    import time
    def make_policy(context): return Sleeps()
    class Sleeps:
        def act(self, observation):
            open("left", "w").close()
            time.sleep(600)
"""
# Workers, zygotes, fork servers, Episodes; each zygote has two processes of bubblewrap's before it.
_PROCESSES = {"landlock": 2 * 3 + 2 * LANES, "bubblewrap": 2 * 5 + 2 * LANES}


def running(pids: list[int]) -> list[int]:
    """Those that are alive and no zombies."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


@pytest.fixture
def host(level: Isolation, program: Callable[..., Path], tmp_path: Path) -> subprocess.Popen[bytes]:
    """A Host in a process of its own, in the middle of an evaluation whose Policies sleep."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOST), level, str(program(SLEEPS))],
        env={**os.environ, "TMPDIR": str(temporary)},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    )
    assert becomes(lambda: _in_the_middle(started.pid, temporary))
    return started


def _in_the_middle(host: int, temporary: Path) -> bool:
    """Whether every Policy has left its file. A scratch folder of bubblewrap is seen by way of its
    process alone."""
    below = descendants(host)
    if any("bwrap" in _command(pid) for pid in below):
        folders = {
            str(Path(f"/proc/{pid}/cwd").readlink())
            for pid in below
            if Path(f"/proc/{pid}/cwd/left").exists()
        }
        return (
            len(folders) == LANES + LANES
            if os.geteuid() == 0
            else len(below) >= _PROCESSES["bubblewrap"]
        )
    return len(list(temporary.glob("*/scratch-*/*/*/left"))) == 2 * LANES


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_of_a_host_that_is_killed_or_interrupted_goes_on(
    host: subprocess.Popen[bytes],
    level: Isolation,
    tmp_path: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounted = Path("/proc/self/mounts").read_text()
    started = descendants(host.pid)
    assert len(started) >= _PROCESSES.get(level, _PROCESSES["landlock"])
    host.send_signal(number)
    assert host.wait(PATIENCE) != 0
    assert becomes(lambda: not running(started)), running(started)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    HeldFolder("next").close()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert Path("/proc/self/mounts").read_text() == mounted


def test_nothing_of_a_worker_that_is_killed_goes_on_and_its_episodes_are_played_again(
    level: Isolation, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limits = dataclasses.replace(LIMITS, stall_factor=1000.0)
    others = set(worker_processes())
    asleep, awake = program(SLEEPS), tmp_path / "awake"
    awake.mkdir()
    (awake / "policy.py").write_text(
        (asleep / "policy.py").read_text().replace("time.sleep(600)", "return 0")
    )
    with LocalExecutor(
        toys.reference(steps=2), limits, workers=1, isolation=level, lanes=1
    ) as engine:
        killed: list[int] = []
        over = threading.Event()

        def playing() -> list[int]:
            """Workers with at least what a Policy at play needs below them: a zygote, a fork server
            and the Policy."""
            below = 5 if level == "bubblewrap" else 3  # and two processes of bubblewrap's
            ours = [pid for pid in worker_processes() if pid not in others and pid not in killed]
            return [pid for pid in ours if len(descendants(pid)) >= below]

        def kill_until_over() -> None:
            # Not a count of kills: one that comes before the Episode has begun takes nothing from
            # it.
            while not over.wait(0.05):
                for worker in playing()[:1]:
                    killed.extend([worker, *descendants(worker)])
                    os.kill(worker, signal.SIGKILL)

        killer = threading.Thread(target=kill_until_over)
        killer.start()
        results = engine.evaluate(asleep, toys.episodes(1))
        over.set()
        killer.join()
        assert becomes(lambda: not running(killed)), running(killed)
        assert results[0].fault is not None and "twice" in results[0].fault.message
        outcomes = engine.evaluate(awake, toys.episodes(1))
        assert outcomes[0].outcome is not None and outcomes[0].outcome.length == 2
    assert list(tmp_path.glob("evopolicy-*")) == []


def worker_processes() -> list[int]:
    """This process's Environment workers."""
    return [
        pid
        for pid in descendants(os.getpid())
        if "evopolicy.execution.engine.worker" in _command(pid)
    ]


def test_close_leaves_neither_processes_nor_folders(
    level: Isolation, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(descendants(os.getpid()))
    folder = program("""
        def make_policy(context): return Writes()
        class Writes:
            def act(self, observation):
                open("left", "w").close()
                return 0
    """)
    with LocalExecutor(toys.reference(), LIMITS, workers=2, isolation=level) as engine:
        engine.evaluate(folder, toys.episodes(8))
        started = set(descendants(os.getpid())) - before
        assert started and list(tmp_path.glob("evopolicy-engine-*"))
    # A worker that takes long to end is killed, and what it started ends by that.
    assert becomes(lambda: not running(list(started)))
    assert list(tmp_path.glob("evopolicy-*")) == []


def test_scratch_folders_are_removed_while_the_evaluation_goes_on(
    level: Isolation, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = program("""
        def make_policy(context): return Writes()
        class Writes:
            def act(self, observation):
                open("left", "w").close()
                return 0
    """)
    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation=level) as engine:
        engine.evaluate(folder, toys.episodes(12))
        assert becomes(lambda: not list(tmp_path.glob("evopolicy-engine-*/scratch-*/*/*")))


def test_workers_outlive_the_thread_that_called_for_them(
    make_engine: Callable[..., LocalExecutor], program: Callable[..., Path]
) -> None:
    engine, folder = make_engine(steps=2), program(SLEEPS.replace("time.sleep(600)", "return 0"))
    seen: list[set[int]] = []

    def evaluate() -> None:
        before = set(descendants(os.getpid()))
        assert all(result.outcome for result in engine.evaluate(folder, toys.episodes(2)))
        seen.append(set(descendants(os.getpid())) - before)

    for _ in range(2):
        thread = threading.Thread(target=evaluate)
        thread.start()
        thread.join()
    assert len(seen) == 2 and not any("worker" in _command(pid) for pid in seen[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


_STUCK = """
import os, sys
from pathlib import Path
from evopolicy.kernel.files import folders
made = folders.HeldFolder.__init__
def told(self, purpose):
    made(self, purpose)
    (self.path / "content").write_text("x")
    print(purpose, flush=True)
    sys.stdin.readline()
folders.HeldFolder.__init__ = told
exec(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("purpose", "doing"),
    [
        ("probe", "from evopolicy.execution import isolation; isolation.probe_level('bubblewrap')"),
        ("probe", "from evopolicy.execution import isolation; isolation._run_agent()"),
        ("probe", "from evopolicy.execution import probe; probe.main([])"),
        ("evaluate", "import evopolicy; evopolicy.evaluate('/', 'cartpole')"),
        ("tracking", "from evopolicy.tracking.log import RunLog; RunLog._upload(None, (), None)"),
    ],
    ids=["level", "agent", "landlock", "evaluate", "tracking"],
)
def test_what_a_kill_leaves_in_the_temporary_folder_the_next_start_removes(
    tmp_path: Path, purpose: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _STUCK, doing]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as host:
        assert host.stdout and host.stdout.readline() == f"{purpose}\n"
        beside = HeldFolder("test")
        assert list(tmp_path.glob(f"evopolicy-{purpose}-*/content")), (
            "one that lives keeps what it has"
        )
        host.kill()
    beside.close()
    HeldFolder("test").close()
    assert list(tmp_path.iterdir()) == []
