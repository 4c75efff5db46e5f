"""A whole Run's agent: garbage for the Host, all a workspace may hold and more, and what stays; then it does its task.

`runs_wild.py HERE VICTIM`: the folder this file and `policy.py` are in, and one of another Run's.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(shutil.which("evopolicy-session")).parent))
import client  # noqa: E402

here, victim = map(pathlib.Path, sys.argv[1:])
session, _ = client.find_session()
GARBAGE = (
    b"\0" * 1000,
    b"\xff\xfe{}",
    b"[" * 60_000,
    b"x" * 70_000,
    b'{"verb": ["submit"]}',
    b'{"verb": "submit", "arguments": {"path": "../..", "episodes": "0:999999999999999999999"}}',
    b'{"verb": "submit", "arguments": {"path": "/etc", "episodes": "0", "detach": false}}',
    b'{"verb": "finish", "arguments": {"candidates": [1e400, null]}}',
    b'{"verb": "feedback", "arguments": {"submission": -1}}',
)


def reached():
    link = socket.socket(socket.AF_UNIX)
    client._connect(link, session)
    return link


def garbage():
    for line in GARBAGE:
        with reached() as link:
            try:
                link.sendall(line + b"\n")
                assert b'"ok":false' in link.recv(1 << 16), line
            except (BrokenPipeError, ConnectionResetError):
                pass
    silent = [reached() for _ in range(100)]  # more than are served at once, and none says anything
    for link in silent:
        link.close()


def asked(verb, **arguments):
    """The answer, as soon as there is room for another call."""
    while True:
        try:
            return client.ask(session, verb, arguments)
        except client.CallError as error:
            if error.code not in ("busy", "host_gone"):
                raise
            time.sleep(0.01)


def submit(path):
    answer = asked("submit", path=path, episodes="0", detach=False)
    while answer["submission"]["status"] == "running":
        answer = asked("wait")
    return answer


def refused(path):
    try:
        submit(path)
    except client.CallError as error:
        return error.code
    raise SystemExit(f"{path} was taken")


def fills():
    """As deep, as many, as large as a workspace may hold, and more."""
    many = pathlib.Path("many")
    many.mkdir()
    for number in range(2000):
        (many / f"{number}").touch()
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)
    with open("large", "wb") as file:
        file.write(os.urandom(1 << 20) * 8)
    top = os.open(".", os.O_RDONLY)
    for _ in range(400):
        os.mkdir("deep")
        os.chdir("deep")
    os.fchdir(top)
    sys.stdout.write("y" * (1 << 20) + "\n" + "line\n" * 2000)
    sys.stdout.flush()


def plants():
    """Links into another Run, and pipes, where the Host looks for its own; and Programs made of them."""
    for name in ("TASK.md", "feedback", "skills", "analysis", ".evopolicy", ".masking"):
        try:
            os.rename(name, f"{name}-was")
        except OSError:
            pass
        try:
            os.symlink(victim / name, name)
        except OSError:
            pass
    for name, plant in (("linked", lambda place: place.symlink_to(victim / "notes")), ("piped", os.mkfifo)):
        pathlib.Path(name).mkdir()
        shutil.copy(here / "policy.py", name)
        plant(pathlib.Path(name, "notes"))
        print(refused(name), flush=True)
    os.symlink(victim, "all")
    print(refused("all"), refused("many"), refused("deep"), flush=True)


def stays():
    """In a session of its own, deaf to whoever asks it to end: it goes on with the Session."""
    if os.fork():
        return
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pathlib.Path("stayed").write_text(str(os.getpid()))
    while True:
        try:
            client.ask(session, "status", {})
        except client.CallError:
            pass
        time.sleep(0.05)


garbage()
shutil.copytree("program", "mine")
shutil.copy(here / "policy.py", "mine/policy.py")
fills()
plants()
stays()
subprocess.run(["true"], check=True)
print(submit("mine"), flush=True)
asked("finish", candidates=[])
