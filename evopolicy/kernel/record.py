"""The Run's folder: what defines it, and how it is written and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.budget import Budget
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.feedback import VISIBILITIES
from evopolicy.kernel.journal import read_journal, write_durably
from evopolicy.kernel.pool import PoolConfig
from evopolicy.kernel.ports import AgentIdentity
from evopolicy.kernel.selection import SelectionConfig
from evopolicy.kernel.state import ResultState, RunState, fold
from evopolicy.kernel.versioned import read_versioned

SCHEMA = 1
RECORD = "record.json"


@dataclass(frozen=True)
class FeedbackConfig:
    """What a Run's Feedback shows and keeps. Raises ConfigError for an unknown level or a negative size."""

    visibility: str
    """'score', 'summary', 'episodes' or 'full'."""
    bulk_bytes: int
    """Bytes of bulk artifacts (traces, replays) a Run keeps; the oldest Submission's go first, the newest's never."""
    replays: bool
    """Whether `full` renders the worst, median and best Episode."""

    def __post_init__(self) -> None:
        if self.visibility not in VISIBILITIES:
            levels = ", ".join(VISIBILITIES)
            raise ConfigError(f"feedback.visibility: one of {levels} is needed, found '{self.visibility}'")
        if self.bulk_bytes < 0:
            raise ConfigError(f"feedback.bulk_bytes: 0 or more is needed, found {self.bulk_bytes}")


@dataclass(frozen=True)
class BenchmarkIdentity:
    """Which Benchmark a Run was on, and what makes it again."""

    slug: str
    """Names it in paths and tables; unique among Benchmarks."""
    id: str
    digest: str
    """Of id and parameters."""
    factory: str
    """`module:function` that makes it, with `arguments`."""
    arguments: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Public; part of `digest`."""


@dataclass(frozen=True)
class ResultRule:
    """What defines a Run's result beside its agent's part."""

    selection: SelectionConfig
    pool: PoolConfig
    """The Run's, with these sizes of the private splits."""


@dataclass(frozen=True)
class RunRecord:
    """`record.json`: what defines a Run, written before its agent starts.

    Only the selection and the sizes of the private splits may follow a newer config.
    """

    schema: int
    key: str
    """Digest of what defines the agent's part of the result."""
    result_key: str
    """Digest of what defines selection and Assessment."""
    agent: AgentIdentity
    benchmark: BenchmarkIdentity
    seed: int
    """The agent's replicate."""
    budget: Budget
    pool: PoolConfig
    pool_secret_digest: str
    selection: SelectionConfig
    feedback: FeedbackConfig
    isolation: str
    agent_isolation: str
    """The level the agent's own process ran at."""
    initial_program: str
    """Digest of the Program the workspace began with."""
    versions: Mapping[str, str]
    """Of Python, evopolicy, Benchmark packages, agent CLI."""
    machine: Mapping[str, Any]
    """CPU model, cores, platform."""
    created: float
    """Unix seconds."""
    agent_network: str = "none"
    """What the agent could reach: 'proxy', 'allowlist', 'open' or 'none'."""
    suite: str = ""
    axes: Mapping[str, str] = field(default_factory=dict)
    """Swept settings other than agent, Benchmark and seed, by config key: part of the entry's name."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """Digest of each skill's files, by its name in the workspace."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The whole resolved config; no secret's value."""
    parent: str = ""
    """Result key of the Run whose Programs this one grades again, with no agent; '' for a Run of its own."""
    other_rules: Mapping[str, ResultRule] = field(default_factory=dict)
    """By result key: the rules under which the Run has been given a result as well."""

    @property
    def entry(self) -> str:
        """The name under which tables compare it: the agent's label times every swept axis but seed and Benchmark."""
        return " ".join([self.agent.label, *(f"{key}={value}" for key, value in sorted(self.axes.items()))])

    def under(self, result_key: str) -> RunRecord:
        """The record as it is, or was, while the Run followed the rule of `result_key`; '' is its own.

        Of a rule the Run never followed only the key is set.
        """
        if result_key in ("", self.result_key):
            return self
        rule = self.other_rules.get(result_key)
        if rule is None:
            return replace(self, result_key=result_key)
        config = {
            key: msgspec.to_builtins(value) for key, value in (("selection", rule.selection), ("pool", rule.pool))
        }
        return replace(
            self,
            result_key=result_key,
            selection=rule.selection,
            pool=rule.pool,
            config={**self.config, **config} if self.config else {},
        )

    def followed_by(self, newer: RunRecord) -> RunRecord:
        """This record with the rule of `newer`; its own rule is kept among the others."""
        rules = {**self.other_rules, self.result_key: ResultRule(self.selection, self.pool)}
        return replace(
            self,
            result_key=newer.result_key,
            selection=newer.selection,
            pool=newer.pool,
            config=newer.config,
            other_rules={key: rule for key, rule in rules.items() if key != newer.result_key},
        )


@dataclass(frozen=True)
class Run:
    """A loaded Run."""

    folder: Path
    record: RunRecord
    state: RunState

    @property
    def result(self) -> ResultState:
        """Selection and Assessment under the record's own rule."""
        return self.state.results.get(self.record.result_key, ResultState())

    def under(self, result_key: str) -> Run:
        """The Run with the result it has under `result_key` ('' is its record's own), none where it never had one."""
        return replace(self, record=self.record.under(result_key))

    @property
    def finished(self) -> bool:
        return self.result.ended

    @property
    def valid(self) -> bool:
        """Finished, and to be compared in tables."""
        return self.result.ended and bool(self.result.valid)

    def feedback(self, submission: int) -> Path:
        """Folder of a Submission's Feedback."""
        return feedback_folder(self.folder, submission)

    def program(self, digest: str) -> Path:
        """Folder of a Program the Run used."""
        return self.folder / "programs" / digest


def feedback_folder(folder: Path, submission: int) -> Path:
    """Where the Run in `folder` keeps the Feedback of the Submission of that number, counted from 1."""
    return folder / "submissions" / f"{submission:04d}" / "feedback"


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `record.json` into `folder`, made where it is not there: whole or not at all, and on disk on return.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(msgspec.to_builtins(record), indent=2, sort_keys=True) + "\n"
    write_durably(folder / RECORD, text.encode())


def read_record(folder: Path) -> RunRecord:
    """Raises RecordError, naming the file, for one that is missing, corrupt or of an unknown schema."""
    return read_versioned(
        folder / RECORD,
        RunRecord,
        SCHEMA,
        absent="so it is no Run's folder",
        remedy="restore the Run's folder or delete it",
    )


def load_run(folder: Path | str) -> Run:
    """The Run in `folder`. Raises RecordError."""
    folder = Path(folder)
    return Run(folder, read_record(folder), fold(read_journal(folder)))
