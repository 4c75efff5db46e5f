"""What a chat model is told of its tools, and whether a call is one of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tool:
    """What the model is told of one tool."""

    about: str
    parameters: Mapping[str, tuple[str, str]]
    """Type (`string`, `integer` or `integers`) and meaning, by name."""
    required: tuple[str, ...] = ()


_FOLDER = (
    "string",
    "The Program's folder, relative to the workspace; `program` unless you say otherwise.",
)
TOOLS: dict[str, Tool] = {
    "shell": Tool(
        "Run a command by the shell, in the workspace. Standard output and error come back "
        "together, the middle of a long output is left out. Everything the command started is "
        "ended with it.",
        {
            "command": ("string", "The command."),
            "seconds": (
                "integer",
                "Time after which it is killed, at most {shell_seconds}, which is also the "
                "default.",
            ),
        },
        ("command",),
    ),
    "read": Tool(
        "Read a text file, or list a folder.",
        {
            "path": ("string", "Relative to the workspace, or absolute."),
            "first_line": ("integer", "The first line to read, from 1."),
            "last_line": ("integer", "The last line to read."),
        },
        ("path",),
    ),
    "edit": Tool(
        "Change a file: replace `old`, which has to be in it exactly once, by `new`; or give "
        "`content` to write the whole file.",
        {
            "path": ("string", "Relative to the workspace, or absolute."),
            "old": ("string", "The exact text to replace, with its spaces and line ends."),
            "new": ("string", "What comes in its place."),
            "content": ("string", "The whole file, instead of `old` and `new`."),
        },
        ("path",),
    ),
    "status": Tool("What is left of the budget, and every Submission so far. Costs nothing.", {}),
    "check": Tool(
        "Load the Program and try it on sampled observations. Costs no Episode.",
        {"folder": _FOLDER},
    ),
    "submit": Tool(
        "Measure the Program on Episodes you choose and wait for its Feedback. Each Episode costs "
        "one unit.",
        {
            "episodes": ("string", "Pool indices: `0:8` is 0 to 7, `0:8,12` has 12 too."),
            "folder": _FOLDER,
        },
        ("episodes",),
    ),
    "wait": Tool("Wait for a Submission that still runs.", {}),
    "feedback": Tool(
        "The Feedback of a Submission, and the folder of its files.",
        {"submission": ("integer", "Its number; the latest unless you say.")},
    ),
    "finish": Tool(
        "End the Session. Nothing can be done after it.",
        {"submissions": ("integers", "Numbers of the Submissions you stand by, best first.")},
    ),
}


class Mistaken(Exception):
    """A call that cannot be made; the text tells the model what to mend."""


def schemas(shell_seconds: float) -> list[dict[str, Any]]:
    """All tools in the protocol's own form."""
    functions = [
        {
            "name": name,
            "description": tool.about,
            "parameters": {
                "type": "object",
                "properties": {
                    key: _schema(kind, about, shell_seconds)
                    for key, (kind, about) in tool.parameters.items()
                },
                "required": list(tool.required),
            },
        }
        for name, tool in TOOLS.items()
    ]
    return [{"type": "function", "function": function} for function in functions]


def _schema(kind: str, about: str, shell_seconds: float) -> dict[str, Any]:
    about = about.replace("{shell_seconds}", f"{shell_seconds:g}")
    if kind == "integers":
        return {"type": "array", "items": {"type": "integer"}, "description": about}
    return {"type": kind, "description": about}


def described(shell_seconds: float) -> str:
    """All tools as text, for a model that is told of them in words."""
    lines = []
    for name, tool in TOOLS.items():
        lines.append(f"- {name}: {tool.about}")
        for key, (kind, about) in tool.parameters.items():
            needed = "" if key in tool.required else ", may be left out"
            about = about.replace("{shell_seconds}", f"{shell_seconds:g}")
            lines.append(
                f"    {key} ({'list of integers' if kind == 'integers' else kind}{needed}): {about}"
            )
    return "\n".join(lines)


def checked(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` as the tool takes them. Raises Mistaken for an unknown tool, or a missing,
    unknown or wrong one."""
    tool = TOOLS.get(name)
    if tool is None:
        near = difflib.get_close_matches(name, TOOLS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise Mistaken(f"There is no tool '{name[:80]}'.{hint} The tools are: {', '.join(TOOLS)}.")
    takes = ", ".join(tool.parameters) or "none"
    for key in tool.required:
        if arguments.get(key) is None:
            raise Mistaken(f"{name}: the argument '{key}' is missing. Its arguments are: {takes}.")
    known: dict[str, Any] = {}
    for key, value in arguments.items():
        if key not in tool.parameters:
            raise Mistaken(
                f"{name}: there is no argument '{key[:80]}'. Its arguments are: {takes}."
            )
        if value is not None:
            known[key] = _typed(name, key, tool.parameters[key][0], value)
    return known


def _typed(name: str, key: str, kind: str, value: Any) -> Any:
    """`value` as `kind`, from any plain way to write it."""
    if kind == "integers":
        items = (
            value if isinstance(value, list) else str(value).replace(",", " ").strip("[] ").split()
        )
        return [_typed(name, key, "integer", item) for item in items]
    if kind == "integer":
        whole = (
            isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        )
        if not whole and not (isinstance(value, str) and value.strip().lstrip("-").isdecimal()):
            raise Mistaken(f"{name}: '{key}' has to be an integer, found {json.dumps(value)[:80]}.")
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Mistaken(f"{name}: '{key}' has to be a string, found {json.dumps(value)[:80]}.")
    return value
