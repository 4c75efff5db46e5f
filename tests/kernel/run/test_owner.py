"""One command at a time in a folder: by a lock that nothing dead holds, whatever was left
written."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run import owner
from evopolicy.kernel.run.owner import Owned, Ownership, is_owned

HOLDS = """
import sys, time
from pathlib import Path
from evopolicy.kernel.run.owner import Ownership
sys.argv = ["/bin/evopolicy", "agent=random", "tracking.uri=postgresql://bob:hidden@host/db"]
held = Ownership(Path(sys.stdin.readline().strip()))
print("held", flush=True)
sys.stdin.readline()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that has `folder`, until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    process.stdin.write(f"{folder}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_owner_is_told_who_is_the_first_and_nothing_is_touched(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with holder(folder) as first:
        for asks in (folder, tmp_path / "." / "run"):
            with pytest.raises(Owned) as refused:
                Ownership(asks)
        said = str(refused.value)
        assert f"pid {first.pid}, since 20" in said and "evopolicy agent=random" in said
        assert "hidden" not in said and "hidden" not in (tmp_path / ".run.lock").read_text(), (
            "it may be a password"
        )
        assert is_owned(folder) and not is_owned(tmp_path / "other")
        assert not folder.exists()
        assert first.stdin
        first.stdin.close()
    assert not is_owned(folder)


def test_a_killed_owner_holds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with holder(folder) as first:
        first.kill()
        first.wait()
    assert (tmp_path / ".run.lock").exists(), "what it wrote is still there"
    assert not is_owned(folder)
    with Ownership(folder):
        assert is_owned(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_command_started_keeps_the_folder_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_ENDING_SECONDS", 0.0)
    folder = tmp_path / "run"
    script = (
        "import os, subprocess, sys\nfrom pathlib import Path\nfrom evopolicy.kernel.run.owner "
        "import Ownership\n"
        "held = Ownership(Path(sys.argv[1]))\n"
        "child = subprocess.Popen(['cat'], pass_fds=[held.fd])\nos.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE
    ) as command:
        command.wait()
        with pytest.raises(Owned, match="was killed, and a process it started still runs"):
            Ownership(folder)
        monkeypatch.undo()
        assert command.stdin
        threading.Timer(0.3, command.stdin.close).start()
        Ownership(folder).close()  # waits for it


def test_a_folder_that_is_moved_stays_its_owners_in_its_old_place(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with Ownership(folder):
        folder.rename(tmp_path / "aside")
        with pytest.raises(Owned):
            Ownership(folder)


def test_many_who_ask_never_keep_an_owner_out(tmp_path: Path) -> None:
    folder, over = tmp_path / "run", threading.Event()

    def ask() -> None:
        while not over.is_set():
            is_owned(folder)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            with Ownership(folder):  # raises Owned where who asks keeps it out
                assert is_owned(folder)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not is_owned(folder)


def test_one_of_many_at_once_has_it_at_any_time(tmp_path: Path) -> None:
    folder, inside, most = tmp_path / "run", [0], [0]

    def work() -> None:
        for _ in range(100):
            try:
                with Ownership(folder):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    inside[0] -= 1
            except Owned:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


@pytest.mark.parametrize(
    "text", ["", "{", '{"pid": -1, "since": 1e300, "command": "\\u001b[2J"}', '{"pid": 1e30}']
)
def test_whatever_stands_in_the_lock_the_sentence_is_one_line(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "run"
    with Ownership(folder):
        (tmp_path / ".run.lock").write_text(text)
        with pytest.raises(Owned) as refused:
            Ownership(folder)
        assert str(refused.value).isprintable()


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(RecordError, match="no lock can be had"):
        Ownership(tmp_path / "run")
    assert (tmp_path / "mine").read_text() == "kept"
    assert not is_owned(tmp_path / "run")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="choose another output folder"):
        Ownership(tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_lock_of_an_owner_who_gave_it_up_meanwhile_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening of its file and the lock on it the file goes, and another command has a
    new one."""
    folder, really, others = tmp_path / "run", owner._locks, list[Ownership | None]()

    def meanwhile(fd: int, how: int) -> bool:
        if not others:
            others.append(None)
            (tmp_path / ".run.lock").unlink()
            others[0] = Ownership(folder)
        return really(fd, how)

    monkeypatch.setattr(owner, "_locks", meanwhile)
    with pytest.raises(Owned):
        Ownership(folder)
    assert others[0] is not None
    others[0].close()


def test_of_an_address_in_its_command_an_owner_says_the_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["agent=x", "tracking.uri=postgresql://bob:hunter22@host/name", "output=a b"]
    monkeypatch.setattr("sys.argv", ["/some/where/main.py", *words])
    with Ownership(tmp_path / "run"), pytest.raises(Owned) as told:
        Ownership(tmp_path / "run")
    assert told.value.owner.command == "evopolicy agent=x tracking.uri=... 'output=a b'"
