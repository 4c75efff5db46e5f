"""The scripted policy engineer: what a model would say next, as a pure function of the conversation
so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

POLICY = """import numpy as np

class CartPolePolicy:
    def act(self, observation):
        return int(np.dot({gains}, observation) > 0)

def make_policy(context):
    return CartPolePolicy()
"""
LEANING = "(0.0, 0.0, 1.0, 0.0)"
"""Pushes to the side the pole leans to: about 40 steps."""
FEEDBACK = "(0.1, 0.3, 1.0, 0.7)"
"""Linear feedback of all four numbers: 500 steps."""


def write(gains: str) -> str:
    """The shell command that writes the Program."""
    return f"cat > program/policy.py <<'END'\n{POLICY.format(gains=gains)}END\necho written"


WAIT = "evopolicy-session wait"
_MEASURES = ("evopolicy-session submit", WAIT)
_RUNNING = re.compile(r'\\?"status\\?": ?\\?"running')
"""In what those answer while the Host measures, also where it is quoted."""
PLAN: tuple[str, ...] = (
    "cat TASK.md; ls program",
    write(LEANING),
    "evopolicy-session submit program --episodes 0:4",
    "cat feedback/0001/feedback.json",
    write(FEEDBACK),
    "evopolicy-session submit program --episodes 0:4",
    "evopolicy-session finish",
)
"""What it types, one command an answer."""


@dataclass(frozen=True)
class Tool:
    """One that a request offers."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of its arguments."""


@dataclass(frozen=True)
class Call:
    """A use of a tool that the conversation tells of."""

    tool: str
    arguments: Mapping[str, Any]
    output: str


@dataclass(frozen=True)
class Conversation:
    """What every protocol's request comes to."""

    model: str
    tools: tuple[Tool, ...] = ()
    calls: tuple[Call, ...] = ()
    stream: bool = False


@dataclass(frozen=True)
class Reply:
    """The model's next message."""

    text: str
    reasoning: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refused: bool = False


@dataclass(frozen=True)
class Tokens:
    """What one answer is said to have used. The kinds do not overlap, but reasoning is part of the
    output."""

    fresh: int = 0
    cached: int = 0
    written: int = 0
    """Input that went into a cache."""
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )

    @property
    def input(self) -> int:
        """All of it, as OpenAI and Google count."""
        return self.fresh + self.cached + self.written


REFUSAL = Reply("I cannot help with that.", refused=True)


def reply(conversation: Conversation, plan: Sequence[str] = PLAN) -> Reply:
    """The next step of `plan`; a request without a shell is a side call, as for a title, and gets a
    few words."""
    shell = shell_of(conversation.tools)
    if shell is None:
        return Reply("Balancing a pole")
    last = conversation.calls[-1] if conversation.calls else None
    if last and (poll := polling(conversation.tools, last)):
        return poll
    done = [command for call in conversation.calls if (command := command_of(call))]
    if last and done and done[-1].startswith(_MEASURES) and _RUNNING.search(last.output):
        return _types(shell, WAIT, "It is still being measured.")
    step = sum(command != WAIT for command in done)
    if step >= len(plan):
        return Reply("The Policy balances the pole; I am done.", "Nothing is left to do.")
    return _types(shell, plan[step], f"Step {step + 1} of {len(plan)}.")


def _types(shell: Tool, command: str, text: str) -> Reply:
    return Reply(text, "What comes next is clear.", shell.name, arguments_for(shell, command))


SHELLS = ("exec_command", "shell", "shell_command", "bash", "run_shell_command", "local_shell")
"""Names of shell tools, in lower case, the preferred first."""


def shell_of(tools: Sequence[Tool]) -> Tool | None:
    named = {tool.name.lower(): tool for tool in tools}
    return next((named[name] for name in SHELLS if name in named), None)


def arguments_for(shell: Tool, command: str) -> dict[str, Any]:
    """`command` as the schema of `shell` wants it; other texts it requires are filled with a few
    words."""
    properties = shell.parameters.get("properties") or {}
    name = "cmd" if "cmd" in properties else "command"
    listed = (properties.get(name) or {}).get("type") == "array"
    arguments: dict[str, Any] = {name: ["bash", "-lc", command] if listed else command}
    if (
        "yield_time_ms" in properties
    ):  # Codex hands back what runs longer than 10 s, unless it is told to wait
        arguments["yield_time_ms"] = 30_000
    for other in shell.parameters.get("required") or ():
        if other not in arguments:
            kind = (properties.get(other) or {}).get("type")
            arguments[other] = {"integer": 30, "number": 30, "boolean": False}.get(
                str(kind).lower(), "Next step"
            )
    return arguments


def command_of(call: Call) -> str:
    """What was typed; '' where the call types nothing."""
    command = call.arguments.get("cmd", call.arguments.get("command", ""))
    return str(command[-1]) if isinstance(command, list) and command else str(command)


def polling(tools: Sequence[Tool], last: Call) -> Reply | None:
    """Codex's shell hands a command back that still runs: it is polled by writing nothing to it."""
    mark = "Process running with session ID "
    poll = next((tool for tool in tools if tool.name == "write_stdin"), None)
    if poll is None or mark not in last.output:
        return None
    number = last.output.partition(mark)[2].split()[0].strip(".,")
    return Reply("", "", poll.name, {"session_id": int(number), "chars": "", "yield_time_ms": 5000})


def tokens(conversation: Conversation) -> Tokens:
    """Deterministic: input grows with the conversation. A side call is small."""
    if shell_of(conversation.tools) is None:
        return Tokens(fresh=20, output=5)
    turn = len(conversation.calls) + 1
    return Tokens(fresh=100 * turn, cached=10 * turn, written=5, output=20, reasoning=4)
