"""What would have a provider work outside the sandbox, by its tools or by an address; and answers
it misreports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.provider import ModelProvider
from evopolicy.execution.proxy import sources as proxy_sources
from evopolicy.execution.proxy.rules import Turned, checked_body
from evopolicy.execution.proxy.server import Proxy
from evopolicy.execution.proxy.usage import DOUBTED_BYTES, MAX_KEPT_BYTES, UsageReader
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.ports.transcript import Usage
from tests.execution import upstream as up

EXAMPLE = ModelProvider("https://api.example.com/v1", ("POST /chat",), key_variable="KEY")
PAGE = "https://example.com/page?what=the+agent+knows"
DATA = "data:image/png;base64,iVBORw0KGgo="


def refused(body: Any) -> str:
    """The word a request is refused with; '' where it passes, and then as it was."""
    try:
        _, written = checked_body(EXAMPLE, "POST", "/chat", json.dumps(body).encode(), "")
    except Turned as turned:
        assert turned.status == 403 and "outside the sandbox" in turned.reason, turned.reason
        return turned.code
    assert json.loads(written) == body
    return ""


# --- tools of the provider's ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
        {"enable_search": True},
        {"enableSearch": True},
        {"search_parameters": {"mode": "auto"}},
        {"live_search": {}},
        {"tools": [{"type": "live_search"}]},
        {"tools": [{"type": "x_search"}]},
        {"tools": [{"type": "collections_search", "collection_ids": ["c"]}]},
        {"tools": [{"googleMaps": {}}]},
        {"tools": [{"google_maps": {}}]},
        {"tools": [{"enterpriseWebSearch": {}}]},
        {"tools": [{"googleSearchRetrieval": {}}]},
    ],
    ids=str,
)
def test_every_providers_own_search_is_refused(body: Any) -> None:
    assert refused(body) == "tool_refused"


def test_a_function_of_the_agents_may_be_called_like_a_providers_search() -> None:
    names = ("x_search", "live_search", "google_maps", "$web_search")
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"enable_search": {}}}}
        for name in names
    ]
    assert (
        refused(
            {
                "tools": tools,
                "messages": [{"role": "user", "content": "x_search", "enable_search": 1}],
            }
        )
        == ""
    )


# --- what a provider would fetch ------------------------------------------------------------------


def messages(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def told(url: str) -> list[dict[str, Any]]:
    """Every form of a picture or file by its address."""
    source = {"type": "url", "url": url}
    return [
        messages({"type": "image", "source": source}),
        messages({"type": "document", "source": source, "title": "t"}),
        messages(
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "content": [{"type": "image", "source": source}],
            }
        ),
        messages(
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "image", "source": source}]},
            }
        ),
        {"system": [{"type": "image", "source": source}]},
        messages({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
        messages({"type": "image_url", "image_url": url}),
        messages({"type": "video_url", "video_url": {"url": url}}),
        messages({"type": "video_url", "video_url": [url]}),
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": url}]}]},
        {
            "input": [
                {
                    "type": "function_call_output",
                    "output": [{"type": "input_image", "image_url": url}],
                }
            ]
        },
        {
            "input": [
                {
                    "type": "computer_call_output",
                    "output": {"type": "computer_screenshot", "image_url": url},
                }
            ]
        },
        {"contents": [{"parts": [{"fileData": {"mimeType": "text/html", "fileUri": url}}]}]},
        {"contents": {"parts": {"file_data": {"file_uri": url}}}},
        {
            "contents": [
                {
                    "parts": [
                        {
                            "functionResponse": {
                                "name": "f",
                                "parts": [{"fileData": {"fileUri": url}}],
                            }
                        }
                    ]
                }
            ]
        },
        {"systemInstruction": {"parts": [{"fileData": {"fileUri": url}}]}},
        {"system_instruction": {"parts": [{"fileData": {"fileUri": url}}]}},
        {"generateContentRequest": {"contents": [{"parts": [{"fileData": {"fileUri": url}}]}]}},
        {"Messages": [{"Content": [{"Image_URL": {"URL": url}}]}]},
    ]


@pytest.mark.parametrize("body", told(PAGE), ids=lambda body: json.dumps(body)[:100])
def test_what_the_provider_would_fetch_is_refused(body: Any) -> None:
    assert refused(body) == "source_refused"


@pytest.mark.parametrize(
    "url", ["http://x", "gs://b/o", "//x/y", " https://x", "files/abc", "file:///etc/passwd"]
)
def test_every_address_but_data_is_refused(url: str) -> None:
    assert {refused(body) for body in told(url)} == {"source_refused"}
    assert refused(messages({"type": "image", "image": PAGE})) == "source_refused"


def test_what_is_sent_along_passes() -> None:
    assert [refused(body) for body in (*told(DATA), *told(DATA.replace("data", "DATA")))] == [
        ""
    ] * 40
    assert refused(messages({"type": "image", "source": {"type": "base64", "data": "aGk="}})) == ""
    assert (
        refused(messages({"type": "image", "source": {"type": "file", "file_id": "file_1"}})) == ""
    )
    assert (
        refused(
            {"input": [{"content": [{"type": "input_image", "image_url": None, "file_id": "f"}]}]}
        )
        == ""
    )


@pytest.mark.parametrize(
    "body",
    [
        messages({"type": "text", "text": PAGE}, PAGE),
        {"messages": [{"role": "user", "content": PAGE}], "system": PAGE, "input": PAGE},
        messages(
            {
                "type": "search_result",
                "source": PAGE,
                "title": "t",
                "content": [{"type": "text", "text": PAGE}],
            }
        ),
        messages({"type": "text", "text": "x", "citations": [{"url": PAGE}]}),
        messages(
            {
                "type": "tool_use",
                "id": "1",
                "name": "f",
                "input": {"image_url": PAGE, "source": {"url": PAGE}},
            }
        ),
        messages({"type": "tool_result", "tool_use_id": "1", "content": PAGE}),
        {
            "messages": [
                {
                    "tool_calls": [
                        {"function": {"name": "f", "arguments": json.dumps({"image_url": PAGE})}}
                    ]
                }
            ]
        },
        {
            "messages": [
                {
                    "tool_calls": [
                        {"function": {"name": "f", "arguments": {"image_url": {"url": PAGE}}}}
                    ]
                }
            ]
        },
        {"input": [{"type": "function_call", "arguments": {"file_url": PAGE}}]},
        {
            "input": [
                {"type": "custom_tool_call", "input": PAGE},
                {"type": "function_call_output", "output": PAGE},
            ]
        },
        {
            "input": [
                {
                    "type": "additional_tools",
                    "tools": [{"parameters": {"image_url": {"url": PAGE}}}],
                }
            ]
        },
        {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"fileUri": PAGE}}}]}]},
        {
            "contents": [
                {"parts": [{"functionResponse": {"name": "f", "response": {"image_url": PAGE}}}]}
            ]
        },
        {
            "tools": [
                {"name": "f", "input_schema": {"properties": {"image_url": {"default": PAGE}}}}
            ]
        },
        {"metadata": {"image_url": PAGE}},
    ],
    ids=lambda body: json.dumps(body)[:100],
)
def test_words_that_hold_an_address_pass(body: Any) -> None:
    assert refused(body) == ""


def test_more_parts_than_can_be_checked_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "x"}]}] * 1000
    assert refused({"messages": said}) == ""
    monkeypatch.setattr(proxy_sources, "MAX_SAID", 1000)
    with pytest.raises(Turned, match="cannot be checked here"):
        checked_body(EXAMPLE, "POST", "/chat", json.dumps({"messages": said}).encode(), "")


def test_parts_as_deep_as_json_is_read_are_looked_at() -> None:
    part: Any = {"image_url": PAGE}
    for _ in range(400):
        part = {"content": [part]}
    assert refused({"messages": [part]}) == "source_refused"


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 304, 307, 308])
def test_an_answer_that_leads_elsewhere_is_no_success_and_costs_nothing(status: int) -> None:
    reader = UsageReader("text/html", "/chat", 4000, status)
    reader.feed(b"<a href='https://example.com'>moved</a>" * 100)
    assert reader.usage() == {} and reader.trouble == "other" and reader.response == ""


def test_an_answer_that_leads_elsewhere_is_passed_on_and_not_followed(tmp_path: Path) -> None:
    moved = up.says(
        {"id": "resp_1", "text": "x" * 400},
        "307 Temporary Redirect",
        "Location: https://example.com/x",
    )
    with up.provider(moved) as upstream:
        provider = ModelProvider(upstream.url, ("POST /chat",))
        proxy = Proxy(
            provider, "", tmp_path / "p.sock", tmp_path, limits=AgentLimits(None, None, 0)
        )
        client = up.Client(tmp_path / "p.sock")
        client.request("POST", "/chat", b'{"model": "m"}')
        answer = client.getresponse()
        assert (answer.status, answer.getheader("Location")) == (307, "https://example.com/x")
        assert json.loads(answer.read())["id"] == "resp_1"
        client.close()
        proxy.close()
    said = proxy.proxy_usage()
    assert (said.usage, said.trouble, said.answers) == (
        Usage(0, 0, 0, 0, 0, requests=1),
        "other",
        0,
    )
    assert said.words.startswith(f"{upstream.url}/chat: 307 ") and len(upstream.asked) == 1


def test_what_did_not_change_is_a_success() -> None:
    reader = UsageReader("application/json", "/models", 0, 304)
    assert reader.usage() == {} and reader.trouble == ""


def whole(text: str, output: int) -> dict[str, int]:
    reader = UsageReader("application/json", "/chat", 400)
    usage = {"prompt_tokens": 7, "completion_tokens": output}
    reader.feed(json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())
    return reader.usage()


def streamed(text: str, output: int) -> dict[str, int]:
    reader = UsageReader("text/event-stream", "/chat", 400)
    for start in range(0, len(text), 100):
        reader.feed(
            b"data: %b\n\n"
            % json.dumps({"choices": [{"delta": {"content": text[start : start + 100]}}]}).encode()
        )
    reader.feed(
        b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": %d}}\n\ndata: [DONE]\n\n'
        % output
    )
    return reader.usage()


@pytest.mark.parametrize("answered", [whole, streamed])
def test_far_fewer_tokens_than_the_text_has_are_not_believed(answered: Any) -> None:
    for output in (0, 1, 1249):
        found = answered("x" * 40_000, output)
        assert (found["input_tokens"], found["output_tokens"], found["estimated"]) == (
            7,
            10_000,
            True,
        ), output
    for text, output in (("x" * 40_000, 1250), ("x" * (DOUBTED_BYTES - 1), 1)):
        found = answered(text, output)
        assert found["output_tokens"] == output and "estimated" not in found


def test_what_an_answer_repeats_of_its_request_is_no_text_of_it() -> None:
    echo = {"instructions": "i" * 9000, "tools": [{"name": "n" * 90}] * 100, "prompt": "p" * 9000}
    reader = UsageReader("text/event-stream", "/responses", 400)
    for kind in ("response.created", "response.in_progress"):
        reader.feed(b"data: %b\n\n" % json.dumps({"type": kind, "response": echo}).encode())
    reader.feed(b'data: {"response": {"usage": {"input_tokens": 9000, "output_tokens": 4}}}\n\n')
    assert reader.usage()["output_tokens"] == 4 and "estimated" not in reader.usage()


@pytest.mark.parametrize(
    "start", [b"", b"data: ", b'data: {"usage": '], ids=["no data", "data", "usage"]
)
@pytest.mark.parametrize("size", [100_000, MAX_KEPT_BYTES + 5, 2 * MAX_KEPT_BYTES + 5])
def test_events_without_an_end_of_line_are_counted_by_their_bytes(start: bytes, size: int) -> None:
    reader = UsageReader("text/event-stream", "/chat", 400)
    reader.feed(start)
    piece = b"x" * (1 << 20)
    for sent in range(0, size, len(piece)):
        reader.feed(piece[: size - sent])
    found = reader.usage()
    assert found == {
        "input_tokens": 100,
        "output_tokens": (len(start) + size) // 4,
        "estimated": True,
    }


def test_a_line_too_long_to_read_is_counted_and_the_next_is_read() -> None:
    reader = UsageReader("text/event-stream", "/chat", 400)
    for _ in range(40):
        reader.feed(b"data: " + b"x" * (1 << 20))
    reader.feed(b'x\ndata: {"usage": {"prompt_tokens": 7, "completion_tokens": 9}}')
    found = reader.usage()
    assert found["input_tokens"] == 7 and found["output_tokens"] > 10 << 20 and found["estimated"]


def test_an_event_too_full_to_be_taken_apart_is_counted_by_its_bytes() -> None:
    line = b'data: {"usage": {"output_tokens": 5}, "x": [' + b"[]," * 2_100_000 + b"[]]}\n"
    reader = UsageReader("text/event-stream", "/chat", 400)
    reader.feed(line)
    assert reader.usage()["output_tokens"] == (len(line) - 1) // 4


# --- the address of the provider ------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hush@example.com/v1", "https://user:hu/sh?#hush@example.com", "user:hush@example.com",
        "https://hush@example.com", "https://example.com/v1?key=hush", "https://example.com/v1#hush",
        "https://a@b:hush@example.com/v1", "http:/user:hush@example.com", "https://user:hu\nhush@example.com",
    ],
)  # fmt: skip
def test_a_refused_address_is_named_without_its_login(url: str) -> None:
    with pytest.raises(ConfigError, match="without login or query") as error:
        ModelProvider(url, ("POST /chat",))
    assert "hush" not in str(error.value) and "user" not in str(error.value)
    assert re.search(r"'\S*example\.com", str(error.value))
