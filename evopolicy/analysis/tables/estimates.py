"""What of a Run's usage nobody counted exactly, and what is said of it below a table."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from evopolicy.kernel.ports.transcript import ESTIMATED
from evopolicy.present.table import ESTIMATE_MARK

_ESTIMATES = {
    "cost_is_estimate": "a cost that is estimated, at least in part, from list prices",
    "tokens_are_estimate": "tokens that are estimated, at least in part, by the length of texts",
}


def estimated(usage: pd.DataFrame, column: str) -> pd.Series[bool]:
    """Of which of these Runs `column` of the usage is, or has in it, an estimate."""
    flag = ESTIMATED.get(column, "")
    if flag not in usage:
        return pd.Series(False, index=usage.index)
    return usage[flag].astype("boolean").fillna(False).astype(bool) & usage[column].notna()


def estimate_notes(usage: pd.DataFrame, columns: Collection[str]) -> list[str]:
    """What ESTIMATE_MARK means in a table that shows these `columns` of them."""
    flags = {ESTIMATED[column] for column in columns if estimated(usage, column).any()}
    return [f"{ESTIMATE_MARK} marks {said}." for flag, said in _ESTIMATES.items() if flag in flags]
