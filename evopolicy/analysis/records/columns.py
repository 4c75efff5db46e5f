"""Typed frames: of what a record holds, and of other frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evopolicy.analysis.records.frame_columns import WHOSE as WHOSE
from evopolicy.analysis.records.frame_columns import Column

WHOSE_NAMES = [column.name for column in WHOSE]


def typed_frame(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame of exactly `columns`; what a row does not hold has no value."""
    data = {c.name: pd.Series([row.get(c.name) for row in rows], dtype=c.dtype) for c in columns}
    return pd.DataFrame(data, columns=[c.name for c in columns])


def typed(columns: Sequence[Column], frame: pd.DataFrame) -> pd.DataFrame:
    """Exactly `columns` of `frame`; what it does not have has no values."""
    dtypes = {column.name: column.dtype for column in columns}
    return frame.reindex(columns=list(dtypes)).astype(dtypes).reset_index(drop=True)


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain values, None where there is none: for what is no frame, a page's text or a
    CellScore."""
    columns = {str(name): plain_values(column) for name, column in frame.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def plain_values(column: pd.Series[Any]) -> list[Any]:
    """The values of one column, None where there is none."""
    return column.astype(object).where(column.notna(), None).tolist()
