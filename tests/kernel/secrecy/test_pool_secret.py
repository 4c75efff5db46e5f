"""The secret of an output folder: one for all its commands, for nobody else to read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.secrecy.pool_secret import POOL_SECRET, pool_secret


def test_it_is_made_once_and_found_again(tmp_path: Path) -> None:
    output = tmp_path / "new" / "outputs"
    first = pool_secret(output, make=True)
    assert len(bytes.fromhex(first.decode())) == 32
    assert pool_secret(output, make=True) == first == pool_secret(output, make=False)
    assert (output / POOL_SECRET).stat().st_mode & 0o777 == 0o600
    assert pool_secret(tmp_path / "other", make=True) != first


def test_one_that_was_copied_readable_is_closed_again(tmp_path: Path) -> None:
    first = pool_secret(tmp_path, make=True)
    (tmp_path / POOL_SECRET).chmod(0o644)
    assert pool_secret(tmp_path, make=False) == first
    assert (tmp_path / POOL_SECRET).stat().st_mode & 0o777 == 0o600


def test_commands_that_begin_at_once_have_the_same(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom evopolicy.kernel.secrecy.pool_secret import "
        "pool_secret\n"
        "sys.stdin.readline()\nprint(pool_secret(Path(sys.argv[1]), make=True).decode())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert len({process.communicate()[0] for process in started}) == 1


def test_a_lost_one_is_not_made_anew_for_what_was_begun_with_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pool-secret' is not there.*secret\.file=FILE"):
        pool_secret(tmp_path, make=False)
    assert list(tmp_path.iterdir()) == []


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (lambda path: path.symlink_to("/etc/hostname"), "cannot be opened"),
        (Path.mkdir, "cannot be opened"),
        (_pipe, "is not a file"),
        (lambda path: path.write_text("f" * 63 + "\n"), "does not hold 64 hex digits"),
        (lambda path: path.write_text("f" * 65 + "\n"), "does not hold 64 hex digits"),
        (lambda path: path.write_text("\0" * 65), "does not hold 64 hex digits"),
    ],
    ids=["link", "folder", "pipe", "short", "long", "zeros"],
)
def test_what_is_no_secret_of_ours_is_refused_and_left_as_it_is(
    tmp_path: Path, put: Callable[[Path], object], said: str
) -> None:
    put(tmp_path / POOL_SECRET)
    before = os.lstat(tmp_path / POOL_SECRET)
    with pytest.raises(ConfigError, match=said):
        pool_secret(tmp_path, make=True)
    after = os.lstat(tmp_path / POOL_SECRET)
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    )
