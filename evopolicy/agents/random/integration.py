"""`random`: submits the Benchmark's uniform random Program; the floor of every table."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.baseline.integration import Baseline
from evopolicy.agents.random.config import RandomConfig


@dataclass(frozen=True)
class Random(Baseline):
    """Its workspace begins with the Program 'random'."""

    config: RandomConfig

    Config = RandomConfig
    program = "random"
