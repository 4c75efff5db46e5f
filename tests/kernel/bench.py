"""A tiny Benchmark in pure Python, and every port of the Kernel in this process: Policies run
inline, agents are functions in a thread that call the Session's `handle`."""

from __future__ import annotations

import json
import runpy
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from evopolicy.kernel.errors import AgentError, InvalidAction, Refused
from evopolicy.kernel.files.durable import make_folder
from evopolicy.kernel.files.program import ProgramStore, capture
from evopolicy.kernel.policy import PolicyContext, bind
from evopolicy.kernel.ports.benchmark import (
    Artifact,
    BenchmarkReference,
    BenchmarkSpec,
    EpisodeSpec,
    Transition,
)
from evopolicy.kernel.ports.outcome import (
    CheckReport,
    EpisodeResult,
    FailureKind,
    Fault,
    Outcome,
    Output,
    PolicyFailure,
)
from evopolicy.kernel.ports.pool import Pool, PoolConfig, plan_pool
from evopolicy.kernel.ports.protocols import (
    AgentIdentity,
    AgentLimits,
    Invocation,
    Isolation,
    Limits,
    Provider,
)
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Transcript, Usage
from evopolicy.kernel.run.run import RunPlan
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.record import BenchmarkIdentity, FeedbackConfig, RunRecord
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.kernel.session.session import SessionSite
from evopolicy.kernel.session.submission import Bench
from evopolicy.kernel.spaces import Discrete, box, cast_action
from evopolicy.kernel.trace import TraceRow, TraceWriter

STEPS = 4
FAILURE_SCORE = -1.0
WAIT = 150.0
"""Seconds after which a test that waits for another thread gives up; never a measure of speed."""

CONSTANT = """
VALUE = {value}

def make_policy(context):
    return Constant()

class Constant:
    def act(self, observation):
        {body}
        return VALUE
"""


def policy_text(value: int, body: str = "pass") -> str:
    """A Policy that always answers `value`, after `body`."""
    return CONSTANT.format(value=value, body=body)


def write_program(folder: Path, value: int, body: str = "pass") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.py").write_text(policy_text(value, body))
    return folder


# --- Benchmark ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """An Action from 0 to 9 earns itself and an offset that the Episode's seed hides, four
    times."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    id: str = "test/Tally-v1"
    seed_bits: int = 63
    case_name: str = ""
    programs: Mapping[str, Path] = field(default_factory=dict)
    artifact_names: Sequence[str] = ()
    """Bulk artifacts of 1,000 bytes that each Feedback gets."""
    score_of: Callable[[Outcome], float] = lambda outcome: outcome.episode_return
    summarize_of: Callable[[Sequence[Outcome]], Mapping[str, Any]] = lambda outcomes: {
        "episodes": len(outcomes)
    }

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec(
            id=self.id,
            slug="tally",
            title="Tally",
            goal="Answer high.",
            scoring="The sum of the answers.",
            ending="After four steps.",
            observation_space=box(0, STEPS, (1,)),
            action_space=Discrete(10),
            max_steps=STEPS,
            failure_score=FAILURE_SCORE,
            parameters=dict(self.parameters),
            seed_bits=self.seed_bits,
            case_name=self.case_name,
        )

    @property
    def reference(self) -> BenchmarkReference:
        return BenchmarkReference("tests.kernel.bench:Tally", dict(self.parameters))

    def plan(self, _split: str, seed: int) -> Mapping[str, Any]:
        return {"offset": (seed % 7) / 8}

    def make(self, episode: EpisodeSpec) -> TallyEnvironment:
        return TallyEnvironment(float(episode.scenario["offset"]))  # type: ignore[arg-type]

    def score(self, outcome: Outcome) -> float:
        return self.score_of(outcome)

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        return self.summarize_of(outcomes)

    def artifacts(self, _results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        made = []
        for number, name in enumerate(self.artifact_names):
            path = folder / f"file-{number}"
            path.write_bytes(b"x" * 1_000)
            made.append(Artifact(name, path, "text/plain", "bulk"))
        return made

    def pictured(self, results: Sequence[EpisodeResult]) -> Sequence[int]:
        return [result.index for result in results[:1]]

    def render(self, episode: EpisodeSpec, _trace: Path, folder: Path) -> Sequence[Artifact]:
        path = folder / f"picture-{episode.index}"
        path.write_bytes(b"gif")
        return [
            Artifact(f"replays/{episode.index:04d}.gif", path, "image/gif", "bulk", episode.index)
        ]


@dataclass
class TallyEnvironment:
    offset: float
    steps: int = 0

    def reset(self) -> Any:
        return np.zeros(1, np.float32)

    def step(self, action: Any) -> Transition:
        self.steps += 1
        return Transition(
            np.full(1, self.steps, np.float32), action + self.offset, self.steps == STEPS, False
        )

    def measures(self) -> Mapping[str, Any]:
        return {"steps": self.steps}

    def close(self) -> None: ...


# --- Executor -------------------------------------------------------------------------------------


LIMITS = Limits(1.0, 10.0, 2**30, 4_096, 2**20, 10.0, 10.0)


class InlineExecutor:
    """Runs Policies in this process. `fault` decides by Program folder and Episode which Episodes
    fault; Evaluations wait while `gate` is cleared."""

    isolation: Isolation = "none"
    limits = LIMITS

    def __init__(self, benchmark: Tally) -> None:
        self.benchmark = benchmark
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.fault: Callable[[Path, EpisodeSpec], Fault | None] = lambda *_: None
        self.ran: list[tuple[str, int]] = []
        """Program and seed of every Episode that was run, in order."""
        self.checked: list[Path] = []

    def evaluate(
        self,
        program: Path,
        episodes: Sequence[EpisodeSpec],
        *,
        traces: Path | None = None,
        progress: Callable[[EpisodeResult], None] | None = None,
    ) -> list[EpisodeResult]:
        self.entered.set()
        results = []
        for episode in episodes:
            if not self.gate.wait(WAIT):
                raise TimeoutError("the test never opened the gate")
            results.append(self._episode(program, episode, traces))
            if progress:
                progress(results[-1])
        return results

    def _episode(self, program: Path, episode: EpisodeSpec, traces: Path | None) -> EpisodeResult:
        self.ran.append((program.name, episode.seed))
        if fault := self.fault(program, episode):
            return EpisodeResult(episode.index, fault=fault)
        trace = traces / f"{episode.index}.trace" if traces else None
        rows = [TraceRow(0, None, None, 0.0, False, False, {})]
        outcome = run_episode(self.benchmark, program, episode, rows)
        if trace:
            with TraceWriter(trace) as writer:
                for row in rows:
                    writer.write(row)
        return EpisodeResult(episode.index, outcome, trace=trace, policy_seconds=0.25)

    def check(self, program: Path, seed: int) -> CheckReport:
        self.checked.append(program)
        try:
            policy = load_policy(self.benchmark, program, seed)
            action = policy.act(np.zeros(1, np.float32))
        except Exception as error:
            return CheckReport(
                False, PolicyFailure("exception", str(error), traceback=traceback.format_exc())
            )
        return CheckReport(True, actions=(action,), output=Output("checked"))

    def render(self, jobs: Sequence[Any]) -> list[Artifact]:
        return [
            one for job in jobs for one in self.benchmark.render(job.episode, job.trace, job.folder)
        ]

    def close(self) -> None: ...


def load_policy(benchmark: Tally, program: Path, seed: int) -> Any:
    spec = benchmark.spec
    context = PolicyContext(
        spec.observation_space, spec.action_space, spec.parameters, seed, spec.max_steps
    )
    return bind(SimpleNamespace(**runpy.run_path(str(program / "policy.py"))), context)


def run_episode(
    benchmark: Tally, program: Path, episode: EpisodeSpec, rows: list[TraceRow]
) -> Outcome:
    """One Episode in this process; what the Policy prints is `SAYS` of its module."""
    environment = benchmark.make(episode)
    total, step = 0.0, 0
    try:
        policy = load_policy(benchmark, program, episode.policy_seed)
        policy.reset()
        observation, ended = environment.reset(), False
        while not ended:
            action, _ = cast_action(benchmark.spec.action_space, policy.act(observation))
            observation, reward, ended, _, _ = environment.step(action)
            step, total = step + 1, total + reward
            rows.append(TraceRow(step, observation, action, reward, ended, False, {}))
    except Exception as error:
        kind: FailureKind = "invalid_action" if isinstance(error, InvalidAction) else "exception"
        failure = PolicyFailure(kind, str(error), "act", step, traceback.format_exc())
        return Outcome(
            episode.index, total, step, "failed", failure, environment.measures(), Output("printed")
        )
    return Outcome(
        episode.index, total, step, "terminated", None, environment.measures(), Output("printed")
    )


# --- agents ---------------------------------------------------------------------------------------


class Stopped(BaseException):
    """The Host ended this agent."""


@dataclass
class AgentCalls:
    """What an agent has: its workspace, the Session, a place to print."""

    workspace: Path
    handler: Any
    resumed: bool
    stopping: threading.Event
    log: Path
    printed: float = field(default_factory=time.monotonic)

    def __call__(self, verb: str, **arguments: Any) -> dict[str, Any]:
        if self.stopping.is_set():
            raise Stopped
        answer: dict[str, Any] = json.loads(
            json.dumps(self.handler.handle(verb, arguments), allow_nan=False)
        )
        return answer

    def submit(
        self, value: int, episodes: str, body: str = "pass", **arguments: Any
    ) -> dict[str, Any]:
        write_program(self.workspace / "program", value, body)
        return self("submit", path="program", episodes=episodes, **arguments)

    def say(self, **event: Any) -> None:
        self.printed = time.monotonic()
        with self.log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def sleep_for_ever(self) -> None:
        self.stopping.wait()
        raise Stopped


AgentFunction = Callable[[AgentCalls], None]


@dataclass
class ThreadProcess:
    thread: threading.Thread
    calls: AgentCalls
    codes: list[int]

    def wait(self, seconds: float) -> int | None:
        self.thread.join(seconds)
        return None if self.thread.is_alive() else self.codes[0]

    def last_output(self) -> float:
        return self.calls.printed

    def proxy_usage(self) -> ProxyUsage | None:
        return None

    def stop(self) -> None:
        self.calls.stopping.set()
        self.thread.join(WAIT)


@dataclass
class ThreadLauncher:
    """Starts `function` in a thread. Each attempt may have its own: a sequence is gone through, its
    last one stays."""

    functions: Sequence[AgentFunction]
    gateway: DirectGateway
    isolation: Isolation = "none"
    started: int = 0

    def seen_socket(self, socket: Path) -> Path:
        return socket

    def proxy_usage(self, _logs: Path) -> ProxyUsage | None:
        return None

    def recover(self, _logs: Path, _home: Path) -> None: ...

    def start(self, site: Any, invoke: Callable[[Any], Invocation]) -> ThreadProcess:
        function = self.functions[min(self.started, len(self.functions) - 1)]
        self.started += 1
        invoke(SimpleNamespace(**vars(site)))
        make_folder(site.logs)
        (site.logs / "stdout.log").touch()
        calls = AgentCalls(
            site.workspace,
            self.gateway.handlers[site.socket],
            site.resumed,
            threading.Event(),
            site.logs / "stdout.log",
        )
        codes: list[int] = []
        thread = threading.Thread(
            target=_live, args=(function, calls, codes), name="agent", daemon=True
        )
        thread.start()
        return ThreadProcess(thread, calls, codes)


def _live(function: AgentFunction, calls: AgentCalls, codes: list[int]) -> None:
    try:
        function(calls)
    except Stopped:
        codes.append(-15)
    except SystemExit as end:
        codes.append(int(end.code or 0))
    except Exception:
        codes.append(1)
    else:
        codes.append(0)


@dataclass
class DirectGateway:
    """Hands the Session itself to an agent in this process."""

    handlers: dict[Path, Any] = field(default_factory=dict)
    opened: int = 0

    @contextmanager
    def open(self, handler: Any) -> Iterator[Path]:
        self.opened += 1
        path = Path(f"/session-{self.opened}")
        self.handlers[path] = handler
        try:
            yield path
        finally:
            del self.handlers[path]


@dataclass
class FunctionAgent:
    """An integration whose agent is a function; its stream is JSON lines with `usage`, `error_kind`
    and `text`."""

    resumes: bool = True
    missing: list[str] = field(default_factory=list)
    """While it holds a sentence, the agent cannot be started."""
    program: str = "initial"
    provider: Provider | None = None
    call_seconds: float | None = None
    variables: tuple[str, ...] = ()
    identity: AgentIdentity = field(default_factory=lambda: AgentIdentity("function", "function"))

    def probe(self) -> Mapping[str, str]:
        return {}

    def invoke(self, _task: Any) -> Invocation:
        if self.missing:
            raise AgentError(self.missing.pop())
        return Invocation(["agent"])

    def read(self, lines: Iterable[str], _logs: Path | None = None) -> Transcript:
        events = [json.loads(line) for line in lines]
        usage = {key: value for event in events for key, value in event.get("usage", {}).items()}
        kinds = [event["error_kind"] for event in events if "error_kind" in event]
        return Transcript(
            usage=Usage(**usage),
            completed=not kinds,
            error_kind=kinds[-1] if kinds else "",
            error="overloaded" if kinds else "",
        )


# --- a whole Run ----------------------------------------------------------------------------------


BUDGET = Budget(
    submissions=4, episodes=8, per_submission=None, finish="allow_early", candidates="all"
)
POOL = PoolConfig(kind="derived", training=6, validation=3, assessment=5, seed=0)
SELECTION = SelectionConfig("validation_mean", "fewer_failures")
FEEDBACK = FeedbackConfig("episodes", 10**9, replays=False)
AGENT_LIMITS = AgentLimits(wall_seconds=None, idle_seconds=None, finish_grace_seconds=WAIT)


@dataclass
class Stage:
    """Everything of one Run, each part open to a test. `plan()` is what `run` takes."""

    root: Path
    functions: Sequence[AgentFunction] = ()
    benchmark: Tally = field(default_factory=Tally)
    budget: Budget = BUDGET
    pool: PoolConfig = POOL
    selection: SelectionConfig = SELECTION
    feedback: FeedbackConfig = FEEDBACK
    limits: AgentLimits = AGENT_LIMITS
    agent: FunctionAgent = field(default_factory=FunctionAgent)
    block_seconds: float = WAIT
    episode_retries: int = 1
    agent_retries: int = 2
    backoff_seconds: float = 0.0
    observers: Sequence[Any] = ()
    key: str = "key"
    result_key: str = "result"

    def __post_init__(self) -> None:
        self.executor = InlineExecutor(self.benchmark)
        self.store = ProgramStore(self.root / "programs")
        self.gateway = DirectGateway()
        self.launcher = ThreadLauncher(self.functions, self.gateway)
        self.planned: Pool = plan_pool(self.pool, self.benchmark, b"secret")

    @property
    def folder(self) -> Path:
        return self.root / "run"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def site(self) -> SessionSite:
        bench = Bench(
            self.benchmark, self.executor, self.feedback, self.episode_retries, self.folder
        )
        return SessionSite(
            bench, self.budget, self.planned, self.store, self.workspace, self.block_seconds
        )

    def record(self) -> RunRecord:
        spec = self.benchmark.spec
        initial = self.store.put(capture(write_program(self.root / "initial", 0)))
        return RunRecord(
            schema=1,
            key=self.key,
            result_key=self.result_key,
            agent=self.agent.identity,
            benchmark=BenchmarkIdentity(
                spec.slug, spec.id, spec.digest, "tests.kernel.bench:Tally", {}
            ),
            seed=0,
            budget=self.budget,
            pool=self.pool,
            pool_secret_digest="",
            selection=self.selection,
            feedback=self.feedback,
            isolation="none",
            agent_isolation="none",
            initial_program=initial.name,
            versions={},
            machine={},
            created=0.0,
        )

    def prepare(self, _socket: Path) -> None:
        for name in ("program", "feedback"):
            (self.workspace / name).mkdir(parents=True, exist_ok=True)

    def plan(self) -> RunPlan:
        return RunPlan(
            record=self.record(),
            folder=self.folder,
            site=self.site(),
            agent=self.agent,
            launcher=self.launcher,
            gateway=self.gateway,
            limits=self.limits,
            prompt="go",
            agent_retries=self.agent_retries,
            backoff_seconds=self.backoff_seconds,
            prepare_workspace=self.prepare,
            observers=self.observers,
        )


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until `condition` holds; fails the test where it never does."""
    deadline = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("what the test waits for never happened")
        time.sleep(0.002)


def refusal(function: Callable[[], Any]) -> Refused:
    """What `function` is refused with."""
    try:
        function()
    except Refused as refused:
        return refused
    raise AssertionError("nothing was refused")


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return [event["event"] for event in events(folder)]
