"""`chat`: a small tool loop over any Chat Completions server, run in the agent's sandbox; no CLI
takes part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from evopolicy.agents.chat.config import ChatConfig
from evopolicy.agents.coding.cli import check_variables
from evopolicy.agents.config import identity
from evopolicy.agents.provider import ModelProvider
from evopolicy.agents.streams.stream import (
    Collected,
    cost_of,
    count_of,
    inner,
    numbered_json_lines,
    text_of,
)
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import ErrorKind, StepSource, Transcript, Usage

PATHS = ("POST /chat/completions",)
AGENT_VARIABLE = "EVOPOLICY_CHAT_KEY"
"""Where the loop finds its key; its shell does not."""
_FILES = ("loop", "api", "history", "schema", "tools")
_OF_THIS_MACHINE = ("key_variable", "request_seconds", "retries", "retry_seconds")
"""Options about reaching the server: no part of what the agent is."""
_QUIET = ("progress", "compaction")
_MAIN = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripts.loop import run

run(sys.argv[1])
"""


@dataclass(frozen=True)
class Chat:
    """Reaches the model at `task.provider_url` alone."""

    config: ChatConfig

    Config = ChatConfig
    program = "initial"
    resumes = True

    @property
    def identity(self) -> AgentIdentity:
        return identity(self.config, _OF_THIS_MACHINE)

    @property
    def call_seconds(self) -> float:
        return self.config.shell_seconds

    @property
    def variables(self) -> Sequence[str]:
        return self.config.variables

    @property
    def provider(self) -> Provider:
        return ModelProvider(
            url=self.config.base_url,
            paths=PATHS,
            key_variable=self.config.key_variable,
            agent_variable=AGENT_VARIABLE,
            models=(self.config.model,),
        )

    def probe(self) -> Mapping[str, str]:
        """Nothing has to be installed. Raises AgentError for a variable that is not set."""
        check_variables(self.config.variables)
        return {}

    def invoke(self, task: AgentTask) -> Invocation:
        payload = {
            "workspace": str(task.workspace),
            "session_command": list(task.session_command),
            "seed": task.seed,
            "url": task.provider_url,
            "key_variable": AGENT_VARIABLE,
            "model": self.config.model,
            "session_id": task.session_id,
            "resumed": task.resumed,
            "options": dict(identity(self.config).options),
        }
        folder = Path(__file__).with_name("script")
        files = {
            f"scripts/{name}.py": (folder / f"{name}.py").read_text(encoding="utf-8")
            for name in _FILES
        }
        files |= {
            "main.py": _MAIN,
            "scripts/__init__.py": "",
            "options.json": json.dumps(payload, indent=2, sort_keys=True) + "\n",
        }
        return Invocation(
            argv=(
                str(task.python),
                "-u",
                "-B",
                str(task.staging / "main.py"),
                str(task.staging / "options.json"),
            ),
            variables=tuple(self.config.variables),
            stdin=task.prompt,
            files=files,
            collect=(".evopolicy-chat/*.jsonl",),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG002 (the port's)
        reader = _Reader()
        for line, event in numbered_json_lines(lines):
            reader.take(line, event)
        return reader.transcript()


@dataclass
class _Reader:
    """The loop's stream, as far as it has come."""

    collected: Collected = field(default_factory=Collected)
    usages: list[dict[str, Any]] = field(default_factory=list)
    """What each answer reported, {} where it reported nothing."""
    requests: int = 0
    responses: list[str] = field(default_factory=list)
    submissions: dict[str, int] = field(default_factory=dict)
    """By the call that made each: its answer holds the number in a form of its own."""
    session_id: str = ""
    completed: bool = False
    error: str = ""
    kind: ErrorKind = ""

    def take(self, line: int, event: dict[str, Any] | None) -> None:
        kind = event.get("type") if event is not None else None
        reader = getattr(self, f"_{kind}", None) if kind in _EVENTS else None
        if event is not None and reader is not None:
            reader(line, event)
        elif kind not in _QUIET:
            self.collected.strange(event, kind)
        elif kind == "compaction" and event is not None and event.get("reason") == "server":
            self.requests += 1

    def _start(self, line: int, event: dict[str, Any]) -> None:
        self.session_id = _plain(event.get("session_id"))
        messages = event.get("messages")
        for message in messages if isinstance(messages, list) else ():
            source: StepSource = "system" if inner(message, "role") == "system" else "user"
            self.collected.step(source, _plain(inner(message, "text")), line=line)

    def _message(self, line: int, event: dict[str, Any]) -> None:
        self.collected.step(
            "agent", _plain(event.get("text")), _plain(event.get("reasoning")), line=line
        )
        usage = event.get("usage")
        self.usages.append(usage if isinstance(usage, dict) else {})
        self.requests += 1
        self._answered(event)

    def _tool_call(self, line: int, event: dict[str, Any]) -> None:
        arguments = json.loads(_plain(json.dumps(event.get("arguments"), ensure_ascii=False)))
        self.collected.call(
            _plain(event.get("id")), _plain(event.get("name")), arguments, line=line
        )

    def _tool_result(self, line: int, event: dict[str, Any]) -> None:
        failed = event.get("failed") is True
        call, number = _plain(event.get("id")), event.get("submission")
        self.collected.result(call, _plain(event.get("text")), failed=failed, line=line)
        if type(number) is int:
            self.submissions[call] = number

    def _reminder(self, line: int, event: dict[str, Any]) -> None:
        self.collected.step("user", _plain(event.get("text")), line=line)

    def _retry(self, _: int, event: dict[str, Any]) -> None:
        self.requests += 1
        self._answered(event)

    def _done(self, _: int, event: dict[str, Any]) -> None:
        self.completed = True
        self._ended(event)

    def _error(self, _: int, event: dict[str, Any]) -> None:
        self.error = _plain(event.get("text")) or "it ended with an error it does not name"
        kind = event.get("kind")
        self.kind = cast(ErrorKind, kind) if kind and kind in get_args(ErrorKind) else "other"
        self._answered(event)
        self._ended(event)

    def _answered(self, event: Mapping[str, Any]) -> None:
        if response := _plain(event.get("response_id")):
            self.responses.append(response)

    def _ended(self, event: Mapping[str, Any]) -> None:
        self.requests = count_of(inner(event.get("totals"), "requests")) or self.requests

    def transcript(self) -> Transcript:
        for step in self.collected.steps:
            made = (self.submissions[call.id] for call in step.calls if call.id in self.submissions)
            step.submission = next(made, None)
        return self.collected.transcript(
            usage=_summed(self.usages, self.requests),
            completed=self.completed,
            error=self.error,
            error_kind=self.kind,
            session_id=self.session_id,
            response_ids=self.responses,
        )


_EVENTS = ("start", "message", "tool_call", "tool_result", "reminder", "retry", "done", "error")


def _plain(value: Any) -> str:
    """`value` as a text that can be written again: half a surrogate pair cannot."""
    return text_of(value).encode("utf-8", "replace").decode()


def _summed(usages: Sequence[Mapping[str, Any]], requests: int) -> Usage:
    """Over all answers. A kind of tokens that an answer did not report is not known."""

    def total(of: Mapping[str, Any], *names: str) -> int | None:
        return count_of(inner(of, *names))

    counts: dict[str, list[int | None]] = {"input": [], "cached": [], "output": [], "reasoning": []}
    for usage in usages:
        prompt, cached = (
            total(usage, "prompt_tokens"),
            total(usage, "prompt_tokens_details", "cached_tokens"),
        )
        counts["input"].append(None if prompt is None else max(0, prompt - (cached or 0)))
        counts["cached"].append(cached)
        counts["output"].append(total(usage, "completion_tokens"))
        counts["reasoning"].append(total(usage, "completion_tokens_details", "reasoning_tokens"))
    known = [cost for usage in usages if (cost := cost_of(usage.get("cost"))) is not None]
    counted = bool(usages) and None not in counts["output"]
    return Usage(
        input_tokens=sum(n or 0 for n in counts["input"]) if counted else None,
        cached_tokens=sum(n or 0 for n in counts["cached"])
        if counted and any(counts["cached"])
        else None,
        output_tokens=sum(n or 0 for n in counts["output"]) if counted else None,
        reasoning_tokens=sum(n or 0 for n in counts["reasoning"])
        if counted and any(counts["reasoning"])
        else None,
        cost_usd=sum(known) if known and len(known) == len(usages) else None,
        requests=requests if requests else None,
    )
