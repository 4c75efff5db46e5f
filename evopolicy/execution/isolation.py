"""Chooses an isolation level: the strongest that a probe proves by really running it; fails
closed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from evopolicy.execution import probe
from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.execution.sandbox import bubblewrap, landlock, packages
from evopolicy.kernel.errors import (
    ConfigError,
    EvoPolicyError,
    ExecutionError,
    IsolationError,
    did_you_mean,
)
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.ports.protocols import ISOLATIONS, AgentSite, Invocation, Isolation

Asked = Literal["auto", "bubblewrap", "landlock", "none"]

_LANDLOCK_REMEDY = (
    "use a Linux kernel of 5.13 or newer with 'landlock' in /sys/kernel/security/lsm (boot with "
    "lsm=landlock,... where it is off), or, in a container, a seccomp profile that allows the "
    "landlock calls"
)
_INSTALL = "install the package 'bubblewrap', which apt, dnf, pacman, zypper and apk have"
_NEWER = "install bubblewrap 0.7 or newer: this one knows no bound on a temporary file system"
APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
"""The setting below /proc/sys that is 1 where AppArmor restricts user namespaces."""
APPARMOR_REMEDY = (
    "AppArmor restricts user namespaces (Ubuntu 24.04 and newer): give bwrap a profile that "
    "allows 'userns' (/etc/apparmor.d/bwrap, see docs/isolation.md); or as root: sysctl -w "
    "kernel.apparmor_restrict_unprivileged_userns=0"
)
REFUSED = (
    "in a container allow user namespaces and mounts in them (docker run --security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined, or a profile that allows unshare, "
    "clone and mount); elsewhere a seccomp filter or security module forbids them: ask the "
    "administrator; execution.isolation=landlock needs neither"
)
"""What helps where user namespaces are refused and no setting of the kernel's says why."""
_SYSCTLS = Path("/proc/sys")
STRENGTH: Mapping[str, int] = {"none": 0, "landlock": 1, "bubblewrap": 2}
"""Of each level: more holds more."""
_PROBED_BYTES = 1 << 20
_AGENT_SECONDS = 60.0


@dataclass(frozen=True)
class Probed:
    """What a probe of one level found by running it."""

    level: Isolation
    works: bool
    detail: str
    """What holds, or what is missing."""
    remedy: str = ""
    """How to get it."""


def choose(asked: Asked, allow_unisolated: bool) -> Isolation:
    """The level that will hold. Raises ConfigError for an unknown word, IsolationError where the
    level fails."""
    if asked not in ("auto", *ISOLATIONS):
        raise ConfigError(
            "execution.isolation: unknown level "
            f"'{asked}'.{did_you_mean(asked, ('auto', *ISOLATIONS))}"
        )
    if asked == "none":
        if not allow_unisolated:
            raise IsolationError(
                "execution.isolation=none lets a Policy read and change whatever you can; set"
                " execution.allow_unisolated=true if that is what you want"
            )
        return "none"
    tried = [
        probe_level(level)
        for level in (("bubblewrap", "landlock") if asked == "auto" else (asked,))
    ]
    for found in tried:
        if found.works:
            return found.level
    reasons = "; ".join(f"{found.level}: {found.detail} ({found.remedy})" for found in tried)
    raise IsolationError(f"execution.isolation={asked} does not work on this machine: {reasons}")


def probe_all() -> list[Probed]:
    """Every level, strongest first, for a person who asks what works here."""
    return [probe_level(level) for level in ISOLATIONS]


@cache
def probe_level(level: Isolation) -> Probed:
    """Run `level` once, with a process that tries what it must not be able to do."""
    if level == "none":
        return Probed(level, True, "nothing is isolated")
    if not sys.platform.startswith("linux"):
        return Probed(
            level, False, f"it is a part of Linux, this is {sys.platform}", "run on Linux"
        )
    if landlock.abi() == 0:
        return Probed(
            level, False, "the kernel has no Landlock, or it is switched off", _LANDLOCK_REMEDY
        )
    return _run_landlock() if level == "landlock" else _run_bubblewrap()


def check_agent(level: Isolation) -> None:
    """Raises IsolationError where Policies can be held at `level`, which a probe has proven, but an
    agent cannot."""
    if level == "bubblewrap" and not (found := probe_agent()).works:
        raise IsolationError(
            "execution.isolation=bubblewrap holds here for Policies, but an agent's sandbox "
            f"needs more and cannot be made: {found.detail} ({found.remedy})"
        )


@cache
def probe_agent() -> Probed:
    """Whether an agent can be held at `bubblewrap` too, by starting one that looks at what it
    finds.

    Its sandbox has a process table, memory for files and filters that `bwrap` installs itself: some
    containers let all that a Policy's sandbox needs through, and refuse those."""
    found = probe_level("bubblewrap")
    return _run_agent() if found.works else found


_LOOK = """
import json, os, socket
def failed(what):
    try:
        return not what()
    except Exception:
        return True
def carries():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        return True
def is_kept():
    try:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    except OSError:
        return True
looks = {
    "it has no process table of its own": lambda: 1 < len([n for n in os.listdir("/proc") if n.isdigit()]) < 5,
    "the kernel's settings can be written": is_kept,
    "its loopback carries nothing": carries,
    "it has no temporary folder": lambda: open("/tmp/x", "w").close() is None,
    "it cannot write to its workspace": lambda: open("/workspace/x", "w").close() is None,
}
print(json.dumps([said for said, look in looks.items() if failed(look)]))
"""


def _run_agent() -> Probed:
    with HeldFolder("probe") as folder:
        logs, workspace = folder / "logs", folder / "workspace"
        workspace.mkdir()
        site = AgentSite(workspace, folder / "no.sock", logs, "", 0)
        launcher = LocalAgentLauncher(
            isolation="bubblewrap", client=Path(probe.__file__), policy_packages=()
        )
        try:
            started = launcher.start(
                site,
                lambda task: Invocation(
                    (str(task.python), "-S", "-c", _LOOK), environment={"PYTHONPATH": ""}
                ),
            )
            try:
                started.wait(_AGENT_SECONDS)
            finally:
                started.stop()
            failed: list[str] = json.loads((logs / "stdout.log").read_text())
        except (OSError, ValueError, EvoPolicyError) as error:
            written = (
                (logs / "stderr.log").read_text(errors="replace")
                if (logs / "stderr.log").exists()
                else ""
            )
            last = (written.strip().splitlines() or [str(error)])[-1]
            return Probed("bubblewrap", False, last, _agent_remedy(last))
    if failed:
        return Probed("bubblewrap", False, "; ".join(failed), _agent_remedy(""))
    return Probed("bubblewrap", True, "processes, loopback and temporary folders of its own")


def _agent_remedy(stderr: str) -> str:
    if "proc" in stderr:
        return (
            "this container hides parts of /proc, and so lets nobody mount one: docker run "
            "--security-opt systempaths=unconfined (Podman: --security-opt unmask=ALL, "
            "Kubernetes: procMount: Unmasked); execution.isolation=landlock holds agents that "
            "have no provider"
        )
    return _bubblewrap_remedy(stderr)


def _run_landlock() -> Probed:
    path = os.pathsep.join(
        dict.fromkeys((str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)))
    )
    command = [sys.executable, "-m", "evopolicy.execution.probe", *map(str, probe_paths())]
    held = f"Landlock ABI {landlock.abi()} with seccomp and resource limits"
    return _judged("landlock", command, {"PYTHONPATH": path}, held, lambda _said: _LANDLOCK_REMEDY)


def _judged(
    level: Isolation,
    command: Sequence[str],
    env: Mapping[str, str],
    held: str,
    remedy: Callable[[str], str],
) -> Probed:
    """Runs a probe; `held`: what works where it finds nothing; `remedy`: of what it wrote to
    stderr."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=env, check=False, cwd="/"
        )
        failed: list[str] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probed(level, False, f"the probe could not be run: {error}", remedy(str(error)))
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Probed(level, False, f"the probe could not be run: {last}", remedy(done.stderr))
    if failed:
        return Probed(level, False, "; ".join(failed), remedy(""))
    return Probed(level, True, held)


def _run_bubblewrap() -> Probed:
    program = bubblewrap.find()
    if program is None:
        return Probed("bubblewrap", False, "there is no program 'bwrap' on the PATH", _INSTALL)
    held = (
        f"namespaces and an empty root by {program}, Landlock ABI {landlock.abi()} with "
        "seccomp and resource limits"
    )
    with HeldFolder("probe") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0evopolicy-probe-{secrets.token_hex(8)}")
        listener.listen()
        (folder / "hidden").touch()
        shared = folder / "shared"
        try:
            command = bubblewrap.zygote(
                program, packages.runtime(), (), shared, packages.own_code().links, 1, _PROBED_BYTES
            )
        except (OSError, ExecutionError) as error:
            return Probed(
                "bubblewrap",
                False,
                f"it cannot be prepared: {error}",
                "set TMPDIR to a folder you can write",
            )
        seen, scratch = f"{bubblewrap.SEEN}/engine", f"{bubblewrap.SCRATCH}/0"
        outside = probe.Outside(
            os.getpid(), listener.getsockname()[1:].decode(), str(folder / "hidden"), bubblewrap.SEEN, scratch,
            _PROBED_BYTES,
        )  # fmt: skip
        arguments = [
            "--outside",
            json.dumps(asdict(outside)),
            f"{seen}/evopolicy/execution/probe.py",
        ]
        env = {"PYTHONPATH": seen, "TMPDIR": scratch}
        command = (*command, "-s", "-S", "-B", "-P", "-m", "evopolicy.execution.probe", *arguments)
        return _judged("bubblewrap", command, env, held, _bubblewrap_remedy)


def _bubblewrap_remedy(stderr: str) -> str:
    """What helps where `bwrap` wrote `stderr`: it says the same for several causes, the kernel's
    settings tell."""
    if "Unknown option" in stderr:
        return _NEWER
    return switched_off() or (
        REFUSED if "bwrap:" in stderr else "use execution.isolation=landlock, and report this"
    )


def switched_off(sysctls: Path | None = None) -> str:
    """How to get user namespaces where a setting of the kernel's keeps them from this process; ''
    where none does.

    `sysctls`: what to read in place of `/proc/sys`.
    """
    folder = sysctls or _SYSCTLS
    if setting(folder, "user/max_user_namespaces") == "0":
        return "user namespaces are switched off; as root: sysctl -w user.max_user_namespaces=10000"
    if os.geteuid() == 0:
        return ""  # The other two bind users who are not root.
    if setting(folder, APPARMOR) == "1":
        return APPARMOR_REMEDY
    if setting(folder, "kernel/unprivileged_userns_clone") == "0":
        return (
            "user namespaces are for root alone here; as root: sysctl -w "
            "kernel.unprivileged_userns_clone=1"
        )
    return ""


def setting(sysctls: Path, name: str) -> str:
    """Value of a kernel's setting, '' where there is none."""
    try:
        return (sysctls / name).read_text().strip()
    except OSError:
        return ""


def probe_paths() -> Sequence[Path]:
    """What the probe must not be able to read: this source and the process table."""
    return (Path(probe.__file__), Path("/proc/self/status"))
