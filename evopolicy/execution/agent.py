"""LocalAgentLauncher: starts an agent's process isolated on this machine. Implements `ports.AgentLauncher`.

At `landlock` an agent sees its workspace, the Policy's Python runtime, the system's programs and what its integration
names. It does not see packages installed beside the runtime, other processes' files or the record.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from evopolicy.execution import landlock, packages
from evopolicy.execution.attendant import AgentPlan
from evopolicy.execution.folders import HeldFolder
from evopolicy.kernel.errors import AgentError, ConfigError, ExecutionError
from evopolicy.kernel.ports import AgentProcess, AgentSite, AgentTask, Invocation, Isolation

OUTPUT_BYTES = 256 << 20
_STOP_SECONDS = 20.0
_WORKSPACE = landlock.CHANGE | landlock.EXECUTE | landlock.MAKE_SOCK | landlock.MAKE_FIFO
_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/share", "/usr/include", "/usr/local/bin")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
# Not the rest of /etc: it may hold keys of this machine.
_SETTINGS = (  # noqa: SIM905
    "ld.so.cache ld.so.conf ld.so.conf.d passwd group nsswitch.conf hosts localtime alternatives ssl/certs"
    " ca-certificates.conf mime.types terminfo"
).split()
_DEVICES = (
    ("/dev/null", landlock.READ | landlock.WRITE_FILE),
    ("/dev/zero", landlock.READ),
    ("/dev/full", landlock.READ | landlock.WRITE_FILE),
    ("/dev/urandom", landlock.READ),
    ("/dev/random", landlock.READ),
)


class LocalAgentLauncher:
    """Starts one agent at a time or several; each has a temporary folder of its own, removed when it is stopped."""

    def __init__(
        self, *, isolation: Isolation, client: Path, policy_packages: Sequence[str], output_bytes: int = OUTPUT_BYTES
    ) -> None:
        """`isolation` is a level a probe has proven; `client` the session client's one file.

        Raises ConfigError for packages that are not installed.
        """
        self._isolation: Isolation = "landlock" if isolation == "bubblewrap" else isolation
        self._client = client
        self._packages = tuple(policy_packages)
        self._output_bytes = output_bytes
        packages.resolve(self._packages)

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    def start(self, site: AgentSite, invoke: Callable[[AgentTask], Invocation]) -> AgentProcess:
        """See `ports.AgentLauncher.start`. Raises AgentError where the invocation cannot be laid."""
        site.logs.mkdir(parents=True, exist_ok=True)
        held = HeldFolder("agent")
        try:
            invocation = invoke(self._task(site, held.path))
            self._lay(held.path, invocation)
            plan = self._plan(site, held.path, invocation)
            return _LocalAgent(_start_attendant(plan, held.path), held, site.logs)
        except BaseException:
            held.close()
            raise

    def _task(self, site: AgentSite, held: Path) -> AgentTask:
        python = held / "bin" / "python3"
        return AgentTask(
            workspace=site.workspace.resolve(),
            prompt=site.prompt,
            seed=site.seed,
            session_command=(str(python), "-s", "-S", "-P", str(held / "bin" / "session_client.py")),
            python=python,
            staging=held / "staging",
            resumed=site.resumed,
        )

    def _lay(self, held: Path, invocation: Invocation) -> None:
        for name in ("staging", "bin", "home", "tmp"):
            (held / name).mkdir()
        for name, text in invocation.files.items():
            _inside(held / "staging", name).write_text(text, encoding="utf-8")
        for name, folder in invocation.folders.items():
            shutil.copytree(folder, _inside(held / "staging", name), symlinks=True)
        try:
            packages.resolve((*self._packages, *invocation.packages)).lay(held / "packages")
        except ConfigError as error:
            raise AgentError(str(error)) from None
        _lay_python(held)
        shutil.copyfile(self._client, held / "bin" / "session_client.py")
        command = held / "bin" / "evopolicy-session"
        command.write_text(f"#!/bin/sh\nexec '{held}/bin/python3' -s -S -P '{held}/bin/session_client.py' \"$@\"\n")
        command.chmod(0o755)
        (held / "stdin").write_text(invocation.stdin, encoding="utf-8")

    def _plan(self, site: AgentSite, held: Path, invocation: Invocation) -> AgentPlan:
        workspace = site.workspace.resolve()
        environment = {
            "PATH": f"{held}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": f"{held}/home",
            "TMPDIR": f"{held}/tmp",
            "LANG": "C.UTF-8",
            "PYTHONHOME": str(held),
            "PYTHONPATH": f"{held}/packages",
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "EVOPOLICY_SESSION": str(site.socket),
            "EVOPOLICY_WORKSPACE": str(workspace),
            **invocation.environment,
        }
        confined = self._isolation != "none"
        plan = AgentPlan(
            host=os.getpid(),
            level=self._isolation,
            landlock_abi=landlock.abi() if confined else 0,
            rules=list(self._rules(workspace, held, invocation)) if confined else [],
            network=invocation.network,
            argv=list(invocation.argv),
            environment=environment,
            folder=str(workspace),
            stdin=str(held / "stdin"),
            stdout=str((site.logs / "stdout.log").resolve()),
            stderr=str((site.logs / "stderr.log").resolve()),
            output_bytes=self._output_bytes,
        )
        shown = {"argv": plan.argv, "isolation": plan.level, "network": plan.network}
        shown["environment"] = sorted(plan.environment)
        (site.logs / "invocation.json").write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")
        return plan

    def _rules(self, workspace: Path, held: Path, invocation: Invocation) -> Iterator[tuple[str, int]]:
        yield str(workspace), _WORKSPACE
        for name in ("home", "tmp"):
            yield str(held / name), _WORKSPACE
        for name in ("staging", "bin", "lib", "packages"):
            yield str(held / name), landlock.RUN
        for target in packages.resolve((*self._packages, *invocation.packages)).links.values():
            yield str(target), landlock.RUN
        runtime = packages.runtime()
        yield str(runtime.python), landlock.RUN
        for path in (*runtime.readable, *_system(), *(path.resolve() for path in invocation.readable)):
            yield str(path), landlock.RUN
        yield from _DEVICES


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


def _inside(folder: Path, name: str) -> Path:
    """`folder/name`, its parents made. Raises AgentError for a name that leads out of it."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise AgentError(f"the integration lays a file '{name}' outside its staging folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _system() -> Iterator[Path]:
    """The system's programs and libraries; of an installed Python the standard library, not the packages beside it."""
    yield from (Path(name) for name in _FOLDERS)
    yield from (Path("/etc") / name for name in _SETTINGS)
    for library in dict.fromkeys(Path(name).resolve() for name in _LIBRARIES):
        for entry in sorted(library.iterdir()) if library.is_dir() else ():
            if not entry.name.startswith("python"):
                yield entry
            elif entry.is_dir():
                yield from (part for part in entry.iterdir() if not part.name.endswith("-packages"))


def _start_attendant(plan: AgentPlan, held: Path) -> subprocess.Popen[str]:
    path = held / "plan.json"
    path.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        return subprocess.Popen(
            [sys.executable, "-s", "-m", "evopolicy.execution.attendant", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutionError(f"no process can be started to attend the agent: {error}") from error


class _LocalAgent:
    """A started agent, through its attendant. Implements `ports.AgentProcess`."""

    def __init__(self, attendant: subprocess.Popen[str], held: HeldFolder, logs: Path) -> None:
        self._attendant = attendant
        self._held = held
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
        with self._attendant.stdout or contextlib.nullcontext() as stdout:
            said = stdout.read().strip() if stdout else ""
        # An attendant that could not say it was killed itself.
        return int(said) if said.lstrip("-").isdigit() else -signal.SIGKILL

    def last_output(self) -> float:
        times = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in self._logs)
        if times != self._seen:
            self._seen, self._heard = times, time.monotonic()
        return self._heard

    def stop(self) -> None:
        if self._attendant.poll() is None:
            self._attendant.terminate()
            try:
                self._attendant.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._attendant.kill()
                self._attendant.wait()
        self.wait(0)
        self._held.close()
