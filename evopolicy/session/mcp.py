"""`evopolicy-session mcp`: the session's verbs as tools of a Model Context Protocol server, JSON
lines on stdin/stdout.

Standard library only, Python 3.8 syntax, copied beside the client into sandboxes. What a tool is
called, takes and says is what the client's own command line has. The protocol:
https://modelcontextprotocol.io/specification."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, the newest first; what is used of it is the same in all."""
MAX_LINE_BYTES = 1024 * 1024
INSTRUCTIONS = (
    "You improve a Program from Environment Feedback. Read TASK.md in the workspace first; then "
    "edit the files of program/ with your own tools and call these to measure it. Folders are "
    "named relative to the workspace. Where an answer says that a Submission is running, call "
    "wait."
)
_HIDDEN = ("help", "human")
_NOT_FOUND, _BAD_REQUEST, _BAD_JSON, _BAD_PARAMS = -32601, -32600, -32700, -32602


class _Wrong(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(
    parser: argparse.ArgumentParser, answer: Callable[[Any], Any], refused: type[Exception]
) -> int:
    """Answer requests until standard input ends. `answer` makes a parsed call and raises
    `refused`."""
    verbs = _verbs(parser)
    for line in _lines():
        reply = _reply(line, parser, verbs, answer, refused)
        if reply is not None:
            print(json.dumps({"jsonrpc": "2.0", **reply}), flush=True)
    return 0


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline(MAX_LINE_BYTES):
        whole = line.endswith(b"\n") or len(line) < MAX_LINE_BYTES
        while not whole:
            line, more = b"", sys.stdin.buffer.readline(MAX_LINE_BYTES)  # too long: it is read away
            whole = more.endswith(b"\n") or not more
        yield line


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    verbs: dict[str, argparse.ArgumentParser] = next(
        a.choices for a in parser._actions if isinstance(a.choices, dict)
    )
    return {name: verb for name, verb in verbs.items() if name != "mcp"}


def _reply(
    line: bytes,
    parser: argparse.ArgumentParser,
    verbs: dict[str, argparse.ArgumentParser],
    answer: Callable[[Any], Any],
    refused: type[Exception],
) -> dict[str, Any] | None:
    number: Any = None
    try:
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            raise _Wrong(
                _BAD_JSON, f"A line of JSON with at most {MAX_LINE_BYTES} bytes is needed."
            ) from None
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            raise _Wrong(_BAD_REQUEST, "One request in a line is needed, an object with a method.")
        if "id" not in message:
            return None  # a notification: none of them asks for anything here
        number, params = message["id"], message.get("params") or {}
        if not isinstance(params, dict):
            raise _Wrong(_BAD_PARAMS, "params: an object is needed.")
        if message["method"] == "initialize":
            return {"id": number, "result": _hello(params)}
        if message["method"] == "ping":
            return {"id": number, "result": {}}
        if message["method"] == "tools/list":
            return {
                "id": number,
                "result": {"tools": [_tool(name, verb) for name, verb in verbs.items()]},
            }
        if message["method"] == "tools/call":
            return {"id": number, "result": _call(params, parser, verbs, answer, refused)}
        raise _Wrong(_NOT_FOUND, f"There is no method '{message['method'][:80]}' here.")
    except _Wrong as wrong:
        return {"id": number, "error": {"code": wrong.code, "message": str(wrong)}}


def _hello(params: dict[str, Any]) -> dict[str, Any]:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in REVISIONS else REVISIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "evopolicy-session", "version": "1"},
        "instructions": INSTRUCTIONS,
    }


def _options(verb: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {action.dest: action for action in verb._actions if action.dest not in _HIDDEN}


def _tool(name: str, verb: argparse.ArgumentParser) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key, action in _options(verb).items():
        shape: dict[str, Any] = {"type": "boolean" if action.nargs == 0 else "string"}
        if action.nargs == "*":
            shape = {"type": "array", "items": {"type": "string"}}
        properties[key] = {**shape, "description": str(action.help)}
    required = [key for key, action in _options(verb).items() if action.required]
    about = f"{verb.description}\n\n{verb.epilog}".partition("exit codes:")[0].strip()
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"name": name, "description": about, "inputSchema": schema}


def _call(
    params: dict[str, Any],
    parser: argparse.ArgumentParser,
    verbs: dict[str, argparse.ArgumentParser],
    answer: Callable[[Any], Any],
    refused: type[Exception],
) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or name not in verbs:
        near = difflib.get_close_matches(str(name), verbs, n=1)
        raise _Wrong(
            _BAD_PARAMS,
            f"There is no tool '{str(name)[:80]}'." + (f" Did you mean {near[0]}?" if near else ""),
        )
    if not isinstance(arguments, dict):
        raise _Wrong(_BAD_PARAMS, "arguments: an object is needed.")
    try:
        result = answer(parser.parse_args([name, *_argv(name, verbs[name], arguments)]))
    except refused as error:
        text = " ".join(part for part in (str(error), str(getattr(error, "remedy", ""))) if part)
        return {"content": [{"type": "text", "text": text}], "isError": True}
    return {
        "content": [{"type": "text", "text": json.dumps(result)}],
        "structuredContent": result,
        "isError": False,
    }


def _argv(name: str, verb: argparse.ArgumentParser, arguments: dict[str, Any]) -> list[str]:
    """The command line that says the same; whatever a value begins with, it is none of its
    options."""
    options, flags, positional = _options(verb), [], []
    for key, value in arguments.items():
        action = options.get(key)
        if action is None:
            text = ", ".join(options) or "none"
            raise _Wrong(
                _BAD_PARAMS, f"{name}: there is no argument '{key[:80]}'. It takes: {text}."
            )
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise _Wrong(_BAD_PARAMS, f"{name}.{key}: true or false is needed.")
            flags += [action.option_strings[0]] if value else []
            continue
        many = value if action.nargs == "*" and isinstance(value, list) else [value]
        if any(isinstance(part, bool) or not isinstance(part, (str, int)) for part in many):
            raise _Wrong(_BAD_PARAMS, f"{name}.{key}: text is needed.")
        if action.option_strings:
            flags.append(f"{action.option_strings[0]}={many[0]}")
        else:
            positional += [str(part) for part in many]
    return [*flags, "--", *positional] if positional else flags
