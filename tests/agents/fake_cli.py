"""CLIs that only say their version, as npm would lay them, and what every provider's parser has to
bear."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from evopolicy.agents import load_agent
from evopolicy.agents.contract import AgentContract
from evopolicy.kernel.ports.protocols import AgentIntegration
from evopolicy.kernel.ports.transcript import Step, Transcript

CONF = Path(__file__).parents[2] / "conf" / "agent"
HUGE = "x" * (10 << 20)


def agent(name: str, **options: Any) -> AgentIntegration:
    """The integration with the values of its YAML and `options`."""
    return load_agent(name, {**yaml.safe_load((CONF / f"{name}.yaml").read_text()), **options})


def binary(path: Path, says: str) -> Path:
    """An executable that says `says` whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def node(path: Path, version: str) -> Path:
    """An interpreter of that version; a script it runs says what stands in the file VERSION beside
    it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo {version} || cat "$(dirname "$1")/VERSION"\n'
    )
    path.chmod(0o755)
    return path


def package(folder: Path, name: str, script: str, version: str, needs: Sequence[str] = ()) -> Path:
    """A package in `folder/node_modules` with others beside it; its command, a link in `.bin`."""
    tree = folder / "node_modules"
    main = tree / name / script
    main.parent.mkdir(parents=True, exist_ok=True)
    main.write_text("#!/usr/bin/env node\n")
    main.chmod(0o755)
    (main.parent / "VERSION").write_text(f"{version}\n")
    (tree / name / "package.json").write_text(
        json.dumps({"name": name, "optionalDependencies": dict.fromkeys(needs, "1")})
    )
    for need in needs:
        (tree / need).mkdir(parents=True)
    link = tree / ".bin" / name.rpartition("/")[2]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(main)
    return link


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


def unplaced(transcript: Transcript) -> list[Step]:
    """Its steps without the lines they came in."""
    return [
        replace(
            step,
            line=None,
            calls=tuple(replace(call, line=None, result_line=None) for call in step.calls),
        )
        for step in transcript.steps
    ]


class ParserContract(AgentContract):
    """Beside `stream`, a whole run with a call `FIRST` of a shell, `parallel` has two calls
    answered in reverse."""

    parallel: Sequence[str] = ()
    first: str = ""
    """What the first call's result in `stream` says: it is made huge."""

    def read(self, told: Iterable[str]) -> Transcript:
        return self.make().read(iter(told))

    def test_a_stream_that_is_cut_is_not_completed(self) -> None:
        assert self.read(self.stream).completed
        for end in range(len(self.stream)):
            assert not self.read(self.stream[:end]).completed

    def test_half_a_line_at_the_end_is_counted_and_the_rest_is_kept(self) -> None:
        cut = self.read([*self.stream[:-1], self.stream[-1][: len(self.stream[-1]) // 2]])
        assert (cut.malformed_lines, cut.completed) == (1, False)
        assert cut.steps == self.read(self.stream[:-1]).steps

    def test_lines_of_text_between_the_events_are_counted(self) -> None:
        mixed = [
            line for event in self.stream for line in ("a warning of some library\n", "\n", event)
        ]
        seen, plain = self.read(mixed), self.read(self.stream)
        assert (seen.completed, seen.malformed_lines) == (True, len(self.stream))
        assert unplaced(seen) == unplaced(plain)
        assert [step.line for step in seen.steps] == [
            3 * (step.line or 0) + 2 for step in plain.steps
        ]

    def test_results_find_their_calls_in_any_order(self) -> None:
        (step,) = [step for step in self.read(self.parallel).steps if step.source == "agent"]
        assert [(call.id, call.result) for call in step.calls] == [("a", "of a"), ("b", "of b")]
        assert all(call.line is not None and call.result_line is not None for call in step.calls)

    def test_a_line_of_ten_megabytes_is_read(self) -> None:
        whole = self.read(line.replace(self.first, HUGE) for line in self.stream)
        assert whole.completed and whole.malformed_lines == 0
        call = next(call for step in whole.steps for call in step.calls)
        assert call.result == HUGE

    def test_an_event_of_a_new_kind_is_counted_and_costs_nothing(self) -> None:
        new = json.dumps(
            {
                "type": "brand_new",
                "role": "brand_new",
                "sessionID": "s",
                "part": {"type": "brand_new"},
            }
        )
        seen, plain = self.read([self.stream[0], new, *self.stream[1:]]), self.read(self.stream)
        assert dict(seen.unknown_events) == {"brand_new": 1}
        assert (seen.completed, seen.usage, unplaced(seen)) == (True, plain.usage, unplaced(plain))
