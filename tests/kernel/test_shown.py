"""What an agent wrote is harmless to look at, wherever it is shown."""

import pytest

from evopolicy.kernel.shown import clean


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[31mred",
        "a\x07b",
        "a\x9b2Jb",
        "a\u202eb",
        "a\u2066b",
        "\x1b]8;;http://x\x07y",
        "a\u2028b",
        "\ud800",
        "\ue000",
    ],
)
def test_control_and_direction_characters_never_reach_the_terminal(hostile: str) -> None:
    shown = clean(hostile)
    assert all(character.isprintable() for character in shown), repr(shown)
    assert shown


def test_text_of_many_lines_becomes_one_bounded_line() -> None:
    assert clean("one\n\ttwo\r\nthree\u00a0four") == "one two three four"
    assert clean("x" * 10_000, 50) == "x" * 49 + "…"
    assert clean("[bold]not markup[/bold]") == "[bold]not markup[/bold]"
