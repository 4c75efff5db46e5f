"""The session's verbs for whoever speaks the Model Context Protocol: its own SDK, and lines of any
kind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import Refused
from evopolicy.session import mcp
from tests.session.conftest import CLIENT

COMMAND = [sys.executable, "-I", "-S", str(CLIENT), "mcp"]


def talk(workspace: Path, *lines: str | bytes) -> list[dict[str, Any]]:
    """What the server says to these lines, each a reply or nothing."""
    sent = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    done = subprocess.run(
        [*COMMAND, str(workspace)], input=sent, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def asks(method: str, number: int = 1, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def calls(name: str, **arguments: Any) -> str:
    return asks("tools/call", name=name, arguments=arguments)


def test_the_protocols_own_client_lists_and_calls_the_tools(workspace: Path, handler: Any) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    def bad(_: Any) -> dict[str, Any]:
        raise Refused("bad_selector", "index 99 is not in the pool", "choose from 0 to 7")

    handler.answers["submit"] = lambda given: (
        bad(given) if given["episodes"] == "99" else {"state": "open", **given}
    )

    async def work() -> list[Any]:
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], str(workspace)], cwd="/"
        )
        async with (
            stdio_client(server) as (reader, writer),
            ClientSession(reader, writer) as session,
        ):
            hello = await session.initialize()
            tools = (await session.list_tools()).tools
            good = await session.call_tool(
                "submit", {"dir": "program", "episodes": "0:4", "detach": True}
            )
            refused = await session.call_tool("submit", {"dir": "program", "episodes": "99"})
            finish = await session.call_tool("finish", {"ids": ["2", "1"]})
            return [hello, tools, good, refused, finish]

    hello, tools, good, refused, finish = asyncio.run(work())
    assert "TASK.md" in hello.instructions
    assert [tool.name for tool in tools] == [
        "status",
        "check",
        "submit",
        "wait",
        "feedback",
        "finish",
    ]
    shown = (
        good.structured_content if hasattr(good, "structured_content") else good.structuredContent
    )
    assert shown == {"state": "open", "path": "program", "episodes": "0:4", "detach": True}
    assert json.loads(good.content[0].text) == shown
    assert refused.content[0].text == "index 99 is not in the pool choose from 0 to 7"
    assert json.loads(finish.content[0].text)["state"] == "open" and handler.calls[-1] == (
        "finish",
        {"candidates": [2, 1]},
    )


def test_a_tool_takes_what_the_command_line_takes(workspace: Path) -> None:
    (answer,) = talk(workspace, asks("tools/list"))
    tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
    submit = tools["submit"]["inputSchema"]
    assert set(submit["properties"]) == {"dir", "episodes", "detach"} and set(
        submit["required"]
    ) == {"dir", "episodes"}
    assert (
        "half-open" in tools["submit"]["description"]
        and "exit code" not in tools["submit"]["description"]
    )
    assert tools["finish"]["inputSchema"]["properties"]["ids"]["type"] == "array"
    assert all(tool["description"] for tool in tools.values())


@pytest.mark.parametrize("revision", [*mcp.REVISIONS, "1999-01-01", None])
def test_a_revision_it_knows_is_agreed_on_and_else_its_newest(
    workspace: Path, revision: str | None
) -> None:
    (answer,) = talk(workspace, asks("initialize", protocolVersion=revision))
    assert answer["result"]["protocolVersion"] == (
        revision if revision in mcp.REVISIONS else mcp.REVISIONS[0]
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{", -32700, "A line of JSON"),
        (b"\xff\xfe", -32700, "A line of JSON"),
        ("[" * 100_000, -32700, "A line of JSON"),
        ("x" * (mcp.MAX_LINE_BYTES + 10), -32700, "A line of JSON"),
        ("[]", -32600, "One request in a line"),
        ('{"id": 1}', -32600, "One request in a line"),
        (asks("resources/list"), -32601, "no method 'resources/list'"),
        ('{"id": 1, "method": "tools/call", "params": [1]}', -32602, "params: an object"),
        (calls("submitt"), -32602, "Did you mean submit?"),
        (calls("mcp"), -32602, "no tool 'mcp'"),
        (calls("submit", directory="program"), -32602, "It takes: dir, episodes, detach."),
        (calls("submit", dir="program", episodes="0", detach="yes"), -32602, "true or false"),
        (calls("submit", dir=["program"], episodes="0"), -32602, "submit.dir: text is needed"),
        (calls("finish", ids=[True]), -32602, "finish.ids: text is needed"),
    ],
)  # fmt: skip
def test_what_is_no_request_gets_an_error_and_the_next_one_its_answer(
    workspace: Path, handler: Any, line: str | bytes, code: int, said: str
) -> None:
    wrong, after = talk(workspace, line, calls("status"))
    assert wrong["error"]["code"] == code and said in wrong["error"]["message"]
    assert after["result"]["structuredContent"]["state"] == "open" and [
        verb for verb, _ in handler.calls
    ] == ["status"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (calls("submit", dir="program"), "--episodes"),
        (calls("submit", dir="--help", episodes="0"), "no folder '--help'"),
        (calls("submit", dir="../elsewhere", episodes="0"), "outside the workspace"),
        (calls("feedback", submission="last"), "not the number of a Submission"),
    ],
)  # fmt: skip
def test_a_call_that_would_be_wrong_on_the_command_line_says_the_same(
    workspace: Path, handler: Any, line: str, said: str
) -> None:
    (answer,) = talk(workspace, line)
    assert answer["result"]["isError"] is True and said in answer["result"]["content"][0]["text"]
    assert handler.calls == []


def test_notifications_get_no_answer(workspace: Path) -> None:
    told = talk(
        workspace, '{"jsonrpc": "2.0", "method": "notifications/initialized"}', asks("ping", 7)
    )
    assert told == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


def test_a_folder_that_is_no_workspace_is_told_at_once(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("EVOPOLICY_")}
    for folder, said in (
        (tmp_path, "No Session is known here"),
        (tmp_path / "none", "No such file"),
    ):
        done = subprocess.run(
            [*COMMAND, str(folder)],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2 and said in done.stderr
