"""The session client, as the subprocess an agent's shell starts."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import Refused
from evopolicy.session import client


@pytest.mark.parametrize("name", ["client.py", *client.BESIDE])
def test_file_is_python_3_8_and_imports_only_the_standard_library(name: str) -> None:
    tree = ast.parse(Path(client.__file__).with_name(name).read_text(), feature_version=(3, 8))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_prints_one_json_object_and_exits_0(ask: Callable[..., Any]) -> None:
    done = ask("status")
    assert (done.code, done.json, done.stderr) == (0, {"state": "open", "verb": "status"}, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "verb", "arguments"),
    [
        (["check"], "check", {"path": "program"}),
        (["check", "program"], "check", {"path": "program"}),
        (["submit", "program", "--episodes", "0:8,12"], "submit",
         {"path": "program", "episodes": "0:8,12", "detach": False}),
        (["submit", "program/", "--episodes=3", "--detach"], "submit",
         {"path": "program", "episodes": "3", "detach": True}),
        (["wait"], "wait", {}),
        (["feedback"], "feedback", {"submission": None}),
        (["feedback", "2"], "feedback", {"submission": 2}),
        (["finish"], "finish", {"candidates": []}),
        (["finish", "3", "1"], "finish", {"candidates": [3, 1]}),
        (["finish", "3,1"], "finish", {"candidates": [3, 1]}),
    ],
)  # fmt: skip
def test_each_verb_sends_its_arguments(
    ask: Callable[..., Any], handler: Any, argv: list[str], verb: str, arguments: dict[str, Any]
) -> None:
    assert ask(*argv).code == 0
    assert handler.calls == [(verb, arguments)]


@pytest.mark.parametrize(
    ("cwd", "typed", "sent"),
    [
        ("program", ".", "program"), ("program/deep", "..", "program"), ("analysis", "../program", "program"),
        (".", ".", "."),
    ],
)  # fmt: skip
def test_a_folder_is_taken_from_where_one_is(
    ask: Callable[..., Any], handler: Any, workspace: Path, cwd: str, typed: str, sent: str
) -> None:
    (workspace / cwd).mkdir(parents=True, exist_ok=True)
    assert ask("submit", typed, "--episodes", "0", cwd=workspace / cwd).code == 0
    assert handler.calls[0][1]["path"] == sent


def test_check_without_a_folder_is_the_workspaces_program_from_anywhere(
    ask: Callable[..., Any], handler: Any, workspace: Path
) -> None:
    (workspace / "analysis").mkdir()
    assert ask("check", cwd=workspace / "analysis").code == 0
    assert handler.calls == [("check", {"path": "program"})]


def test_an_absolute_folder_inside_the_workspace_is_fine(
    ask: Callable[..., Any], handler: Any, workspace: Path
) -> None:
    assert ask("submit", str(workspace / "program"), "--episodes", "0").code == 0
    assert handler.calls[0][1]["path"] == "program"


@pytest.mark.parametrize("typed", ["..", "/", "../workspace2"])
def test_a_folder_outside_the_workspace_is_a_wrong_call(
    ask: Callable[..., Any], handler: Any, workspace: Path, typed: str
) -> None:
    (workspace.parent / "workspace2").mkdir()
    done = ask("submit", typed, "--episodes", "0")
    assert done.code == 2
    assert "outside the workspace" in done.stderr
    assert done.json["error"]["code"] == "outside_workspace"
    assert handler.calls == []


def test_a_link_that_leaves_the_workspace_is_outside(
    ask: Callable[..., Any], workspace: Path
) -> None:
    (workspace / "elsewhere").symlink_to(workspace.parent)
    assert "outside the workspace" in ask("submit", "elsewhere", "--episodes", "0").stderr


def test_a_missing_folder_names_the_one_that_was_meant(
    ask: Callable[..., Any], workspace: Path
) -> None:
    done = ask("submit", "program", "--episodes", "0", cwd=workspace / "program")
    assert done.code == 2
    assert done.stderr.splitlines()[-1].endswith("is: .")


def test_a_file_is_no_program(ask: Callable[..., Any]) -> None:
    done = ask("submit", "program/policy.py", "--episodes", "0")
    assert done.code == 2
    assert "is a file" in done.stderr
    assert "program" in done.json["error"]["remedy"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "VERB"),
        (["sumbit", "program"], "evopolicy-session submit"),
        (["submit", "program"], "--episodes"),
        (["submit", "program", "--episodes", "0", "--fast"], "--fast"),
        (["feedback", "first"], "'first' is not the number of a Submission"),
        (["finish", "3", "-1"], "-1"),
        (["submit", "program", "--episodes", "0," * 40000], "at most 65536"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_to_do(
    ask: Callable[..., Any], handler: Any, argv: list[str], said: str
) -> None:
    done = ask(*argv)
    assert done.code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert set(done.json["error"]) == {"code", "reason", "remedy"}
    assert handler.calls == []


def test_a_refusal_exits_1_with_reason_and_remedy(ask: Callable[..., Any], handler: Any) -> None:
    def refuse(_: Any) -> dict[str, Any]:
        raise Refused(
            "over_budget", "12 Episodes are asked for and 8 are left", "name at most 8 indices"
        )

    handler.answers["submit"] = refuse
    done = ask("submit", "program", "--episodes", "0:12")
    assert done.code == 1
    assert done.stderr == "12 Episodes are asked for and 8 are left\nname at most 8 indices\n"
    assert done.json["error"]["code"] == "over_budget"


def test_running_is_exit_0(ask: Callable[..., Any], handler: Any) -> None:
    answer = {
        "state": "running",
        "submission": {"id": 1, "status": "running"},
        "next": "evopolicy-session wait",
    }
    handler.answers["wait"] = lambda _: answer
    assert (ask("wait").code, ask("wait").json) == (0, answer)


def test_outside_any_workspace_says_where_to_go(tmp_path: Path, ask: Callable[..., Any]) -> None:
    (tmp_path / "other").mkdir()
    done = ask("status", cwd=tmp_path / "other")
    assert done.code == 2
    assert "TASK.md" in done.stderr


def test_the_environment_names_socket_and_workspace(
    tmp_path: Path, ask: Callable[..., Any], handler: Any, socket_path: Path, workspace: Path
) -> None:
    (tmp_path / "other").mkdir()
    only_socket = ask("submit", str(workspace / "program"), "--episodes", "0", cwd=tmp_path / "other",
                      EVOPOLICY_SESSION=str(socket_path))  # fmt: skip
    assert (only_socket.code, only_socket.json["error"]["code"]) == (2, "no_workspace")
    both = ask("submit", str(workspace / "program"), "--episodes", "0", cwd=tmp_path / "other",
               EVOPOLICY_SESSION=str(socket_path), EVOPOLICY_WORKSPACE=str(workspace))  # fmt: skip
    assert both.code == 0
    assert handler.calls[-1][1]["path"] == "program"


def test_a_broken_session_file_is_named(ask: Callable[..., Any], workspace: Path) -> None:
    (workspace / ".evopolicy" / "session.json").write_text("{")
    done = ask("status")
    assert (done.code, done.json["error"]["code"]) == (2, "broken_session_file")


def test_a_host_that_is_gone_exits_1(tmp_path: Path, ask: Callable[..., Any]) -> None:
    done = ask("status", EVOPOLICY_SESSION=str(tmp_path / "no.sock"))
    assert (done.code, done.json["error"]["code"]) == (1, "host_gone")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("sent", [b"", b'{"ok": tr', b"[]\n", b'{"ok": true}\n', b"\xff\n"])
def test_an_answer_cut_off_or_strange_exits_1(
    tmp_path: Path, ask: Callable[..., Any], sent: bytes
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        done = ask("status", EVOPOLICY_SESSION=str(path))
        thread.join()
    assert (done.code, done.json["error"]["code"]) == (1, "host_gone")


def test_a_host_that_answered_before_it_heard_the_call_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is busy: it may have hung up before this process comes to send its line."""
    path, connect = tmp_path / "s", client._connect
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answered(link: socket.socket, there: str) -> None:
            connect(link, there)
            with listener.accept()[0] as peer:
                peer.sendall(
                    b'{"ok": false, "code": "busy", "reason": "too many", "remedy": "wait"}\n'
                )

        monkeypatch.setattr(client, "_connect", answered)
        with pytest.raises(client.CallError, match="too many") as refused:
            client.ask(str(path), "status", {})
    assert (refused.value.code, refused.value.remedy) == ("busy", "wait")


def test_a_socket_deeper_than_an_address_can_say_is_reached(
    tmp_path: Path, ask: Callable[..., Any], handler: Any, socket_path: Path
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / "s").symlink_to(socket_path)
    done = ask("submit", "program", "--episodes", "0", EVOPOLICY_SESSION=str(deep / "s"))
    assert done.code == 0
    assert handler.calls[0][1]["path"] == "program"


@pytest.mark.parametrize("verb", ["status", "check", "submit", "wait", "feedback", "finish"])
def test_every_verb_has_help_without_a_host(
    tmp_path: Path, ask: Callable[..., Any], verb: str
) -> None:
    done = ask(verb, "--help", cwd=tmp_path)
    assert done.code == 0
    assert "exit codes" in done.stdout
    if verb == "submit":
        assert "half-open" in done.stdout


@pytest.mark.parametrize("argv", [["--human", "status"], ["status", "--human"]])
def test_human_text_shows_what_matters(
    ask: Callable[..., Any], handler: Any, argv: list[str]
) -> None:
    handler.answers["status"] = lambda _: {
        "state": "running",
        "submission": {"id": 3, "status": "running", "episodes_done": 3, "episodes_total": 8},
        "budget": {
            "episodes_left": 40, "episodes_total": 64, "submissions_left": 28, "submissions_total": 32,
            "pool_size": 128, "per_submission": 16, "finish": "allow_early",
        },
        "best": {"submission": 2, "score": 12.5},
        "submissions": [{"id": 1, "status": "failed", "score": None}, {"id": 2, "status": "published", "score": 12.5}],
        "failures": {"exception": 1},
        "warnings": ["one", {"kind": "two", "at": [1, 2]}],
        "next": "evopolicy-session wait",
    }  # fmt: skip
    text = ask(*argv).stdout
    assert text.splitlines()[:4] == [
        "Session: running",
        "Submission 3: running (3 of 8 Episodes)",
        "Best so far: Submission 2, score 12.5",
        "Budget:",
    ]
    for line in ("Submissions: 1 (failed), 2 (12.5)",
                 "  Episodes: 40 of 64 left", "  Pool: indices 0 to 127", "  per submission: 16", "failures:",
                 "  exception: 1", "    at: 1, 2", "  - kind: two"):  # fmt: skip
        assert line in text.splitlines()
    assert text.endswith("Next: evopolicy-session wait\n")


def test_human_text_cannot_steer_the_terminal(ask: Callable[..., Any], handler: Any) -> None:
    handler.answers["feedback"] = lambda _: {"state": "open", "output": "a\x1b[2Jb\r\nc"}
    text = ask("feedback", "--human").stdout
    assert "\x1b" not in text
    assert "\r" not in text


def test_human_refusal_leaves_standard_output_empty(ask: Callable[..., Any], handler: Any) -> None:
    handler.answers["wait"] = lambda _: dict[str, Any]()["missing"]
    done = ask("wait", "--human")
    assert (done.code, done.stdout) == (1, "")
    assert "status" in done.stderr


def test_a_large_answer_arrives_whole(ask: Callable[..., Any], handler: Any) -> None:
    handler.answers["feedback"] = lambda _: {"state": "open", "text": "x" * 1_000_000}
    assert len(json.loads(ask("feedback").stdout)["text"]) == 1_000_000


def test_a_current_folder_that_is_gone_is_a_wrong_call(tmp_path: Path) -> None:
    script = (
        f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -I -S "
        f"{client.__file__} status"
    )
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "no_folder")
