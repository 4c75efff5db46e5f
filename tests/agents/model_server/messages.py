"""Anthropic's Messages: `POST /v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.agents.model_server.engineer import Call, Conversation, Reply, Tokens, Tool

PATH = r"/messages"
COUNTS = r"/messages/count_tokens"
UNTOLD = ("reasoning",)


def conversation(_path: str, body: Mapping[str, Any]) -> Conversation:
    blocks = list(_blocks(body))
    results = {
        block["tool_use_id"]: _text(block.get("content"))
        for block in blocks
        if block["type"] == "tool_result"
    }
    calls = tuple(
        Call(block["name"], block["input"], results[block["id"]])
        for block in blocks
        if block["type"] == "tool_use" and block["id"] in results
    )
    tools = tuple(
        Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or ()
    )
    return Conversation(str(body.get("model")), tools, calls, bool(body.get("stream")))


def _blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for message in body.get("messages") or ():
        if isinstance(message["content"], list):
            yield from message["content"]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def counted(used: Tokens) -> dict[str, Any]:
    return {"input_tokens": used.input}


def _content(said: Reply, id: str) -> list[dict[str, Any]]:  # noqa: A002 (the protocol's word)
    blocks: list[dict[str, Any]] = []
    if said.reasoning:
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2ln"})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    if said.tool:
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_{id}",
                "name": said.tool,
                "input": dict(said.arguments),
            }
        )
    return blocks


def _usage(used: Tokens, output: int) -> dict[str, int]:
    cache = {"cache_read_input_tokens": used.cached, "cache_creation_input_tokens": used.written}
    return {"input_tokens": used.fresh, **cache, "output_tokens": output}


def whole(said: Reply, used: Tokens, model: str, id: str) -> dict[str, Any]:  # noqa: A002
    stop = "refusal" if said.refused else "tool_use" if said.tool else "end_turn"
    head = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": model}
    tail = {"stop_reason": stop, "stop_sequence": None, "usage": _usage(used, used.output)}
    return {**head, "content": _content(said, id), **tail}


def stream(said: Reply, used: Tokens, model: str, id: str) -> list[bytes]:  # noqa: A002
    done = whole(said, used, model, id)
    start = {**done, "content": [], "stop_reason": None, "usage": _usage(used, 1)}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for place, block in enumerate(done["content"]):
        empty, deltas = _deltas(block)
        events.append({"type": "content_block_start", "index": place, "content_block": empty})
        events += [
            {"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": place})
    delta = {"stop_reason": done["stop_reason"], "stop_sequence": None}
    events.append(
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": used.output}}
    )
    events.append({"type": "message_stop"})
    return [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    ]


def _deltas(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it begins, and what is added to it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        ]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": "", "signature": ""}, [
            thought,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
          500: "api_error", 529: "overloaded_error"}  # fmt: skip


def failure(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": _KINDS.get(status, kind), "message": message}}


CONTEXT = (400, "invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum")
