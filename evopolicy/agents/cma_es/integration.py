"""`cma_es`: CMA-ES on the numbers of the Benchmark's parametric Program; parametric tuning without
any thought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.cma_es.config import CmaEsConfig
from evopolicy.agents.config import identity
from evopolicy.agents.scripted.invocation import package_versions, read_script, script_invocation
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation
from evopolicy.kernel.ports.transcript import Transcript

PACKAGES = ("cma", "numpy")


@dataclass(frozen=True)
class CmaEs:
    """Hansen's CMA-ES (the package `cma`). Under one seed and one pool it always submits the same
    Programs."""

    config: CmaEsConfig

    Config = CmaEsConfig
    program = "parametric"
    resumes = True
    call_seconds = None
    variables = ()
    provider = None
    ranked = False
    """Whether it compares candidates Episode by Episode, where Feedback shows them, or by score
    alone."""

    @property
    def identity(self) -> AgentIdentity:
        return identity(self.config)

    def probe(self) -> Mapping[str, str]:
        return package_versions(self.config.name, PACKAGES)

    def invoke(self, task: AgentTask) -> Invocation:
        options = {
            "population": self.config.population,
            "sigma": self.config.sigma,
            "scale_floor": self.config.scale_floor,
            "episodes_per_candidate": self.config.episodes_per_candidate,
            "ranked": self.ranked,
        }
        return script_invocation(task, "cma_es", options, packages=PACKAGES)

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG002 (the port's)
        return read_script(lines)


@dataclass(frozen=True)
class CmaEsRanked(CmaEs):
    """`cma_es_ranked`: the same search, which reads the Episodes of its Feedback where these are
    shown."""

    ranked = True
