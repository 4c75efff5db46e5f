"""What lies beside a raw stream in the logs of a Run."""

from __future__ import annotations

from pathlib import Path

from evopolicy.agents.streams.attempts import earlier, is_counted, lines_with


def test_earlier_attempts_are_those_before_it_the_latest_first(tmp_path: Path) -> None:
    assert [path.name for path in earlier(tmp_path / "attempt-3")] == ["attempt-2", "attempt-1"]
    assert (
        list(earlier(tmp_path / "attempt-1"))
        == list(earlier(tmp_path / "logs"))
        == list(earlier(None))
        == []
    )


def test_lines_are_read_of_a_file_and_never_of_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one a\ntwo b\nthree a\n")
    (tmp_path / "link").symlink_to("file")
    assert list(lines_with(tmp_path / "file", "one", "three")) == ["one a\n", "three a\n"]
    for name in ("link", "nowhere", "."):
        assert list(lines_with(tmp_path / name, "one")) == []


def test_an_attempt_is_counted_where_the_proxy_stood_before_its_provider(tmp_path: Path) -> None:
    assert not is_counted(None) and not is_counted(tmp_path)
    for text, counted in (
        ('{"network": "proxy"}', True),
        ('{"network": "open"}', False),
        ("{", False),
        ("[]", False),
    ):
        (tmp_path / "invocation.json").write_text(text)
        assert is_counted(tmp_path) == counted
