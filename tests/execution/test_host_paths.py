"""Whatever fails, and at whatever level, nothing an agent is shown names a folder of the Host's
machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.errors import EvoPolicyError, Refused
from evopolicy.kernel.files.host_paths import HIDDEN, HostPaths, host_paths
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.session import Session
from evopolicy.kernel.session.state import Ledger
from tests.execution import toys
from tests.kernel import bench
from tests.kernel.bench import Stage

BUDGET = replace(bench.BUDGET, submissions=100, episodes=100)
CHECKOUT = Path(__file__).parents[2]
TELLS = """
import os, sys, sysconfig, traceback
PLACES = [__file__, os.getcwd(), os.environ.get("HOME"), os.environ.get("TMPDIR"), sys.executable, sys.path,
          sysconfig.get_paths(), os.__file__, {home!r}, {checkout!r}, {output!r}]
def tell():
    print(PLACES, "at", __file__ + ":", "and " + os.getcwd())
    try:
        import json
        json.loads("{{")
    except ValueError:
        traceback.print_exc()
"""
ACT = """
def make_policy(context): return Policy1()
class Policy1:
    def act(self, observation):
        {body}
"""
FAILURES = {
    "tells": ACT.format(body="tell(); return 0"),
    "tells_much": ACT.format(body="tell(); print('x' * 2500); tell(); return 0"),
    "raises": ACT.format(body="raise ValueError(str(PLACES))"),
    "exits": ACT.format(body="sys.exit(str(PLACES))"),
    "dies": ACT.format(body="import faulthandler; faulthandler.enable(); tell(); os.abort()"),
    "invalid": ACT.format(body="return str(PLACES)"),
    "memory": ACT.format(body="raise MemoryError(str(PLACES))"),
    "makes": "tell()\ndef make_policy(context): raise RuntimeError(__file__)",
    "imports": "tell()\nfrom numpy import nothing_of_this_name",
    "opens": "open(os.path.join(os.getcwd(), 'none', 'there'))",
    "runs": "import subprocess; subprocess.run([sys.executable])",
    "parses": "def make_policy(context) return",
}


class Desk:
    """A Session over a real engine, and all it answered."""

    def __init__(self, root: Path, engine: LocalExecutor, benchmark: Any) -> None:
        self.stage = Stage(root, benchmark=benchmark, budget=BUDGET, block_seconds=600.0)
        self.stage.executor = engine  # type: ignore[assignment]
        self.stage.prepare(Path("/nowhere"))
        self.journal = Journal(self.stage.folder)
        self.session = Session(self.stage.site(), Ledger(self.journal))
        self.answers: list[str] = []

    def __call__(self, verb: str, **arguments: Any) -> dict[str, Any]:
        """The answer, or the refusal as the gateway tells it."""
        try:
            answer = self.session.handle(verb, arguments)
        except Refused as refused:
            answer = {"refused": refused.reason, "remedy": refused.remedy}
        except EvoPolicyError:
            answer = {}  # The gateway says that the Host met a fault, and nothing of it.
        self.answers.append(json.dumps(answer, ensure_ascii=False))
        return answer

    def shown(self) -> str:
        """All that the agent was answered, and all that lies in its workspace."""
        feedback = (self.stage.workspace / "feedback").rglob("*")
        files = [path.read_text("utf-8", "replace") for path in feedback if path.is_file()]
        return "\n".join([*self.answers, *files])


@contextmanager
def desk(root: Path, engine: LocalExecutor, **toy: Any) -> Iterator[Desk]:
    made = Desk(root, engine, toys.load(**toy))
    try:
        yield made
    finally:
        made.session.settle()
        made.journal.close()


def assert_no_host(shown: str, output: Path) -> None:
    ours = (
        str(output),
        f"{tempfile.gettempdir()}/evopolicy-",
        str(CHECKOUT),
        f"{Path.home()}/",
        f"{Path.home()}'",
    )
    for folder in ours:
        at = shown.find(folder)
        assert at < 0, shown[max(0, at - 300) : at + 200]


def test_no_failure_of_a_program_shows_a_path_of_the_host(
    engine: LocalExecutor, tmp_path: Path
) -> None:
    tells = TELLS.format(
        home=f"{Path.home()}/x", checkout=str(CHECKOUT), output=str(tmp_path / "runs")
    )
    with desk(tmp_path, engine) as agent:
        for name, source in FAILURES.items():
            folder = agent.stage.workspace / name
            folder.mkdir()
            (folder / "policy.py").write_text(tells + source)
            agent("check", path=name)
            agent("submit", path=name, episodes="0")
            agent("feedback")
        for path in ("none", "/etc", str(tmp_path), "../x", "linked", "empty"):
            (agent.stage.workspace / "empty").mkdir(exist_ok=True)
            if not (agent.stage.workspace / "linked").exists():
                (agent.stage.workspace / "linked").symlink_to(tmp_path)
            agent("check", path=path)
            agent("submit", path=path, episodes="0")
        agent("status")
        shown = agent.shown()
        assert_no_host(shown, tmp_path)
        assert len(agent.session._ledger.state.published) == len(FAILURES)
        assert 'policy.py\\", line' in shown, "what is the Program's own is told"


@pytest.mark.parametrize("trouble", ["raise@make", "raise@step", "raise@measures", "crash@step"])
def test_no_fault_shows_a_path_of_the_host(
    make_engine: Callable[..., Any], tmp_path: Path, trouble: str
) -> None:
    with desk(tmp_path, make_engine(trouble=trouble), trouble=trouble) as agent:
        folder = agent.stage.workspace / "program"
        (folder / "policy.py").write_text(ACT.format(body="return 0"))
        agent("submit", path="program", episodes="0:3")
        assert agent("status")["submissions"][0]["status"] == "failed"
        assert_no_host(agent.shown(), tmp_path)


PATHS = HostPaths(
    frozenset({"/root", "/srv/out puts", "/tmp/evopolicy-"}), frozenset({"/root/lib/python3"})
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no path at all", "no path at all"),
        ("/tmp/mine.npz and /rootless, data/root/x", "/tmp/mine.npz and /rootless, data/root/x"),
        ("open '/root/keys/a.txt': no", f"open '{HIDDEN}': no"),
        ("file:///root/a", f"file://{HIDDEN}"),
        ("/root", HIDDEN),
        ("[/srv/out puts/runs/a, /srv/out puts]", f"[{HIDDEN}, {HIDDEN}]"),
        (
            f"/srv/out puts/programs/ab/{'ab' * 32}/inner/policy.py: line 3",
            "inner/policy.py: line 3",
        ),
        (f"/srv/out puts/programs/ab/{'ab' * 32}", "."),
        ("/tmp/evopolicy-engine-ab12/scratch-1/a", HIDDEN),
        ('File "/root/lib/python3/json/decoder.py"', 'File "python/json/decoder.py"'),
    ],
)
def test_whole_paths_of_the_host_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert PATHS.text(text) == shown
    assert PATHS.hide({"a": [text, 1, ({"b": text},)]}) == {"a": [shown, 1, [{"b": shown}]]}
    assert PATHS.data(text.encode() + b" \xff") == shown.encode() + b" \xff"


def test_what_every_machine_has_is_no_path_of_the_hosts(tmp_path: Path) -> None:
    paths = host_paths(tmp_path / "a", tmp_path / "b")
    assert str(tmp_path) in paths.folders
    assert not paths.folders & {"/", "/tmp", "/usr"}
    assert not host_paths(Path("/srv/a"), Path("/data/b")).folders & {"/"}
