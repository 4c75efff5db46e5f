"""A Host for agents under test: the Kernel's Session behind the real gateway; its Episodes are
plain arithmetic."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.files.program import ProgramStore, capture
from evopolicy.kernel.ports.benchmark import BenchmarkReference, BenchmarkSpec, EpisodeSpec
from evopolicy.kernel.ports.feedback import Visibility
from evopolicy.kernel.ports.outcome import CheckReport, EpisodeResult, Fault, Outcome
from evopolicy.kernel.ports.pool import Pool, format_selector
from evopolicy.kernel.ports.protocols import AgentIntegration, AgentTask, Limits
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import FeedbackConfig
from evopolicy.kernel.session.session import Session, SessionSite
from evopolicy.kernel.session.state import Ledger, RunState
from evopolicy.kernel.session.submission import Bench
from evopolicy.kernel.spaces import Discrete
from evopolicy.session import client
from evopolicy.session.gateway import SocketGateway
from evopolicy.session.task_text import TaskTerms
from evopolicy.session.workspace import prepare_workspace

LIMITS = Limits(1, 60, 2**31, 65536, 2**26, 60, 20)
SPEC = BenchmarkSpec(
    id="test/Bowl-v0", slug="bowl", title="Bowl", goal="Find the bottom.", scoring="Minus the distance.",
    ending="At once.", observation_space=Discrete(2), action_space=Discrete(2), max_steps=1, failure_score=-1e6,
)  # fmt: skip


class Bowl:
    """A Benchmark as far as a Session needs one."""

    spec = SPEC
    reference = BenchmarkReference("test:bowl")

    def score(self, outcome: Outcome) -> float:
        return outcome.episode_return

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        return {"episodes": len(outcomes)}


@dataclass
class Arithmetic:
    """Scores a Program by its params.json: minus the squared distance of each number from 1, and
    the index's luck."""

    faulty: set[int] = field(default_factory=set)
    """Indices whose Environment fails."""
    turned: float = 1.0
    """What the scores of Episodes with an odd index are multiplied by."""
    isolation: str = "none"
    limits: Limits = LIMITS

    def evaluate(
        self, program: Path, episodes: Sequence[EpisodeSpec], **_: Any
    ) -> list[EpisodeResult]:
        return [self._episode(program, episode) for episode in episodes]

    def _episode(self, program: Path, episode: EpisodeSpec) -> EpisodeResult:
        if episode.index in self.faulty:
            return EpisodeResult(episode.index, fault=Fault("environment", "it broke"))
        path = program / "params.json"
        numbers = (
            [v for v in json.loads(path.read_text()).values() if type(v) in (int, float)]
            if path.exists()
            else []
        )
        value = -sum((number - 1) ** 2 for number in numbers) + random.Random(episode.seed).gauss(
            0, 0.01
        )
        value *= self.turned if episode.index % 2 else 1.0
        return EpisodeResult(episode.index, Outcome(episode.index, value, 1, "terminated"))

    def check(self, program: Path, seed: int) -> CheckReport:
        return CheckReport(ok=bool(program) and seed >= 0)


@dataclass
class Ended:
    """How an agent's process ended."""

    code: int
    lines: list[str]
    stderr: str


@dataclass
class Host:
    """One Run's Session in `folder`."""

    folder: Path
    budget: Budget
    pool_size: int = 64
    program: Mapping[str, str] = field(
        default_factory=lambda: {"policy.py": "def make_policy(context): ...\n"}
    )
    executor: Arithmetic = field(default_factory=Arithmetic)
    block_seconds: float = 5.0
    visibility: Visibility = "score"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Session, Ledger]]:
        """The Session served, with the workspace laid; as often as one likes, like a Host that was
        killed."""
        initial = self.folder / "initial"
        for name, text in self.program.items():
            (initial / name).parent.mkdir(parents=True, exist_ok=True)
            (initial / name).write_text(text)
        run = self.folder / "run"
        journal = Journal(run)
        ledger = Ledger(journal)
        bench = Bench(Bowl(), self.executor, FeedbackConfig(self.visibility, 2**20, False), 0, run)  # type: ignore[arg-type]
        pool = Pool(tuple(EpisodeSpec(i, 1000 + i, i) for i in range(self.pool_size)), (), ())
        store = ProgramStore(self.folder / "programs")
        site = SessionSite(bench, self.budget, pool, store, self.workspace, self.block_seconds)
        session = Session(site, ledger)
        session.recover()
        try:
            with SocketGateway().open(session) as socket:
                terms = TaskTerms(
                    self.budget,
                    self.pool_size,
                    self.visibility,
                    LIMITS,
                    ("numpy",),
                    self.block_seconds,
                )
                prepare_workspace(
                    self.workspace, spec=SPEC, terms=terms, initial_program=initial, socket=socket
                )
                yield session, ledger
        finally:
            session.settle()
            journal.close()

    def agent(
        self, integration: AgentIntegration, *, seed: int = 0, resumed: bool = False
    ) -> Ended:
        """Start `integration` as a plain process and wait for it. The Session has to be open."""
        staging = self.folder / "staging"
        task = AgentTask(
            workspace=self.workspace, prompt="Do it.", seed=seed,
            session_command=(sys.executable, "-I", "-S", str(client.__file__)),
            python=Path(sys.executable), staging=staging, resumed=resumed,
        )  # fmt: skip
        invocation = integration.invoke(task)
        shutil.rmtree(staging, ignore_errors=True)
        for name, text in invocation.files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).write_text(text)
        for name, source in invocation.folders.items():
            shutil.copytree(source, staging / name)
        env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ} | {
            "PYTHONSAFEPATH": "1", **invocation.environment,
        }  # fmt: skip
        done = subprocess.run(
            list(invocation.argv), cwd=self.workspace, env=env, input=invocation.stdin, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout.splitlines(keepends=True), done.stderr)

    def state(self) -> RunState:
        journal = Journal(self.folder / "run")
        try:
            return Ledger(journal).state
        finally:
            journal.close()

    def submitted(self) -> list[tuple[str, str]]:
        """Program digest and selector of each Submission."""
        return [(s.program, format_selector(s.indices)) for s in self.state().submissions]


BUDGETS = {
    "smoke": Budget(4, 8, None, "allow_early", "all"),
    "small": Budget(32, 64, None, "allow_early", "all"),
    "essay": Budget(16, 48, None, "allow_early", "all"),
    "paper": Budget(128, 128, 128, "exhaust", "all"),
    "tight": Budget(5, 13, 3, "exhaust", "named"),
    "one": Budget(1, 1, None, "allow_early", "named"),
}


@pytest.fixture(scope="session")
def host_in() -> Callable[..., Host]:
    """Makes a Host in a folder, with a budget's name."""
    return lambda folder, budget, **settings: Host(folder, BUDGETS[budget], **settings)


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., Host]:
    """Makes a Host with a budget's name, in a folder of its own."""

    def make(budget: str, name: str = "host", **settings: Any) -> Host:
        return Host(tmp_path / name, BUDGETS[budget], **settings)

    return make


@pytest.fixture
def digest_of(tmp_path: Path) -> Callable[[Mapping[str, str]], str]:
    """The digest of a Program given as texts by path."""

    def make(files: Mapping[str, str]) -> str:
        folder = tmp_path / "digest"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return capture(folder).digest

    return make
