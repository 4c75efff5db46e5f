"""The Run's folder: what defines it, and how it is written and loaded."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.versioned import RECORD_FORMAT, read_versioned
from evopolicy.kernel.ports.feedback import VISIBILITIES
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.journal import JOURNAL, Event, read_journal
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.kernel.session.state import ResultState, RunState, check_references, fold
from evopolicy.kernel.values import digest

SCHEMA = RECORD_FORMAT.newest
RECORD = RECORD_FORMAT.name
_NAME = re.compile(r"(?!\.+$)[^/\\\0-\x1f\x7f]{1,200}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LATEST = 9e9
_GROUPS = ("agent", "benchmark", "budget", "pool", "secret", "selection", "feedback", "prompt", "session", "execution",
           "tracking", "axes")  # fmt: skip
AGENTS_PART = ("submissions", "agent")
"""Folders of a Run that a regrade of it takes over as they are."""


@dataclass(frozen=True)
class FeedbackConfig:
    """What a Run's Feedback shows and keeps. Raises ConfigError for an unknown level or a negative
    size."""

    visibility: str
    """'score', 'summary', 'episodes' or 'full'."""
    bulk_bytes: int
    """Bytes of bulk artifacts (traces, replays) a Run keeps; the oldest Submission's go first, the
    newest's never."""
    replays: bool
    """Whether `full` renders the worst, median and best Episode."""

    def __post_init__(self) -> None:
        if self.visibility not in VISIBILITIES:
            levels = ", ".join(VISIBILITIES)
            raise ConfigError(
                f"feedback.visibility: one of {levels} is needed, found '{self.visibility}'"
            )
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
    """Swept settings other than agent, Benchmark and seed, by config key: part of the entry's
    name."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """Digest of each skill's files, by its name in the workspace."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The whole resolved config; no secret's value."""
    seal: str = ""
    """Of `config`, as `seal.seal`: who finds it here knows whether the record was made here. '' for
    none."""
    parent: str = ""
    """Result key of the Run whose Programs this one grades again, with no agent; '' for a Run of
    its own."""
    other_rules: Mapping[str, ResultRule] = field(default_factory=dict)
    """By result key: the rules under which the Run has been given a result as well."""
    id: str = ""
    """Made anew with each Run, also with one that is run again in the place of another; '' in older
    records."""

    @property
    def identity(self) -> str:
        """Tells this Run from every other wherever its folder lies: its id, or what an older record
        has instead."""
        return self.id or digest("evopolicy/run/1", [self.key, self.created])[:32]

    @property
    def entry(self) -> str:
        """The name under which tables compare it: the agent's label times every swept axis but seed
        and Benchmark."""
        return " ".join(
            [self.agent.label, *(f"{key}={value}" for key, value in sorted(self.axes.items()))]
        )

    def under(self, result_key: str) -> RunRecord:
        """The record as it is, or was, while the Run followed the rule of `result_key`; '' is its
        own.

        Of a rule the Run never followed only the key is set.
        """
        if result_key in ("", self.result_key):
            return self
        rule = self.other_rules.get(result_key)
        if rule is None:
            return replace(self, result_key=result_key)
        config = {
            key: msgspec.to_builtins(value)
            for key, value in (("selection", rule.selection), ("pool", rule.pool))
        }
        return replace(
            self,
            result_key=result_key,
            selection=rule.selection,
            pool=rule.pool,
            config={**self.config, **config} if self.config else {},
        )

    def knows(self, result_key: str) -> bool:
        """Whether it tells the rule of `result_key`: of one that an older evopolicy replaced, the
        key alone is left."""
        return result_key in ("", self.result_key) or result_key in self.other_rules

    def followed_by(self, newer: RunRecord) -> RunRecord:
        """This record with the rule of `newer`; its own rule is kept among the others."""
        rules = {**self.other_rules, self.result_key: ResultRule(self.selection, self.pool)}
        return replace(
            self,
            result_key=newer.result_key,
            selection=newer.selection,
            pool=newer.pool,
            config=newer.config,
            seal=newer.seal,
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
        """The Run with the result it has under `result_key` ('' is its record's own), none where it
        never had one."""
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


def new_id() -> str:
    """The id of a Run that is being made."""
    return uuid.uuid4().hex


def output_of_run(folder: Path) -> Path:
    """The output folder of the Run in `folder`, three folders above its own; `folder` itself where
    it lies in none."""
    return folder.parents[3] if len(folder.parents) > 3 else folder


def feedback_folder(folder: Path, submission: int) -> Path:
    """Where the Run in `folder` keeps the Feedback of the Submission of that number, counted from
    1."""
    return folder / "submissions" / f"{submission:04d}" / "feedback"


def check_versions(name: str, began: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Whether the Run `name`, which began with the versions `began`, may go on with those that are
    `here`.

    Raises RecordError where a package of `here` is of another version: Episodes of two would be one
    Run's."""
    other = [package for package in here if began.get(package) != here[package]]
    if other:
        then = ", ".join(f"{package} {began.get(package, '(none)')}" for package in other)
        now = ", ".join(f"{package} {here[package]}" for package in other)
        raise RecordError(
            f"{name}: began with {then} and would go on with {now}, which would mix Episodes of "
            "both; install what it began with, or move its folder away to begin it anew"
        )


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `record.json` into `folder`, made where it is not there: whole or not at all, and on
    disk on return.

    Raises OSError.
    """
    text = json.dumps(msgspec.to_builtins(record), indent=2, sort_keys=True) + "\n"
    write_durably(folder / RECORD, text.encode())


def read_record(folder: Path) -> RunRecord:
    """Raises RecordError, naming the file, for one that is missing, corrupt or of an unknown
    schema."""
    record = read_versioned(
        folder / RECORD,
        RunRecord,
        RECORD_FORMAT,
        absent="so it is not a Run's folder",
        remedy="restore the Run's folder or delete it",
    )
    if wrong := _wrong(record):
        raise RecordError(
            f"{folder / RECORD}: is corrupt ({wrong}); restore the Run's folder or delete it"
        )
    return record


def _wrong(record: RunRecord) -> str:
    """What cannot be so, whoever wrote it: names that become part of paths, and what is looked into
    later."""
    if not _NAME.fullmatch(record.benchmark.slug):
        return "benchmark.slug is not a name"
    if not _NAME.fullmatch(record.agent.name):
        return "agent.name is not a name"
    if record.initial_program and not _DIGEST.fullmatch(record.initial_program):
        return "initial_program is not a digest"
    if not 0 <= record.created <= _LATEST:
        return "created is not a time"
    groups = [key for key in _GROUPS if not isinstance(record.config.get(key, {}), Mapping)]
    execution = record.config.get("execution", {})
    if groups or not isinstance(execution.get("limits", {}), Mapping):
        return f"config.{groups[0] if groups else 'execution.limits'} is not a mapping"
    return ""


def run_part(folder: Path, name: str) -> tuple[Path, str]:
    """The folder that the file or folder `name` of the Run in `folder` is read below, and its name
    there.

    They are the Run's own, but for the agent's part of a regrade: that is a link to the same part
    of the Run it was made of, and no other link is followed. Raises RecordError."""
    part = name.partition("/")[0]
    if part not in AGENTS_PART or not (folder / part).is_symlink():
        return folder, name
    parent = (folder / part).resolve().parent
    if (parent / part).is_symlink() or not _is_parent(parent, read_record(folder)):
        raise RecordError(
            f"{folder / part}: is a link, and not a regrade's to the Run it was made of; remove it"
        )
    return parent, name


def _is_parent(folder: Path, record: RunRecord) -> bool:
    try:
        parent = read_record(folder)
    except RecordError:
        return False
    return bool(record.parent) and parent.key == record.key and not parent.parent


def load_run(folder: Path | str) -> Run:
    """The Run in `folder`. Raises RecordError."""
    folder = Path(folder)
    return Run(folder, read_record(folder), read_state(folder))


def read_state(folder: Path) -> RunState:
    """What the journal of the Run in `folder` adds up to. Raises RecordError."""
    return state_of(read_journal(folder), folder)


def state_of(events: Iterable[Event], folder: Path) -> RunState:
    """What `events`, of the Run in `folder`, add up to. Raises RecordError, naming the journal."""
    where = str(folder / JOURNAL)
    state = fold(events, where)
    check_references(state, where)
    return state
