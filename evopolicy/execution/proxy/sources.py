"""What a request would have its provider fetch: pictures and files it names by an address instead
of sending them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

MAX_SAID = 200_000
"""Keys and items of what a model is told."""
_TOLD = ("messages", "input", "contents", "system", "systeminstruction", "generatecontentrequest")
# What a tool is given, and what tools there are, are the agent's own words: no provider fetches
# what they name.
_OWN = ("arguments", "args", "tools")
_SHORT = ("url", "uri")
_BARE = ("image", "video", "audio")
"""Keys that hold an address or what it would lead to."""


class TooMuchSaid(Exception):
    """More than MAX_SAID keys and items."""


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """`name` as snake_case, camelCase and kebab-case have it in common."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def sources(body: Mapping[str, Any]) -> Iterator[str]:
    """The addresses, other than `data:`, in what `body` tells a model, in the words of all
    providers.

    Texts and a tool's arguments may hold any address: they are read by the model alone. Raises
    TooMuchSaid."""
    # Each with whether it holds an address: as a string, or under a key that says no more than
    # `url`.
    waiting: list[tuple[Any, bool]] = [
        (value, False) for name, value in body.items() if _plain(name) in _TOLD
    ]
    seen = 0
    while waiting:
        value, holds = waiting.pop()
        seen += len(value) if isinstance(value, dict | list) else 1
        if seen > MAX_SAID:
            raise TooMuchSaid
        if isinstance(value, dict):
            waiting += _below(value, holds)
        elif isinstance(value, list):
            waiting += [
                (inner, holds) for inner in value if isinstance(inner, dict | list) or holds
            ]
        elif holds and isinstance(value, str) and value and value[:5].lower() != "data:":
            yield value


def _below(value: Mapping[str, Any], holds: bool) -> Iterator[tuple[Any, bool]]:
    kind = value.get("type")
    # A call's input is its arguments; a model's request has its `input` at the top alone.
    called = isinstance(kind, str) and kind.endswith(("tool_use", "tool_call"))
    for name, inner in value.items():
        key = _plain(name)
        if key in _OWN or (called and key == "input"):
            continue
        if isinstance(inner, str):
            if _is_address(key, inner, holds):
                yield inner, True
        elif isinstance(inner, dict) and key == "functionresponse":
            yield {key: what for key, what in inner.items() if key != "response"}, False
        elif isinstance(inner, dict | list):
            yield inner, key == "source" or key.endswith(_SHORT)


def _is_address(key: str, value: str, holds: bool) -> bool:
    if key in _SHORT:
        return holds
    return key.endswith(_SHORT) or (key in _BARE and "://" in value[:40])


def _plain(name: str) -> str:
    return plain(name) if len(name) <= 80 else ""
