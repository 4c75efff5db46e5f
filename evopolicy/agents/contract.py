"""The contract of an integration: `check_agent(integration)`, or a test class that inherits
AgentContract."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from evopolicy.agents.config import MAX_ARGUMENT_BYTES
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentIntegration, AgentTask, Invocation
from evopolicy.kernel.ports.transcript import Transcript
from evopolicy.kernel.values import ValueRefused, public

PROGRAMS = ("initial", "random", "parametric")
EXAMPLE_URL = "http://127.0.0.1:8100"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
GARBAGE: tuple[str, ...] = (
    "",
    "\n",
    "not json at all",
    '{"type": "item.comp',
    "null",
    "[]",
    "3",
    '{"step": null, "type": [], "message": 7, "item": "x", "text": {}}',
    '{"type": "a_new_kind_of_event", "step": "a_new_kind_of_step"}',
    "[" * 100_000,
    '"\\ud800 half a pair"',
    '{"text": "' + "x" * 1_000_000 + '"}',
    "\x00\x1b[2J\ufffd",
)
"""Lines no stream should hold and some do."""


def example_task(**changes: object) -> AgentTask:
    """A task as a launcher would tell it, with a prompt too long for one argument."""
    values: dict[str, object] = {
        "workspace": Path("/workspace"),
        "prompt": "Read TASK.md.\n" + "Do it well. " * 20_000,
        "seed": 3,
        "session_command": ("/staging/bin/evopolicy-session",),
        "python": Path("/runtime/bin/python3"),
        "staging": Path("/staging"),
        "provider_url": EXAMPLE_URL,
        **changes,
    }
    return AgentTask(**values)  # type: ignore[arg-type]


def check_agent(integration: AgentIntegration, stream: Sequence[str] = ()) -> None:
    """Raises AgentError, naming the rule, where `integration` breaks the contract.

    `stream`: the lines of a real run of it that ended well. Nothing is started.
    """
    for check in (check_identity, check_probe, check_invocation, check_garbage):
        check(integration)
    if stream:
        check_stream(integration, stream)


def check_identity(integration: AgentIntegration) -> None:
    """Its name, label and options can name cells and rows, and do not change between calls."""
    identity = integration.identity
    _rule(
        bool(re.fullmatch(r"[a-z][a-z0-9_]*", identity.name)),
        f"the name '{identity.name}' is not snake_case",
    )
    _rule(
        bool(identity.label.strip()) and identity.label.isprintable(),
        "the label is empty or not printable",
    )
    try:
        public(dict(identity.options), "options")
    except ValueRefused as error:
        raise AgentError(f"agent contract: {error}") from None
    _rule(integration.identity == identity, "the identity differs between two calls")
    _rule(
        integration.program in PROGRAMS,
        f"program is '{integration.program}', one of {', '.join(PROGRAMS)} is needed",
    )
    _rule(isinstance(integration.resumes, bool), "resumes is not a bool")
    longest = integration.call_seconds
    _rule(longest is None or longest > 0, "call_seconds is neither None nor a number of seconds")


def check_probe(integration: AgentIntegration) -> None:
    """Versions are text. Where something is missing here, AgentError is the right answer and
    passes."""
    try:
        versions = integration.probe()
    except AgentError as error:
        _rule(bool(str(error).strip()), "probe raises an AgentError without a word")
        return
    for key, value in versions.items():
        _rule(
            isinstance(key, str) and isinstance(value, str),
            f"probe: '{key}' is not a text with a text",
        )


def check_invocation(integration: AgentIntegration) -> None:
    """What it asks to be started can be started, is the same for the same task and holds no
    secret."""
    task = example_task()
    invocation = integration.invoke(task)
    _rule(invocation == integration.invoke(task), "two invocations for one task differ")
    _check_arguments(invocation)
    for name in (*invocation.files, *invocation.folders, *invocation.home):
        path = PurePosixPath(name)
        plain = (
            not path.is_absolute()
            and ".." not in path.parts
            and str(path) == name
            and "\\" not in name
        )
        _rule(plain, f"files: '{name}' is not a plain relative path")
    for name, folder in invocation.folders.items():
        _rule(Path(folder).is_dir(), f"folders: '{name}' is not a folder on this machine")
    for package in invocation.packages:
        _rule(
            all(part.isidentifier() for part in package.split(".")),
            f"packages: '{package}' cannot be imported",
        )
    for glob in invocation.collect:
        _rule(
            ".." not in PurePosixPath(glob).parts and not glob.startswith("/"),
            f"collect: '{glob}' leaves the home",
        )
    for readable in invocation.readable:
        _rule(Path(readable).is_absolute(), f"readable: '{readable}' is not absolute")
    elsewhere = integration.invoke(
        example_task(resumed=True, seed=0, provider_url="https://elsewhere.example.com")
    )
    resumed = integration.invoke(example_task(resumed=True, session_id="0a1b-session"))
    _check_arguments(resumed)
    for other in (invocation, elsewhere, resumed):
        _rule(
            other.provider == integration.provider,
            "provider: the one of invoke is another than the integration's",
        )
        _rule(
            tuple(other.variables) == tuple(integration.variables),
            "variables: invoke's are not the integration's",
        )
    if integration.provider is not None:
        _rule(
            bool(integration.provider.models), "provider: it names no model its requests may name"
        )
        texts = [
            *invocation.argv,
            *invocation.environment.values(),
            *invocation.files.values(),
            invocation.stdin,
        ]
        # A subscription's program knows its provider's address itself.
        known = integration.provider.subscription
        _rule(
            known or any(EXAMPLE_URL in text for text in texts),
            "provider: its program is not pointed at task.provider_url",
        )


def _check_arguments(invocation: Invocation) -> None:
    _rule(bool(invocation.argv), "argv is empty")
    for text in (*invocation.argv, *invocation.environment, *invocation.environment.values()):
        _rule(
            isinstance(text, str) and "\0" not in text, "argv and environment are texts without NUL"
        )
        _rule(
            len(text.encode()) <= MAX_ARGUMENT_BYTES,
            "an argument has 128 KiB or more; pass it by file or stdin",
        )
    texts = [
        *invocation.argv,
        *invocation.environment.values(),
        *invocation.files.values(),
        invocation.stdin,
    ]
    for name, secret in os.environ.items():
        if _SECRET.search(name.upper()) and len(secret) >= 12:
            _rule(
                not any(secret in text for text in texts),
                f"the value of {name} is in the invocation",
            )


def check_garbage(integration: AgentIntegration) -> None:
    """A stream of anything is read: no exception, and what was not understood is counted or
    kept."""
    for lines in (
        [],
        *([line] for line in GARBAGE),
        list(GARBAGE),
        [line + "\n" for line in GARBAGE],
    ):
        transcript = _read(integration, lines)
        seen = (
            transcript.malformed_lines
            + sum(transcript.unknown_events.values())
            + len(transcript.steps)
        )
        accounted = bool(seen or transcript.error or not any(line.strip() for line in lines))
        _rule(
            accounted, f"read: a strange line is neither kept nor counted: {''.join(lines)[:40]!r}"
        )


def check_stream(integration: AgentIntegration, stream: Sequence[str]) -> None:
    """A real stream is completed; cut anywhere, it is still read and holds no more than the
    whole."""
    whole = _read(integration, stream)
    _rule(
        whole.completed is not False and not whole.error,
        "read: a stream that ended well is not completed",
    )
    _rule(bool(whole.steps), "read: a stream that ended well has no steps")
    text = "".join(line if line.endswith("\n") else line + "\n" for line in stream)
    for end in {len(text) * part // 16 for part in range(16)}:
        part = _read(integration, text[:end].splitlines(keepends=True))
        _rule(
            len(part.steps) <= len(whole.steps) + 1,
            "read: a cut stream has more steps than the whole",
        )


def _read(integration: AgentIntegration, lines: Sequence[str]) -> Transcript:
    try:
        transcript = integration.read(iter(lines))
    except Exception as error:
        shown = json.dumps(lines[0][:40] if lines else "")
        raise AgentError(
            f"agent contract: read raised {type(error).__name__} ({error}) on lines from {shown}"
        ) from error
    _rule(
        not (transcript.completed and transcript.error),
        "read: a transcript is both completed and in error",
    )
    return transcript


def _rule(holds: bool, sentence: str) -> None:
    if not holds:
        raise AgentError(f"agent contract: {sentence}")


class AgentContract:
    """Inherit it in a test module, say `make`, and pytest runs each part."""

    stream: Sequence[str] = ()
    """Lines of a real run that ended well."""

    def make(self) -> AgentIntegration:
        raise NotImplementedError("return the integration to test")

    def test_identity(self) -> None:
        check_identity(self.make())

    def test_probe(self) -> None:
        check_probe(self.make())

    def test_invocation(self) -> None:
        check_invocation(self.make())

    def test_garbage(self) -> None:
        check_garbage(self.make())

    def test_stream(self) -> None:
        if self.stream:
            check_stream(self.make(), self.stream)
