"""What a Program's text names is loaded before its Episodes, harms nobody, and shows in no other
Program."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Set
from pathlib import Path

import pytest

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.policy import fork_server as zygote
from evopolicy.execution.policy import handles
from evopolicy.execution.policy.fork_server import PRELOAD_BYTES
from evopolicy.execution.sandbox.descendants import descendants
from evopolicy.kernel.ports.outcome import EpisodeResult
from evopolicy.kernel.ports.protocols import Isolation
from tests.execution import toys
from tests.execution.conftest import LIMITS, becomes
from tests.execution.test_reaping import running

Programs = Callable[..., Path]
Engines = Callable[..., LocalExecutor]

# Tells what it was born with of what others may have loaded.
TELLS = """
    import gc, math, sys, threading
    def make_policy(context): return Tells()
    class Tells:
        def act(self, observation):
            odd = [name for name in sys.modules if name.startswith(("troubled", "numpy.testing", "scipy"))]
            print(sorted(odd), math.tau < 7, threading.active_count(), gc.isenabled(), sys.getrecursionlimit())
            return 1
"""
CALM = "[] True 1 True 1000\n" * 5
TROUBLE = {
    "__init__": "",
    "aborts": "import os; os.abort()",
    "exits": "raise SystemExit(3)",
    "ends": "import os; os._exit(0)",
    "prints": "print('x' * 100_000)",
    "raises": "raise ValueError('no')",
    "changes": "import gc, math, sys; math.tau = 100; gc.disable(); sys.setrecursionlimit(5_000)",
    "threads": "import threading, time; threading.Thread(target=time.sleep, args=(3600,), "
    "daemon=True).start()",
    "closes": "import os; os.closerange(0, 256)",
    "stops": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}


def told(results: list[EpisodeResult]) -> list[str]:
    """What each Episode printed; none failed."""
    assert [(result.fault, result.outcome and result.outcome.failure) for result in results] == [
        (None, None)
    ] * len(results)
    return [result.outcome.output.text for result in results if result.outcome]


def naming(program: Programs, *lines: str) -> Path:
    """A Program that names modules in a function it never calls."""
    return program(
        textwrap.dedent(TELLS) + "def never():\n" + "".join(f"    {line}\n" for line in lines)
    )


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([f"import numpy.{'a' * 100_000}"], id="one long name"),
        pytest.param(
            [f"import numpy.a{number}{'a' * 2_100}" for number in range(33)], id="many names"
        ),
        pytest.param(
            [f"from numpy import {', '.join(f'b{n}' for n in range(50_000))}"], id="one long list"
        ),
        pytest.param(
            ["import numpy.\N{GREEK SMALL LETTER ALPHA}" + "\N{GREEK SMALL LETTER ALPHA}" * 30_000],
            id="wide",
        ),
        pytest.param(
            ["import numpy.testing, numpy.f2py.__main__, scipy.special"], id="other state"
        ),
    ],
)
def test_names_in_a_programs_text_harm_neither_it_nor_a_program_after_it(
    engine: LocalExecutor, program: Programs, lines: list[str]
) -> None:
    assert all(
        "True 1 True" in text
        for text in told(engine.evaluate(naming(program, *lines), toys.episodes(2)))
    )
    assert told(engine.evaluate(program(TELLS), toys.episodes(2))) == [CALM] * 2


@pytest.fixture
def troubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Isolation
) -> Iterator[LocalExecutor]:
    """An engine that allows a package whose modules do what no module should when they are
    imported."""
    package = tmp_path / "installed" / "troubled"
    package.mkdir(parents=True)
    for name, text in TROUBLE.items():
        (package / f"{name}.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(str(package.parent))
    with LocalExecutor(
        toys.reference(), LIMITS, workers=1, isolation=level, policy_packages=("troubled",)
    ) as engine:
        yield engine


def test_modules_that_misbehave_when_imported_harm_nobody(
    troubled: LocalExecutor, program: Programs
) -> None:
    for name in TROUBLE:
        told(troubled.evaluate(naming(program, f"import troubled.{name}"), toys.episodes(2)))
    told(
        troubled.evaluate(
            naming(program, *[f"import troubled.{name}" for name in TROUBLE]), toys.episodes(2)
        )
    )
    assert told(troubled.evaluate(program(TELLS), toys.episodes(2))) == [CALM] * 2


def test_what_an_episode_imports_itself_is_its_own_failure_all_the_same(
    troubled: LocalExecutor, program: Programs
) -> None:
    results = troubled.evaluate(
        program("import troubled.aborts\n" + textwrap.dedent(TELLS)), toys.episodes(2)
    )
    failures = [result.outcome and result.outcome.failure for result in results]
    assert [(failure.kind, failure.phase) for failure in failures if failure] == [
        ("died", "import")
    ] * 2


@pytest.mark.parametrize("spins", [True, False])
def test_an_import_that_never_ends_is_given_up(
    spins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "_LOADING_CPU_SECONDS", 0.2 if spins else 1000.0)
    monkeypatch.setattr(zygote, "_LOADING_SECONDS", 1000.0 if spins else 0.2)
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(0 if spins else 600)
    try:
        assert not zygote._loaded(pid, reading, ours)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
        ours.close()
        theirs.close()


def test_names_are_bounded_before_they_are_sent(program: Programs) -> None:
    folder = naming(program, *[f"import numpy.a{number}{'a' * 500}" for number in range(40)])
    found = list(handles.named_modules(folder, frozenset({"numpy"})))
    assert 10 < len(found) <= 32 and sum(map(len, found)) <= PRELOAD_BYTES


# --- helper processes that end --------------------------------------------------------------------


def helpers(others: Set[int]) -> dict[str, list[int]]:
    """Processes of zygotes, but for `others`, by what they are: each kind is forked by the one
    before."""
    parents = {pid: parent for pid, parent in _forked().items() if pid not in others}
    found: dict[str, list[int]] = {"zygote": [], "fork server": [], "below": []}
    for pid, parent in parents.items():
        depth = 0
        while parent in parents:
            depth, parent = depth + 1, parents[parent]
        found[list(found)[min(depth, 2)]].append(pid)
    return found


def _forked() -> dict[int, int]:
    """Each with its parent; one that ends meanwhile is none."""
    found = {}
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            place = Path(f"/proc/{pid}")
            command, name = (place / "cmdline").read_bytes(), (place / "comm").read_bytes()
            if b"evopolicy.execution.policy.fork_server" in command and b"bwrap" not in name:
                found[pid] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def played(engine: LocalExecutor, folder: Path, count: int) -> list[EpisodeResult]:
    """As an Evaluation plays them: what a helper's end took with it is played once more."""
    episodes = toys.episodes(count)
    results = {result.index: result for result in engine.evaluate(folder, episodes)}
    if lost := [episode for episode in episodes if results[episode.index].fault is not None]:
        results |= {result.index: result for result in engine.evaluate(folder, lost)}
    return [results[episode.index] for episode in episodes]


@pytest.mark.parametrize("kind", ["zygote", "fork server", "below"])
def test_a_helper_that_is_killed_is_made_anew(
    level: Isolation, program: Programs, kind: str
) -> None:
    """`below` is whatever a fork server has forked: what empties scratch folders, and Episodes at
    play."""
    folder, others = program(TELLS), set(_forked())
    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation=level) as engine:
        for _ in range(3):
            assert told(played(engine, folder, 3)) == [CALM] * 3
            victims = helpers(others)[kind]
            assert victims
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            assert becomes(lambda victims=victims: not running(victims))  # type: ignore[misc]
        assert told(played(engine, folder, 6)) == [CALM] * 6


def test_a_zygote_that_always_ends_is_a_fault_after_a_few(
    program: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evopolicy.execution.engine.executor.plain_command", lambda: ("/bin/false",)
    )
    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation="none") as engine:
        results = engine.evaluate(program(TELLS), toys.episodes(3))
    assert [result.fault and result.fault.kind for result in results] == ["engine"] * 3
    assert sys.executable not in str(results)
