"""`human`: a person, with any editor or assistant of theirs, works in the prepared workspace;
nothing is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicy.agents.config import identity
from evopolicy.agents.human.config import HumanConfig
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript


@dataclass(frozen=True)
class Human:
    """What a person does is in the journal alone: there is no stream and no provider."""

    config: HumanConfig

    Config = HumanConfig

    @property
    def identity(self) -> AgentIdentity:
        """Tables tell a person from an agent whatever the label."""
        own, label = identity(self.config), self.config.label
        return own if label in ("", own.name) else replace(own, label=f"{label} (human)")

    @property
    def program(self) -> str:
        return self.config.program

    @property
    def resumes(self) -> bool:
        return True

    @property
    def call_seconds(self) -> float | None:
        return None

    @property
    def variables(self) -> Sequence[str]:
        return ()

    @property
    def provider(self) -> Provider | None:
        return None

    def probe(self) -> Mapping[str, str]:
        return {}

    def invoke(self, task: AgentTask) -> Invocation:  # noqa: ARG002 (the port's)
        raise AgentError(
            "agent=human: there is no program to start; a person works in the workspace"
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG002 (the port's)
        return Transcript((), completed=True)
