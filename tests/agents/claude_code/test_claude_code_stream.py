"""What Claude Code prints, read back. The streams are written in its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.claude_code.stream import read_stream
from evopolicy.kernel.ports.transcript import Usage

SESSION = "01b2c3d4-0000-4000-8000-000000000001"
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": SESSION,
    "model": "some-model",
    "tools": ["Bash"],
}


def says(name: str, *content: Mapping[str, Any], read: int = 100, **more: Any) -> dict[str, Any]:
    """One line of a message; a message of several blocks has a line for each."""
    usage = {
        "input_tokens": read,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "output_tokens": 1,
    }
    message = {
        "id": name,
        "role": "assistant",
        "model": "some-model",
        "content": list(content),
        "usage": usage,
    }
    return {
        "type": "assistant",
        "message": message,
        "parent_tool_use_id": None,
        "session_id": SESSION,
        **more,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def bash(name: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}


def gave(name: str, result: Any, failed: bool = False) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": name, "content": result, "is_error": failed}]
    return {"type": "user", "message": {"role": "user", "content": content}, "session_id": SESSION}


def model_usage(read: int, wrote: int) -> dict[str, Any]:
    counts = {
        "inputTokens": read,
        "outputTokens": wrote,
        "cacheReadInputTokens": 20,
        "cacheCreationInputTokens": 10,
    }
    return {"some-model": {**counts, "costUSD": 0.5}}


def ended(**more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 200, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 10}
    return {
        "type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "num_turns": 2,
        "result": "Done.", "stop_reason": "end_turn", "session_id": SESSION, "total_cost_usd": 0.5,
        "usage": {**usage, "output_tokens": 60}, "modelUsage": model_usage(200, 60), **more,
    }  # fmt: skip


def failed(words: str, status: int | None = None, **more: Any) -> dict[str, Any]:
    return ended(is_error=True, result=words, api_error_status=status, modelUsage={}, **more)


def synthetic(words: str, error: str, stop: str = "stop_sequence") -> dict[str, Any]:
    """A message Claude Code writes itself."""
    event = says("made-up", text(words), error=error)
    event["message"] |= {"model": "<synthetic>", "stop_reason": stop}
    return event


def again(status: int | None, error: str) -> dict[str, Any]:
    told = {
        "attempt": 1,
        "max_retries": 10,
        "retry_delay_ms": 500,
        "error_status": status,
        "error": error,
    }
    return {"type": "system", "subtype": "api_retry", "session_id": SESSION, **told}


def lines(*events: Mapping[str, Any]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


WELL = lines(
    INIT,
    says("msg_1", {"type": "thinking", "thinking": "First the task.", "signature": "x"}),
    says("msg_1", text("I read it.")),
    says("msg_1", bash("toolu_1", "cat TASK.md")),
    gave("toolu_1", "# CartPole"),
    says("msg_2", bash("toolu_2", "exit 3")),
    gave("toolu_2", [text("Exit code 3")], failed=True),
    says("msg_3", text("Done.")),
    ended(),
)


def test_a_stream_becomes_steps_with_their_calls_and_results() -> None:
    read = read_stream(WELL)
    assert [(step.source, step.text, step.reasoning, step.line) for step in read.steps] == [
        ("agent", "I read it.", "First the task.", 1),
        ("agent", "", "", 5),
        ("agent", "Done.", "", 7),
    ]
    (first,), (second,), _ = (step.calls for step in read.steps)
    assert (first.name, first.arguments, first.result) == (
        "Bash",
        {"command": "cat TASK.md"},
        "# CartPole",
    )
    assert (first.line, first.result_line, first.failed) == (3, 4, False)
    assert (second.result, second.failed) == ("Exit code 3", True)
    assert (read.completed, read.error, read.session_id) == (True, "", SESSION)
    assert read.usage == Usage(200, 20, 10, 60, cost_usd=0.5)
    assert read.response_ids == ("msg_1", "msg_2", "msg_3") and not read.unknown_events


def test_messages_of_several_agents_at_once_keep_their_calls_and_results() -> None:
    read = read_stream(
        lines(
            says("msg_1", bash("a", "one")),
            says("sub_1", bash("b", "two"), parent_tool_use_id="a"),
            says("msg_1", text("Both run.")),
            gave("b", "2"),
            gave("a", "1"),
            ended(),
        )
    )
    calls = {call.id: call.result for step in read.steps for call in step.calls}
    assert calls == {"a": "1", "b": "2"} and [step.text for step in read.steps] == [
        "",
        "",
        "Both run.",
    ]
    assert read.response_ids == ("msg_1", "sub_1")


FAULTS: list[tuple[list[dict[str, Any]], str]] = [
    (
        [
            synthetic("Failed to authenticate.", "authentication_failed"),
            failed("API Error: 403 no", 403),
        ],
        "authentication",
    ),
    (
        [synthetic("Invalid API key", "authentication_failed"), failed("Invalid API key", 401)],
        "authentication",
    ),
    (
        [synthetic("It may not exist.", "model_not_found"), failed("issue with the model", 404)],
        "other",
    ),
    (
        [synthetic("Credit balance is too low", "billing_error"), failed("Credit balance", 400)],
        "authentication",
    ),
    ([failed("Not logged in. Please run /login")], "authentication"),
    ([again(429, "rate_limit"), failed("API Error: 429 slow down", 429)], "rate_limit"),
    ([again(529, "overloaded"), failed("API Error: 529 busy", 529)], "overload"),
    ([synthetic("API Error: 500", "server_error"), failed("API Error: 500", 500)], "overload"),
    ([again(None, "unknown"), failed("API Error: Connection error.")], "network"),
    (
        [synthetic("Prompt is too long", "invalid_request"), failed("Prompt is too long", 400)],
        "context",
    ),
    (
        [
            synthetic("It appears to violate our policy", "invalid_request", "refusal"),
            failed("violates"),
        ],
        "refusal",
    ),
    ([says("msg_1", text("No.")), ended(stop_reason="refusal")], "refusal"),
    (
        [
            says("msg_1", bash("toolu_1", "ls")),
            gave("toolu_1", ""),
            ended(stop_reason="tool_use", result=""),
        ],
        "network",
    ),
    ([ended(stop_reason=None, result="", modelUsage={})], "network"),
    ([failed("Reached maximum number of turns (2)", subtype="error_max_turns")], "other"),
]


@pytest.mark.parametrize(("events", "kind"), FAULTS)
def test_a_failed_run_says_how_its_provider_failed(events: list[dict[str, Any]], kind: str) -> None:
    read = read_stream(lines(INIT, *events))
    assert (read.completed, read.error_kind) == (False, kind) and read.error


def test_a_result_that_names_success_and_an_error_is_no_success() -> None:
    read = read_stream(lines(INIT, failed("API Error: 529", 529)))
    assert (read.completed, read.error) == (False, "API Error: 529")


def test_an_interrupted_run_has_its_errors_in_a_list() -> None:
    event = ended(subtype="error_during_execution", is_error=True, errors=["aborted"])
    del event["result"]
    assert read_stream(lines(INIT, event)).error == "aborted"


@pytest.mark.parametrize(
    ("status", "error", "kind"), [(529, "overloaded", "overload"), (None, "unknown", "network")]
)
def test_asking_again_is_an_error_only_while_no_answer_comes(
    status: int | None, error: str, kind: str
) -> None:
    assert read_stream(lines(INIT, again(status, error))).error_kind == kind
    answered = read_stream(lines(INIT, again(status, error), says("msg_1", text("Here."))))
    assert (answered.error, answered.completed) == ("", False)


def test_what_is_said_before_the_first_event_comes_from_standard_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("No conversation found with session ID: 0a1b\n")
    read = read_stream([], tmp_path)
    assert (read.completed, read.error) == (False, "No conversation found with session ID: 0a1b")
    assert read_stream(WELL, tmp_path).error == ""


def test_the_totals_count_the_summary_of_a_long_session_which_no_message_shows() -> None:
    compacted = {"type": "system", "subtype": "compact_boundary", "session_id": SESSION}
    continued = {
        "type": "user",
        "message": {"role": "user", "content": "This session is being continued."},
    }
    read = read_stream(
        lines(
            INIT,
            says("msg_1", text("a")),
            compacted,
            continued,
            ended(modelUsage=model_usage(900, 90)),
        )
    )
    assert (read.usage.input_tokens, read.usage.output_tokens, read.response_ids) == (900, 90, ())
    assert [step.source for step in read.steps] == ["agent", "user"]


def attempt(folder: Path, network: str) -> Path:
    """Logs of a process that was ended early; its own record knows what each message used."""
    kept = folder / "home" / ".claude" / "projects" / "-workspace"
    kept.mkdir(parents=True)
    entries = []
    for name, wrote in (("msg_0", 999), ("msg_1", 25), ("msg_1", 25), ("msg_2", 30)):
        event = says(name, text("a"))
        event["message"]["usage"]["output_tokens"] = wrote
        entries.append(event)
    (kept / f"{SESSION}.jsonl").write_text("".join(lines(*entries)))
    (folder / "invocation.json").write_text(json.dumps({"network": network}))
    return folder


def test_a_process_ended_early_counts_its_own_messages_by_its_record(tmp_path: Path) -> None:
    stream = lines(INIT, says("msg_1", text("a")), says("msg_2", text("b")))
    assert read_stream(stream, attempt(tmp_path / "a", "allowlist")).usage == Usage(200, 20, 10, 55)
    # Where the Host counts, and while it runs, only what the stream says: nothing of the output.
    for logs in (attempt(tmp_path / "b", "proxy"), None):
        assert read_stream(stream, logs).usage == Usage(200, 20, 10, None)


def test_what_is_not_known_is_counted() -> None:
    new = {"type": "system", "subtype": "new"}
    read = read_stream([*lines({"type": "new"}, new, says("m", {"type": "hologram"})), "no json\n"])
    assert (
        read.unknown_events == {"new": 1, "system new": 1, "block hologram": 1}
        and read.malformed_lines == 1
    )


def test_a_line_of_ten_megabytes_is_read_whole() -> None:
    result = "x" * 10_000_000
    read = read_stream(lines(INIT, says("msg_1", bash("a", "yes")), gave("a", result), ended()))
    assert read.steps[0].calls[0].result == result and read.completed


def test_a_stream_cut_within_a_line_is_not_completed() -> None:
    read = read_stream("".join(WELL)[:-20].splitlines(keepends=True))
    assert (read.completed, read.malformed_lines, len(read.steps)) == (False, 1, 3)
    assert read.usage.output_tokens is None
