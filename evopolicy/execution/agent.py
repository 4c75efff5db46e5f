"""LocalAgentLauncher: starts an agent's process isolated on this machine. Implements `ports.AgentLauncher`.

At `bubblewrap` an agent has a small machine of its own (`agent_bubblewrap`); at `landlock` it sees its workspace, the
Policy's Python runtime, the system's programs and what its integration names. At neither does it see packages installed
beside the runtime, other processes' files or the record.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evopolicy.execution import agent_bubblewrap, agent_init, agent_view, bubblewrap, landlock, packages
from evopolicy.execution.agent_network import effective, read_key, variables
from evopolicy.execution.attendant import AgentPlan, descendants
from evopolicy.execution.folders import HeldFolder
from evopolicy.execution.proxy import Proxy
from evopolicy.kernel.errors import AgentError, ConfigError, ExecutionError
from evopolicy.kernel.ports import (
    AgentLimits,
    AgentNetwork,
    AgentProcess,
    AgentSite,
    AgentTask,
    Invocation,
    Isolation,
    Served,
)
from evopolicy.kernel.prices import NO_PRICES, PriceTable
from evopolicy.kernel.secrets import NO_SECRETS, Masker

OUTPUT_BYTES = 256 << 20
START_SECONDS = 60.0
"""A sandbox that is not made by then never will be."""
_STOP_SECONDS = 20.0


class LocalAgentLauncher:
    """Starts one agent at a time or several; each has a temporary folder of its own, removed when it is stopped."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        client: Path,
        policy_packages: Sequence[str],
        network: AgentNetwork = "none",
        limits: AgentLimits | None = None,
        output_bytes: int = OUTPUT_BYTES,
        prices: PriceTable = NO_PRICES,
        mask: Masker = NO_SECRETS,
    ) -> None:
        """`isolation` is a level a probe has proven; `client` the session client's one file; `limits` the proxy keeps.

        `prices`: what the proxy counts cost by; `mask`: of what no log may hold.
        Raises ConfigError for packages that are not installed.
        """
        self._isolation: Isolation = isolation
        self._client = client
        self._packages = tuple(policy_packages)
        self._network = network
        self._limits = limits or AgentLimits(None, None, 0)
        self._output_bytes = output_bytes
        self._prices = prices
        self._mask = mask
        packages.resolve(self._packages)

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    def seen_socket(self, socket: Path) -> Path:
        return agent_bubblewrap.SESSION if self._isolation == "bubblewrap" else socket

    def start(self, site: AgentSite, invoke: Callable[[AgentTask], Invocation]) -> AgentProcess:
        """See `ports.AgentLauncher.start`. Raises AgentError where the invocation cannot be laid."""
        site.logs.mkdir(parents=True, exist_ok=True)
        held = HeldFolder("agent")
        proxy: Proxy | None = None
        try:
            start = self._prepare(site, held.path, invoke)
            proxy = self._proxy(start, site, held.path)
            plan = self._plan(start, site)
            _note(plan, start, site.logs)
            attendant = _start_attendant(plan, held.path, site.logs)
            return _LocalAgent(attendant, held, site.logs, proxy)
        except BaseException:
            if proxy is not None:
                proxy.close()
            held.close()
            raise

    def _prepare(self, site: AgentSite, held: Path, invoke: Callable[[AgentTask], Invocation]) -> _Start:
        """Ask the integration what to start and lay it in `held`."""
        task = self._task(site, held)
        invocation = invoke(task)
        provider = invocation.provider
        network = effective(self._isolation, self._network, provider)
        if provider is not None and network != "proxy":
            invocation = invoke(replace(task, provider_url=provider.url))
        try:
            wanted = packages.resolve((*self._packages, *invocation.packages))
        except ConfigError as error:
            raise AgentError(str(error)) from None
        start = _Start(held, task, invocation, network, wanted, read_key(provider))
        _lay(start)
        code, client = (self._client, Path(agent_init.__file__)), str(task.session_command[-1])
        words = shlex.join(task.session_command)
        if self._isolation == "bubblewrap":
            agent_bubblewrap.lay(held, code, f'exec {words} "$@"')
        else:
            _lay_beside(start, self._client, Path(client), f'exec {words} "$@"')
        return start

    def _task(self, site: AgentSite, held: Path) -> AgentTask:
        sandboxed = self._isolation == "bubblewrap"
        own = agent_bubblewrap.OWN if sandboxed else held
        python = own / "bin" / "python3"
        return AgentTask(
            workspace=agent_bubblewrap.WORKSPACE if sandboxed else site.workspace.resolve(),
            prompt=site.prompt,
            seed=site.seed,
            session_command=(str(python), "-s", "-S", "-P", str(own / "bin" / self._client.name)),
            python=python,
            staging=own / "staging",
            provider_url=f"http://127.0.0.1:{agent_bubblewrap.PORT}",
            resumed=site.resumed,
        )

    def _proxy(self, start: _Start, site: AgentSite, held: Path) -> Proxy | None:
        provider = start.invocation.provider
        if provider is None or start.network not in ("proxy", "allowlist"):
            return None
        tunnel = start.network == "allowlist"
        return Proxy(provider, start.key, held / "proxy.sock", site.logs, limits=self._limits, tunnel=tunnel)

    def _plan(self, start: _Start, site: AgentSite) -> AgentPlan:
        workspace = site.workspace.resolve()
        allowed = agent_view.readable(tuple(start.invocation.readable), workspace)
        confined = self._isolation == "landlock"
        sandbox: list[str] = []
        if self._isolation == "bubblewrap":
            sandbox = self._sandbox(start, site, allowed)
        return AgentPlan(
            host=os.getpid(),
            level=self._isolation,
            landlock_abi=landlock.abi() if confined else 0,
            rules=list(agent_view.landlock_rules(workspace, start.held, allowed, start.packages)) if confined else [],
            sandbox=sandbox,
            filters=[code.hex() for code in agent_bubblewrap.filters()] if sandbox else [],
            argv=list(start.invocation.argv),
            environment=self._environment(start, site),
            folder=str(workspace),
            stdin=str(start.held / "stdin"),
            stdout=str((site.logs / "stdout.log").resolve()),
            stderr=str((site.logs / "stderr.log").resolve()),
            output_bytes=self._output_bytes,
        )

    def _environment(self, start: _Start, site: AgentSite) -> dict[str, str]:
        own, sandboxed = start.task.python.parents[1], self._isolation == "bubblewrap"
        environment = {
            "PATH": f"{own}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(agent_bubblewrap.HOME if sandboxed else own / "home"),
            "TMPDIR": "/tmp" if sandboxed else f"{own}/tmp",
            "LANG": "C.UTF-8",
            "PYTHONPATH": f"{own}/packages",
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "EVOPOLICY_SESSION": str(self.seen_socket(site.socket)),
            "EVOPOLICY_WORKSPACE": str(start.task.workspace),
        }
        if sandboxed:
            environment |= {"USER": "agent", "LOGNAME": "agent", "SHELL": agent_bubblewrap.shell()}
        else:
            environment["PYTHONHOME"] = str(own)
        environment |= variables(start.network, start.invocation.provider, start.key)
        return environment | dict(start.invocation.environment)

    def _sandbox(self, start: _Start, site: AgentSite, allowed: tuple[Path, ...]) -> list[str]:
        program = bubblewrap.find()
        if program is None:
            raise AgentError("the agent's sandbox needs 'bwrap', which is not on the PATH; install 'bubblewrap'")
        with_proxy = start.network in ("proxy", "allowlist")
        first = {
            "report": agent_bubblewrap.REPORT_FD,
            "port": agent_bubblewrap.PORT if with_proxy else 0,
            "proxy": str(agent_bubblewrap.PROXY),
            "argv": list(start.invocation.argv),
            "environment": self._environment(start, site),
            "folder": str(agent_bubblewrap.WORKSPACE),
        }
        (start.held / "agent.json").write_text(json.dumps(first), encoding="utf-8")
        sandbox = agent_bubblewrap.Sandbox(
            held=start.held,
            workspace=site.workspace.resolve(),
            socket=site.socket,
            proxy=start.held / "proxy.sock" if with_proxy else None,
            readable=allowed,
            packages=start.packages,
            shares_network=start.network == "open",
        )
        return agent_bubblewrap.command(str(program), sandbox)


@dataclass(frozen=True)
class _Start:
    """One start of an agent, settled."""

    held: Path
    task: AgentTask
    invocation: Invocation
    network: AgentNetwork
    packages: packages.Packages
    key: str
    """The provider's, '' for none."""


def _lay(start: _Start) -> None:
    """What any level needs in the agent's temporary folder."""
    held, invocation = start.held, start.invocation
    for name in ("staging", "home", "tmp"):
        (held / name).mkdir()
    for name, text in invocation.files.items():
        _inside(held / "staging", name, "staging folder").write_text(text, encoding="utf-8")
    for name, folder in invocation.folders.items():
        shutil.copytree(folder, _inside(held / "staging", name, "staging folder"), symlinks=True)
    for name, source in invocation.home.items():
        target = _inside(held / "home", name, "home")
        try:
            shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
        except OSError as error:
            raise AgentError(
                f"the agent's home needs '{source}' as '{name}', which cannot be read ({error.strerror or error}); log"
                " in with the agent's own command first"
            ) from None
    (held / "stdin").write_text(invocation.stdin, encoding="utf-8")


def _lay_beside(start: _Start, client: Path, target: Path, command: str) -> None:
    """Where the agent uses this machine's own paths: its Python, packages and session command in its folder."""
    held = start.held
    (held / "bin").mkdir()
    start.packages.lay(held / "packages")
    _lay_python(held)
    shutil.copyfile(client, target)
    (held / "bin" / "evopolicy-session").write_text(f"#!/bin/sh\n{command}\n")
    (held / "bin" / "evopolicy-session").chmod(0o755)


def _lay_python(held: Path) -> None:
    """A Python home of links: its folder can be listed, and what is installed beside the real one is not in it."""
    runtime = packages.runtime()
    for name in ("python3", "python"):
        (held / "bin" / name).symlink_to(runtime.python)
    home = held / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    home.mkdir(parents=True)
    standard = {Path(entry) for entry in runtime.path}
    for path in runtime.readable:
        if path.parent in standard and not (home / path.name).exists():
            (home / path.name).symlink_to(path)


def _inside(folder: Path, name: str, word: str) -> Path:
    """`folder/name`, its parents made. Raises AgentError for a name that leads out of it."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise AgentError(f"the integration lays a file '{name}' outside its {word}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _note(plan: AgentPlan, start: _Start, logs: Path) -> None:
    """Keep what was started; of the environment the names only."""
    shown = {
        "argv": plan.argv,
        "isolation": plan.level,
        "network": start.network,
        "environment": sorted(plan.environment),
        "home": sorted(start.invocation.home),
    }
    (logs / "invocation.json").write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")


def _start_attendant(plan: AgentPlan, held: Path, logs: Path) -> subprocess.Popen[str]:
    path = held / "plan.json"
    path.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        attendant = subprocess.Popen(
            [sys.executable, "-s", "-m", "evopolicy.execution.attendant", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutionError(f"no process can be started to attend the agent: {error}") from error
    if not _has_started(attendant):
        with attendant:
            _end(attendant)
        written = (logs / "stderr.log").read_text(errors="replace") if (logs / "stderr.log").exists() else ""
        reason = (written.strip().splitlines() or ["it says nothing"])[-1]
        raise AgentError(f"the agent's sandbox cannot be made: {reason}; `evopolicy doctor` shows what works here")
    return attendant


def _has_started(attendant: subprocess.Popen[str]) -> bool:
    """Whether the attendant says so in time."""
    assert attendant.stdout is not None
    ready, _, _ = select.select([attendant.stdout], [], [], START_SECONDS)
    return bool(ready) and attendant.stdout.readline() == "started\n"


def _end(attendant: subprocess.Popen[str]) -> None:
    """Have it end the agent and everything the agent started."""
    if attendant.poll() is None:
        attendant.terminate()
        try:
            attendant.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Both processes of it are stopped or stuck.
            for pid in (*descendants(attendant.pid), attendant.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            attendant.wait()


class _LocalAgent:
    """A started agent, through its attendant. Implements `ports.AgentProcess`."""

    def __init__(self, attendant: subprocess.Popen[str], held: HeldFolder, logs: Path, proxy: Proxy | None) -> None:
        self._attendant = attendant
        self._held = held
        self._proxy = proxy
        self._logs = (logs / "stdout.log", logs / "stderr.log")
        self._code: int | None = None
        self._seen: tuple[int, ...] = ()
        self._heard = time.monotonic()

    def wait(self, seconds: float) -> int | None:
        if self._code is None:
            try:
                self._attendant.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            self._code = self._read_code()
        return self._code

    def _read_code(self) -> int:
        # Open until its second process has ended too, and with it what the agent left.
        with self._attendant.stdout or contextlib.nullcontext() as stdout:
            said = stdout.read().strip() if stdout else ""
        # An attendant that could not say it was killed itself.
        return int(said) if said.lstrip("-").isdigit() else -signal.SIGKILL

    def last_output(self) -> float:
        times = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in self._logs)
        if times != self._seen:
            self._seen, self._heard = times, time.monotonic()
        return self._heard

    def served(self) -> Served | None:
        return None

    def stop(self) -> None:
        _end(self._attendant)
        self.wait(0)
        if self._proxy is not None:
            self._proxy.close()
        self._held.close()
