"""What sandboxes share must not carry a word between them: Policies and agents, of one Host and of
two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.protocols import AgentSite, AgentTask, Invocation, Isolation, Limits
from evopolicy.session import client
from tests.execution import toys
from tests.execution.conftest import LEVELS, PATIENCE

TALKER = Path(__file__).parent / "talk" / "programs" / "talker.py"
LIMITS = Limits(20.0, 60.0, 512 << 20, 4096, 4 << 20, 60.0, 20.0)
ISOLATED = [level for level in LEVELS if level != "none"]
CALM = (
    "def make_policy(context): return Calm()\nclass Calm:\n    def act(self, observation): "
    "return 1\n"
)


class Talk:
    """Both ends at once, each in a sandbox of its own, below a Host of its own."""

    def __init__(self, folder: Path, level: Isolation) -> None:
        self._folder = folder
        self._level: Isolation = level
        self._said: dict[str, str] = {}
        self._both = threading.Barrier(2)

    def between(self, **ends: str) -> dict[str, str]:
        """`wait` and `wake`: who does it, "policy" or "agent". Returns what each printed."""
        doing: list[threading.Thread] = []
        for role, who in ends.items():
            folder = self._folder / f"{role}-{who}"
            folder.mkdir()
            doing.append(threading.Thread(target=getattr(self, f"_{who}"), args=(role, folder)))
        for thread in doing:
            thread.start()
        for thread in doing:
            thread.join()
        return self._said

    def _policy(self, role: str, folder: Path) -> None:
        program = folder / "program"
        program.mkdir()
        (program / "talker.py").write_text(TALKER.read_text())
        (program / "policy.py").write_text(
            "import talker\ndef make_policy(context): return P()\n"
            f"class P:\n    def act(self, observation): talker.attack({role!r}); return 1\n"
        )
        with LocalExecutor(
            toys.reference(steps=1), LIMITS, workers=1, isolation=self._level
        ) as engine:
            engine.evaluate(_calm(folder), toys.episodes(1))
            self._both.wait(PATIENCE)
            (result,) = engine.evaluate(program, toys.episodes(1))
        assert result.outcome is not None and result.outcome.failure is None, result
        self._said[role] = result.outcome.output.text

    def _agent(self, role: str, folder: Path) -> None:
        workspace, logs = folder / "workspace", folder / "logs"
        workspace.mkdir()

        def invoke(task: AgentTask) -> Invocation:
            files = {
                "main.py": f"import talker\ntalker.attack({role!r})\n",
                "talker.py": TALKER.read_text(),
            }
            return Invocation((str(task.python), "-B", str(task.staging / "main.py")), files=files)

        launcher = LocalAgentLauncher(
            isolation=self._level, client=Path(client.__file__), policy_packages=()
        )
        self._both.wait(PATIENCE)
        started = launcher.start(AgentSite(workspace, folder / "no.sock", logs, "", 0), invoke)
        try:
            assert started.wait(PATIENCE) == 0, (logs / "stderr.log").read_text()
        finally:
            started.stop()
        self._said[role] = (logs / "stdout.log").read_text()


@pytest.mark.parametrize("level", ISOLATED)
@pytest.mark.parametrize("wait", ["policy", "agent"])
@pytest.mark.parametrize("wake", ["policy", "agent"])
def test_a_futex_on_a_file_both_sandboxes_see_joins_nobody(
    wait: str,
    wake: str,
    level: Isolation,
    tmp_path: Path,
    make_engine: Callable[..., LocalExecutor],
) -> None:
    assert Talk(tmp_path, level).between(wait=wait, wake=wake) == {
        "wait": "nothing 0\n",
        "wake": "nothing 0\n",
    }
    _unharmed(make_engine, level, tmp_path)


def _unharmed(make_engine: Callable[..., Any], level: Isolation, folder: Path) -> None:
    """A Program that means no harm ends as it would alone."""
    for result in make_engine(isolation=level).evaluate(_calm(folder), toys.episodes(2)):
        assert result.outcome is not None and result.outcome.failure is None
        assert (result.outcome.ending, result.outcome.length) == ("terminated", 5)


def _calm(folder: Path) -> Path:
    calm = folder / "calm"
    calm.mkdir()
    (calm / "policy.py").write_text(CALM)
    return calm
