"""OpenAI's Chat Completions: `POST /v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.agents.model_server.engineer import Call, Conversation, Reply, Tokens, Tool

PATH = r"/chat/completions"
UNTOLD = ("written",)


def conversation(_path: str, body: Mapping[str, Any]) -> Conversation:
    messages = body.get("messages") or []
    results = {
        item["tool_call_id"]: _text(item.get("content"))
        for item in messages
        if item.get("role") == "tool"
    }
    calls = tuple(
        Call(
            call["function"]["name"],
            json.loads(call["function"]["arguments"] or "{}"),
            results[call["id"]],
        )
        for message in messages
        for call in message.get("tool_calls") or ()
        if call["id"] in results
    )
    functions = [
        tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"
    ]
    tools = tuple(
        Tool(function["name"], function.get("parameters") or {}) for function in functions
    )
    return Conversation(str(body.get("model")), tools, calls, bool(body.get("stream")))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _usage(used: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens": used.output,
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.input + used.output,
    }


def _message(said: Reply, id: str) -> tuple[dict[str, Any], str]:  # noqa: A002 (the protocol's word)
    """The message and why it ends."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.refused:
        return {**message, "content": None, "refusal": said.text}, "content_filter"
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if not said.tool:
        return message, "stop"
    function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
    return {
        **message,
        "tool_calls": [{"id": f"call_{id}", "type": "function", "function": function}],
    }, "tool_calls"


def whole(said: Reply, used: Tokens, model: str, id: str) -> dict[str, Any]:  # noqa: A002
    message, stop = _message(said, id)
    choice = {"index": 0, "message": message, "finish_reason": stop}
    head = {"id": f"chatcmpl-{id}", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "choices": [choice], "usage": _usage(used)}


def stream(said: Reply, used: Tokens, model: str, id: str) -> list[bytes]:  # noqa: A002
    message, stop = _message(said, id)
    calls = [{"index": place, **call} for place, call in enumerate(message.pop("tool_calls", []))]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{name: text} for name, text in message.items() if text and name != "role"]
    deltas += [{"tool_calls": [call]} for call in calls]
    head = {"id": f"chatcmpl-{id}", "object": "chat.completion.chunk", "created": 1, "model": model}
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "finish_reason": stop}])
    events = [{**head, "choices": choice} for choice in choices]
    events.append({**head, "choices": [], "usage": _usage(used)})
    return [
        *(b"data: %b\n\n" % json.dumps(event).encode() for event in events),
        b"data: [DONE]\n\n",
    ]


def failure(_status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message, "param": None}}


CONTEXT = (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens.")
