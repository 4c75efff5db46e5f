"""Numbers and times as people read them."""

from evopolicy.present.numbers import plural
from evopolicy.sweeps.text import are, duration, number


def test_numbers_are_short_and_absence_is_a_dash() -> None:
    assert (number(None), number(-1203.456), number(0.123456)) == ("-", "-1203", "0.1235")
    assert [duration(s) for s in (None, 0.2, 59, 200, 7_500)] == [
        "-",
        "0s",
        "59s",
        "3m20s",
        "2h05m",
    ]
    assert [duration(s) for s in (172_799, 172_800, 540_000, 400 * 86_400)] == [
        "47h59m",
        "2 days",
        "6 days",
        "400 days",
    ]
    assert duration(5e10) == "1,584 years"
    assert (plural(1, "cell"), plural(3, "cell")) == ("1 cell", "3 cells")
    assert (are(1), are(0), are(3)) == ("is", "are", "are")
