"""A started agent: its supervisor started, waited for and ended, and what is done with its home
after that."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.execution.agent.supervisor import AgentPlan, locked
from evopolicy.execution.sandbox.descendants import descendants, send
from evopolicy.kernel.errors import AgentError, ExecutionError
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.secrecy.logins import Logins

if TYPE_CHECKING:
    from evopolicy.execution.proxy.server import Proxy

START_SECONDS = 60.0
"""A sandbox that is not made by then never will be."""
_STOP_SECONDS = 20.0


def start_supervisor(plan: AgentPlan, held: Path) -> subprocess.Popen[str]:
    """The supervisor of `plan`, whose agent has started. `held` is the agent's temporary folder.
    Raises AgentError."""
    path = held / "plan.json"
    path.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-s", "-m", "evopolicy.execution.agent.supervisor", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutionError(
            f"no process can be started to supervise the agent: {error}"
        ) from error
    if not _has_started(supervisor):
        with supervisor:
            _end(supervisor)
        stderr = Path(plan.logs, "stderr.log")
        written = stderr.read_text(errors="replace") if stderr.exists() else ""
        reason = (written.strip().splitlines() or ["it says nothing"])[-1]
        raise AgentError(
            f"the agent's sandbox cannot be made: {reason}; `evopolicy doctor` shows what works "
            "here"
        )
    return supervisor


def await_supervisor(logs: Path) -> None:
    """Wait until the supervisor of the attempt that logged to `logs` has ended: its Host was
    killed, it knows.

    Raises AgentError where it does not within a minute.
    """
    try:
        folder = os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        until = time.monotonic() + START_SECONDS
        while not locked(folder):
            if time.monotonic() > until:
                raise AgentError(
                    f"{logs.name}: an agent of this Run's killed Host still runs; end its "
                    "processes and run again"
                )
            time.sleep(0.05)
    finally:
        os.close(folder)


def _has_started(supervisor: subprocess.Popen[str]) -> bool:
    """Whether the supervisor says so in time."""
    assert supervisor.stdout is not None
    ready, _, _ = select.select([supervisor.stdout], [], [], START_SECONDS)
    return bool(ready) and supervisor.stdout.readline() == "started\n"


def _end(supervisor: subprocess.Popen[str]) -> None:
    """Have it end the agent and everything the agent started."""
    if supervisor.poll() is None:
        supervisor.terminate()
        try:
            supervisor.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Both processes of it are stopped or stuck.
            for pid in (*descendants(supervisor.pid), supervisor.pid):
                send(pid, signal.SIGKILL)
            supervisor.wait()


class LocalAgent:
    """A started agent, through its supervisor. Implements `ports.AgentProcess`."""

    def __init__(
        self,
        supervisor: subprocess.Popen[str],
        held: HeldFolder,
        logs: Path,
        proxy: Proxy | None,
        tidy: Callable[[], None],
        logins: Logins | None = None,
    ) -> None:
        """`held` goes when it is stopped, `proxy` is closed, and `tidy` is called, once. `logins`
        are looked after."""
        self._logins = logins
        self._supervisor = supervisor
        self._held = held
        self._proxy = proxy
        self._logs = (logs / "stdout.log", logs / "stderr.log")
        self._code: int | None = None
        self._seen: tuple[int, ...] = ()
        self._heard = time.monotonic()
        self._tidy: Callable[[], None] | None = tidy

    def wait(self, seconds: float) -> int | None:
        if self._code is None:
            if self._logins is not None:
                self._logins.forms()
            try:
                self._supervisor.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            self._code = self._read_code()
        return self._code

    def _read_code(self) -> int:
        # Open until its second process has ended too, and with it what the agent left.
        with self._supervisor.stdout or contextlib.nullcontext() as stdout:
            printed = stdout.read().strip() if stdout else ""
        # A supervisor that could not say it was killed itself.
        return int(printed) if printed.lstrip("-").isdigit() else -signal.SIGKILL

    def last_output(self) -> float:
        times = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in self._logs)
        if times != self._seen:
            self._seen, self._heard = times, time.monotonic()
        return self._heard

    def proxy_usage(self) -> ProxyUsage | None:
        return self._proxy.proxy_usage() if self._proxy is not None else None

    def stop(self) -> None:
        _end(self._supervisor)
        self.wait(0)
        if self._proxy is not None:
            self._proxy.close()
        tidy, self._tidy = self._tidy, None
        try:
            if tidy is not None:
                tidy()
        finally:
            self._held.close()
