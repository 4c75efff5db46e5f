"""The file that `to=` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicy.cli.target import check_target, write_target
from evopolicy.kernel.errors import ConfigError


def test_the_folders_it_needs_are_made_when_it_is_written(tmp_path: Path) -> None:
    target = check_target(tmp_path / "a" / "b" / "c.txt")
    assert list(tmp_path.iterdir()) == [], "nothing is made before the work"
    write_target(target, "é\n")
    assert target.read_bytes() == "é\n".encode()
    assert list(target.parent.iterdir()) == [target]


def test_what_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"to: .* is a folder"):
        check_target(tmp_path)
    with pytest.raises(ConfigError, match=r"file is not a folder"):
        check_target(tmp_path / "file" / "new" / "a.txt")


@pytest.mark.not_as_root
def test_a_place_where_this_user_may_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "there").chmod(0o400)
    with pytest.raises(ConfigError, match="you may not write it"):
        check_target(tmp_path / "there")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="you may not write into"):
            check_target(tmp_path / "new" / "a.txt")
    finally:
        tmp_path.chmod(0o700)


def test_what_was_there_stays_where_the_new_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", fails)
        with pytest.raises(ConfigError, match="No space left"):
            write_target(target, b"new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_and_its_files_mode_stay_and_a_device_is_written_to(tmp_path: Path) -> None:
    file, link = tmp_path / "a.txt", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_target(link, "new")
    assert link.is_symlink() and file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    write_target(check_target("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
