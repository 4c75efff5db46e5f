"""What was said so far: kept in a file, so that another process can go on, and made smaller when it
grows too long."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .api import Answer, Call

KEPT_OLD = 400
"""Characters a dropped output keeps of its head."""
KEPT_NEW = 2000
"""Likewise, of the newest turn's outputs, which are touched last."""
FIRST_GUESS = 0.3
"""Tokens a character, until the server has counted some."""
_FENCE = re.compile(r"^[ \t]*```[ \t]*tool[^\n]*\n", re.MULTILINE)
_FENCE_END = re.compile(r"^[ \t]*```", re.MULTILINE)


@dataclass
class History:
    """Messages in order, each as an object: `role`, `text`, and what the role needs.

    An `assistant` has `calls` (id, name, arguments as written) and, where given, `reasoning` with
    its `reasoning_key`; a `tool` has the `id` of its call, its `name` and, once made smaller, how
    many characters of it are `kept` and `dropped`."""

    path: Path
    native: bool
    """Whether tools go by the protocol's own fields; else by fenced text."""
    return_reasoning: bool
    entries: list[dict[str, Any]] = field(default_factory=list)
    tokens_per_character: float = FIRST_GUESS

    def load(self) -> bool:
        """Take what an earlier process left; False where there is nothing."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        for line in lines:
            try:
                self.entries.append(json.loads(line))
            except ValueError:
                break  # the line a killed process was writing
        self._write()
        return bool(self.entries)

    def append(self, role: str, text: str, **more: Any) -> None:
        self.entries.append({"role": role, "text": text, **more})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.entries[-1]) + "\n")

    def append_answer(self, answer: Answer, calls: Sequence[Call]) -> None:
        more: dict[str, Any] = {}
        if answer.reasoning:
            more = {"reasoning": answer.reasoning, "reasoning_key": answer.reasoning_key}
        self.append("assistant", answer.text, calls=[vars(call) for call in calls], **more)

    def pending(self) -> list[Call]:
        """Calls of the last message that have no result yet."""
        calls: list[Call] = []
        for entry in self.entries[self._last_answer() :]:
            calls += [Call(**call) for call in entry.get("calls", ())]
            if entry["role"] == "tool":
                calls = [call for call in calls if call.id != entry["id"]]
        return calls

    def ids(self) -> set[str]:
        """Of all calls."""
        return {call["id"] for entry in self.entries for call in entry.get("calls", ())}

    def _last_answer(self) -> int:
        places = [place for place, entry in enumerate(self.entries) if entry["role"] == "assistant"]
        return places[-1] if places else len(self.entries)

    # --- as the server wants it -------------------------------------------------------------------

    def messages(self) -> list[dict[str, Any]]:
        """The protocol's messages. In text form users and the model take turns, as strict templates
        demand."""
        rendered: list[dict[str, Any]] = []
        for entry in self.entries:
            message = self._message(entry)
            last = rendered[-1] if rendered else {}
            if not self.native and message["role"] == last.get("role"):
                last["content"] += "\n\n" + message["content"]
            else:
                rendered.append(message)
        return rendered

    def _message(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        role, text = entry["role"], entry["text"]
        if role == "tool":
            if self.native:
                return {"role": "tool", "tool_call_id": entry["id"], "content": text}
            return {
                "role": "user",
                "content": f"Result of {entry['name'] or 'your tool block'}:\n{text}",
            }
        message: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant" and self.return_reasoning and entry.get("reasoning_key"):
            message[entry["reasoning_key"]] = entry["reasoning"]
        if role == "assistant" and self.native and entry["calls"]:
            message["tool_calls"] = [_native_call(call) for call in entry["calls"]]
            message["content"] = text or None
        elif role == "assistant" and not self.native:
            message["content"] = text or "(nothing)"
        return message

    # --- its size ---------------------------------------------------------------------------------

    def characters(self) -> int:
        return len(json.dumps(self.messages(), ensure_ascii=False))

    def learn(self, characters: int, prompt_tokens: Any) -> None:
        """How many tokens the server counted for a request of so many characters."""
        if type(prompt_tokens) is int and prompt_tokens > 0 and characters > 0:
            self.tokens_per_character = prompt_tokens / characters

    def tokens(self) -> int:
        """Estimate for the next request."""
        return int(self.characters() * self.tokens_per_character)

    def compact(self, wanted: int) -> tuple[int, int]:
        """Drop the oldest tool outputs but their heads until about `wanted` tokens are left.

        Returns how many outputs were cut and the characters that went.
        """
        excess = self.characters() - int(wanted / self.tokens_per_character)
        outputs = dropped = 0
        newest = self._last_answer()
        rounds = ((self.entries[:newest], KEPT_OLD), (self.entries[newest:], KEPT_NEW))
        for entry, kept in ((entry, kept) for entries, kept in rounds for entry in entries):
            if dropped >= excess:
                break
            gone = _cut(entry, kept)
            outputs, dropped = outputs + (gone > 0), dropped + gone
        if outputs:
            self._write()
        return outputs, dropped

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(
            "".join(json.dumps(entry) + "\n" for entry in self.entries), encoding="utf-8"
        )
        new.replace(self.path)


def _cut(entry: dict[str, Any], kept: int) -> int:
    """Cut a tool's output to its head; how many characters went. One that was cut before may be cut
    again."""
    whole = int(entry.get("kept", len(entry["text"])))
    if entry["role"] != "tool" or whole <= kept + 100:
        return 0
    dropped = entry.get("dropped", 0) + whole - kept
    note = f"\n[{dropped} more characters were dropped here to make room]"
    entry.update(text=entry["text"][:kept] + note, kept=kept, dropped=dropped)
    return whole - kept


def _native_call(call: Mapping[str, str]) -> dict[str, Any]:
    arguments, name = call["arguments"], re.sub(r"[^a-zA-Z0-9_-]", "_", call["name"])[:64]
    if isinstance(parsed(arguments), str):
        # Servers take a conversation apart again: one that holds no JSON here would be refused for
        # ever.
        arguments = json.dumps({"malformed": arguments[:2000]})
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": name or "unknown", "arguments": arguments or "{}"},
    }


def parsed(arguments: str) -> dict[str, Any] | str:
    """Arguments of a call, or what is wrong with them."""
    if not arguments.strip():
        return {}
    try:
        value = json.loads(
            arguments, strict=False
        )  # small models write line ends into texts as they are
    except (ValueError, RecursionError) as error:
        return f"the arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return f"the arguments have to be one JSON object, found a {type(value).__name__}"
    return value


def split_thoughts(answer: Answer) -> None:
    """Move what stands before `</think>` to the reasoning, where the server did not part them."""
    thought, end, rest = answer.text.partition("</think>")
    if end:
        answer.reasoning += thought.replace("<think>", "", 1).strip()
        answer.text = rest.lstrip()


def fenced_calls(text: str) -> list[Call]:
    """The ```tool blocks of `text`, as calls without ids. One that cannot be read has no name and
    its text."""
    calls: list[Call] = []
    place = 0
    while found := _FENCE.search(text, place):
        place = found.end()
        inside = True
        while inside:
            # What the JSON holds may itself have fences: its own end counts, not the next fence.
            begin = len(text) - len(text[place:].lstrip())
            try:
                value, place = json.JSONDecoder(strict=False).raw_decode(text, begin)
                calls.append(_fenced_call(value))
            except (ValueError, RecursionError):
                end = _FENCE_END.search(text, begin)
                place = end.start() if end else len(text)
                calls.append(Call("", "", text[begin:place]))
            inside = text[place:].lstrip().startswith("{")
    return calls


def _fenced_call(value: Any) -> Call:
    if not isinstance(value, dict):
        return Call("", "", json.dumps(value))
    rest = dict(value)
    name = rest.pop("name", None) or rest.pop("tool", None)
    arguments = next(
        (rest[key] for key in ("arguments", "parameters", "args") if key in rest), rest
    )
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Call("", name if isinstance(name, str) else "", written)
