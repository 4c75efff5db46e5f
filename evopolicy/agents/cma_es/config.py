"""Options of `cma_es`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.config import AgentConfig, at_least
from evopolicy.kernel.errors import ConfigError


@dataclass(frozen=True)
class CmaEsConfig(AgentConfig):
    population: int | None
    """Candidates in one generation, each a Submission; None: by the number of parameters and the
    budget."""
    sigma: float
    """First standard deviation, in units of a parameter's scale."""
    scale_floor: float
    """A parameter's scale is its absolute value, and at least this."""
    episodes_per_candidate: int | None
    """Pool indices all candidates of a generation are measured on; None: by the budget."""

    def __post_init__(self) -> None:
        at_least("population", self.population, 2)
        at_least("episodes_per_candidate", self.episodes_per_candidate, 1)
        for key in ("sigma", "scale_floor"):
            if not 0 < getattr(self, key) < float("inf"):
                raise ConfigError(
                    f"agent.{key}: a number above 0 is needed, found {getattr(self, key):g}"
                )
