"""Whatever a received record holds, a verb ends with a sentence; nothing of the reader's gets out
or is written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.main import main
from tests.records.hostile import CANARY, Reader, changed, lay_own
from tests.records.make import OUTPUT, SWEEP
from tests.records.sets import SETS
from tests.tracking.conftest import migrated

__all__ = ["migrated"]
pytestmark = pytest.mark.xdist_group("fuzz")  # one worker imports what the verbs need

CASES = int(os.environ.get("EVOPOLICY_FUZZ_CASES", "8"))
FIRST = int(os.environ.get("EVOPOLICY_FUZZ_FIRST", "0"))
CPU_SECONDS = 60
"""Of one verb, in this process: a bound for what would never end, not a measure."""
MEMORY = 1 << 30
"""Bytes by which one verb may raise this process's peak. What loads MLflow raises it by some 300
MiB."""
MOST_MEMORY = 6 << 30
"""Bytes of data this process may have while a verb goes on, so that what would fill a machine is
refused them."""
CHANGING = (
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
)


@dataclass
class Watch:
    """What this process opens and changes, while it is on."""

    on: bool = False
    allowed: tuple[str, ...] = ()
    own: str = ""
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event not in CHANGING or not arguments or isinstance(arguments[0], int):
            return
        self.on = False  # what is looked up here is not what is watched
        try:
            path = os.fsdecode(
                arguments[1 if event in ("os.symlink", "os.link") else 0]
            )  # what is made
            writes = event != "open" or bool(
                (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            )
            real = os.path.realpath(path)
            if f"{real}/".startswith(self.own):
                self.seen.append(f"{event} {path} -> {real}")
            elif writes and Path(path).is_absolute() and not real.startswith(self.allowed):
                self.seen.append(f"{event} {real}")
        finally:
            self.on = True


WATCH = Watch()


@pytest.fixture(scope="module", autouse=True)
def watched() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import matplotlib.pyplot  # noqa: F401 (it makes folders of its own)
        import mlflow.artifacts
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401 (while verbs go on nothing that is compiled is kept)

    sys.addaudithook(WATCH)  # there is no way to take it away: it is off outside of these tests
    yield
    WATCH.on = False


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    (tmp_path / "received").mkdir()
    shutil.copytree(SETS[-1] / OUTPUT, tmp_path / "received" / OUTPUT, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return lay_own(tmp_path / "own", Path("received", OUTPUT))


class OverTimeError(BaseException):
    """A verb has had its CPU time; no handler of errors may take it for one."""


@contextmanager
def bounded() -> Iterator[None]:
    """CPU time and data of this process bounded by the system. The hard limits stay, so that both
    can be lifted."""

    def over(*_: object) -> None:
        raise OverTimeError

    limits = {
        which: resource.getrlimit(which) for which in (resource.RLIMIT_CPU, resource.RLIMIT_DATA)
    }
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = signal.signal(signal.SIGXCPU, over)
    try:
        for which, most in (
            (resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + CPU_SECONDS),
            (resource.RLIMIT_DATA, MOST_MEMORY),
        ):
            resource.setrlimit(which, (most, limits[which][1]))
        yield
    finally:
        for which, limit in limits.items():
            resource.setrlimit(which, limit)
        signal.signal(signal.SIGXCPU, before)


def peak() -> int:
    """Bytes, of this process since it began. What a process it starts is counted with is at first
    its own size."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that lies in a folder: modes, and what files hold or links lead to."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mode,
            os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b"",
        )
        for path in folder.rglob("*")
    }


def files_in(*places: Path) -> Iterator[Path]:
    """Regular files: links are no part of it."""
    for place in places:
        for path in (place, *place.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path


def holds(word: str, *paths: Path) -> bool:
    """Whether one of the files has `word` in it. They may be large: none is read whole."""
    for path in paths:
        with path.open("rb") as file:
            before = b""
            while data := file.read(1 << 20):
                if word.encode() in before + data:
                    return True
                before = data[-len(word) :]
    return False


def verbs(reader: Reader, seed: int, what: str) -> list[list[str]]:
    """Commands that read all of a record that was changed as `what` says; the slower ones for some
    seeds only."""
    output = reader.output
    runs = sorted(output.glob("runs/*/*/*"))
    touched = [run for run in runs if run.name in what] or runs[seed % max(len(runs), 1) :][:1]
    found = [
        ["status", f"output={output}"],
        ["status", f"output={output}", f"sweep={SWEEP}"],
        ["table", f"source={output}"],
        ["table", f"sweep={SWEEP}", f"output={output}"],
        *(["report", f"source={run}", "to=out/one.html"] for run in touched),
    ]
    if seed % 2 == 0:  # a config is composed for each
        found.append(["resume", f"sweep={SWEEP}", f"output={output}"])
    else:
        found.extend(
            ["resume", f"source={run}"] for run in sorted(output.glob("runs/*/cma_es/s2-*"))
        )
    if seed % 4 == 0:
        found.append(["report", f"source={output}", "to=out/all.html"])
        found.append(["report", f"source={output / 'regrades' / 'again'}", "to=out/regrades.html"])
    if seed % 8 == 1:
        found.append(["track", f"source={output}"])  # into the received folder itself
    if seed % 8 == 2 and touched:
        found.append(["report", f"source={touched[0]}"])  # beside the record
        found.append(["track", f"source={touched[0]}", "output=out"])
    if seed % 16 == 3:
        found.append(["doctor", f"output={output}"])
    if seed % 8 == 5:
        found.append(["track", f"source={output}", "output=out"])
        found.append(
            [
                "regrade",
                f"source={output}",
                "output=out",
                "splits=assessment",
                "execution.workers=1",
            ]
        )
    if seed % 8 == 6:
        found.append(["track", f"sweep={SWEEP}", f"output={output}"])
    if seed % 4 == 3 or "programs/" in what:
        stored = sorted(
            path for path in output.glob("programs/*/*") if path.is_dir() and not path.is_symlink()
        )
        program = next(
            (path for path in stored if path.name in what),
            stored[seed % len(stored)] if stored else output,
        )
        asked = ["benchmark=cartpole", "episodes=1", "execution.workers=1", "output=out"]
        found.append(["evaluate", f"program={program}", *asked])
    return found


def lay_database(migrated: Path, words: Sequence[str], reader: Reader) -> None:
    """An empty database where the command will look for one, which it would take seconds to
    make."""
    place = (Path("out") if "output=out" in words else reader.output) / "mlflow.db"
    if words[0] == "track" and not os.path.lexists(place):
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(migrated, place)


def run_verb(words: Sequence[str], reader: Reader, capsys: pytest.CaptureFixture[str]) -> str:
    """'' where it ended as it should, else what it did."""
    WATCH.seen.clear()
    WATCH.own = f"{reader.own.resolve()}/"
    WATCH.allowed = (
        str(Path("out").resolve()),
        str(reader.output.resolve()),
        "/dev/",
        "/tmp/evopolicy",
        "/proc/",
    )
    before, most, mine = resource.getrusage(resource.RUSAGE_SELF), peak(), content(reader.own)
    compiled, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )  # a module that nobody has imported here before
    WATCH.on = True
    try:
        with bounded():
            code = main(list(words))
    except OverTimeError:
        code = -1
    finally:
        WATCH.on = False
        sys.dont_write_bytecode = compiled
    after, more = resource.getrusage(resource.RUSAGE_SELF), peak() - most
    out, err = capsys.readouterr()
    made = (
        Path("out"),
        reader.output / "mlflow.db",
        reader.output / "mlartifacts",
        *reader.output.rglob("report.html"),
    )
    told = holds(CANARY, *files_in(*made))
    shutil.rmtree("out", ignore_errors=True)
    wrong = []
    if code not in (0, 1, 2) or "Traceback" in err or "a fault inside evopolicy" in out + err:
        wrong.append(f"exit code {code}: {out[-1500:]} {err[-1500:]}")
    if code == 2 and len(err.strip().splitlines()) != 1:
        wrong.append(f"no one sentence: {err[-1500:]}")
    if CANARY in out + err or told:
        wrong.append("the canary got out")
    if content(reader.own) != mine:
        wrong.append("what is the reader's was changed")
    if (seconds := after.ru_utime - before.ru_utime) > CPU_SECONDS or code < 0:
        wrong.append(f"{seconds:.0f} CPU s")
    if more > MEMORY:
        wrong.append(f"{more / 2**20:.0f} MiB more at its peak")
    return "; ".join([*wrong, *WATCH.seen[:3]])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_a_changed_record_costs_a_sentence(
    reader: Reader,
    seed: int,
    migrated: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = changed(reader, seed)
    found = {}
    for words in verbs(reader, seed, what):
        if seed % 32 != 1:
            lay_database(migrated, words, reader)
        if why := run_verb(words, reader, capsys):
            found[" ".join(words)] = why
    assert found == {}, what
