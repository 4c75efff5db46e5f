"""What an agent has left holds no secret, whatever it is and however much; what was not looked
through is gone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.kernel.secrecy import masked_files
from evopolicy.kernel.secrecy.masked_files import mask_files
from evopolicy.kernel.secrecy.secrets import MASK, Masker

VALUE = 'pa"ss/word+with ä'
MASKER = Masker((VALUE, "plain-value-1"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_masked_in_place_and_nothing_outside_is_touched(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.write_text(VALUE)
    (inside / "deep" / "notes").write_bytes(b"\xff" + VALUE.encode() + b"\x00")
    (inside / "link").symlink_to(outside)
    os.link(outside, inside / "hard")
    os.mkfifo(inside / "pipe")
    clean = inside / "clean"
    clean.write_text("nothing")
    before = clean.stat().st_mtime_ns
    mask_files(inside, MASKER)
    assert (inside / "deep" / "notes").read_bytes() == b"\xff" + MASK.encode() + b"\x00"
    assert outside.read_text() == VALUE
    assert (inside / "hard").read_text() == MASK, "its other name has what it had"
    assert clean.stat().st_mtime_ns == before


def test_names_links_modes_and_depth_do_not_keep_a_secret_and_never_stop_the_masking(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain-value-1.txt").write_text("x")
    (tmp_path / "link").symlink_to("/x/plain-value-1")
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_text(VALUE)
    (closed / "file").chmod(0)
    closed.chmod(0)
    deep = tmp_path
    handles = os.open(deep, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("a", dir_fd=handles)
        inner = os.open("a", os.O_RDONLY, dir_fd=handles)
        os.close(handles)
        handles = inner
    os.close(handles)
    cut = mask_files(tmp_path, MASKER)
    assert (cut.count, cut.paths[0][-18:]) == (1, " (nested too deep)")
    assert names(tmp_path) == ["***.txt", "a", "closed"]
    assert (closed / "file").read_text() == MASK


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "a file": lambda place, _: place.write_text("the agent's own"),
    "a link": lambda place, outside: place.symlink_to(outside),
    "a dangling link": lambda place, outside: place.symlink_to(outside.with_name("none")),
    "a folder": lambda place, _: (place / "inner").mkdir(parents=True),
    "a pipe": lambda place, _: os.mkfifo(place),
    "another name": lambda place, outside: os.link(outside, place),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_no_name_stands_in_the_way_of_masking_or_leads_it_out(tmp_path: Path, kind: str) -> None:
    outside, inside = tmp_path / "journal.jsonl", tmp_path / "workspace"
    outside.write_text("the Host's own")
    inside.mkdir()
    PLANTED[kind](inside / ".masking", outside)
    before = (inside / ".masking").lstat()
    (inside / "z.sh").write_text(f"echo {VALUE}")
    (inside / "z.sh").chmod(0o755)
    assert mask_files(inside, MASKER).count == 0
    assert ((inside / "z.sh").read_text(), (inside / "z.sh").stat().st_mode & 0o777) == (
        f"echo {MASK}",
        0o755,
    )
    assert outside.read_text() == "the Host's own" and names(tmp_path) == [
        "journal.jsonl",
        "workspace",
    ]
    assert names(inside) == [".masking", "z.sh"]
    assert (inside / ".masking").lstat().st_ino == before.st_ino, (
        "what is the agent's own stays as it is"
    )


def test_holes_in_a_file_are_no_work_and_stay_holes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        with (tmp_path / name).open("wb") as file:
            file.write(b"sk-0123456789abcdefghijklmnop -----BEGIN RSA PRIVATE KEY-----")
            file.seek(400 << 30)
            file.write(VALUE.encode())
            file.truncate(500 << 30)
    assert mask_files(tmp_path, MASKER).count == 0
    for name in ("a", "b", "c"):
        status = (tmp_path / name).stat()
        assert status.st_size > 499 << 30 and status.st_blocks * 512 < 1 << 20
        with (tmp_path / name).open("rb") as file:
            assert file.read(8) == b"*** ***\0"
            place = os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA)
            file.seek(place)
            assert file.read(4096).strip(b"\0") == MASK.encode()


def many(folder: Path) -> None:
    for name in "abcd":
        (folder / name).write_text(f"{name} {VALUE} " + "x" * 90)


def nested(folder: Path) -> None:
    (folder / "1" / "2" / "3").mkdir(parents=True)
    for parts in ("1", "1/2", "1/2/3"):
        (folder / parts / "f").write_text(VALUE)


def one_by_one(folder: Path) -> None:
    (folder / "1").mkdir()
    (folder / "1" / "1").write_text(VALUE)
    (folder / "1" / "2").mkdir()
    (folder / "1" / "2" / "2").write_text(VALUE)


BOUNDS: dict[str, tuple[str, int, Callable[[Path], None], list[str], dict[str, str]]] = {
    "bytes in all": (
        "MAX_BYTES", 130, many,
        ["b (its first 19 of 111 bytes are kept)", *(f"{name} (111 bytes, none of them kept)" for name in "cd")],
        {"a": f"a {MASK} " + "x" * 90},
    ),
    "names": ("MAX_NAMES", 3, one_by_one, ["1/2/2 (one name too many)"], {"1/1": MASK}),
    "names to the last": ("MAX_NAMES", 4, many, [], {"d": f"d {MASK} " + "x" * 90}),
    "depth": ("MAX_DEPTH", 2, nested, ["1/2/3 (nested too deep)"], {"1/2/f": MASK}),
    "depth to the last": ("MAX_DEPTH", 3, nested, [], {"1/2/3/f": MASK}),
}  # fmt: skip


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_lies_beyond_a_bound_is_gone_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    name, value, make, told, kept = BOUNDS[bound]
    make(tmp_path)
    monkeypatch.setattr(masked_files, name, value)
    cut = mask_files(tmp_path, MASKER)
    assert (sorted(cut.paths), cut.count) == (told, len(told))
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or VALUE.encode() not in path.read_bytes(), path
    for inner, text in kept.items():
        assert (tmp_path / inner).read_text() == text


def test_a_secret_is_masked_in_a_file_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    big, clean = tmp_path / "big", tmp_path / "clean"
    big.write_bytes(b"x" * ((5 << 20) - 7) + VALUE.encode() + b"y" * (3 << 20))
    clean.write_bytes(b"x\n" * (3 << 20))
    before = clean.stat().st_mtime_ns, clean.stat().st_ino
    mask_files(tmp_path, MASKER)
    assert big.read_bytes() == b"x" * ((5 << 20) - 7) + MASK.encode() + b"y" * (3 << 20)
    assert (clean.stat().st_mtime_ns, clean.stat().st_ino) == before


def test_a_full_disk_stops_the_masking_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text(VALUE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("evopolicy.kernel.files.beneath.replacing", full)
    with pytest.raises(OSError, match="No space"):
        mask_files(tmp_path, MASKER)
    assert (tmp_path / "a").read_text() == VALUE


def test_what_stands_under_more_names_than_are_shown_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masked_files, "MAX_NAMES", 0)
    for number in range(30):
        (tmp_path / os.fsdecode(b"\xff%d" % number)).touch()
    cut = mask_files(tmp_path, MASKER)
    assert (cut.count, len(cut.paths)) == (30, 20)
    assert all(path.isprintable() for path in cut.paths) and not list(tmp_path.iterdir())
