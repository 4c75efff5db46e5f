"""How many digits a number is shown with, wherever it is shown, and how it is rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

NONE = "–"
"""In place of a number there is none of."""
RANK_DECIMALS = 3
"""Of a rank score."""
_MOST_DECIMALS = 3
_POWERS = 1e7
"""From here on numbers are written as powers of ten."""


def rounded(value: float, decimals: int | None) -> str:
    """`value` with `decimals` (None: three significant digits), half to even by its decimal digits:
    0.0125 is 0.012 though no float is exactly that.

    Noise past the twelfth digit is taken for rounding of an earlier step. Never `-0.000`.
    """
    if decimals is None:
        return f"{value:.3g}"
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(f"{value:.12g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN)
    return f"{abs(exact) if exact == 0 else exact:f}"


def rank_score(value: float | None) -> str:
    """A rank score, of 0 to 1."""
    return NONE if value is None else rounded(value, RANK_DECIMALS)


def fitting(values: Sequence[float | None], spread: float = 0.0) -> int | None:
    """Decimals that suit `values`: about four significant digits of the largest, at most three; 0
    for whole numbers.

    With `spread`, the largest standard error or half width of an interval, no more than two digits
    of it. None (powers of ten) from ten million on, and where three decimals would show nothing.
    """
    if spread <= 0 and all(v is None or (math.isfinite(v) and v == round(v)) for v in values):
        return 0 if all(v is None or abs(v) < _POWERS for v in values) else None
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if largest >= _POWERS or 0 < largest < 5e-3:
        return None
    decimals = _MOST_DECIMALS if largest == 0 else _within(3 - math.floor(math.log10(largest)))
    return decimals if spread <= 0 else min(decimals, _within(1 - math.floor(math.log10(spread))))


def with_error(value: float, error: float | None, decimals: int | None) -> tuple[str, str]:
    """`value` and its standard error ('' for None) with `decimals`, or with as many more as the
    error needs not to read as nothing."""
    if error is None:
        return rounded(value, decimals), ""
    if decimals is not None and error > 0 and float(rounded(error, decimals)) == 0:
        decimals = _within(-math.floor(math.log10(error)))
    return rounded(value, decimals), rounded(error, decimals)


def plain(value: float | None) -> str:
    """A number by itself: four significant digits, whole from ten thousand on; '–' for None."""
    if value is None or value != value:
        return NONE
    value += 0.0  # there is no -0 in a table
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:.4g}"


def mean_and_error(mean: float, error: float | None) -> tuple[str, str]:
    """A mean by itself and its standard error ('–' for None), with the digits that the error leaves
    the mean."""
    if not error:
        return plain(mean), plain(error)
    return with_error(mean, error, fitting([mean], error))


def dollars(value: float) -> str:
    """US dollars, to the cent from ten cents on."""
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def minus(text: str) -> str:
    """A number with a minus sign for its hyphens, where the type has one."""
    return text.replace("-", "−")


def typeset(value: float | None) -> str:
    """`plain` with a minus sign."""
    return minus(plain(value))


def size(count: int) -> str:
    """Bytes in words."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 999_500 else f"{count / 1e6:.1f} MB"


def duration(seconds: float | None) -> str:
    """`8.1 s`, `3 min 20 s`, `2 h 05 min`; '–' for None."""
    if seconds is None:
        return NONE
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def plural(count: int, word: str) -> str:
    """`1 Run`, `1,024 Runs`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _within(decimals: int) -> int:
    return max(0, min(_MOST_DECIMALS, decimals))
