"""Every way to run a Run again, whatever became of it before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evopolicy.cli.main import main
from evopolicy.kernel.session.record import load_run
from tests.cli.place import TINY

pytestmark = pytest.mark.slow

AGENT = ["agent=baseline", *TINY, "execution=landlock", "execution.workers=1"]
FAULTS = """
import errno, os, signal
fault = os.environ.get("EVOPOLICY_TEST_FAULT", "")
rename, mkdir = os.rename, os.mkdir
def faulty_rename(source, target, **more):
    if "/invalid/" in str(target) and fault == "killed before":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target, **more)
    if "/invalid/" in str(target) and fault == "killed after":
        os.kill(os.getpid(), signal.SIGKILL)
def faulty_mkdir(path, *more, **others):
    if "invalid" in str(path) and fault == "disk full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    mkdir(path, *more, **others)
os.rename, os.mkdir = faulty_rename, faulty_mkdir
"""
WAYS: dict[str, Callable[[Path], list[str]]] = {
    "single": lambda _: AGENT,
    "sweep": lambda _: ["-m", *AGENT, "sweep=again"],
    "resume a sweep": lambda _: ["resume", "sweep=again", "execution.isolation=landlock"],
    "resume a Run": lambda run: ["resume", f"source={run}", "execution.isolation=landlock"],
}
STATES = ["invalid", "interrupted", "set aside", "killed before", "killed after", "disk full"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The output folder of a sweep of one cell that has ended."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["-m", *AGENT, "sweep=again"]) == 0
    yield folder / "outputs"


def spoil(run: Path) -> None:
    """What a provider that stayed unreachable leaves in the journal."""
    path = run / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["event"] in ("handoff", "ended"):
            line["reasons"] = ["provider"]
        if line["event"] == "ended":
            line["valid"] = False
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def interrupt(run: Path) -> None:
    """As a Host leaves it that was killed before the handoff."""
    path = run / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if json.loads(line)["event"] == "handoff")
    path.write_bytes(b"".join(lines[:place]) + lines[place][:20])


def set_aside(run: Path) -> None:
    spoil(run)
    kept = Path("outputs/invalid", *run.parts[2:]).with_name(f"{run.name}-1")
    kept.parent.mkdir(parents=True)
    run.rename(kept)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_run_again(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: str,
    state: str,
) -> None:
    shutil.copytree(made, tmp_path / "outputs", symlinks=True)
    monkeypatch.chdir(tmp_path)
    (run,) = Path("outputs/runs").glob("*/*/s*")
    {"interrupted": interrupt, "set aside": set_aside}.get(state, spoil)(run)
    words = WAYS[way](run)
    if state in STATES[3:]:
        (tmp_path / "sitecustomize.py").write_text(FAULTS)
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path))
            patch.setenv("EVOPOLICY_TEST_FAULT", state)
            assert main([*words, "launcher.retries=0"]) == 1
        assert ("killed" if "killed" in state else "No space left on device") in "".join(
            capsys.readouterr()
        )
        kept = [run] if run.exists() else list(Path("outputs/invalid").glob("*/*/*"))
        assert [load_run(folder).valid for folder in kept] == [False], (
            "what there was is whole, here or there"
        )
    if way == "resume a Run" and not run.exists():
        assert main(words) == 2
        assert f"{run}" in capsys.readouterr().err
        return
    assert main(words) == 0, capsys.readouterr()
    assert load_run(run).valid
    kept = list(Path("outputs/invalid").glob("*/*/*"))
    assert [load_run(folder).valid for folder in kept] == (
        [] if state == "interrupted" else [False]
    )
    assert all((folder / "programs").exists() for folder in kept)
    assert sorted(path.name for path in run.parent.iterdir()) == [run.name], (
        "nothing of the command stays"
    )


@pytest.mark.parametrize("way", ["single", "resume a Run", "resume a sweep"])
def test_a_run_that_goes_on_keeps_its_isolation_whatever_is_asked_now(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    shutil.copytree(made, tmp_path / "outputs", symlinks=True)
    monkeypatch.chdir(tmp_path)
    (run,) = Path("outputs/runs").glob("*/*/s*")
    interrupt(run)
    words = WAYS[way](run)
    if way == "single":
        words = [*words, "execution.isolation=none", "execution.allow_unisolated=true"]
    assert main(words) == 0
    record = load_run(run).record
    assert (record.isolation, record.agent_isolation) == ("landlock", "landlock")


@pytest.mark.parametrize("way", ["resume a Run", "resume a sweep"])
def test_what_was_begun_with_another_secret_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-m", *AGENT, "sweep=again", "secret.generated=true"]) == 0
    (run,) = Path("outputs/runs").glob("*/*/s*")
    interrupt(run)
    before = sorted(Path("outputs/runs").rglob("*"))
    secret = Path("outputs/pool-secret")
    kept = secret.read_bytes()
    secret.write_text("f" * 64 + "\n")
    assert main(WAYS[way](run)) == 2
    assert "the pool's secret" in capsys.readouterr().err
    secret.unlink()
    assert main(WAYS[way](run)) == 2
    assert "pool-secret' is not there" in capsys.readouterr().err
    assert not secret.exists() and sorted(Path("outputs/runs").rglob("*")) == before
    secret.write_bytes(kept)
    assert main(WAYS[way](run)) == 0
    assert load_run(run).valid
