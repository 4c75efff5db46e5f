"""What Codex prints, read back. The streams are written in its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.codex.refused import with_refused
from evopolicy.agents.codex.stream import read_stream
from evopolicy.kernel.ports.transcript import Transcript, Usage

THREAD = "01b2c3d4-0000-7000-8000-000000000001"
STARTED = {"type": "thread.started", "thread_id": THREAD}
TURN = {"type": "turn.started"}


def item(name: str, kind: str, phase: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"item.{phase}", "item": {"id": name, "type": kind, **more}}


def shell(name: str, command: str, output: str | None = None, code: int = 0) -> dict[str, Any]:
    if output is None:
        running = {"aggregated_output": "", "exit_code": None, "status": "in_progress"}
        return item(name, "command_execution", "started", command=command, **running)
    status = "failed" if code else "completed"
    return item(
        name,
        "command_execution",
        command=command,
        aggregated_output=output,
        exit_code=code,
        status=status,
    )


def ended(read: int = 900, cached: int = 300, wrote: int = 50, thought: int = 20) -> dict[str, Any]:
    usage = {"input_tokens": read, "cached_input_tokens": cached, "cache_write_input_tokens": 0}
    return {
        "type": "turn.completed",
        "usage": {**usage, "output_tokens": wrote, "reasoning_output_tokens": thought},
    }


def lines(*events: Mapping[str, Any]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


WELL = lines(
    STARTED,
    item("item_0", "error", message="Model metadata not found."),
    TURN,
    item("item_1", "reasoning", text="First the task."),
    item("item_2", "agent_message", text="I read it."),
    shell("item_3", "cat TASK.md"),
    shell("item_3", "cat TASK.md", "# CartPole\n"),
    shell("item_4", "evopolicy-session submit program --episodes 0:2"),
    shell("item_4", "evopolicy-session submit program --episodes 0:2", '{"submission": {"id": 1}}'),
    item("item_5", "reasoning", text="It falls."),
    item(
        "item_6",
        "file_change",
        "started",
        changes=[{"path": "/workspace/program/policy.py", "kind": "update"}],
    ),
    item(
        "item_6",
        "file_change",
        changes=[{"path": "/w/policy.py", "kind": "update"}],
        status="completed",
    ),
    item("item_7", "agent_message", text="Done."),
    ended(),
)


def test_a_stream_becomes_steps_with_their_calls_and_results() -> None:
    read = read_stream(WELL)
    assert [(step.source, step.text, step.reasoning, step.line) for step in read.steps] == [
        ("system", "Model metadata not found.", "", 1),
        ("agent", "I read it.", "First the task.", 3),
        ("agent", "", "", 7),
        ("agent", "", "It falls.", 9),
        ("agent", "Done.", "", 12),
    ]
    calls = [call for step in read.steps for call in step.calls]
    assert [(call.name, call.line, call.result_line, call.failed) for call in calls] == [
        ("command_execution", 5, 6, False),
        ("command_execution", 7, 8, False),
        ("file_change", 10, 11, False),
    ]
    assert calls[0].arguments == {"command": "cat TASK.md"} and calls[0].result == "# CartPole\n"
    assert (read.completed, read.error, read.session_id) == (True, "", THREAD)
    assert read.usage == Usage(600, 300, 0, 50, 20) and not read.unknown_events


def test_a_command_that_never_ended_is_a_call_without_a_result() -> None:
    read = read_stream(lines(STARTED, TURN, shell("item_1", "sleep 999"), ended()))
    assert read.steps[0].calls[0].result is None and read.completed


def test_calls_made_at_once_belong_to_one_step() -> None:
    one, two = shell("a", "one"), shell("b", "two")
    read = read_stream(
        lines(STARTED, TURN, one, two, shell("b", "two", "2"), shell("a", "one", "1", 3), ended())
    )
    (step,) = read.steps
    assert [(call.result, call.failed, call.result_line) for call in step.calls] == [
        ("1", True, 5),
        ("2", False, 4),
    ]


def test_tools_of_servers_have_their_arguments_result_and_error() -> None:
    told: dict[str, Any] = {"server": "notes", "tool": "add", "arguments": {"text": "hi"}}
    content = {"content": [{"type": "text", "text": "kept"}], "structured_content": None}
    read = read_stream(
        lines(
            item("x", "mcp_tool_call", **told, result=content, error=None, status="completed"),
            item(
                "y",
                "mcp_tool_call",
                **told,
                result=None,
                error={"message": "timed out"},
                status="failed",
            ),
        )
    )
    (kept,), (late,) = (step.calls for step in read.steps)
    assert (kept.name, kept.arguments, kept.result, kept.failed) == (
        "mcp__notes__add",
        {"text": "hi"},
        "kept",
        False,
    )
    assert (late.result, late.failed) == ("timed out", True)


FAULTS = [
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
    ("You've hit your usage limit. Try again in 3 hours.", "rate_limit"),
    ("Quota exceeded. Check your plan and billing details.", "authentication"),
    (
        "unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:8100/responses",
        "authentication",
    ),
    ("unexpected status 403 Forbidden: no", "authentication"),
    (
        "unexpected status 404 Not Found: The model `x` does not exist or you do not have access "
        "to it",
        "other",
    ),
    ("Missing environment variable: `OPENAI_API_KEY`.", "authentication"),
    ("We're currently experiencing high demand, which may cause temporary errors.", "overload"),
    ("unexpected status 529 : busy", "overload"),
    ("stream disconnected before completion: error sending request", "network"),
    ("Codex ran out of room in the model's context window. Start a new thread.", "context"),
    ("This content was flagged for possible cybersecurity risk.", "refusal"),
    (
        "stream disconnected before completion: Incomplete response returned, reason: "
        "content_filter",
        "refusal",
    ),
    (
        "stream disconnected before completion: Incomplete response returned, reason: "
        "max_output_tokens",
        "context",
    ),
    ("workspace routing discovery failed", "network"),
    ("something nobody has seen", "other"),
]


@pytest.mark.parametrize(("words", "kind"), FAULTS)
def test_a_failed_turn_says_how_its_provider_failed(words: str, kind: str) -> None:
    again = {"type": "error", "message": f"Reconnecting... 1/5 ({words})"}
    read = read_stream(
        lines(STARTED, TURN, again, {"type": "turn.failed", "error": {"message": words}})
    )
    assert (read.completed, read.error, read.error_kind) == (False, words, kind)


def test_asking_again_is_an_error_only_while_no_answer_comes() -> None:
    again = {
        "type": "error",
        "message": "Reconnecting... 1/5 (stream disconnected before completion)",
    }
    assert read_stream(lines(STARTED, TURN, again)).error_kind == "network"
    answered = read_stream(lines(STARTED, TURN, again, item("a", "agent_message", text="Here.")))
    assert (answered.error, answered.completed) == ("", False)
    assert read_stream(
        lines(STARTED, TURN, again, item("a", "agent_message", text="Here."), ended())
    ).completed


def test_what_is_said_before_the_first_event_comes_from_standard_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(
        "WARNING: no aliases\nError: thread not found: log in again\n"
    )
    read = read_stream(lines(STARTED), tmp_path)
    assert (read.error, read.error_kind) == (
        "Error: thread not found: log in again",
        "authentication",
    )
    assert read_stream(WELL, tmp_path).error == ""


def attempt(
    folder: Path, number: int, *events: Mapping[str, Any], host_counts: bool = False
) -> Path:
    logs = folder / f"attempt-{number}"
    logs.mkdir()
    (logs / "stdout.log").write_text("".join(lines(*events)))
    (logs / "invocation.json").write_text(
        json.dumps({"network": "proxy" if host_counts else "open"})
    )
    return logs


def record(logs: Path, *totals: tuple[int, int], thread: str = THREAD) -> None:
    """Codex's own record of a thread: what it had read and written in all, after each answer."""
    folder = logs / "home" / ".codex" / "sessions" / "2026" / "11" / "30"
    folder.mkdir(parents=True)
    entries = [
        {
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"total_token_usage": usage}},
        }
        for usage in ({"input_tokens": read, "output_tokens": wrote} for read, wrote in totals)
    ]
    (folder / f"rollout-2026-11-30T00-00-00-{thread}.jsonl").write_text("".join(lines(*entries)))


def read_attempt(logs: Path) -> Transcript:
    return read_stream((logs / "stdout.log").read_text().splitlines(keepends=True), logs)


def test_a_resumed_threads_usage_is_what_was_added(tmp_path: Path) -> None:
    attempt(tmp_path, 1, STARTED, TURN, ended(read=900, cached=300, wrote=50, thought=20))
    attempt(tmp_path, 2, {"type": "thread.started", "thread_id": "another"}, TURN, ended(read=5000))
    third = attempt(tmp_path, 3, STARTED, TURN, ended(read=2000, cached=700, wrote=80, thought=30))
    assert read_attempt(third).usage == Usage(700, 400, 0, 30, 10)


def test_a_new_threads_usage_is_its_own(tmp_path: Path) -> None:
    attempt(tmp_path, 1, {"type": "thread.started", "thread_id": "another"}, TURN, ended(read=5000))
    assert read_attempt(attempt(tmp_path, 2, STARTED, TURN, ended())).usage == Usage(
        600, 300, 0, 50, 20
    )


def test_a_turn_that_never_ended_counts_by_codexs_own_record(tmp_path: Path) -> None:
    failed = {"type": "turn.failed", "error": {"message": "stream disconnected"}}
    first = attempt(tmp_path, 1, STARTED, TURN, failed)
    record(first, (100, 5), (300, 10))
    assert read_attempt(first).usage == Usage(300, 0, 0, 10, 0)
    second = attempt(tmp_path, 2, STARTED, TURN, ended(read=1000, cached=0, wrote=30, thought=0))
    assert read_attempt(second).usage == Usage(700, 0, 0, 20, 0)


def test_where_the_host_counts_a_broken_turn_its_home_is_not_asked(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1, STARTED, TURN, host_counts=True)
    record(first, (1, 1))
    assert read_attempt(first).usage == Usage()


def test_what_is_not_known_is_counted() -> None:
    read = read_stream(
        [*lines({"type": "new"}, item("a", "hologram"), {"type": "item.completed"}), "no json\n"]
    )
    assert (
        read.unknown_events == {"new": 1, "item hologram": 1, "item.completed": 1}
        and read.malformed_lines == 1
    )
    odd = read_stream(lines({"type": "item.completed", "item": {"type": ["hologram"]}}))
    assert odd.unknown_events == {"item ['hologram']": 1}


def test_a_line_of_ten_megabytes_is_read_whole() -> None:
    output = "x" * 10_000_000
    read = read_stream(lines(STARTED, TURN, shell("a", "yes", output), ended()))
    assert read.steps[0].calls[0].result == output and read.completed


def test_a_stream_cut_within_a_line_is_not_completed() -> None:
    text = "".join(WELL)[:-20]
    read = read_stream(text.splitlines(keepends=True))
    assert (read.completed, read.malformed_lines) == (False, 1) and len(read.steps) == 5


def test_a_command_that_codex_refused_is_told_where_the_agent_asked_for_it_and_once(
    tmp_path: Path,
) -> None:
    def said(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": "response_item", "payload": {"type": kind, **more}}

    def asked(call: str, command: str, output: str) -> list[dict[str, Any]]:
        arguments = json.dumps({"cmd": command})
        return [
            said("function_call", name="exec_command", call_id=call, arguments=arguments),
            said("function_call_output", call_id=call, output=output),
        ]

    no = 'exec_command failed: CreateProcess { message: "Rejected(\\"not permitted\\")" }'
    words = said(
        "message", role="assistant", content=[{"type": "output_text", "text": "I clean up."}]
    )
    earlier = asked("call_0", "rm -rf old", no)
    more = [
        words,
        *asked("call_1", "rm -rf junk", no),
        *asked("call_2", "ls", "exec_command failed: no such file"),
    ]
    for attempt, events in ((1, earlier), (2, [*earlier, *more])):
        place = tmp_path / f"attempt-{attempt}" / "home" / ".codex" / "sessions"
        place.mkdir(parents=True)
        (place / f"rollout-{THREAD}.jsonl").write_text("\n".join(map(json.dumps, events)))
    stream = lines(
        STARTED,
        TURN,
        item("i1", "agent_message", text="I clean up."),
        shell("i2", "ls", "a"),
        ended(),
    )
    read = with_refused(read_stream(stream), tmp_path / "attempt-2")
    calls = {call.id: call for step in read.steps for call in step.calls}
    assert list(calls) == ["i2", "call_1"] and len(read.steps) == 1
    assert (calls["call_1"].arguments, calls["call_1"].failed, calls["call_1"].result) == (
        {"cmd": "rm -rf junk"},
        True,
        no,
    )
    first = with_refused(read_stream(lines(STARTED)), tmp_path / "attempt-1")
    assert [call.id for step in first.steps for call in step.calls] == ["call_0"], (
        "at the end where its words are not"
    )
