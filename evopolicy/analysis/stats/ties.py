"""When two scores are equal, and which of two is higher: the one rule of every rank, win, mark,
scale and interval.

A mean is a rounded sum of rounded numbers. The same scores in other groups (Runs, seeds, a
published row of the same Episodes) come out some units in the last place apart, and which of them
is higher is chance. So two scores tie where they differ by no more than `ROUNDING` of their size.
It is far above what rounding can do (thousands of Episodes lose fewer than 12 of a double's 53
bits) and far below any difference that was measured.

Ties are closed: what ties with the same score ties, so that no order of the entries changes a rank.
Scaling all scores by a power of two changes nothing."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

ROUNDING = 2.0**-40
"""Of the larger size of two scores, how far they may lie apart and tie."""


def is_above(first: ArrayLike, second: ArrayLike, sizes: ArrayLike = 0.0) -> NDArray[np.bool_]:
    """Where `first` is higher than `second` and does not tie with it; NaN is never.

    `sizes` says of what size the numbers were that the two were made from, where that is more than
    their own: two means near 0 of scores around 1e6 tie by the scores' size."""
    one, two = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    size = np.maximum(np.maximum(_size(one), _size(two)), np.asarray(sizes, dtype=float))
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (one > two) & (np.isinf(one) | np.isinf(two) | (one - two > ROUNDING * size))
        )


def settle(values: ArrayLike, sizes: ArrayLike = 0.0) -> Floats:
    """`values` (N, ...) in which those along the first axis that tie are one number, the lowest of
    them; NaN stays.

    `sizes` as in `is_above`, of the shape of `values` or one that spreads to it.
    """
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return found.copy()
    order = np.argsort(found, axis=0, kind="stable")
    ascending = np.take_along_axis(found, order, axis=0)
    size = np.take_along_axis(
        np.broadcast_to(np.asarray(sizes, dtype=float), found.shape), order, axis=0
    )
    begins = np.ones(found.shape, dtype=bool)
    begins[1:] = is_above(
        ascending[1:], ascending[:-1], np.maximum(size[1:], size[:-1])
    ) | np.isnan(ascending[1:])
    places = np.arange(len(found)).reshape(-1, *[1] * (found.ndim - 1))
    lowest = np.maximum.accumulate(np.where(begins, places, 0), axis=0)
    settled = np.empty_like(found)
    np.put_along_axis(settled, order, np.take_along_axis(ascending, lowest, axis=0), axis=0)
    return settled


def _size(values: Floats) -> Floats:
    return np.where(np.isfinite(values), np.abs(values), 0.0)
