"""OpenAI's Responses: `POST /v1/responses`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.agents.model_server.engineer import Call, Conversation, Reply, Tokens, Tool

PATH = r"/responses"
UNTOLD = ("written",)
"""Kinds of tokens this protocol has no word for."""


def conversation(_path: str, body: Mapping[str, Any]) -> Conversation:
    items = body.get("input")
    items = items if isinstance(items, list) else []
    outputs = {
        item["call_id"]: _text(item.get("output")) for item in items if item.get("type") in _OUTPUTS
    }
    calls = tuple(
        Call(item["name"], _arguments(item), outputs[item["call_id"]])
        for item in items
        if item.get("type") == "function_call" and item["call_id"] in outputs
    )
    tools = tuple(
        Tool(tool["name"], tool.get("parameters") or {})
        for tool in body.get("tools") or ()
        if "name" in tool
    )
    return Conversation(str(body.get("model")), tools, calls, bool(body.get("stream")))


_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def _arguments(item: Mapping[str, Any]) -> Mapping[str, Any]:
    value = json.loads(item.get("arguments") or "{}")
    return value if isinstance(value, dict) else {}


def _text(output: Any) -> str:
    if isinstance(output, list):
        return "".join(str(part.get("text", "")) for part in output)
    return output if isinstance(output, str) else json.dumps(output)


def _output(said: Reply, id: str) -> list[dict[str, Any]]:  # noqa: A002 (the protocol's word)
    items: list[dict[str, Any]] = []
    if said.reasoning:
        summary = [{"type": "summary_text", "text": said.reasoning}]
        items.append(
            {"type": "reasoning", "id": f"rs_{id}", "summary": summary, "encrypted_content": None}
        )
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        items.append(
            {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": content}
        )
    if said.tool:
        call = {"name": said.tool, "arguments": json.dumps(said.arguments), "call_id": f"call_{id}"}
        items.append({"type": "function_call", "id": f"fc_{id}", **call})
    return items


def whole(said: Reply, used: Tokens, model: str, id: str) -> dict[str, Any]:  # noqa: A002
    usage = {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.input + used.output,
    }
    more: dict[str, Any] = {"status": "completed"}
    if said.refused:
        more = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {
        "id": f"resp_{id}",
        "object": "response",
        "model": model,
        **more,
        "output": _output(said, id),
        "usage": usage,
    }


def stream(said: Reply, used: Tokens, model: str, id: str) -> list[bytes]:  # noqa: A002
    done = whole(said, used, model, id)
    events: list[dict[str, Any]] = [
        {
            "type": "response.created",
            "response": {**done, "status": "in_progress", "output": [], "usage": None},
        }
    ]
    for place, item in enumerate(done["output"]):
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": place,
                "item": {**item, "content": []},
            }
        )
        if item["type"] == "message":
            delta = {
                "item_id": item["id"],
                "output_index": place,
                "content_index": 0,
                "delta": said.text,
            }
            events.append({"type": "response.output_text.delta", **delta})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": f"response.{done['status']}", "response": done})
    return [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    ]


def failure(_status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message, "param": None}}


CONTEXT = (400, "context_length_exceeded", "Your input exceeds the context window of this model.")
