"""Under a small limit on processes, as containers have, Episodes beside one that starts all the
threads it can."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evopolicy.execution.engine import worker
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.protocols import Isolation
from tests.execution import toys
from tests.execution.conftest import LEVELS, becomes

ISOLATED = [level for level in LEVELS if level != "none"]
CGROUPS = Path("/sys/fs/cgroup")
# Every second Episode starts all the threads it can, and holds them until its time is up.
POLICY = """
import threading, time
threading.stack_size(32768)
def make_policy(context): return Bomb() if context.seed % 2 else Calm()
class Calm:
    def act(self, observation):
        threads = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(THREADS)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return 1
class Bomb:
    def act(self, observation):
        try:
            while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        except RuntimeError:
            while True: pass
"""
HOST = """
import json, sys
from pathlib import Path
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.protocols import Limits
from tests.execution import toys
limits = Limits(0.5, 20.0, 512 << 20, 4096, 4 << 20, 60.0, 120.0)
with LocalExecutor(toys.reference(), limits, workers=1, isolation=sys.argv[1], lanes=4) as engine:
    results = engine.evaluate(Path(sys.argv[2]), toys.episodes(8))
told = [[result.index, result.fault and result.fault.message, result.outcome and
         [result.outcome.episode_return, result.outcome.failure and result.outcome.failure.kind]] for result in results]
print(json.dumps(told))
"""


@pytest.fixture
def limited() -> Iterator[Callable[[int], Path]]:
    """Makes a control group with this limit on processes; gives the file a process writes its
    number to."""
    made: list[Path] = []

    def make(most: int) -> Path:
        for root in (CGROUPS / "pids", CGROUPS):
            group = root / f"evopolicy-test-{os.getpid()}-{len(made)}"
            try:
                group.mkdir()
            except OSError:
                continue
            made.append(group)
            try:
                (group / "pids.max").write_text(str(most))
            except OSError:
                continue
            return group / "cgroup.procs"
        pytest.skip(
            "no control group with a limit on processes can be made here (pids of cgroup v1 or v2)"
        )

    yield make
    for group in made:
        assert becomes(lambda group=group: _removed(group))  # type: ignore[misc]


def _removed(group: Path) -> bool:
    """What a Host that has ended started may be at its last steps, in its group."""
    try:
        group.rmdir()
    except OSError as error:
        assert error.errno == errno.EBUSY
        return False
    return True


def test_a_process_whose_threads_cannot_be_counted_gets_no_more() -> None:
    assert worker._has_room(os.getpid())
    assert not worker._has_room(0x7FFFFFF0)


@pytest.mark.parametrize("level", ISOLATED)
@pytest.mark.parametrize(("most", "threads"), [(600, 3), (40, 0)])
def test_episodes_beside_a_thread_bomb_end_with_their_right_scores(
    level: Isolation,
    most: int,
    threads: int,
    limited: Callable[[int], Path],
    tmp_path: Path,
    make_engine: Callable[..., LocalExecutor],
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "policy.py").write_text(POLICY.replace("THREADS", str(threads)))
    (tmp_path / "host.py").write_text(HOST)
    entered = f'echo $$ > {limited(most)} && exec "$@"'
    command = [
        "sh",
        "-c",
        entered,
        "sh",
        sys.executable,
        str(tmp_path / "host.py"),
        level,
        str(program),
    ]
    path = os.pathsep.join((str(Path(__file__).parents[3]), *filter(None, sys.path)))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "policy.py").write_text(
        "def make_policy(c): return P()\nclass P:\n    def act(self, o): return 1\n"
    )
    right = {
        result.index: result.outcome
        for result in make_engine(isolation=level).evaluate(alone, toys.episodes(8))
    }
    for index, fault, outcome in json.loads(done.stdout):
        expected = right[index]
        assert fault is None and expected is not None
        # Seeds of odd Episodes are odd.
        assert outcome == ([0.0, "act_time"] if index % 2 else [expected.episode_return, None])
