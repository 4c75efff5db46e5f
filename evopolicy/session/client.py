#!/usr/bin/env python3
"""`evopolicy-session`: how an agent asks its Host for anything, from any folder of its workspace.

Standard library only, Python 3.8 syntax: it is copied, with the files in BESIDE, into sandboxes
that hold nothing else of EvoPolicy. One JSON object goes to standard output, a reason and a remedy
to standard error."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import re
import runpy
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

DONE, REFUSED, WRONG_CALL = 0, 1, 2
VERBS = ("status", "check", "submit", "wait", "feedback", "finish")
MAX_REQUEST_BYTES = 64 * 1024
"""A longer request line is refused by both ends."""
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""A longer response line is never sent; the client stops reading there."""
ANSWER_SECONDS = 900.0
"""Watchdog of last resort: the Host answers every call within its `block_seconds`, usually 50."""
SESSION_FILE = ".evopolicy/session.json"
BESIDE = ("plain_text.py", "mcp.py")
"""Files of this folder that some calls need."""


class CallError(Exception):
    """Ends the client with `exit_code`; the text is the reason."""

    def __init__(self, exit_code: int, code: str, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.code = code
        self.reason = reason
        self.remedy = remedy


# --- the place ------------------------------------------------------------------------------------


def find_session() -> tuple[str, str]:
    """`(socket, workspace)`: from EVOPOLICY_SESSION and EVOPOLICY_WORKSPACE, else from the
    `.evopolicy/session.json` of the current folder or the nearest one above. The workspace is ''
    where nobody says it. Raises CallError."""
    socket_path, workspace = (
        os.environ.get("EVOPOLICY_SESSION", ""),
        os.environ.get("EVOPOLICY_WORKSPACE", ""),
    )
    try:
        here = Path.cwd()
    except OSError:
        raise CallError(
            WRONG_CALL, "no_folder", "The current folder is gone.", "Change into your workspace."
        ) from None
    root = next(
        (folder for folder in (here, *here.parents) if (folder / SESSION_FILE).is_file()), None
    )
    if root and not socket_path:
        socket_path = str(root / _read_session_file(root / SESSION_FILE))
    if not socket_path:
        raise CallError(
            WRONG_CALL,
            "no_session",
            f"No Session is known here: neither this folder nor one above it holds {SESSION_FILE}, "
            "and EVOPOLICY_SESSION is not set.",
            "Change into your workspace (the folder with TASK.md) and call again.",
        )
    return socket_path, workspace or (str(root) if root else "")


def _read_session_file(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["socket"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CallError(
            WRONG_CALL,
            "broken_session_file",
            f"{SESSION_FILE} cannot be read ({type(error).__name__}: {error}).",
            "It belongs to the Host; where it was changed or removed, set EVOPOLICY_SESSION to "
            "the socket's path.",
        ) from None


def program_path(folder: str, workspace: str) -> str:
    """`folder` (as typed, against the current folder) relative to the workspace, with '/'. Raises
    CallError."""
    if not workspace:
        raise CallError(
            WRONG_CALL,
            "no_workspace",
            "The workspace is not known, so a folder cannot be named to the Host.",
            "Change into your workspace (the folder with TASK.md), or set EVOPOLICY_WORKSPACE.",
        )
    root, path = Path(workspace).resolve(), Path(folder).resolve()
    if path != root and root not in path.parents:
        raise CallError(
            WRONG_CALL,
            "outside_workspace",
            f"'{folder}' is outside the workspace: a Program is a folder inside it.",
            "Copy it into the workspace, for instance to program/, and name that.",
        )
    if not path.is_dir():
        raise _no_folder(folder, root, path)
    return path.relative_to(root).as_posix()


def _no_folder(folder: str, root: Path, path: Path) -> CallError:
    if path.is_file():
        reason = f"'{folder}' is a file: a Program is a whole folder with policy.py in it."
        return CallError(
            WRONG_CALL,
            "not_a_folder",
            reason,
            f"Name its folder: {os.path.relpath(str(path.parent))}",
        )
    remedy = "Name the folder that holds policy.py, relative to where you are."
    if (root / folder).is_dir():
        remedy = (
            f"From where you are, the workspace's {folder} is: "
            f"{os.path.relpath(str(root / folder))}"
        )
    return CallError(WRONG_CALL, "no_folder", f"There is no folder '{folder}' here.", remedy)


# --- the wire -------------------------------------------------------------------------------------


def ask(socket_path: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The Host's `result` for one verb. Raises CallError where it refuses or cannot be reached."""
    line = (
        json.dumps({"verb": verb, "arguments": arguments}, separators=(",", ":")).encode("utf-8")
        + b"\n"
    )
    if len(line) > MAX_REQUEST_BYTES:
        raise CallError(
            WRONG_CALL,
            "too_long",
            f"The call has {len(line)} bytes, at most {MAX_REQUEST_BYTES} are allowed.",
            "Use ranges in the selector: 0:8 instead of 0,1,2,3,4,5,6,7.",
        )
    answer = _decode(_exchange(socket_path, line))
    if answer.get("ok") is True and isinstance(answer.get("result"), dict):
        result: dict[str, Any] = answer["result"]
        return result
    if answer.get("ok") is False:
        reason = str(answer.get("reason") or "The Host refused without a reason.")
        raise CallError(
            REFUSED, str(answer.get("code") or "refused"), reason, str(answer.get("remedy") or "")
        )
    raise _gone("The Host's answer is not one this client understands.")


def _exchange(path: str, line: bytes) -> bytes:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(ANSWER_SECONDS)
        _connect(link, path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # A Host that is too busy to hear it says so and hangs up: its answer is there to read.
            link.sendall(line)
        received = bytearray()
        while not received.endswith(b"\n") and (part := link.recv(65536)):
            received += part
            if len(received) > MAX_RESPONSE_BYTES:
                raise _gone(f"The Host's answer is longer than {MAX_RESPONSE_BYTES} bytes.")
        if not received:
            raise _gone("The Host closed the connection without an answer.")
        return bytes(received)
    except OSError as error:
        raise _gone(f"The Host does not answer ({error.strerror or error}).") from None
    finally:
        link.close()


def _connect(link: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) < 100:
        link.connect(path)
        return
    # An address of a Unix socket holds about 107 bytes, so a longer path is reached from its own
    # folder.
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(Path(path).parent)
        link.connect(Path(path).name)
    finally:
        os.fchdir(here)
        os.close(here)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line.decode("utf-8"))
    except ValueError:
        raise _gone("The Host's answer was cut off.") from None
    return answer if isinstance(answer, dict) else {}


def _gone(reason: str) -> CallError:
    return CallError(
        REFUSED,
        "host_gone",
        reason,
        "Call `evopolicy-session status` again; if it stays so, the Session is over and nothing "
        "more can be submitted.",
    )


# --- the command line -----------------------------------------------------------------------------

_ABOUT = """\
Ask the Host about this Session: what budget is left, whether a Program loads, what a Submission scored.
Works from any folder of the workspace. Prints one JSON object; with --human, plain text."""
_EXIT = """\
exit codes: 0 done (a Submission that is still running is 0 too), 1 refused by the Host or Host gone, 2 wrong call"""
_SUBMIT = """\
Send the folder DIR as a Program, to be measured on the Episodes that SELECTOR names. Each Episode costs one unit.
Returns when the Feedback is there, or after about a minute with "status": "running": then call `wait`.
The same DIR and SELECTOR sent again while it runs is the same Submission and costs nothing more."""
_SELECTOR = """\
a SELECTOR is a list of pool indices and half-open ranges, without repeats:
  0:8      the eight Episodes 0 to 7
  0:8,12   the same and Episode 12
  3,5,40   those three
An index always means the same Episode, so two Programs are compared fairly on the same SELECTOR."""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong call like every other error of this client, with the near verb."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '([^']*)'", message)
        near = difflib.get_close_matches(found.group(1), VERBS, n=1) if found else []
        if found:
            message = f"there is no verb '{found.group(1)}'"
        remedy = (
            f"Did you mean `evopolicy-session {near[0]}`?" if near else f"See `{self.prog} --help`."
        )
        raise CallError(WRONG_CALL, "wrong_call", f"{message[:1].upper()}{message[1:]}.", remedy)


def _parser() -> _Parser:
    human = _Parser(add_help=False)
    human.add_argument(
        "--human", action="store_true", default=argparse.SUPPRESS, help="plain text instead of JSON"
    )
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        "evopolicy-session",
        description=_ABOUT,
        epilog=_EXIT,
        formatter_class=layout,
        parents=[human],
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, short: str, text: str = "", epilog: str = _EXIT) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name,
            help=short,
            description=text or short,
            epilog=epilog,
            formatter_class=layout,
            parents=[human],
        )

    verb("status", "budget left, what runs, the best Submission so far; costs nothing")
    check = verb(
        "check",
        "load a Program in the sandbox and try it on sampled observations; costs no Episode",
    )
    check.add_argument(
        "dir",
        nargs="?",
        metavar="DIR",
        help="the Program's folder (default: program/ of the workspace)",
    )
    submit = verb(
        "submit", "measure a Program on Episodes you choose", _SUBMIT, f"{_SELECTOR}\n\n{_EXIT}"
    )
    submit.add_argument(
        "dir", metavar="DIR", help="the Program's folder, relative to where you are"
    )
    submit.add_argument(
        "--episodes", required=True, metavar="SELECTOR", help="pool indices, for instance 0:8,12"
    )
    submit.add_argument(
        "--detach", action="store_true", help="return at once; fetch the result with `wait`"
    )
    verb(
        "wait",
        "wait for the running Submission, about a minute at most; call again while it says running",
    )
    feedback = verb("feedback", "the Feedback of a Submission and where its files are")
    feedback.add_argument(
        "submission", nargs="?", metavar="SUBMISSION", help="its number (default: the latest)"
    )
    finish = verb(
        "finish", "end the Session; with IDS, name the candidates you stand by, best first"
    )
    finish.add_argument(
        "ids", nargs="*", metavar="IDS", help="Submission numbers, for instance 3 7"
    )
    mcp = verb(
        "mcp",
        "serve these verbs as tools of the Model Context Protocol, on standard input and output",
    )
    mcp.add_argument(
        "workspace",
        nargs="?",
        default=".",
        metavar="WORKSPACE",
        help="its folder (default: this one)",
    )
    return parser


def request(call: argparse.Namespace, workspace: str) -> dict[str, Any]:
    """The arguments that go to the Host for a parsed call. Raises CallError."""
    if call.verb == "check":
        return {"path": program_path(call.dir or str(Path(workspace, "program")), workspace)}
    if call.verb == "submit":
        return {
            "path": program_path(call.dir, workspace),
            "episodes": call.episodes,
            "detach": call.detach,
        }
    if call.verb == "feedback":
        return {"submission": None if call.submission is None else _number(call.submission)}
    if call.verb == "finish":
        return {
            "candidates": [
                _number(part) for text in call.ids for part in text.split(",") if part.strip()
            ]
        }
    return {}


def _number(text: str) -> int:
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        return int(text)
    raise CallError(
        WRONG_CALL,
        "wrong_call",
        f"'{text}' is not the number of a Submission.",
        "Submissions are numbered from 1; `evopolicy-session status` shows them.",
    )


# --- main -----------------------------------------------------------------------------------------


def answer(call: argparse.Namespace) -> dict[str, Any]:
    """What the Host says to a parsed call. Raises CallError."""
    socket_path, workspace = find_session()
    return ask(socket_path, call.verb, request(call, workspace))


def _serve(workspace: str) -> int:
    try:
        os.chdir(workspace)
    except OSError as error:
        raise CallError(
            WRONG_CALL, "no_folder", f"'{workspace}': {error.strerror}.", "Name your workspace."
        ) from None
    find_session()  # a server that could do nothing says so at once
    return int(_beside("mcp.py")["serve"](_parser(), answer, CallError))


def _beside(name: str) -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).with_name(name)))


def run(argv: list[str]) -> int:
    """Make one call, print its answer, return the exit code."""
    plain = "--human" in argv
    try:
        call = _parser().parse_args(argv)
        if call.verb == "mcp":
            return _serve(call.workspace)
        result = answer(call)
    except CallError as error:
        if not plain:
            print(
                json.dumps(
                    {"error": {"code": error.code, "reason": error.reason, "remedy": error.remedy}}
                )
            )
        sys.stdout.flush()
        print("\n".join(line for line in (error.reason, error.remedy) if line), file=sys.stderr)
        return error.exit_code
    print(_beside("plain_text.py")["human"](result) if plain else json.dumps(result))
    return DONE


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted. What was submitted goes on: `evopolicy-session wait`.", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # Whoever read the answer has left; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    sys.exit(code)


if __name__ == "__main__":
    main()
