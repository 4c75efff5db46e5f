"""What the engine promises of every Episode, at every isolation level that works here."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evopolicy.execution.engine import batch
from evopolicy.execution.engine import worker_handle as pool
from evopolicy.execution.engine.control import EpisodeJob, Link, PictureJob, WorkerReady
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.engine.worker_handle import WorkerHandle
from evopolicy.kernel.errors import ConfigError, ExecutionError
from evopolicy.kernel.ports.benchmark import BenchmarkReference
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome, PolicyFailure
from evopolicy.kernel.ports.protocols import Isolation, RenderJob
from evopolicy.kernel.trace import read_trace
from tests.execution import toys
from tests.execution.conftest import LEVELS, LIMITS
from tests.execution.test_reaping import worker_processes

Programs = Callable[..., Path]
Engines = Callable[..., LocalExecutor]

STEADY = """
    def make_policy(context):
        return Policy1()
    class Policy1:
        def act(self, observation):
            return 1
"""
RANDOM = """
    import random
    import numpy as np
    class Policy:
        def __init__(self, obs_space, action_space, env_meta):
            self.rng = np.random.default_rng(env_meta["seed"])
        def reset(self, episode_index):
            assert episode_index == 0
        def act(self, obs):
            order = list({str(n) for n in range(20)})
            return (int(order[0]) + random.randrange(9) + np.random.randint(9) + int(self.rng.integers(9))) % 3
"""


def outcomes(results: list[EpisodeResult]) -> list[Outcome]:
    """The outcomes; a test that expects no fault says so by calling this."""
    assert [result.fault for result in results if result.fault] == []
    return [result.outcome for result in results if result.outcome]


def failure(results: list[EpisodeResult]) -> PolicyFailure:
    """The failure of the first Episode."""
    found = outcomes(results)[0].failure
    assert found is not None
    return found


def test_results_come_in_the_order_of_the_episodes(
    engine: LocalExecutor, program: Programs
) -> None:
    episodes = list(reversed(toys.episodes(9)))
    results = engine.evaluate(program(STEADY), episodes)
    assert [result.index for result in results] == [episode.index for episode in episodes]
    first = outcomes(results)[0]
    assert (first.length, first.ending, first.measures) == (5, "terminated", {"steps": 5})
    assert 5.0 <= first.episode_return <= 10.0


def test_outcomes_are_equal_on_any_number_of_workers_and_at_every_level(
    make_engine: Engines, program: Programs, level: str
) -> None:
    folder = program(RANDOM)
    expected = outcomes(
        make_engine(isolation="none", workers=1, lanes=1).evaluate(folder, toys.episodes(12))
    )
    for workers, lanes in ((1, 4), (2, 4), (4, 2)):
        engine = make_engine(isolation=level, workers=workers, lanes=lanes)
        assert outcomes(engine.evaluate(folder, toys.episodes(12))) == expected
        assert outcomes(engine.evaluate(folder, toys.episodes(12)[5:])) == expected[5:]
    assert len({outcome.episode_return for outcome in expected}) == 12


def test_an_episode_starts_with_nothing_of_another(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program(
        """
        import os, sys
        import helper
        def make_policy(context):
            helper.count += 1
            fresh = helper.count == 1 and os.listdir(".") == [] and not hasattr(sys, "left")
            sys.left = True
            open("left", "w").close()
            os.environ["LEFT"] = "1"
            return Keeps(fresh)
        class Keeps:
            def __init__(self, fresh): self.fresh = fresh
            def act(self, observation):
                print(self.fresh, "LEFT" in os.environ and os.getcwd() == os.environ["TMPDIR"])
                return 0
    """,
        {"helper.py": "count = 0"},
    )
    for outcome in outcomes(engine.evaluate(folder, toys.episodes(8))):
        assert outcome.output.text == "True True\n" * 5


def test_progress_is_called_from_the_calling_thread_as_each_episode_ends(
    engine: LocalExecutor, program: Programs
) -> None:
    seen: list[tuple[int, int]] = []
    engine.evaluate(
        program(STEADY),
        toys.episodes(6),
        progress=lambda result: seen.append((result.index, threading.get_ident())),
    )
    assert sorted(index for index, _ in seen) == list(range(6))
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_an_error_in_progress_ends_the_evaluation_and_the_engine_works_on(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program(STEADY)

    def stop(_result: EpisodeResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.evaluate(folder, toys.episodes(6), progress=stop)
    assert len(outcomes(engine.evaluate(folder, toys.episodes(3)))) == 3


def test_an_evaluation_that_ends_by_an_error_leaves_no_worker_at_its_episodes(
    program: Programs,
) -> None:
    before = set(worker_processes())

    def stop(_result: EpisodeResult) -> None:
        assert set(worker_processes()) - before
        raise KeyboardInterrupt

    with LocalExecutor(toys.reference(), LIMITS, workers=2, isolation=LEVELS[0]) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.evaluate(program(STEADY), toys.episodes(6), progress=stop)
        assert set(worker_processes()) - before == set()


def test_a_trace_holds_the_reset_and_every_step(
    engine: LocalExecutor, program: Programs, tmp_path: Path
) -> None:
    results = engine.evaluate(
        program(STEADY), toys.episodes(3, first=4), traces=tmp_path / "traces"
    )
    for result in results:
        assert result.trace == tmp_path / "traces" / f"{result.index:06d}.trace"
        rows = list(read_trace(result.trace))
        assert [row.step for row in rows] == [0, 1, 2, 3, 4, 5]
        assert rows[0].action is None and rows[5].action == 1 and rows[5].terminated
        assert rows[3].info == {"number": 3}
        assert rows[2].observation.shape == (3,)
        assert result.outcome is not None
        assert sum(row.reward for row in rows) == result.outcome.episode_return


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ("vector", "ndarray float32 (3,) True"),
        ("number", "int"),
        ("image", "ndarray uint8 (96, 96, 3) True"),
        ("huge", "ndarray uint8 (512, 512, 3) True"),
        ("nested", "dict ndarray float32 tuple int ndarray int8"),
        ("text", "str"),
    ],
)
def test_observations_arrive_as_their_space_says(
    make_engine: Engines, program: Programs, observation: str, text: str
) -> None:
    folder = program("""
        import numpy as np
        def name(x): return type(x).__name__
        def make_policy(context): return Tells()
        class Tells:
            def act(self, x):
                if isinstance(x, np.ndarray):
                    print(name(x), x.dtype, x.shape, x.flags.writeable and x.flags.aligned)
                elif isinstance(x, dict):
                    at, pair = x["at"], x["pair"]
                    print(name(x), name(at), at.dtype, name(pair), name(pair[0]), name(pair[1]), pair[1].dtype)
                else:
                    print(name(x))
                return 0
    """)
    results = make_engine(observation=observation).evaluate(folder, toys.episodes(2))
    assert {outcome.output.text.splitlines()[-1] for outcome in outcomes(results)} == {text}


@pytest.mark.parametrize(
    ("action", "spelling"),
    [
        ("choice", "np.int64(2)"),
        ("choice", "True"),
        ("choice", "np.array(1)"),
        ("choice", "2.0"),
        ("box", "[0, 1]"),
        ("box", "np.array([0.5, -0.25])"),
        ("box", "np.array([0.5, -0.25], np.float32)"),
        ("box", "(np.float32(0.1), 1)"),
        ("box", "np.array([1, -1], np.int8)"),
        ("box", "np.float64([1.00000001, 0])"),
        ("box", "[np.array(0.5), np.array(0.5)]"),
        ("nested", "{'go': np.bool_(True), 'by': [np.array([0.25])]}"),
    ],
)
def test_any_natural_spelling_of_an_action_is_taken(
    make_engine: Engines, program: Programs, action: str, spelling: str
) -> None:
    folder = program(f"""
        import numpy as np
        def make_policy(context): return Says()
        class Says:
            def act(self, observation): return {spelling}
    """)
    assert (
        outcomes(make_engine(action=action).evaluate(folder, toys.episodes(1)))[0].failure is None
    )


@pytest.mark.parametrize(
    ("action", "spelling", "words"),
    [
        ("choice", "3", "from 0 to 2"),
        ("choice", "1.5", "1.5"),
        ("choice", "None", "integer"),
        ("choice", "'1'", "integer"),
        ("choice", "2 ** 70", "64 bits"),
        ("box", "[0.0]", "shape"),
        ("box", "[float('nan'), 0.0]", "finite"),
        ("box", "np.array([np.inf, 0])", "finite"),
        ("box", "[2.0, 0.0]", "outside"),
        ("box", "np.zeros(2, complex)", "complex"),
        ("box", "np.zeros((3000, 3000))", "at most"),
        ("box", "{1: 2}", "keys"),
        ("box", "object()", "object"),
        ("box", "nest([])", "deeper"),
        ("box", "itself()", "deeper"),
        ("nested", "{'go': 1}", "keys"),
    ],
)
def test_anything_else_is_an_invalid_action_and_says_why(
    make_engine: Engines, program: Programs, action: str, spelling: str, words: str
) -> None:
    folder = program(f"""
        import numpy as np
        def nest(x):
            for _ in range(500): x = [x]
            return x
        def itself():
            x = []
            x.append(x)
            return x
        def make_policy(context): return Says()
        class Says:
            def act(self, observation): return {spelling}
    """)
    found = failure(make_engine(action=action).evaluate(folder, toys.episodes(1)))
    assert (found.kind, found.phase, found.step) == ("invalid_action", "act", 0)
    assert words in found.message


def test_actions_are_clipped_and_counted_only_where_the_benchmark_says_so(
    make_engine: Engines, program: Programs
) -> None:
    folder = program("""
        def make_policy(context): return Far()
        class Far:
            def act(self, observation): return [7, 0]
    """)
    engine = make_engine(action="box", out_of_bounds="clip")
    assert outcomes(engine.evaluate(folder, toys.episodes(1)))[0].clipped == 5
    assert any("clipped" in warning for warning in engine.check(folder, 1).warnings)


def test_a_traceback_shows_the_programs_own_frames_and_no_path_of_this_machine(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program(
        """
        import helper
        def make_policy(context): return Breaks()
        class Breaks:
            steps = 0
            def act(self, observation):
                self.steps += 1
                return 0 if self.steps < 3 else helper.load(__file__)
    """,
        {
            "helper.py": """
        import json
        def load(path):
            return json.loads("{" + path)
    """
        },
    )
    found = failure(engine.evaluate(folder, toys.episodes(1)))
    assert (found.kind, found.phase, found.step) == ("exception", "act", 2)
    assert found.message.startswith("json.decoder.JSONDecodeError: ")
    assert 'File "policy.py", line 8, in act' in found.traceback
    assert 'File "helper.py", line 4, in load' in found.traceback
    assert "decoder.py" not in found.traceback and str(folder) not in found.traceback


@pytest.mark.parametrize(
    ("source", "phase", "words"),
    [
        ("import nothing_of_this_name", "import", "ModuleNotFoundError"),
        ("def make_policy(context) return", "import", "SyntaxError"),
        ("x = 1", "make_policy", "make_policy"),
        ("def make_policy(context): return object()", "make_policy", "act"),
        ("def make_policy(context): raise ValueError('mine')", "make_policy", "ValueError: mine"),
        (
            "class Policy:\n def __init__(self, *a): pass\n def reset(self, i): 1 / 0\n def "
            "act(self, o): return 0",
            "reset",
            "ZeroDivisionError",
        ),
        ("import sys\nsys.exit(4)", "import", "SystemExit"),
    ],
)
def test_a_program_that_fails_before_its_first_action_is_told_in_which_call(
    engine: LocalExecutor, program: Programs, source: str, phase: str, words: str
) -> None:
    found = failure(engine.evaluate(program(source), toys.episodes(1)))
    assert (found.kind, found.phase, found.step) == ("exception", phase, None)
    assert words in found.message


def test_printed_text_is_kept_with_its_head_and_tail_and_the_middle_counted(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program("""
        import sys
        def make_policy(context): return Prints()
        class Prints:
            def act(self, observation):
                print("first", file=sys.stderr)
                print("x" * 100_000)
                print("last", end="")
                return 0
    """)
    output = outcomes(engine.evaluate(folder, toys.episodes(1)))[0].output
    assert output.text.startswith("first\n") and output.text.endswith("last")
    assert len(output.text) < 4096 + 100
    assert output.omitted_bytes == 5 * (6 + 100_001 + 4) - 4096


def test_modules_of_the_program_win_over_loaded_ones_of_the_same_name(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program(
        """
        import statistics, textwrap
        def make_policy(context): return Uses()
        class Uses:
            def act(self, observation): return statistics.MINE + textwrap.MINE
    """,
        {
            "statistics.py": "MINE = 1",
            "textwrap.py": "MINE = 1",
        },  # the second is loaded before any Program is
    )
    assert outcomes(engine.evaluate(folder, toys.episodes(1)))[0].failure is None


def test_scipy_can_be_imported_wherever_the_program_does_it(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program("""
        from scipy.linalg import expm
        def make_policy(context): return Late()
        class Late:
            def act(self, observation):
                import scipy.special
                return int(scipy.special.expit(expm([[0.0]])[0][0]) > 2)
    """)
    assert [outcome.failure for outcome in outcomes(engine.evaluate(folder, toys.episodes(2)))] == [
        None,
        None,
    ]


def test_source_that_breaks_the_compiler_is_the_programs_own_failure(
    engine: LocalExecutor, program: Programs
) -> None:
    for source in (
        "x = " + "-" * 200_000 + "1\n",
        "x = " + "(" * 5_000 + ")" * 5_000 + "\n",
        "x = '\\x00\x00'\n",
    ):
        found = failure(engine.evaluate(program(source), toys.episodes(1)))
        assert found.phase == "import" and found.kind in ("exception", "died"), (
            "no memory was short"
        )
        assert found.limit is None and (
            "MemoryError" not in found.message or "nested too deeply" in found.message
        )


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (
            "def deep(n): return deep(n - 1) if n else bytes(1 << 40)",
            "exception",
            "calls deep in a recursion",
        ),
        ("def deep(n): raise MemoryError", "memory", "MemoryError"),
        ("def deep(n): return len(bytes(1 << 40))", "memory", "MemoryError"),
    ],
)
def test_what_is_no_lack_of_memory_is_not_told_as_one(
    make_engine: Engines, program: Programs, act: str, kind: str, words: str
) -> None:
    folder = program(
        f"import sys\nsys.setrecursionlimit(10_000)\n{act}\n"
        "def make_policy(context): return P()\nclass P:\n    def act(self, observation): return "
        "deep(1_500)\n"
    )
    found = failure(make_engine().evaluate(folder, toys.episodes(1)))
    assert (found.kind, found.limit is not None) == (
        kind,
        kind == "memory",
    ) and words in found.message


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["raise@make", "raise@reset", "raise@step"])
def test_an_environments_exception_is_a_fault_of_that_episode_alone(
    make_engine: Engines, program: Programs, trouble: str
) -> None:
    results = make_engine(trouble=trouble).evaluate(program(STEADY), toys.episodes(4))
    assert [bool(result.outcome) for result in results] == [True, False, True, True]
    fault = results[1].fault
    assert fault is not None and fault.kind == "environment"
    assert "the Environment broke" in fault.message and "toys.py" in fault.traceback


def test_a_step_that_raises_for_the_same_actions_again_is_told_as_what_the_policy_did(
    make_engine: Engines, program: Programs
) -> None:
    folder = program(STEADY.replace("return 1", "print('hi'); return 1"))
    fault = make_engine(trouble="raise@step").evaluate(folder, toys.episodes(2))[1].fault
    assert fault is not None and fault.raised is not None
    outcome = fault.raised
    assert (outcome.index, outcome.ending, outcome.length, outcome.episode_return) == (
        1,
        "failed",
        0,
        0.0,
    )
    assert (
        outcome.failure is not None
        and outcome.output.text == "hi\n"
        and outcome.measures == {"steps": 1}
    )
    assert (outcome.failure.kind, outcome.failure.step) == ("invalid_action", 0)
    assert (
        outcome.failure.message
        == "the Environment raises ValueError in step 1 whenever it is given these Actions"
    )


@pytest.mark.parametrize("trouble", ["raise_once@step", "disk@step", "nan", "raise@reset"])
def test_what_does_not_come_back_or_is_no_answer_to_an_action_blames_no_policy(
    make_engine: Engines, program: Programs, tmp_path: Path, trouble: str
) -> None:
    results = make_engine(trouble=trouble, marks=str(tmp_path)).evaluate(
        program(STEADY), toys.episodes(2)
    )
    assert results[1].fault is not None and results[1].fault.raised is None


def test_an_environment_may_refuse_an_action_that_is_a_member_of_its_space(
    make_engine: Engines, program: Programs
) -> None:
    failure = outcomes(
        make_engine(trouble="refuse@step").evaluate(program(STEADY), toys.episodes(2))
    )[1].failure
    assert failure is not None
    assert (failure.kind, failure.message, failure.step) == (
        "invalid_action",
        "the door is locked",
        0,
    )


def test_rewards_that_are_not_finite_and_observations_of_another_shape_are_faults(
    make_engine: Engines, program: Programs
) -> None:
    for trouble, words in (("nan", "nan"), ("shape", "shape")):
        fault = make_engine(trouble=trouble).evaluate(program(STEADY), toys.episodes(1))[0].fault
        assert fault is not None and fault.kind == "environment" and words in fault.message


def test_a_policy_is_never_charged_for_a_slow_environment(
    make_engine: Engines, program: Programs
) -> None:
    # Ten steps of 0.3 s each: more than the Episode's time, and each more than a call's.
    limits = dataclasses.replace(LIMITS, act_seconds=0.25, episode_seconds=2.5, stall_factor=1000.0)
    results = make_engine(trouble="slow@step", limits=limits, steps=10).evaluate(
        program(STEADY), toys.episodes(3)
    )
    assert [outcome.failure for outcome in outcomes(results)] == [None, None, None]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """For an Environment that hangs: once it does, its call has lasted as long as it may, and no
    other ever has."""
    busy = WorkerHandle.busy

    def later(self: WorkerHandle) -> tuple[int, float] | None:
        found = busy(self)
        if found is None or not (tmp_path / toys.HANGS).exists():
            return found
        job = self.jobs.get(found[0])
        return found[0], found[1] + (
            LIMITS.step_seconds if isinstance(job, EpisodeJob) and job.episode.index == 1 else 0.0
        )

    monkeypatch.setattr(WorkerHandle, "busy", later)
    return {"marks": str(tmp_path), "workers": 1}


def test_an_environment_that_hangs_is_a_fault_and_the_others_are_played(
    make_engine: Engines, program: Programs, hanging: dict[str, Any]
) -> None:
    results = make_engine(trouble="hang@step", **hanging).evaluate(
        program(STEADY), toys.episodes(6)
    )
    assert [bool(result.outcome) for result in results] == [True, False, True, True, True, True]
    assert results[1].fault is not None
    assert f"longer than {LIMITS.step_seconds:g} s" in results[1].fault.message


@pytest.mark.parametrize("place", ["measures", "close"])
def test_every_call_of_an_environment_is_watched(
    make_engine: Engines, program: Programs, hanging: dict[str, Any], place: str
) -> None:
    results = make_engine(trouble=f"hang@{place}", **hanging).evaluate(
        program(STEADY), toys.episodes(4)
    )
    assert [
        result.index for result in results if result.fault and result.fault.kind == "environment"
    ] == [1]


def test_large_scenarios_and_measures_block_neither_side(
    make_engine: Engines, program: Programs
) -> None:
    engine = make_engine(trouble="large", workers=2)
    scenario = {"large": list(range(25_000))}
    episodes = [dataclasses.replace(episode, scenario=scenario) for episode in toys.episodes(40)]
    found = outcomes(engine.evaluate(program(STEADY), episodes))
    assert [len(outcome.measures["large"]) for outcome in found] == [25_000] * 40  # type: ignore[arg-type]


def test_measures_too_large_to_be_sent_are_a_fault_of_that_episode_alone(
    make_engine: Engines, program: Programs
) -> None:
    engine = make_engine(trouble="too_large@measures", workers=1, lanes=1)
    results = engine.evaluate(program(STEADY), toys.episodes(2))
    assert results[0].outcome is not None, "it was sent before"
    fault = results[1].fault
    assert fault is not None and fault.kind == "environment"
    assert re.search(
        r"measures are a message of \d{5,} bytes; at most 10000 can be sent", fault.message
    )


def test_a_worker_that_does_nothing_is_ended_and_its_episodes_are_played_again(
    program: Programs, level: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(worker_processes())
    stopped: list[int] = []
    kill = WorkerHandle.kill

    def stop(_result: EpisodeResult) -> None:
        if not stopped:
            stopped.extend(set(worker_processes()) - before)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr(batch, "_STILL_SECONDS", 3.0)

    def killed(self: WorkerHandle) -> None:
        # The worker after it does something, however long it takes to.
        monkeypatch.setattr(batch, "_STILL_SECONDS", 3600.0)
        kill(self)

    monkeypatch.setattr(WorkerHandle, "kill", killed)

    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation=level, lanes=2) as engine:
        found = outcomes(engine.evaluate(program(STEADY), toys.episodes(9), progress=stop))
        assert [outcome.index for outcome in found] == list(range(9))
        assert stopped and not set(stopped) & set(worker_processes())


def test_what_a_worker_takes_to_start_is_no_part_of_its_first_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ends = [0.0], list[Link]()

    def start(control: int, *_: Any) -> subprocess.Popen[bytes]:
        ends.append(Link(socket.socket(fileno=os.dup(control))))
        return subprocess.Popen(["sleep", "600"])

    monkeypatch.setattr(pool, "_start", start)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    (episode,) = toys.episodes(1)
    with ThreadPoolExecutor(1) as threads:
        for job in (
            PictureJob(0, episode, tmp_path, tmp_path),
            EpisodeJob(0, tmp_path, episode, None),
        ):
            told: Any = WorkerReady()
            worker = WorkerHandle(told, tmp_path / "log", threads)
            worker.send(job)
            now[0] += 1000.0
            assert not worker.overdue(120.0) and worker.still() == 0.0
            ends[-1].send(told)
            assert list(worker.receive()) == [] and worker.ready
            assert not worker.overdue(120.0) and worker.still() == 0.0
            now[0] += 121.0
            assert worker.overdue(120.0) == isinstance(job, PictureJob)
            assert worker.still() == (121.0 if isinstance(job, EpisodeJob) else 0.0)
            worker.kill()
            ends[-1].sock.close()


def test_a_crashed_worker_costs_its_episodes_one_retry(
    make_engine: Engines, program: Programs, tmp_path: Path
) -> None:
    engine = make_engine(trouble="crash_once@step", marks=str(tmp_path), workers=1)
    results = outcomes(engine.evaluate(program(STEADY), toys.episodes(6)))
    assert results == outcomes(make_engine(workers=1).evaluate(program(STEADY), toys.episodes(6)))


def test_an_episode_that_always_crashes_its_worker_is_a_fault_and_the_others_are_played(
    make_engine: Engines, program: Programs, tmp_path: Path
) -> None:
    engine = make_engine(trouble="crash@step", marks=str(tmp_path), workers=1)
    results = engine.evaluate(program(STEADY), toys.episodes(6))
    assert [bool(result.outcome) for result in results] == [True, False, True, True, True, True]
    assert results[1].fault is not None and "exit code 9" in results[1].fault.message
    assert (tmp_path / "crashed").read_text() == "xx", (
        "it is played once more, and no more than that"
    )


def test_environments_are_closed(make_engine: Engines, program: Programs, tmp_path: Path) -> None:
    make_engine(marks=str(tmp_path)).evaluate(program(STEADY), toys.episodes(3))
    assert sorted(path.name for path in tmp_path.glob("closed-*")) == [
        "closed-0",
        "closed-1",
        "closed-2",
    ]


def test_a_benchmark_that_ends_every_worker_is_an_error_and_not_tried_for_ever(
    program: Programs,
) -> None:
    reference = BenchmarkReference("tests.execution.toys:dying", {})
    with (
        LocalExecutor(reference, LIMITS, workers=1, isolation=LEVELS[0]) as engine,
        pytest.raises(ExecutionError, match=r"end before they are ready: .*exit code 7"),
    ):
        engine.evaluate(program(STEADY), toys.episodes(1))


def test_a_benchmark_that_cannot_be_loaded_is_an_error_with_its_reason(program: Programs) -> None:
    reference = BenchmarkReference("tests.execution.toys:broken")
    with (
        LocalExecutor(reference, LIMITS, workers=1, isolation="none") as engine,
        pytest.raises(ExecutionError, match="no such simulator"),
    ):
        engine.evaluate(program(STEADY), toys.episodes(1))


# --- check and render -----------------------------------------------------------------------------


def test_check_asks_for_actions_on_observations_sampled_by_the_seed(
    engine: LocalExecutor, program: Programs
) -> None:
    folder = program("""
        def make_policy(context): return Sums()
        class Sums:
            def act(self, observation):
                print(float(observation.sum()))
                return 1
    """)
    report = engine.check(folder, 5)
    assert (report.ok, list(report.actions), len(report.output.text.splitlines())) == (
        True,
        [1, 1, 1],
        8,
    )
    assert engine.check(folder, 5) == report != engine.check(folder, 6)
    first = np.asarray(toys.OBSERVATIONS["vector"].sample(np.random.default_rng(5)))
    assert report.output.text.splitlines()[0] == str(float(first.sum()))


def test_check_tells_what_an_episode_would_have_told(
    engine: LocalExecutor, program: Programs
) -> None:
    report = engine.check(program("def make_policy(context): return None"), 1)
    assert not report.ok and report.failure is not None
    assert (report.failure.kind, report.failure.phase) == ("exception", "make_policy")


def test_check_does_not_wait_for_an_evaluation(make_engine: Engines, program: Programs) -> None:
    engine = make_engine(workers=1)
    reports = []

    def check(_result: EpisodeResult) -> None:
        reports.append(engine.check(folder, 1))

    folder = program(STEADY)
    engine.evaluate(folder, toys.episodes(1), progress=check)
    assert reports[0].ok


@pytest.mark.parametrize("trouble", ["render_hangs", "render_raises"])
def test_a_picture_that_cannot_be_made_is_none_and_the_others_are_made(
    make_engine: Engines, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overdue = WorkerHandle.overdue

    def later(self: WorkerHandle, seconds: float) -> bool:
        # Once it hangs its time is up, and no other's ever is.
        hangs = (tmp_path / "out" / toys.HANGS).exists()
        return overdue(
            self,
            0.0 if hangs and any(job.episode.index == 1 for job in pictures(self)) else seconds,
        )

    def pictures(worker: WorkerHandle) -> list[PictureJob]:
        return [job for job in worker.jobs.values() if isinstance(job, PictureJob)]

    monkeypatch.setattr(WorkerHandle, "overdue", later)
    engine = make_engine(trouble=trouble)
    jobs = [
        RenderJob(episode, tmp_path / "a.trace", tmp_path / "out") for episode in toys.episodes(3)
    ]
    assert [artifact.name for artifact in engine.render(jobs)] == ["0.txt", "2.txt"]


# --- asking for it --------------------------------------------------------------------------------


def test_wrong_words_and_numbers_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        LocalExecutor(toys.reference(), LIMITS, workers=0, isolation="none")
    with pytest.raises(ConfigError, match="no_such_package"):
        LocalExecutor(
            toys.reference(),
            LIMITS,
            workers=1,
            isolation="none",
            policy_packages=("no_such_package",),
        )


def test_threads_are_joined_and_libraries_use_them(
    engine: LocalExecutor, program: Callable[..., Path]
) -> None:
    """C libraries join threads by a futex that is not private to the process; it is not slept on,
    but it ends."""
    outcome = engine.evaluate(
        program(
            """
            import ctypes
            from concurrent.futures import ThreadPoolExecutor
            import numpy as np
            from scipy import fft
            def make_policy(context): return P()
            class P:
                def act(self, observation):
                    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
                    begun = ctypes.cast(libc.usleep, ctypes.c_void_p)
                    made = libc.pthread_create(ctypes.byref(thread), None, begun, ctypes.c_void_p(20_000))
                    print(made, libc.pthread_join(thread, None))
                    print(np.allclose(fft.ifft2(fft.fft2(np.eye(64), workers=4), workers=4), np.eye(64)))
                    with ThreadPoolExecutor(8) as pool: print(sum(pool.map(abs, range(-20, 0))))
                    return 1
            """
        ),
        toys.episodes(1),
    )[0].outcome
    assert outcome is not None and outcome.failure is None
    assert outcome.output.text.splitlines() == ["0 0", "True", "210"] * 5
