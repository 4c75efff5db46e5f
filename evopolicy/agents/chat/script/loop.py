"""A tool loop over a Chat Completions server: asks the model, does what it calls for, until the
Session is over.

Prints one JSON object a line: `start`, `message`, `tool_call`, `tool_result`, `reminder`, `retry`,
`compaction`, `progress`, and at the end `done` or `error` with the totals."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .api import Answer, Call, Failure, Server, ask
from .history import History, fenced_calls, parsed, split_thoughts
from .schema import described, schemas
from .tools import Result, Toolbox

FOLDER = ".evopolicy-chat"
"""In the home: one history a session."""
_ROOM = 0.7
"""Of the context, what a compaction leaves full."""

_SYSTEM = """\
You are an engineer who works alone in a sandbox; nobody answers questions. You improve a Program by what its \
Feedback tells. TASK.md in your workspace says all about the task: read it first. Work by calling tools: each \
message of yours calls at least one. The tools status, check, submit, wait, feedback and finish stand for the command \
evopolicy-session that TASK.md speaks of. When you can do no better, or your budget is spent, call finish."""
_FORM = """\
You call a tool by a fenced block that holds one JSON object, like this:

```tool
{"name": "read", "arguments": {"path": "TASK.md"}}
```

Its result comes with the next message. Do not write results yourself. Your tools:
"""
_GOES_ON = """\
This Run was begun before and goes on: what is spent stays spent. Look at the status and at your workspace first."""
_REMINDER = """\
You called no tool. Go on by calling one, or call finish if you are done. If you call none again, your work ends."""
_TEXT_REMINDER = ' A call looks like this:\n\n```tool\n{"name": "status", "arguments": {}}\n```'
_CUT = " Your message was cut off at its length limit: write less at once."
_INTERRUPTED = (
    "Interrupted before it gave a result. Look at what stands (status, your files) "
    "before you do it again."
)


def say(event: str, /, **more: Any) -> None:
    """Print one line of the stream."""
    print(json.dumps({"type": event, **more}), flush=True)


@dataclass
class Chat:
    """One process of the loop."""

    options: Mapping[str, Any]
    model: str
    seed: int
    server: Server
    history: History
    tools: Toolbox
    totals: Counter[str] = field(default_factory=Counter)
    cut: bool = False
    """Whether the newest message was cut off at its length limit."""

    def work(self) -> str:
        """Why it is done: 'finished', 'no_call' or 'max_turns'. Raises Failure."""
        reminded = False
        while True:
            for call in self.history.pending():
                if self._use(call).closed:
                    return "finished"
            if self.history.entries[-1]["role"] == "assistant":
                if self.tools.closed():
                    return "finished"
                if reminded:
                    return "no_call"
                reminded = True
                self._remind()
            if self.totals["turns"] >= self.options["max_turns"]:
                return "max_turns"
            calls = self._turn()
            reminded = reminded and not calls

    def _turn(self) -> list[Call]:
        """One message of the model's, kept; the tools it calls."""
        answer = self._answer()
        self.totals["turns"] += 1
        split_thoughts(answer)
        self.cut = answer.finish == "length"
        say(
            "message", turn=self.totals["turns"], text=answer.text or answer.refusal, reasoning=answer.reasoning,
            response_id=answer.id, finish_reason=answer.finish, usage=answer.usage,
        )  # fmt: skip
        calls = answer.calls if self.history.native else fenced_calls(answer.text)
        if not calls and (answer.refusal or answer.finish == "content_filter"):
            raise Failure(
                "refusal",
                answer.refusal or "the answer was held back by the provider's content filter",
            )
        known = self.history.ids()
        for call in calls:
            call.id = _unique(call.id or "call", known)
        self.history.append_answer(answer, calls)
        return calls

    def _answer(self) -> Answer:
        limit = self.options["context_tokens"]
        if limit is not None:
            room = limit - (self.options["max_output_tokens"] or 0)
            if self.history.tokens() > room:
                self._compact("estimate", int(_ROOM * room))
        try:
            return self._request()
        except Failure as failure:
            if failure.kind != "context" or not self._compact("server", self.history.tokens() // 2):
                raise
        return self._request()

    def _request(self) -> Answer:
        characters = self.history.characters()
        began = time.monotonic()
        self.totals["requests"] += 1
        try:
            answer = ask(self.server, self._body(), self._print)
        finally:
            self.totals["model_ms"] += int(1000 * (time.monotonic() - began))
        for key in ("prompt_tokens", "completion_tokens"):
            count = (answer.usage or {}).get(key)
            self.totals[key] += count if type(count) is int else 0
        self.history.learn(characters, (answer.usage or {}).get("prompt_tokens"))
        return answer

    def _print(self, event: str, /, **more: Any) -> None:
        self.totals["requests"] += event == "retry"
        say(event, **more)

    def _body(self) -> dict[str, Any]:
        options = self.options
        body: dict[str, Any] = {"model": self.model, "messages": self.history.messages()}
        if self.history.native:
            body["tools"] = schemas(self.tools.shell_seconds)
        if options["stream"]:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        for key, value in (
            ("temperature", options["temperature"]),
            ("top_p", options["top_p"]),
            (options["output_limit_key"], options["max_output_tokens"]),
            ("reasoning_effort", options["effort"] or None),
            ("seed", self.seed if options["send_seed"] else None),
        ):
            if value is not None:
                body[key] = value
        return {**body, **options["request"]}

    def _compact(self, reason: str, wanted: int) -> bool:
        """Whether anything could be dropped."""
        before = self.history.tokens()
        outputs, characters = self.history.compact(wanted)
        if outputs:
            say(
                "compaction", reason=reason, outputs=outputs, characters=characters, tokens_before=before,
                tokens_after=self.history.tokens(),
            )  # fmt: skip
        return outputs > 0

    def _use(self, call: Call) -> Result:
        arguments = parsed(call.arguments)
        wrong = isinstance(arguments, str)
        say(
            "tool_call",
            id=call.id,
            name=call.name,
            arguments={"input": call.arguments} if wrong else arguments,
        )
        began = time.monotonic()
        if isinstance(arguments, str):
            what = call.name or "Your tool block cannot be read"
            result = Result(f"{what}: {arguments}.{_CUT if self.cut else ''}", failed=True)
        else:
            result = self.tools.use(call.name, arguments)
        seconds = time.monotonic() - began
        self.totals["tool_calls"] += 1
        self.totals["tool_ms"] += int(1000 * seconds)
        self._keep(call, result, seconds)
        return result

    def _keep(self, call: Call, result: Result, seconds: float) -> None:
        say(
            "tool_result", id=call.id, name=call.name, text=result.text, failed=result.failed,
            submission=result.submission, seconds=round(seconds, 3),
        )  # fmt: skip
        self.history.append("tool", result.text, id=call.id, name=call.name)

    def _remind(self) -> None:
        text = (
            _REMINDER + ("" if self.history.native else _TEXT_REMINDER) + (_CUT if self.cut else "")
        )
        say("reminder", text=text)
        self.history.append("user", text)

    def interrupt(self) -> None:
        """Answer what an earlier process began and did not end."""
        for call in self.history.pending():
            self._keep(call, Result(_INTERRUPTED, failed=True), 0.0)


def _unique(name: str, known: set[str]) -> str:
    """`name`, or it with a number: servers number their calls anew in each message."""
    number, free = 1, name
    while free in known:
        number += 1
        free = f"{name}_{number}"
    known.add(free)
    return free


def _begin(payload: Mapping[str, Any], prompt: str) -> tuple[Chat, bool]:
    """The loop as the options file says, and whether it goes on with an earlier conversation."""
    options, variable = payload["options"], payload["key_variable"]
    native = options["tool_form"] == "native"
    session_id = (
        payload["session_id"] if re.fullmatch("[0-9a-f]{32}", payload["session_id"]) else ""
    )
    folder = Path.home() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    history = History(
        folder / f"{session_id or uuid.uuid4().hex}.jsonl", native, options["return_reasoning"]
    )
    loaded = bool(session_id) and history.load()
    server = Server(
        payload["url"], os.environ.get(variable, ""), options["request_seconds"], options["retries"],
        options["retry_seconds"],
    )  # fmt: skip
    tools = Toolbox(
        Path(payload["workspace"]), payload["session_command"], options["shell_seconds"], options["output_bytes"],
        {name: value for name, value in os.environ.items() if name != variable},
    )  # fmt: skip
    if not loaded:
        if native:
            history.append("system", _SYSTEM)
        else:
            history.append("user", f"{_SYSTEM}\n\n{_FORM}{described(tools.shell_seconds)}")
        history.append("user", prompt + (f"\n\n{_GOES_ON}" if payload["resumed"] else ""))
    return Chat(options, payload["model"], payload["seed"], server, history, tools), loaded


def run(path: str) -> None:
    """Work as the file `path` says, with the prompt from standard input, and exit: 0 when done, 1
    when it could not."""
    payload = json.loads(Path(path).read_text(encoding="utf-8"))
    chat, loaded = _begin(payload, sys.stdin.read())
    opening = (
        []
        if loaded
        else [{"role": entry["role"], "text": entry["text"]} for entry in chat.history.entries]
    )
    say(
        "start", session_id=chat.history.path.stem, model=chat.model, tool_form=chat.options["tool_form"],
        continued=loaded, messages=opening,
    )  # fmt: skip
    try:
        chat.interrupt()
        reason = "finished" if loaded and chat.tools.closed() else chat.work()
    except Failure as failure:
        say("error", kind=failure.kind, status=failure.status, text=str(failure), response_id=failure.response_id,
            totals=_totals(chat))  # fmt: skip
        print(failure, file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        say("error", kind="other", text=f"{type(error).__name__}: {error}", totals=_totals(chat))
        raise
    say("done", reason=reason, totals=_totals(chat))


def _totals(chat: Chat) -> dict[str, int]:
    names = (
        "requests",
        "turns",
        "tool_calls",
        "prompt_tokens",
        "completion_tokens",
        "model_ms",
        "tool_ms",
    )
    return {name: chat.totals[name] for name in names}
