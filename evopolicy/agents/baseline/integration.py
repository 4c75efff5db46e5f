"""`baseline`: submits the Benchmark's initial Program; what an agent has to improve on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.baseline.config import BaselineConfig
from evopolicy.agents.config import identity
from evopolicy.agents.scripted.invocation import read_script, script_invocation
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation
from evopolicy.kernel.ports.transcript import Transcript


@dataclass(frozen=True)
class Baseline:
    """Submits the Program of the workspace as it is."""

    config: BaselineConfig

    Config = BaselineConfig
    program = "initial"
    resumes = True
    call_seconds = None
    variables = ()
    provider = None

    @property
    def identity(self) -> AgentIdentity:
        return identity(self.config)

    def probe(self) -> Mapping[str, str]:
        return {}

    def invoke(self, task: AgentTask) -> Invocation:
        return script_invocation(
            task, "baseline", {"repeats": self.config.repeats, "episodes": self.config.episodes}
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG002 (the port's)
        return read_script(lines)
