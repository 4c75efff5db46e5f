"""What holds up a Run that goes on, by what its agent's attempt has left so far."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evopolicy.kernel.run.waiting import SILENT_SECONDS, Waiting, waiting

STARTED = {"event": "agent_started", "attempt": 1}
ANSWER = {"time": 100.0, "status": 200}
LIMITED = {"status": 429, "trouble": "rate_limit"}
NOW = 1_000_000.0


def run(
    folder: Path, *events: dict[str, Any], proxy: tuple[dict[str, Any], ...] = (), at: float = NOW
) -> Path:
    logs = folder / "agent" / "attempt-1"
    logs.mkdir(parents=True, exist_ok=True)
    for path, lines in ((folder / "journal.jsonl", events), (logs / "proxy.jsonl", proxy)):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (at, at))
    return folder


def test_a_provider_that_fails_is_told_since_its_first_failure_after_an_answer(
    tmp_path: Path,
) -> None:
    refused = {"status": 429, "refused": "too_many"}  # the proxy's own, of a moment
    tries = (
        {"time": 90.0, **LIMITED},
        ANSWER,
        {"time": 120.0, **LIMITED},
        refused,
        {"time": 150.0, **LIMITED},
    )
    held = waiting(run(tmp_path, STARTED, proxy=tries), NOW)
    assert held == Waiting(
        "its provider does not answer (429, rate_limit), and its agent asks again", 120.0
    )
    assert waiting(run(tmp_path, STARTED, proxy=(*tries, ANSWER)), NOW) is None
    assert waiting(run(tmp_path, STARTED, {"event": "reserved"}, proxy=tries), NOW) is None, (
        "it waits for Episodes"
    )


def test_an_attempt_that_its_provider_ended_tells_the_last_error_until_the_next_begins(
    tmp_path: Path,
) -> None:
    ended = {"event": "agent_ended", "reason": "provider", "error": "529\noverloaded"}
    held = waiting(run(tmp_path, STARTED, ended), NOW)
    assert held is not None and "asked again soon (529 overloaded)" in held.what
    assert waiting(run(tmp_path, STARTED, ended, STARTED), NOW) is None
    assert waiting(run(tmp_path, STARTED, {**ended, "reason": "finished"}), NOW) is None


def test_silence_is_told_once_it_is_long(tmp_path: Path) -> None:
    run(tmp_path, STARTED)
    assert waiting(tmp_path, NOW + SILENT_SECONDS - 1) is None
    held = waiting(tmp_path, NOW + SILENT_SECONDS)
    assert held is not None and "nothing is heard" in held.what and held.since == NOW


def test_what_is_no_run_or_no_json_is_no_news(tmp_path: Path) -> None:
    assert waiting(tmp_path / "nowhere", NOW) is None
    run(tmp_path, STARTED)
    (tmp_path / "agent" / "attempt-1" / "proxy.jsonl").write_text('[1]\n{"status": ')
    assert waiting(tmp_path, NOW) is None


def test_a_person_is_told_where_to_work_at_once(tmp_path: Path) -> None:
    folder = run(tmp_path, STARTED)
    (folder / "agent" / "attempt-1" / "invocation.json").write_text('{"by_hand": true}')
    told = waiting(folder, NOW)
    assert told is not None and f"cd {folder / 'workspace'}; read TASK.md" in told.what
