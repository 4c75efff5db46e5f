"""LocalAgentLauncher: starts an agent's process isolated on this machine. Implements
`ports.AgentLauncher`.

At `bubblewrap` an agent has a small machine of its own (`agent.bubblewrap`); at `landlock` it sees
its workspace, the Policy's Python runtime, the system's programs and what its integration names. At
neither does it see packages installed beside the runtime, other processes' files or the record."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.execution.agent import bubblewrap as agent_bubblewrap
from evopolicy.execution.agent import home as agent_home
from evopolicy.execution.agent import init as agent_init
from evopolicy.execution.agent import mounts as agent_files
from evopolicy.execution.agent import view as agent_view
from evopolicy.execution.agent.local_agent import LocalAgent, await_supervisor, start_supervisor
from evopolicy.execution.agent.network import effective, read_key, read_variables, variables
from evopolicy.execution.agent.supervisor import AgentPlan
from evopolicy.execution.proxy.log import proxy_usage_before
from evopolicy.execution.sandbox import bubblewrap, landlock, packages, seccomp, seccomp_notify
from evopolicy.kernel.errors import AgentError, ConfigError, EvoPolicyError
from evopolicy.kernel.files.durable import make_folder, write_durably
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.ports.protocols import (
    AgentIntegration,
    AgentLimits,
    AgentNetwork,
    AgentProcess,
    AgentSite,
    AgentTask,
    Invocation,
    Isolation,
)
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.run.stream import INVOCATION
from evopolicy.kernel.secrecy.logins import Logins
from evopolicy.kernel.secrecy.secrets import NO_SECRETS, Masker

if TYPE_CHECKING:
    from evopolicy.execution.proxy.server import Proxy

OUTPUT_BYTES = 256 << 20


class LocalAgentLauncher:
    """Starts one agent at a time or several; each has a temporary folder of its own, removed when
    it is stopped."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        client: Path,
        beside: Sequence[Path] = (),
        policy_packages: Sequence[str],
        network: AgentNetwork = "none",
        limits: AgentLimits | None = None,
        prices: PriceTable = NO_PRICES,
        mask: Masker = NO_SECRETS,
    ) -> None:
        """`isolation` is a level a probe has proven; `limits` the proxy keeps.

        `client`: the session client's file, with those it finds `beside` it.

        `prices`: what the proxy counts cost by; `mask`: of what no log may hold.
        Raises ConfigError for packages that are not installed.
        """
        self._isolation: Isolation = isolation
        self._client = client
        self._beside = tuple(beside)
        self._packages = tuple(policy_packages)
        self._network = network
        self._limits = limits or AgentLimits(None, None, 0)
        self._prices = prices
        self._mask = mask if mask.logins is not None else replace(mask, logins=Logins())
        packages.resolve(self._packages)

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    def seen_socket(self, socket: Path) -> Path:
        return agent_bubblewrap.SESSION if self._isolation == "bubblewrap" else socket

    def proxy_usage(self, logs: Path) -> ProxyUsage | None:
        """See `ports.AgentLauncher.proxy_usage`."""
        return proxy_usage_before(logs)

    def recover(self, logs: Path, home: Path) -> None:
        """See `ports.AgentLauncher.recover`."""
        await_supervisor(logs)
        noted = _noted(logs)
        if noted is not None and home.is_dir() and not home.is_symlink():
            collected, logins, beside = noted
            agent_home.take_back(home, beside)
            agent_home.made_removable(home)
            agent_home.collect(home, collected, logins, logs / "home", self._mask)

    def start(self, site: AgentSite, invoke: Callable[[AgentTask], Invocation]) -> AgentProcess:
        """See `ports.AgentLauncher.start`. Raises AgentError where the invocation cannot be
        prepared."""
        began = time.monotonic()
        make_folder(site.logs)
        held = HeldFolder("agent")
        proxy: Proxy | None = None
        start: _Start | None = None
        try:
            start = self._prepare(site, held.path, invoke)
            proxy = self._proxy(start, site, held.path)
            plan = self._plan(start, site, began)
            _note(plan, start, site.logs)
            supervisor = start_supervisor(plan, held.path)
            return LocalAgent(
                supervisor,
                held,
                site.logs,
                proxy,
                partial(_tidied, start, site.logs),
                self._mask.logins,
            )
        except BaseException:
            if proxy is not None:
                proxy.close()
            if start is not None:
                agent_home.take_back(start.home, start.beside)
            held.close()
            raise

    def _prepare(
        self, site: AgentSite, held: Path, invoke: Callable[[AgentTask], Invocation]
    ) -> _Start:
        """Ask the integration what to start and prepare it in `held`."""
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
        key, values = read_key(provider), read_variables(invocation.variables)
        agent_home.checked_globs(invocation.collect)
        agent_files.prepare(held, invocation)
        home = site.home.resolve() if site.home is not None else held / "home"
        logins = tuple(agent_home.copied(invocation.home, held / "login"))
        self._watch(held / "login", logins)
        start = _Start(
            held,
            task,
            invocation,
            network,
            wanted,
            key,
            values,
            home,
            logins,
            self._isolation,
            self._mask,
        )
        code = (
            self._client,
            *self._beside,
            Path(agent_init.__file__),
            Path(seccomp_notify.__file__),
        )
        words = shlex.join(task.session_command)
        if self._isolation == "bubblewrap":
            agent_bubblewrap.prepare(held, code, f'exec {words} "$@"')
        else:
            agent_files.prepare_beside(
                held, wanted, (self._client, *self._beside), f'exec {words} "$@"'
            )
        agent_home.opened(home)
        agent_home.give(home, held / "login", logins, empty=self._isolation == "bubblewrap")
        self._watch(home, start.beside)
        return start

    def _watch(self, folder: Path, names: Sequence[str]) -> None:
        """Mask what is in these files, also what is written to them while the agent runs."""
        assert self._mask.logins is not None
        for name in names:
            self._mask.logins.watch(folder, name)

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
            session_id=site.session_id,
        )

    def _proxy(self, start: _Start, site: AgentSite, held: Path) -> Proxy | None:
        provider = start.invocation.provider
        if provider is None or start.network not in ("proxy", "allowlist"):
            return None
        from evopolicy.execution.proxy.server import (
            Proxy,
        )  # aiohttp takes longer to import than all the rest here

        tunnel = start.network == "allowlist"
        path = held / "proxy.sock"
        return Proxy(
            provider,
            start.key,
            path,
            site.logs,
            limits=self._limits,
            prices=self._prices,
            tunnel=tunnel,
        )

    def _plan(self, start: _Start, site: AgentSite, began: float) -> AgentPlan:
        workspace = site.workspace.resolve()
        allowed = agent_view.readable(tuple(start.invocation.readable), workspace)
        confined = self._isolation == "landlock"
        rules = agent_view.landlock_rules(
            workspace, start.home, start.held, allowed, start.packages
        )
        sandbox: list[str] = []
        if self._isolation == "bubblewrap":
            sandbox = self._sandbox(start, site, allowed)
        return AgentPlan(
            host=os.getpid(),
            level=self._isolation,
            landlock_abi=landlock.abi() if confined else 0,
            rules=list(rules) if confined else [],
            sandbox=sandbox,
            filters=[code.hex() for code in agent_bubblewrap.filters()] if sandbox else [],
            counted=seccomp.counted_filter().hex() if confined else "",
            uncounted=seccomp.uncounted_filter().hex() if confined else "",
            processes=agent_bubblewrap.PROCESSES,
            signals=agent_bubblewrap.SIGNALS,
            argv=list(start.invocation.argv),
            environment=self._environment(start, site),
            folder=str(workspace),
            stdin=str(start.held / "stdin"),
            logs=str(site.logs.resolve()),
            output_bytes=OUTPUT_BYTES,
            secrets=list(start.mask.values),
            known=start.mask.logins.texts if start.mask.logins else [],
            watched=start.mask.logins.watched if start.mask.logins else [],
            started=began,
            home=str(start.home),
            logins=list(start.beside),
        )

    def _environment(self, start: _Start, site: AgentSite) -> dict[str, str]:
        own, sandboxed = start.task.python.parents[1], self._isolation == "bubblewrap"
        environment = {
            "LANG": "C.UTF-8",
            **start.values,
            "PATH": f"{own}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(agent_bubblewrap.HOME if sandboxed else start.home),
            "TMPDIR": "/tmp" if sandboxed else f"{own}/tmp",
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
            raise AgentError(
                "the agent's sandbox needs 'bwrap', which is not on the PATH; install 'bubblewrap'"
            )
        with_proxy = start.network in ("proxy", "allowlist")
        first = {
            "report": agent_bubblewrap.REPORT_FD,
            "port": agent_bubblewrap.PORT if with_proxy else 0,
            "proxy": str(agent_bubblewrap.PROXY),
            "processes": agent_bubblewrap.PROCESSES,
            "limit": agent_bubblewrap.processes(),
            "signals": agent_bubblewrap.SIGNALS,
            "counted": seccomp.counted_filter().hex(),
            "uncounted": seccomp.uncounted_filter().hex(),
            "argv": list(start.invocation.argv),
            "environment": self._environment(start, site),
            "folder": str(agent_bubblewrap.WORKSPACE),
        }
        (start.held / "agent.json").write_text(json.dumps(first), encoding="utf-8")
        sandbox = agent_bubblewrap.Sandbox(
            held=start.held,
            home=start.home,
            logins=start.logins,
            workspace=site.workspace.resolve(),
            socket=site.socket,
            proxy=start.held / "proxy.sock" if with_proxy else None,
            readable=allowed,
            packages=start.packages,
            shares_network=start.network == "open",
        )
        return agent_bubblewrap.command(str(program), sandbox)


def know_logins(logins: Logins | None, agent: AgentIntegration) -> None:
    """Have `logins` know what `agent` will be given of them: a Run may go on where it needs no
    agent any more."""
    place = Path("/nowhere")
    task = AgentTask(place, "", 0, ("python3", "client"), place, place, "http://127.0.0.1")
    if logins is not None:
        with contextlib.suppress(
            EvoPolicyError, OSError
        ):  # where it cannot be started, its start says so
            for source in agent.invoke(task).home.values():
                logins.learn(source)


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
    values: Mapping[str, str]
    """Of the invocation's variables."""
    home: Path
    logins: tuple[str, ...]
    """Files below the home that are the Host's own, their copies in `held/login`."""
    isolation: Isolation
    masked: Masker

    @property
    def beside(self) -> tuple[str, ...]:
        """Those that lie in the home itself, and have to be removed from it."""
        return () if self.isolation == "bubblewrap" else self.logins

    @property
    def mask(self) -> Masker:
        """The Run's, and what this start has come to know."""
        known = {**self.values, "": self.key}
        own = Masker.of(known, known)
        values = sorted({*self.masked.values, *own.values}, key=lambda value: (-len(value), value))
        return Masker(tuple(values), self.masked.logins)


def _note(plan: AgentPlan, start: _Start, logs: Path) -> None:
    """Keep what was started; of the environment the names only."""
    shown = {
        "argv": plan.argv,
        "isolation": plan.level,
        "network": start.network,
        "environment": sorted(plan.environment),
        "variables": sorted(start.values),
        "home": sorted(start.invocation.home),
        "collect": list(start.invocation.collect),
        "logins": sorted(start.logins),
    }
    text = json.dumps(start.mask.value(shown), indent=2)
    write_durably(logs / INVOCATION, text.encode() + b"\n")


def _noted(logs: Path) -> tuple[list[str], list[str], list[str]] | None:
    """Of an attempt's note: globs to collect by, the logins in its home, those that lie in it; None
    where it has none.

    A note of another form, or globs that lead elsewhere, are as none.
    """
    try:
        noted = json.loads((logs / INVOCATION).read_bytes())
        collected, logins = noted["collect"], noted.get("logins", noted["home"])
        agent_home.checked_globs([*collected, *logins])
        return (
            list(collected),
            list(logins),
            [] if noted["isolation"] == "bubblewrap" else list(logins),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AgentError):
        return None


def _tidied(start: _Start, logs: Path) -> None:
    """Once nothing of the agent is left: its logins go, what is to be kept is, the rest can be
    removed."""
    mask = start.mask
    assert mask.written is not None  # what its logins were refreshed to is looked at before they go
    agent_home.take_back(start.home, start.beside)
    agent_home.made_removable(start.home)
    agent_home.collect(start.home, start.invocation.collect, start.logins, logs / "home", mask)
