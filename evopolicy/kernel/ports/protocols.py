"""What the Kernel asks of the outside: protocols and the plain values that cross them. Nothing else
is here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.benchmark import Artifact, EpisodeSpec
from evopolicy.kernel.ports.outcome import CheckReport, EpisodeResult
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Transcript

Isolation = Literal["bubblewrap", "landlock", "none"]
ISOLATIONS: tuple[Isolation, ...] = ("bubblewrap", "landlock", "none")
AgentNetwork = Literal["proxy", "allowlist", "open", "none"]
AGENT_NETWORKS: tuple[AgentNetwork, ...] = ("proxy", "allowlist", "open", "none")


# --- Executor -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What one Episode may use. A limit hit is a Policy failure, except `step_seconds`, which is an
    engine fault."""

    act_seconds: float
    """CPU seconds of the Policy for one call (import, make_policy and reset are one call each)."""
    episode_seconds: float
    """CPU seconds of the Policy for the whole Episode."""
    memory_bytes: int
    output_bytes: int
    """Kept bytes of what a Policy prints: half from the head, half from the tail."""
    scratch_bytes: int
    step_seconds: float
    """Wall seconds one reset or step of the Environment may take."""
    stall_factor: float
    """The wall-clock watchdog allows a call this many times its CPU limit."""


class Executor(Protocol):
    """Runs Episodes of one Benchmark: each in a fresh Environment with a fresh Policy process."""

    @property
    def isolation(self) -> Isolation:
        """The level that really holds, proven by a probe."""

    @property
    def limits(self) -> Limits: ...

    def evaluate(
        self,
        program: Path,
        episodes: Sequence[EpisodeSpec],
        *,
        traces: Path | None = None,
        progress: Callable[[EpisodeResult], None] | None = None,
    ) -> list[EpisodeResult]:
        """Run every Episode once and return one result each, in the order of `episodes`.

        `program` is the folder of a captured Program, read-only. With `traces`, each Episode's
        trace goes to a file in that folder. `progress` is called, from the calling thread, as each
        Episode ends, in no promised order. Nothing is retried but an Episode whose worker crashed,
        once. Raises ExecutionError where no Episode can run."""

    def check(self, program: Path, seed: int) -> CheckReport:
        """Load `program` as an Episode would and ask it for Actions on observations sampled by
        `seed`."""

    def render(self, jobs: Sequence[RenderJob]) -> list[Artifact]:
        """Pictures for `jobs`, made in a worker by `Benchmark.render`; a job that fails in any way
        gives none."""

    def close(self) -> None:
        """End every process and remove every temporary file. Idempotent."""


@dataclass(frozen=True)
class RenderJob:
    episode: EpisodeSpec
    trace: Path
    folder: Path


# --- Agents ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AgentIdentity:
    """What names an agent in cells, records and tables."""

    label: str
    """As tables show it; one entry per label."""
    name: str
    """The integration: 'cma_es', 'codex'."""
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Every option that may change what it does; never a secret's value."""


@dataclass(frozen=True)
class AgentLimits:
    """What ends an agent that does not finish by itself. None: no limit."""

    wall_seconds: float | None
    """Time thinking: the clock stands still while a call of the agent's own waits for an
    Evaluation."""
    idle_seconds: float | None
    """Seconds without output, a session call or a running Evaluation."""
    finish_grace_seconds: float
    """Time to leave by itself once the Session is closed, so that it prints its totals."""
    tokens: int | None = None
    """Tokens of all kinds, as the agent's own stream tells them while it runs, and as the Host's
    proxy counts them."""
    cost_usd: float | None = None
    """US dollars, likewise."""
    requests: int | None = None
    """Requests to the provider's API that the Host's proxy passes on, over all attempts."""


@dataclass(frozen=True)
class Provider:
    """The API an agent's model is asked through, and what of it the Host lets through.

    Raises ConfigError for one that could never be asked.
    """

    url: str
    """Base of every request: 'https://api.example.com/v1'. `http` is for a model server of one's
    own."""
    paths: tuple[str, ...]
    """What may be asked, below `url`: 'POST /responses'. Of a query the usual words are passed
    on."""
    refused_tools: tuple[str, ...]
    """Types of tools, by how they begin, that a request may not bring."""
    key_variable: str = ""
    """Variable of the Host's environment that holds the key; '' for none."""
    agent_variable: str = ""
    """Variable in which the agent's program looks for a key; '' for the same name. At `proxy` it
    holds a dummy."""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"
    models: tuple[str, ...] = ()
    """Models a request may name; empty: any, which no agent's may be."""
    hosts: tuple[str, ...] = ()
    """`name:port` the agent may connect to at `allowlist`; empty: that of `url`."""
    retry_after_seconds: float | None = None
    """Said to the agent with a 429 that does not say when to come back."""
    subscription: bool = False
    """Asked with a person's own login instead of a key: it needs `allowlist`, and the record says
    so."""

    def __post_init__(self) -> None:
        if not _is_base_url(self.url):
            raise ConfigError(
                f"provider.url: '{_unlocked(self.url)}' is not a base URL: 'https://name/path' is "
                "needed, without login or query"
            )
        if not self.paths:
            raise ConfigError(
                f"provider.paths: names nothing that may be asked: 'POST /name', below {self.url}"
            )
        for path in self.paths:
            if not re.fullmatch(r"[A-Z]+ /[^\s?#]*", path):
                raise ConfigError(
                    f"provider.paths: '{path}' is not a method and a path: 'POST /name' is "
                    f"needed, below {self.url}"
                )
        if self.key_variable and "{key}" not in self.key_form:
            raise ConfigError(
                f"provider.key_form: '{self.key_form}' has no place for the key: '{{key}}' is "
                "needed in it"
            )


def _unlocked(url: str) -> str:
    """`url` without what may be a secret: its login and its query."""
    return re.sub(r"(?s)([?#]).*", r"\1***", re.sub(r"(?s)^(\w+://)?.*@", r"\1***@", url))


def _is_base_url(url: str) -> bool:
    try:
        split = urlsplit(url)
        named = bool(split.hostname) and split.port != 0  # `port` raises where it is no number
    except ValueError:
        return False
    plain = bool(re.fullmatch(r"https?://[^\s?#@]+", url))
    return plain and named


@dataclass(frozen=True)
class AgentTask:
    """What the Host tells an integration of the one Run it is started for. Paths are as the agent
    will see them."""

    workspace: Path
    prompt: str
    """What to do, in words; TASK.md in the workspace has the details."""
    seed: int
    """The agent's replicate."""
    session_command: Sequence[str]
    """argv of the session client inside the agent's sandbox; also on its PATH as
    `evopolicy-session`."""
    python: Path
    """Interpreter with the packages a Policy may import."""
    staging: Path
    """Where `Invocation.files` will be found."""
    provider_url: str = ""
    """What stands for `Provider.url` in the agent's sandbox: the Host's proxy, or the provider
    itself."""
    resumed: bool = False
    """True when this Run goes on, after its provider failed or the Host was killed: what is spent
    stays spent."""
    session_id: str = ""
    """The provider's session to go on with, which the home still holds; '' for a new one."""


@dataclass(frozen=True)
class Invocation:
    """How to start an agent's process once; the same for the same task. No secret's value is ever
    in it."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Sequence[str] = ()
    """Variables of the Host's environment it is started with, by name; their values are masked
    wherever we write."""
    stdin: str = ""
    """Written to standard input, which is then closed."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Read-only text files the Host writes under `AgentTask.staging`, by relative path."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders (Programs) the Host copies under `AgentTask.staging`, by relative path."""
    packages: Sequence[str] = ()
    """Importable Python packages it needs beside the Policy's own."""
    readable: Sequence[Path] = ()
    """Further paths it may read and execute: a CLI's installation."""
    home: Mapping[str, Path] = field(default_factory=dict)
    """Files and folders of this machine let into its clean home as copies, by relative path: a
    login."""
    collect: Sequence[str] = ()
    """Globs below its home: files kept, at its end, in the attempt's logs under `home/`."""
    provider: Provider | None = None
    """The same as `AgentIntegration.provider`."""


class AgentIntegration(Protocol):
    """Translates a Host-owned task into one invocation and reads what the agent printed. It runs
    nothing itself."""

    @property
    def identity(self) -> AgentIdentity: ...

    @property
    def program(self) -> str:
        """Which of the Benchmark's Programs the workspace starts from: 'initial', 'random' or
        'parametric'."""

    @property
    def resumes(self) -> bool:
        """Whether a new process can go on in a half-done Run (after the Host was killed)."""

    @property
    def call_seconds(self) -> float | None:
        """Longest call its shell waits for; `submit` and `wait` come back before. None: it waits
        for any."""

    @property
    def variables(self) -> Sequence[str]:
        """The same as `Invocation.variables`."""

    @property
    def provider(self) -> Provider | None:
        """What it has to reach, known before anything is started; None: it needs no network."""

    def probe(self) -> Mapping[str, str]:
        """Versions for the record. Raises AgentError, with the command that mends it, for what is
        missing."""

    def invoke(self, task: AgentTask) -> Invocation: ...

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        """The transcript of one process's raw stream, its usage that of this process alone.

        `logs` is the attempt's folder: `stderr.log`, and `home/` with what the invocation collects.
        What is not known is kept and counted, never fatal."""


class AgentProcess(Protocol):
    """A started agent and everything it started."""

    def wait(self, seconds: float) -> int | None:
        """Its exit code (negative: the signal), or None when it still runs after `seconds`."""

    def last_output(self) -> float:
        """`time.monotonic()` of the last bytes it printed."""

    def proxy_usage(self) -> ProxyUsage | None:
        """What its proxy has passed on so far; None where it has none. Also after `stop`."""

    def stop(self) -> None:
        """End it and everything it started, politely first. Idempotent."""


class AgentLauncher(Protocol):
    """Starts agents isolated; in execution/."""

    @property
    def isolation(self) -> Isolation: ...

    def seen_socket(self, socket: Path) -> Path:
        """Where an agent finds the gateway's `socket`."""

    def proxy_usage(self, logs: Path) -> ProxyUsage | None:
        """What the proxy of an attempt passed on, by the log it left in `logs`; None where there is
        none."""

    def recover(self, logs: Path, home: Path) -> None:
        """Wait until nothing of the attempt that logged to `logs` runs any more; its Host was
        killed.

        Then keep of its `home` what the attempt's end would have kept. Raises AgentError where it
        does not end."""

    def start(self, site: AgentSite, invoke: Callable[[AgentTask], Invocation]) -> AgentProcess:
        """Write the files, start the process, return. Standard output and error stream to files in
        `site.logs`, masked.

        `stdout.log` is there before the agent is: an attempt without it never began. `stdout.times`
        has a line `N SECONDS` wherever line N of standard output, from 0, came at another tenth of
        a second since the start than the line before."""


@dataclass(frozen=True)
class AgentSite:
    """The real places a launcher joins to the agent's view. Real paths, unlike AgentTask."""

    workspace: Path
    socket: Path
    """The gateway's Unix socket."""
    logs: Path
    """Outside the workspace: `stdout.log`, `stdout.times`, `stderr.log`, `invocation.json`,
    `proxy.jsonl`, `home/`."""
    prompt: str
    seed: int
    resumed: bool = False
    session_id: str = ""
    """As in AgentTask."""
    home: Path | None = None
    """The agent's home, kept from one attempt to the next so that a session can be resumed. None: a
    new one."""


# --- Session --------------------------------------------------------------------------------------


class SessionHandler(Protocol):
    """What a gateway serves: the Kernel's Session."""

    def handle(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, a JSON object with at least `state`. Raises Refused. May block up to
        `block_seconds`."""


class Gateway(Protocol):
    """The Host's end of the agent's socket."""

    def open(self, handler: SessionHandler) -> AbstractContextManager[Path]:
        """Serve `handler` on a fresh Unix socket while the context is open; yields the socket's
        (short) path."""


# --- Observers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """Where a Run is, many times a second; not part of any record."""

    phase: Literal["starting", "session", "validation", "assessment", "done"]
    episodes_done: int
    """In this phase."""
    episodes_total: int
    submissions: int
    best_score: float | None
    """Best training score so far."""


class Observer(Protocol):
    """Told what happens; can neither fail nor slow a Run (what it raises is dropped)."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        """A journal line, after it was fsynced."""

    def on_progress(self, progress: Progress) -> None: ...
