"""What an agent wrote reaches a terminal as harmless text."""

import pytest

from evopolicy.cli.text import clean, duration, number, plural


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[31mred", "a\x07b", "a\x9b2Jb", "a\u202eb", "a\u2066b", "\x1b]8;;http://x\x07y", "a\u2028b", "\ud800"],
)
def test_control_and_direction_characters_never_reach_the_terminal(hostile: str) -> None:
    shown = clean(hostile)
    assert all(character.isprintable() for character in shown), repr(shown)


def test_text_of_many_lines_becomes_one_bounded_line() -> None:
    assert clean("one\n\ttwo\r\nthree") == "one two three"
    assert len(clean("x" * 10_000, 50)) == 50
    assert clean("[bold]not markup[/bold]") == "[bold]not markup[/bold]"


def test_numbers_are_short_and_absence_is_a_dash() -> None:
    assert (number(None), number(-1203.456), number(0.123456)) == ("-", "-1203", "0.1235")
    assert [duration(s) for s in (None, 0.2, 59, 200, 7_500)] == ["-", "0s", "59s", "3m20s", "2h05m"]
    assert [duration(s) for s in (172_799, 172_800, 540_000, 400 * 86_400)] == [
        "47h59m",
        "2 days",
        "6 days",
        "400 days",
    ]
    assert duration(5e10) == "1,584 years"
    assert (plural(1, "cell"), plural(3, "cell")) == ("1 cell", "3 cells")
