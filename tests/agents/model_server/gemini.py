"""Google's: `POST /v1beta/models/M:streamGenerateContent`, `:generateContent` and
`:countTokens`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.agents.model_server.engineer import Call, Conversation, Reply, Tokens, Tool

PATH = r"/models/[^/]+:(streamGenerateContent|generateContent)"
COUNTS = r"/models/[^/]+:countTokens"
UNTOLD = ("written",)


def conversation(path: str, body: Mapping[str, Any]) -> Conversation:
    parts = [part for content in body.get("contents") or () for part in content.get("parts") or ()]
    asked = [part["functionCall"] for part in parts if "functionCall" in part]
    given = [part["functionResponse"] for part in parts if "functionResponse" in part]
    calls = tuple(
        Call(call["name"], call.get("args") or {}, _text(answer.get("response")))
        for call, answer in zip(asked, given, strict=False)
    )
    declared = [
        one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()
    ]
    tools = tuple(
        Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
        for one in declared
    )
    named = re.search(r"/models/([^/:]+):", path)
    return Conversation(named.group(1) if named else "", tools, calls, ":stream" in path)


def _text(response: Any) -> str:
    output = response.get("output") if isinstance(response, dict) else None
    return output if isinstance(output, str) else json.dumps(response)


def counted(used: Tokens) -> dict[str, Any]:
    return {"totalTokens": used.input}


def _usage(used: Tokens) -> dict[str, int]:
    return {
        "promptTokenCount": used.input,
        "cachedContentTokenCount": used.cached,
        "candidatesTokenCount": used.output - used.reasoning,
        "thoughtsTokenCount": used.reasoning,
        "totalTokenCount": used.input + used.output,
    }


def _parts(said: Reply) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if said.reasoning:
        parts.append({"text": said.reasoning, "thought": True})
    if said.text:
        parts.append({"text": said.text})
    if said.tool:
        parts.append({"functionCall": {"name": said.tool, "args": dict(said.arguments)}})
    return parts


def _chunk(parts: list[dict[str, Any]], stop: str | None, model: str, id: str) -> dict[str, Any]:  # noqa: A002
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": parts},
        **({"finishReason": stop} if stop else {}),
    }
    return {"candidates": [candidate], "modelVersion": model, "responseId": id}


def whole(said: Reply, used: Tokens, model: str, id: str) -> dict[str, Any]:  # noqa: A002 (the protocol's word)
    parts = [] if said.refused else _parts(said)
    return {
        **_chunk(parts, "SAFETY" if said.refused else "STOP", model, id),
        "usageMetadata": _usage(used),
    }


def stream(said: Reply, used: Tokens, model: str, id: str) -> list[bytes]:  # noqa: A002
    events = [] if said.refused else [_chunk([part], None, model, id) for part in _parts(said)]
    last = _chunk([], "SAFETY" if said.refused else "STOP", model, id)
    events.append({**last, "usageMetadata": _usage(used)})
    return [b"data: %b\r\n\r\n" % json.dumps(event).encode() for event in events]


_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
             429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 529: "UNAVAILABLE"}  # fmt: skip


def failure(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, kind)}}


CONTEXT = (
    400,
    "INVALID_ARGUMENT",
    "The input token count (1200000) exceeds the maximum number of tokens allowed.",
)
