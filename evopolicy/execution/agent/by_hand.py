"""ByHand: for a Run whose engineer is a person. Nothing is started or confined; implements
`ports.AgentLauncher`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evopolicy.kernel.files.durable import make_folder, write_durably
from evopolicy.kernel.ports.protocols import (
    AgentProcess,
    AgentSite,
    AgentTask,
    Invocation,
    Isolation,
)
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.run.stream import INVOCATION, STDOUT


class ByHand:
    """Whoever may write to the workspace works there, from any shell, with the session's
    command."""

    @property
    def isolation(self) -> Isolation:
        return "none"

    def seen_socket(self, socket: Path) -> Path:
        return socket

    def proxy_usage(self, logs: Path) -> ProxyUsage | None:  # noqa: ARG002 (the port's)
        return None

    def recover(self, logs: Path, home: Path) -> None:
        """Nothing ran, so nothing is left."""

    def start(self, site: AgentSite, invoke: Callable[[AgentTask], Invocation]) -> AgentProcess:  # noqa: ARG002
        make_folder(site.logs)
        note: dict[str, Any] = {
            "argv": [],
            "isolation": self.isolation,
            "by_hand": True,
            "collect": [],
            "home": [],
        }
        write_durably(site.logs / INVOCATION, json.dumps(note, indent=2).encode() + b"\n")
        for name in ("stderr.log", STDOUT):  # there as of any attempt that began, and empty
            write_durably(site.logs / name, b"")
        return Person()


class Person:
    """A person neither ends nor is idle: the Session's own limits and `finish` end it."""

    def wait(self, seconds: float) -> int | None:
        time.sleep(seconds)
        return None

    def last_output(self) -> float:
        return time.monotonic()

    def proxy_usage(self) -> ProxyUsage | None:
        return None

    def stop(self) -> None:
        pass
