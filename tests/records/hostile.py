"""Records as somebody else may send them: small whole ones with something done to them, from a
seed."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANARY = "the-canary-of-the-reader-3141592653"
VALUES: tuple[Any, ...] = (
    None, True, "", "x", -1, 0, 2**53 + 1, 2**63, -(2**63), 10**400, 1.5, -1e308, 1e308, [], [[]], {}, {"a": {"b": []}},
    "\u202e\x1b[31m", "../../../..", "/", "0:60000000", "0:8," * 1000, "a" * 100_000, [1] * 1000, {"x": 2**70},
)  # fmt: skip
"""What is put in a field's place."""
TEXTS: tuple[bytes, ...] = (
    b"", b"\n", b"\0" * 100, b"{", b"[]", b"null", b"1e999", b"NaN", b"\xff\xfe{}", b"[" * 100_000, b'{"a":' * 100_000,
    b'{"schema": 99}', b'{"schema": 1}', b'{"schema": "1"}', b'{"schema": 1, "schema": 2}', b"9" * 100_000,
)  # fmt: skip
"""What is put in a file's place, or in a line's."""
MODULES: tuple[bytes, ...] = (
    b"(" * 100_000, b"-" * 100_000 + b"1", b"x = 9" + b"9" * 100_000, b"import policy\n", b"raise SystemExit(7)\n",
    b"import os\nos.kill(os.getppid(), 9)\n", b"a = bytearray(2**40)\n", b"print('\x1b[2J' * 100_000)\n1 / 0\n",
    b"def make_policy(context):\n    return open('/etc/passwd').read()\n", b"\xff\xfe", b"#coding: nothing\n",
    b"# coding: utf-7\n", b"while True: pass\n", b"import " + b"a" * 5_000 + b"\n",
)  # fmt: skip
"""Of a Program."""


@dataclass(frozen=True)
class Reader:
    """Whoever reads a received record, with what is theirs beside it."""

    output: Path
    """The received output folder."""
    own: Path
    """A folder of theirs, which holds the canary under names that a record could ask for."""


def lay_own(own: Path, output: Path) -> Reader:
    """Fill `own` with what must not get out."""
    digest = "ab" * 32
    for folder in (
        own,
        own / "programs" / "ab" / digest,
        own / "feedback",
        own / "attempt-1",
        own / "0001" / "feedback",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "secret.txt").write_text(CANARY)
    (own / "id_rsa").write_text(CANARY)
    (own / "programs" / "ab" / digest / "policy.py").write_text(f"# {CANARY}\n")
    (own / "policy.py").write_text(f"# {CANARY}\n")
    (own / "attempt-1" / "stdout.log").write_text(CANARY)
    (own / "attempt-1" / "transcript.json").write_text(
        json.dumps({"steps": [{"source": "agent", "text": CANARY}]})
    )
    feedback = {"submission": 1, "score": 1.0, "note": CANARY, "artifacts": []}
    for folder in (own, own / "feedback", own / "0001" / "feedback"):
        (folder / "feedback.json").write_text(json.dumps(feedback))
    return Reader(output, own)


Change = Callable[[Reader, random.Random], str]
"""Does something to the record; returns what, for the report of a failure."""


def changed(reader: Reader, seed: int) -> str:
    """Do one to three things to the record, by `seed`."""
    chance = random.Random(seed)
    return "; ".join(
        _once(chance.choice(CHANGES), reader, chance) for _ in range(chance.choice((1, 1, 2, 3)))
    )


def _once(change: Change, reader: Reader, chance: random.Random) -> str:
    try:
        return change(reader, chance)
    except (
        OSError,
        ValueError,
        IndexError,
    ) as error:  # an earlier change has left nothing that it could work on
        return f"{change.__name__} came to {type(error).__name__}"


def _files(reader: Reader, *patterns: str) -> list[Path]:
    return sorted(
        path
        for pattern in patterns
        for path in reader.output.glob(pattern)
        if path.is_file() and path.stat().st_size < 2**22
    )


def _jsons(reader: Reader) -> list[Path]:
    return _files(
        reader, "runs/*/*/*/record.json", "regrades/*/*/*/*/record.json", "sweeps/*/sweep.json",
        "runs/*/*/*/submissions/*/feedback/feedback.json", "runs/*/*/*/agent/*/transcript.json",
        "regrades/*/asked.json", "sweeps/*/cells/*.json",
    )  # fmt: skip


def _lines(reader: Reader) -> list[Path]:
    return _files(
        reader, "runs/*/*/*/journal.jsonl", "runs/*/*/*/journal.jsonl", "regrades/*/*/*/*/journal.jsonl",
        "runs/*/*/*/submissions/*/outcomes.jsonl", "runs/*/*/*/evaluations/*/*.jsonl", "runs/*/*/*/agent/*/proxy.jsonl",
    )  # fmt: skip


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _mutated(value: Any, chance: random.Random) -> str:
    """Change one field of a JSON value in place."""
    places = list(_places(value))
    if not places:
        return "nothing"
    *way, last = chance.choice(places)
    for key in way:
        value = value[key]
    if chance.random() < 0.2:
        del value[last]
        return f"{[*way, last]} deleted"
    value[last] = chance.choice(VALUES)
    return (
        f"{[*way, last]} = "
        f"{str(value[last])[:40] if not isinstance(value[last], int) else 'a number'}"
    )


def a_field(reader: Reader, chance: random.Random) -> str:
    path = chance.choice(_jsons(reader))
    value = json.loads(path.read_text())
    what = _mutated(value, chance)
    _write(path, _dumped(value))
    return f"{path.relative_to(reader.output)}: {what}"


def a_line(reader: Reader, chance: random.Random) -> str:
    path = chance.choice(_lines(reader))
    lines = path.read_text().splitlines()
    number = chance.randrange(len(lines))
    how = chance.random()
    if how < 0.6:
        value = json.loads(lines[number])
        what = _mutated(value, chance)
        lines[number] = _dumped(value).decode()
    elif how < 0.7:
        what, lines = "a line twice", [*lines[:number], lines[number], *lines[number:]]
    elif how < 0.8:
        what, lines = "a line less", [*lines[:number], *lines[number + 1 :]]
    else:
        text = chance.choice(TEXTS)
        _write(
            path,
            b"\n".join(
                [*map(str.encode, lines[:number]), text, *map(str.encode, lines[number + 1 :])]
            ),
        )
        return f"{path.relative_to(reader.output)}: line {number + 1} is {text[:20]!r}"
    _write(path, "\n".join(lines).encode() + (b"" if chance.random() < 0.2 else b"\n"))
    return f"{path.relative_to(reader.output)}: line {number + 1}, {what}"


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _write(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def a_file(reader: Reader, chance: random.Random) -> str:
    path = chance.choice(_jsons(reader) + _lines(reader))
    text = chance.choice(TEXTS)
    _write(path, text)
    return f"{path.relative_to(reader.output)} is {text[:20]!r}"


def a_cut(reader: Reader, chance: random.Random) -> str:
    path = chance.choice(_jsons(reader) + _lines(reader))
    size = chance.randrange(path.stat().st_size + 1)
    os.truncate(path, size)
    return f"{path.relative_to(reader.output)} is cut to {size} bytes"


def another_kind(reader: Reader, chance: random.Random) -> str:
    """A FIFO, a folder, a device, nothing, or a link in the place of a file or a folder."""
    files = _jsons(reader) + _lines(reader)
    folders = [path for path in reader.output.rglob("*") if path.is_dir() and not path.is_symlink()]
    path = chance.choice(files if chance.random() < 0.6 else folders)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    kind = chance.choice(("fifo", "folder", "gone", "file", "link", "link", "loop", "device"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text(CANARY[:3])
    elif kind == "link":
        target = chance.choice([reader.own, *(p for p in reader.own.rglob("*"))])
        path.symlink_to(target)
        kind = f"a link to {target.relative_to(reader.own)}"
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    return f"{path.relative_to(reader.output)} is {kind}"


def a_program(reader: Reader, chance: random.Random) -> str:
    """A Program of the reader's own: by a digest that is a path, or by a link where Programs are
    kept."""
    links = sorted(path for path in reader.output.glob("r*/**/programs/*") if path.is_symlink())
    link = chance.choice(links)
    digest = "ab" * 32
    if chance.random() < 0.5:
        link.unlink()
        target = chance.choice((reader.own, reader.own / "programs" / "ab" / digest))
        link.symlink_to(target)
        return f"{link.relative_to(reader.output)} leads to {target.name}"
    (link.parent / digest).symlink_to(reader.own / "programs" / "ab" / digest)
    named = chance.choice((str(reader.own), os.path.relpath(reader.own, link.parent), digest))
    for path in (link.parent.parent / "journal.jsonl", link.parent.parent / "record.json"):
        path.write_text(path.read_text().replace(link.name, named))
    return f"{link.relative_to(reader.output)} is called {named[:20]}"


def a_module(reader: Reader, chance: random.Random) -> str:
    """In a stored Program: a module that is none, another kind of file, or more of them than there
    may be."""
    folder = chance.choice(
        sorted(path for path in reader.output.glob("programs/*/*") if path.is_dir())
    )
    folder.chmod(0o755)
    path = folder / chance.choice(
        ("policy.py", "policy.py", "more.py", "data.json", "\u202e.py", "a\nb")
    )
    if os.path.lexists(path):
        path.unlink()
    kind = chance.choice(("text", "text", "text", "fifo", "link", "deep", "many", "large"))
    what = kind
    if kind == "text":
        text = chance.choice((*TEXTS, *MODULES))
        path.write_bytes(text)
        what = repr(text[:30])
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(
            chance.choice([*(reader.own.rglob("*")), Path("/dev/zero"), Path("/etc/passwd")])
        )
    elif kind == "deep":
        folder.joinpath(*["d"] * 200).mkdir(parents=True)
    elif kind == "many":
        for number in range(1_100):
            (folder / f"{number}.py").touch()
    else:
        _sparse(path, 2**34)
    return f"{path.relative_to(reader.output)}: {what}"


def a_size(reader: Reader, chance: random.Random) -> str:
    """Far more bytes than such a file has, which cost the disk nothing."""
    path = chance.choice(_jsons(reader) + _lines(reader))
    size = chance.choice((2**24, 2**28, 2**32, 2**36))
    _sparse(path, size)
    return f"{path.relative_to(reader.output)} has {size} bytes"


def _sparse(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def beside(reader: Reader, chance: random.Random) -> str:
    """Where a verb writes or looks beside the records: something that is not what it makes
    there."""
    output = reader.output
    runs = sorted(path.parent for path in output.glob("runs/*/*/*/record.json"))
    places = [
        *(
            output / name
            for name in (
                "mlflow.db",
                "mlflow.db",
                "mlartifacts",
                "report.html",
                ".cache",
                "regrades/x",
            )
        ),
        *(
            folder / name
            for folder in output.glob("sweeps/*")
            for name in ("mlflow.json", ".tracker.lock")
        ),
        *(
            chance.choice(runs) / name
            for name in ("report.html", "live.json", ".owner", "download.json", "workspace")
        ),
    ]
    path = chance.choice(places)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = chance.choice(("link", "link", "fifo", "folder", "text"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_bytes(chance.choice(TEXTS))
    else:
        path.symlink_to(
            chance.choice([reader.own / "id_rsa", reader.own, reader.own / "new", path])
        )
    return f"{path.relative_to(output)} is a {kind}"


CHANGES: tuple[Change, ...] = (
    a_field,
    a_field,
    a_line,
    a_line,
    a_line,
    a_file,
    a_cut,
    a_size,
    another_kind,
    another_kind,
    a_program,
    a_module,
    beside,
)


def told(report: Mapping[str, Any]) -> str:
    """Of a command that went wrong, for a person."""
    return json.dumps(report, indent=1, default=str)[:4000]
