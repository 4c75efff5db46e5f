"""Programs: what a snapshot may hold, what its digest says, and how it is stored."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.kernel.errors import ProgramError, RecordError
from evopolicy.kernel.files import program as program_module
from evopolicy.kernel.files.program import (
    Program,
    ProgramStore,
    _digest,
    capture,
    diff,
    link_program,
)
from evopolicy.kernel.shown import misleading

POLICY = "def make_policy(context): ...\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "policy.py").write_text(POLICY)
    return folder


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a Unix address holds 107 bytes, a test's folder may be longer
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def make_folder_link(path: Path) -> None:
    path.symlink_to(path.parent.parent, target_is_directory=True)


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make", "rule"),
    [
        (
            "link.py",
            lambda path: path.symlink_to("policy.py"),
            "is a symlink; .*: put a copy of what it leads to",
        ),
        ("dangling", lambda path: path.symlink_to("nowhere"), "is a symlink"),
        ("folder", make_folder_link, "is a symlink"),
        ("pipe", os.mkfifo, "is a special file"),
        ("socket", make_socket, "is a special file"),
        ("e\u0301.txt", Path.touch, "is not in Unicode form NFC"),
        ("back\\slash", Path.touch, "is not portable"),
        ("bell\a", Path.touch, "is not portable"),
        ("line\nbreak", Path.touch, "is not portable"),
        ("\x7f", Path.touch, "is not portable"),
        ("what?", Path.touch, "is not portable"),
        ("dot.", Path.touch, "is not portable"),
        ("POLICY.py", Path.touch, "policy.py: differs from .*POLICY.py only in case"),
        ("x" * 241, Path.touch, "longer than 240 characters"),
    ],
    ids=lambda value: (
        value[:12].encode("unicode_escape").decode() if isinstance(value, str) else ""
    ),
)
@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_refuses_what_a_program_may_not_hold_and_names_path_and_rule(
    tree: Path, name: str, make: object, rule: str, inside: str
) -> None:
    folder = tree / inside
    folder.mkdir(parents=True, exist_ok=True)
    if name == "POLICY.py":
        (folder / "policy.py").touch()
    make(folder / name)  # type: ignore[operator]
    with pytest.raises(ProgramError, match=rule) as caught:
        capture(tree)
    shown = str(caught.value).partition(":")[0]
    assert shown.isprintable()
    if name.isprintable() and len(name) < 200:
        assert shown in {f"{inside}/{name}".lstrip("/"), f"{inside}/policy.py".lstrip("/")}


def test_no_name_may_be_taken_for_another_one(tree: Path) -> None:
    """Of all of Unicode: what is not printable to Python (control, format, unassigned, private,
    separators) and what the standard calls ignorable by default; letters of every script pass."""
    ignorable = {
        0x034F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x180B,
        0x180F,
        0x2800,
        0x3164,
        0xFE00,
        0xFE0F,
        0xFFA0,
        0xE01EF,
    }
    for character in (
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\u2060",
        "\ufeff",
        "\u00ad",
        "\u00a0",
        "\u3000",
        "\u2028",
    ):
        assert misleading(f"a{character}b") == f"U+{ord(character):04X}"
    for number in range(0x110000):
        character = chr(number)
        refused = (
            unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
            and character != " "
        )
        assert bool(misleading(character)) >= (refused or number in ignorable), hex(number)
    assert not misleading("plain näme-1 数据 данные.py")
    (tree / "policy\u202eyp.txt").touch()
    with pytest.raises(
        ProgramError, match=r"^policy\\u202eyp\.txt: .* taken for another one, by its U\+202E"
    ):
        capture(tree)


def test_a_program_that_was_stored_before_a_rule_of_names_is_still_read(tmp_path: Path) -> None:
    files = {"policy.py": b"", "a\u200bb.txt": b"x"}
    program = Program(_digest(dict(sorted(files.items()))), dict(sorted(files.items())))
    store = ProgramStore(tmp_path / "programs")
    store.put(program)
    assert store.get(program.digest) == program


def test_refuses_a_name_that_is_not_utf8(tree: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tree) + b"/\xff.txt"))).touch()
    with pytest.raises(ProgramError, match=r"^\\udcff\.txt: the name is not UTF-8"):
        capture(tree)


def test_folders_that_differ_only_in_case_are_refused(tree: Path) -> None:
    fill(tree, {"Data/a": b"", "data/b": b""})
    with pytest.raises(ProgramError, match="data: differs from Data only in case"):
        capture(tree)


def test_policy_py_is_needed_at_the_root(tree: Path) -> None:
    fill(tree, {"inner/policy.py": b""})
    (tree / "policy.py").unlink()
    with pytest.raises(ProgramError, match=r"program: policy\.py is missing at the Program's root"):
        capture(tree)


def test_policy_py_may_not_be_a_folder(tree: Path) -> None:
    (tree / "policy.py").unlink()
    (tree / "policy.py").mkdir()
    with pytest.raises(ProgramError, match=r"policy\.py is missing"):
        capture(tree)


def test_a_thousand_files_are_allowed_and_one_more_is_refused(tree: Path) -> None:
    fill(tree, {f"f{n}": b"" for n in range(999)})
    assert len(capture(tree).files) == 1_000
    (tree / "one-more").touch()
    with pytest.raises(ProgramError, match="program: holds more than 1000 files"):
        capture(tree)


def test_a_file_of_16_mib_is_allowed_and_one_byte_more_is_refused(tree: Path) -> None:
    with (tree / "weights").open("wb") as file:
        file.truncate(16 * 2**20)
    assert len(capture(tree).files["weights"]) == 16 * 2**20
    os.truncate(tree / "weights", 16 * 2**20 + 1)
    with pytest.raises(ProgramError, match="weights: is larger than 16 MiB"):
        capture(tree)


def test_a_tree_of_more_than_64_mib_is_refused(tree: Path) -> None:
    for number in range(4):
        with (tree / f"w{number}").open("wb") as file:
            file.truncate(16 * 2**20)
    with pytest.raises(ProgramError, match="w3: the Program exceeds 64 MiB in all"):
        capture(tree)


def test_too_many_folders_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MAX_FOLDERS", 10)
    for number in range(11):
        (tree / f"d{number}").mkdir()
    with pytest.raises(ProgramError, match="holds more than 10 folders"):
        capture(tree)


def test_names_that_are_left_out_count_too_so_that_no_listing_is_endless(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "MAX_NAMES", 50)
    for number in range(51):
        (tree / f"{number}.pyc").touch()
    with pytest.raises(ProgramError, match="holds more than 50 names"):
        capture(tree)


def test_a_very_deep_tree_is_refused_by_its_path(tree: Path) -> None:
    (tree / "/".join("d" * 130)).mkdir(parents=True)
    with pytest.raises(ProgramError, match="longer than 240 characters"):
        capture(tree)


@pytest.mark.not_as_root
def test_an_unreadable_file_is_named_with_its_path(tree: Path) -> None:
    fill(tree, {"inner/secret": b"x"})
    (tree / "inner" / "secret").chmod(0)
    with pytest.raises(ProgramError, match="inner/secret: cannot be read"):
        capture(tree)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="a/b: there is no such folder"):
        capture(Path("a/b"), tmp_path)
    with pytest.raises(ProgramError, match="nowhere: there is no such folder"):
        capture(tmp_path / "nowhere")


def test_a_file_is_no_program(tree: Path) -> None:
    with pytest.raises(ProgramError, match=r"policy\.py: is a file or goes through a symlink"):
        capture(tree / "policy.py")


# --- a tree that changes --------------------------------------------------------------------------


def after_first_read(monkeypatch: pytest.MonkeyPatch, change: object) -> None:
    """Call `change` between the two times a capture reads its tree."""
    read = program_module._read_tree
    reads: list[int] = []

    def read_tree(handle: int, title: str) -> dict[str, bytes]:
        files = read(handle, title)
        if not reads:
            change()  # type: ignore[operator]
        reads.append(1)
        return files

    monkeypatch.setattr(program_module, "_read_tree", read_tree)


@pytest.mark.parametrize("change", ["content", "more", "less"])
def test_a_tree_that_changes_while_it_is_read_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    fill(tree, {"other": b"1"})
    changes = {
        "content": lambda: (tree / "other").write_bytes(b"2"),
        "more": lambda: (tree / "new").touch(),
        "less": lambda: (tree / "other").unlink(),
    }
    after_first_read(monkeypatch, changes[change])
    with pytest.raises(ProgramError, match="program: the tree changed while it was read"):
        capture(tree)


@pytest.mark.parametrize("kind", ["file", "folder", "gone"])
def test_what_is_swapped_after_it_was_looked_at_is_not_followed(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    secret = fill(tmp_path / "secret", {"key": b"hidden", "policy.py": b"hidden"})
    fill(tree, {"inner/key": b"own"})
    look = program_module._is_folder

    def is_folder(handle: int, path: str, name: str) -> bool:
        found = look(handle, path, name)
        if kind == "folder" and path == "inner":
            (tree / "inner").rename(tmp_path / "aside")
            (tree / "inner").symlink_to(secret)
        if kind in ("file", "gone") and path == "inner/key":
            (tree / path).unlink()
        if kind == "file" and path == "inner/key":
            (tree / path).symlink_to(secret / "key")
        return found

    monkeypatch.setattr(program_module, "_is_folder", is_folder)
    with pytest.raises(ProgramError, match=r"^inner(/key)?: the tree changed while it was read"):
        capture(tree)


def test_a_fifo_swapped_in_does_not_hold_the_host(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tree, {"data": b"1"})
    look = program_module._is_folder

    def is_folder(handle: int, path: str, name: str) -> bool:
        found = look(handle, path, name)
        if path == "data":
            (tree / path).unlink()
            os.mkfifo(tree / path)
        return found

    monkeypatch.setattr(program_module, "_is_folder", is_folder)
    with pytest.raises(ProgramError, match="data: the tree changed while it was read"):
        capture(tree)


@pytest.mark.parametrize("at", ["workspace/mine", "workspace/mine/program"])
def test_no_link_on_the_way_from_the_workspace_is_followed(tmp_path: Path, at: str) -> None:
    fill(tmp_path / "elsewhere" / "program", {"policy.py": b"hidden"})
    link = tmp_path / at
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere" / ("program" if at.endswith("program") else ""))
    with pytest.raises(ProgramError, match=r"^mine/program: is a file or goes through a symlink"):
        capture(Path("mine/program"), tmp_path / "workspace")


def test_a_folder_beneath_the_workspace_is_captured(tmp_path: Path) -> None:
    fill(tmp_path / "mine" / "program", {"policy.py": b"x"})
    assert capture(Path("mine/program"), tmp_path).files == {"policy.py": b"x"}
    assert capture(Path(), tmp_path / "mine" / "program").files == {"policy.py": b"x"}


# --- digest ---------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "abc", "b/a", "b/ab", "c/a", "é", "a.py"])
FILES = st.dictionaries(NAMES, st.binary(max_size=8), max_size=6).filter(
    lambda files: not any(a != b and a.startswith(b + "/") for a in files for b in files)
)


@settings(max_examples=30)
@given(files=FILES, data=st.data())
def test_the_digest_does_not_depend_on_the_order_files_were_made(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], data: st.DataObject
) -> None:
    files = {"policy.py": b"", **files}
    shuffled = dict(data.draw(st.permutations(list(files.items()))))
    one, two = (fill(tmp_path_factory.mktemp("p"), each) for each in (files, shuffled))
    assert capture(one) == capture(two)
    assert list(capture(one).files) == sorted(files)


@given(one=FILES, two=FILES)
def test_different_files_have_different_digests(
    one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    assert (program_module._digest(one) == program_module._digest(two)) == (one == two)


@given(
    path=st.text("ab", min_size=1, max_size=6),
    content=st.text("ab", max_size=6),
    at=st.integers(1, 5),
)
def test_no_byte_can_move_between_path_and_content(path: str, content: str, at: int) -> None:
    whole = path + content
    other = {whole[:at]: whole[at:].encode()}
    same = {path: content.encode()} == other
    assert (
        program_module._digest({path: content.encode()}) == program_module._digest(other)
    ) == same


def test_the_digest_is_a_stable_contract(tree: Path) -> None:
    hasher = hashlib.sha256(b"evopolicy/program/1")
    for part in (b"policy.py", POLICY.encode()):
        hasher.update(len(part).to_bytes(8, "big") + part)
    assert capture(tree).digest == hasher.hexdigest()
    assert (
        capture(tree).digest == "c4a484428cc112bf73827b3182d72bd056b2b9ef83f79843dd9b4c39af495436"
    )


def test_left_out_files_do_not_matter(tree: Path) -> None:
    before = capture(tree)
    fill(tree, {".git/config": b"x", "__pycache__/policy.cpython-311.pyc": b"x", "deep/__pycache__/a.py": b"x",
                "policy.pyc": b"x"})  # fmt: skip
    (tree / "deep" / ".git").symlink_to("/")
    (tree / "empty").mkdir()
    assert capture(tree) == before


def test_size_counts_contents() -> None:
    assert Program("", {"a": b"12", "b": b"345"}).size == 5


# --- store ----------------------------------------------------------------------------------------


def test_a_program_is_stored_once_and_read_only(tree: Path, tmp_path: Path) -> None:
    fill(tree, {"inner/data": b"\x00\xff"})
    store, program = ProgramStore(tmp_path / "programs"), capture(tree)
    folder = store.put(program)
    assert folder == store.folder(program.digest) == store.put(program)
    assert store.get(program.digest) == program == capture(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert [path.name for path in folder.parent.iterdir()] == [program.digest]


def test_many_hosts_may_store_the_same_program_at_once(tree: Path, tmp_path: Path) -> None:
    fill(tree, {f"f{n}": b"x" * 100 for n in range(20)})
    program = capture(tree)
    barrier, failed = threading.Barrier(6), []

    def put() -> None:
        barrier.wait()
        try:
            ProgramStore(tmp_path / "programs").put(program)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=put) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    store = ProgramStore(tmp_path / "programs")
    assert store.get(program.digest) == program
    assert [path.name for path in store.folder(program.digest).parent.iterdir()] == [program.digest]


@pytest.mark.parametrize("how", ["content", "added", "removed", "link"])
def test_a_stored_program_that_was_changed_is_told(tree: Path, tmp_path: Path, how: str) -> None:
    fill(tree, {"data": b"1"})
    store, program = ProgramStore(tmp_path / "programs"), capture(tree)
    data = store.put(program) / "data"
    if how == "added":
        data.with_name("more").touch()
    else:
        data.unlink()
        if how == "content":
            data.write_bytes(b"2")
        if how == "link":
            data.symlink_to("policy.py")
    with pytest.raises(RecordError, match=f"Program {program.digest[:12]} .*restore it"):
        store.get(program.digest)


def test_a_missing_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        RecordError, match="Program 0000 is not in programs/".replace("0000", "0" * 12)
    ):
        ProgramStore(tmp_path / "programs").get("0" * 64)


def test_a_failed_put_leaves_nothing_behind(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(folder: Path, _files: object, *, durable: bool) -> None:  # noqa: ARG001 (as it is called)
        (folder / "half").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(program_module, "_write_tree", no_room)
    store, program = ProgramStore(tmp_path / "programs"), capture(tree)
    with pytest.raises(OSError, match="No space left"):
        store.put(program)
    assert list(store.folder(program.digest).parent.iterdir()) == []


def test_a_run_links_its_programs_so_that_the_output_can_be_moved(
    tree: Path, tmp_path: Path
) -> None:
    store, program = ProgramStore(tmp_path / "out" / "programs"), capture(tree)
    store.put(program)
    run = tmp_path / "out" / "runs" / "one"
    for _ in range(2):
        link_program(run, store, program.digest)
    (tmp_path / "out").rename(tmp_path / "moved")
    assert capture(tmp_path / "moved" / "runs" / "one" / "programs" / program.digest) == program


# --- diff -----------------------------------------------------------------------------------------


def program_of(**files: bytes) -> Program:
    return Program("", {name.replace("_", "."): content for name, content in files.items()})


def test_diff_shows_changed_added_and_removed_files() -> None:
    before = program_of(a_py=b"one\ntwo\n", gone_py=b"x\n", same=b"s\n")
    after = program_of(a_py=b"one\n2\n", new_py=b"y\n", same=b"s\n")
    assert diff(before, after) == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "--- a/gone.py\n+++ b/gone.py\n@@ -1 +0,0 @@\n-x\n"
        "--- a/new.py\n+++ b/new.py\n@@ -0,0 +1 @@\n+y\n"
    )
    assert diff(after, after) == ""


def test_diff_without_a_before_shows_all() -> None:
    assert diff(None, program_of(a=b"x\n")).endswith("@@ -0,0 +1 @@\n+x\n")


def test_diff_says_of_binary_files_only_that_they_differ() -> None:
    assert diff(program_of(w=b"\xff\x00"), program_of(w=b"\xff\x01")) == "Binary file w differs\n"


def test_diff_marks_a_missing_last_line_break() -> None:
    assert diff(program_of(a=b"x\n"), program_of(a=b"x")).endswith(
        "-x\n+x\n\\ No newline at end of file\n"
    )


def test_diff_counts_lines_as_editors_do() -> None:
    """Form feeds and the like are characters of a line, not its end."""
    assert diff(program_of(a=b"x\x0cy\n"), program_of(a=b"x\x0cz\n")).endswith("-x\x0cy\n+x\x0cz\n")


def test_diff_names_empty_files_that_came_or_went() -> None:
    assert diff(program_of(), program_of(a=b"")) == "Empty file a added\n"
    assert diff(program_of(a=b""), program_of()) == "Empty file a removed\n"


def test_reading_a_stored_program_leaves_no_mark_on_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "data").mkdir(parents=True)
    (source / "policy.py").write_text("x = 1")
    (source / "data" / "numbers.txt").write_text("1 2")
    folder = ProgramStore(tmp_path / "programs").put(capture(source))
    places = [folder, *folder.rglob("*")]
    before = [(place.stat().st_atime, place.stat().st_mtime) for place in places]
    for place in places:
        if place.is_file():
            place.read_bytes()
        else:
            list(place.iterdir())
    assert [(place.stat().st_atime, place.stat().st_mtime) for place in places] == before
    assert len(set(before)) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_only_a_store_that_is_kept_waits_for_the_disk(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    fill(tree, {f"folder/{n}": b"x" for n in range(5)})
    program = capture(tree)
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    folder = ProgramStore(tmp_path / "programs").put(program, durable=durable)
    # Where not: for the two folders of the store alone, whatever the Program holds.
    assert len(waited) >= 6 + 2 + 2 if durable else len(waited) <= 2
    assert (folder / "policy.py").stat().st_mode & 0o777 == 0o444
