"""The gateway against peers that behave, misbehave and disappear."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import Refused
from evopolicy.session.client import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES
from evopolicy.session.gateway import SocketGateway
from tests.kernel.bench import wait_until


def send(path: Path, data: bytes, *, end: bool = False) -> dict[str, Any]:
    """The decoded answer to raw bytes; `{}` where the gateway hung up."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(300)
        peer.connect(str(path))
        # A gateway that need not hear all of it hangs up before this thread has sent it, or over
        # what it sent.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(data)
            if end:
                peer.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while part := peer.recv(65536):
                received += part
    answer: dict[str, Any] = json.loads(received) if received else {}
    return answer


def call(path: Path, verb: str, **arguments: Any) -> dict[str, Any]:
    return send(path, json.dumps({"verb": verb, "arguments": arguments}).encode() + b"\n")


def test_serves_the_handlers_answer(socket_path: Path, handler: Any) -> None:
    assert call(socket_path, "status") == {
        "ok": True,
        "result": {"state": "open", "verb": "status"},
    }
    assert handler.calls == [("status", {})]


def test_only_its_user_may_enter(socket_path: Path) -> None:
    assert stat.S_IMODE(socket_path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("depth", [1, 6])
def test_path_is_short_whatever_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: Any, depth: int
) -> None:
    deep = tmp_path.joinpath(*["x" * 30] * depth)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with SocketGateway().open(handler) as path:
        assert len(os.fsencode(path)) < 100
        assert call(path, "status")["ok"]
    assert list(deep.iterdir()) == []


def test_folders_of_killed_hosts_are_cleared_and_others_kept(
    monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        long_ago = time.time() - 3600
        folders = {
            kind: Path(name, f"evopolicy-s-{kind}")
            for kind in ("dead", "alive", "young", "unlocked")
        }
        for kind, folder in folders.items():
            folder.mkdir()
            if kind != "unlocked":
                (folder / "host.lock").touch()
            if kind in ("dead", "alive"):
                os.utime(folder / "host.lock", (long_ago, long_ago))
        with (folders["alive"] / "host.lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with SocketGateway().open(handler) as path:
                assert path.parent.parent == Path(name)
        assert set(Path(name).iterdir()) == set(folders.values()) - {folders["dead"]}


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b"hello\n", "bad_request", "JSON"),
        (b"\xff\xfe\n", "bad_request", "JSON"),
        (b"[" * 50_000 + b"\n", "bad_request", "JSON"),
        (b"[]\n", "bad_request", "verb"),
        (b'{"verb": 3}\n', "bad_request", "verb"),
        (b'{"verb": "status", "arguments": 3}\n', "bad_request", "arguments"),
        (b"x" * (MAX_REQUEST_BYTES + 10) + b"\n", "too_long", str(MAX_REQUEST_BYTES)),
    ],
)  # fmt: skip
def test_malformed_calls_are_answered_politely(
    socket_path: Path, handler: Any, line: bytes, code: str, said: str
) -> None:
    answer = send(socket_path, line)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert said in answer["reason"]
    assert handler.calls == []
    assert call(socket_path, "status")["ok"]


def test_a_line_without_its_end_is_taken_when_the_peer_stops_writing(socket_path: Path) -> None:
    assert send(socket_path, b'{"verb": "status"}', end=True)["ok"]


def test_refusals_keep_code_reason_and_remedy(socket_path: Path, handler: Any) -> None:
    def refuse(_: Any) -> dict[str, Any]:
        raise Refused("busy_now", "one runs", "wait")

    handler.answers["wait"] = refuse
    assert call(socket_path, "wait") == {
        "ok": False,
        "code": "busy_now",
        "reason": "one runs",
        "remedy": "wait",
    }


@pytest.mark.parametrize(
    "broken",
    [
        lambda _: (_ for _ in ()).throw(OSError(2, "No such file", "/home/host/secret")),
        lambda _: {"score": float("nan")},
        lambda _: {"path": Path("/home/host/secret")},
        lambda _: 3,
    ],
)
def test_faults_of_the_host_show_neither_paths_nor_tracebacks(
    socket_path: Path, handler: Any, broken: Callable[[Any], Any]
) -> None:
    handler.answers["status"] = broken
    answer = call(socket_path, "status")
    assert (answer["ok"], answer["code"]) == (False, "internal")
    assert "secret" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)


def test_an_answer_over_the_bound_is_not_sent(socket_path: Path, handler: Any) -> None:
    handler.answers["feedback"] = lambda _: {"text": "x" * MAX_RESPONSE_BYTES}
    assert call(socket_path, "feedback")["code"] == "too_long"


def test_status_is_answered_while_a_wait_blocks(socket_path: Path, handler: Any) -> None:
    entered, release = threading.Event(), threading.Event()

    def block(_: Any) -> dict[str, Any]:
        entered.set()
        assert release.wait(300)
        return {"state": "open"}

    handler.answers["wait"] = block
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answers.append(call(socket_path, "wait")))
    waiting.start()
    assert entered.wait(300)
    assert call(socket_path, "status")["ok"]
    release.set()
    waiting.join()
    assert answers == [{"ok": True, "result": {"state": "open"}}]


def test_a_peer_that_disappears_hurts_nobody(socket_path: Path, handler: Any) -> None:
    handler.answers["feedback"] = lambda _: {"text": "x" * 1_000_000}
    for data in (b"", b'{"verb":', b'{"verb": "feedback"}\n'):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(socket_path))
        peer.sendall(data)
        peer.close()
    assert call(socket_path, "status")["ok"]


def test_a_silent_peer_is_hung_up_on(handler: Any) -> None:
    with SocketGateway(read_seconds=0.05).open(handler) as path:
        assert send(path, b"") == {}


def test_peers_that_never_read_their_answers_keep_nobody_out_for_ever(handler: Any) -> None:
    handler.answers["feedback"] = lambda _: {"text": "x" * (MAX_RESPONSE_BYTES - 1_000)}
    with SocketGateway(read_seconds=1.0, connections=4).open(handler) as path:
        deaf = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for peer in deaf:
            peer.connect(str(path))
            peer.sendall(b'{"verb": "feedback"}\n')
        # The first answer that is not "busy" is the one meant: its own place may still be taken
        # when a second call comes. And this peer too may be hung up on, where it is slow to ask.
        while not (answer := call(path, "status")) or answer.get("code") == "busy":
            time.sleep(0.01)
        assert answer["ok"]
        for peer in deaf:
            peer.close()


def test_calls_beyond_the_bound_are_refused_as_busy(handler: Any) -> None:
    with SocketGateway(connections=2, read_seconds=300).open(handler) as path:
        silent = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for peer in silent:
            peer.connect(str(path))
        assert call(path, "status")["code"] == "busy"
        for peer in silent:
            peer.close()
        while call(path, "status").get("code") == "busy":
            time.sleep(0.01)


def test_closing_delivers_the_last_answer_and_leaves_no_thread(handler: Any) -> None:
    before = set(threading.enumerate())
    entered, closing = threading.Event(), threading.Event()

    def finish(_: Any) -> dict[str, Any]:
        entered.set()
        closing.wait(300)
        return {"state": "finished"}

    handler.answers["finish"] = finish
    answers: list[dict[str, Any]] = []
    with SocketGateway(close_seconds=300).open(handler) as path:
        silent = socket.socket(socket.AF_UNIX)
        silent.connect(str(path))
        last = threading.Thread(target=lambda: answers.append(call(path, "finish")))
        last.start()
        assert entered.wait(300)
        threading.Timer(0.05, closing.set).start()
    last.join()
    silent.close()
    assert answers == [{"ok": True, "result": {"state": "finished"}}]
    # One that has done its work is at its last steps.
    wait_until(
        lambda: (
            {thread for thread in threading.enumerate() if "evopolicy-session" in thread.name}
            <= before
        )
    )


def test_closing_does_not_wait_for_a_handler_that_never_returns(handler: Any) -> None:
    release, answered = threading.Event(), threading.Event()

    def wait(_: Any) -> dict[str, Any]:
        release.wait(300)
        answered.set()
        return {"state": "running"}

    handler.answers["wait"] = wait
    with SocketGateway(close_seconds=0.05).open(handler) as path:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(path))
        peer.sendall(b'{"verb": "wait"}\n')
        while not handler.calls:
            time.sleep(0.01)
    closed_first = not answered.is_set()
    release.set()
    peer.close()
    assert closed_first
