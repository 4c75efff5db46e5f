"""Typed frames: rows in and rows out, and whose a row is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from evopolicy.analysis.records.frame_columns import WHOSE as WHOSE
from evopolicy.analysis.records.frame_columns import Column


def typed_frame(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame of exactly `columns`; what a row does not hold has no value."""
    data = {c.name: pd.Series([row.get(c.name) for row in rows], dtype=c.dtype) for c in columns}
    return pd.DataFrame(data, columns=[c.name for c in columns])


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain Python values, None where there is none."""
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def by_run(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """`rows_of` the frame, by Run, in their order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(frame):
        found.setdefault(row["run"], []).append(row)
    return found


def whose(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `row` that says whose it is: the columns of WHOSE."""
    return {column.name: row[column.name] for column in WHOSE}


def grouped(frame: pd.DataFrame, keys: Iterable[str]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The rows of `frame` by their values of `keys`, in order of appearance."""
    names = list(keys)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows_of(frame):
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [(dict(zip(names, key, strict=True)), rows) for key, rows in groups.items()]


def _plain(value: Any) -> Any:
    absent = value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)
    return None if absent else value
