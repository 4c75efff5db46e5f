"""What is printed is as wide as there is room."""

import sys

import pytest
from rich.text import Text

from evopolicy.cli.text import show


def test_a_terminal_gets_colour_and_a_pipe_plain_text_as_wide_as_it_may_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns, wide in (("200", 200), ("20", 80)):
        monkeypatch.setenv("COLUMNS", columns)
        show(lambda: Text("rich"), lambda width: f"{width}\n")
        assert capsys.readouterr().out == f"{wide}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(lambda: Text("rich"), lambda width: f"{width}\n")
    assert capsys.readouterr().out == "rich\n"
