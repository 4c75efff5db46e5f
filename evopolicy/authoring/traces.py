"""Traces as files a person or an agent reads: CSV with named columns, NPZ for images and grids."""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.authoring.profile import Profile
from evopolicy.authoring.spaces import column_names, flatten
from evopolicy.kernel.ports.benchmark import Artifact, BenchmarkSpec, Field
from evopolicy.kernel.ports.outcome import EpisodeResult
from evopolicy.kernel.spaces import Dict, Space, Tuple
from evopolicy.kernel.trace import TraceRow, read_trace
from evopolicy.kernel.values import Value

ROWS = 2_000
"""Rows of one trace file: the first and the last half of them, what lies between is counted."""
ARRAY_BYTES = 32 * 2**20
"""Bytes of observations in one NPZ, before compression."""
TOTAL_BYTES = 64 * 2**20
"""Bytes of all trace files of one Submission; Episodes beyond are named, not written."""
_READING = (
    "Row 0 is the reset: it has no Action. Row n holds the n-th Action and the "
    "observation, reward and end it led to."
)


@dataclass
class _Excerpt:
    """The rows of a trace that are kept, and how many are not."""

    rows: list[TraceRow] = field(default_factory=list)
    omitted: int = 0


def write_traces(
    spec: BenchmarkSpec,
    profile: Profile,
    results: Sequence[EpisodeResult],
    folder: Path,
    *,
    first: Sequence[int] = (),
) -> list[Artifact]:
    """`episodes/<index>.csv` or `.npz` per traced Episode and `episodes/traces.json`, which
    explains the columns.

    `folder` receives them. Episodes in `first` are written before the rest, should TOTAL_BYTES not
    hold all."""
    place = folder / "episodes"
    place.mkdir(parents=True, exist_ok=True)
    flat = column_names(spec.observation_space, "observation") is not None
    suffix, media_type = (".csv", "text/csv") if flat else (".npz", "application/x-npz")
    traced = {r.index: r.trace for r in results if r.trace is not None and r.trace.is_file()}
    order = [i for i in first if i in traced] + sorted(i for i in traced if i not in first)
    files: dict[str, Value] = {}
    left_out: list[Value] = []
    artifacts: list[Artifact] = []
    info: dict[str, None] = {}
    spent = 0
    for index in order:
        if spent >= TOTAL_BYTES:
            left_out.append(index)
            continue
        path = place / f"{index:04d}{suffix}"
        names = _info_names(profile, traced[index])
        info.update(dict.fromkeys(names))
        excerpt = (
            write_csv(spec, names, traced[index], path)
            if flat
            else write_npz(spec, names, traced[index], path)
        )
        spent += path.stat().st_size
        files[str(index)] = {
            "file": path.name,
            "rows": len(excerpt.rows),
            "omitted_rows": excerpt.omitted,
        }
        artifacts.append(Artifact(f"episodes/{path.name}", path, media_type, "bulk", index))
    if not artifacts:
        return []
    about = {
        "reading": _READING,
        "columns": _explain(spec, profile, list(info))
        if flat
        else _explain_arrays(profile, list(info)),
        "episodes": dict(sorted(files.items(), key=lambda item: int(item[0]))),
        "episodes_not_written": sorted(left_out, key=str),
    }
    path = place / "traces.json"
    path.write_text(json.dumps(about, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return [
        Artifact("episodes/traces.json", path, "application/json"),
        *sorted(artifacts, key=lambda a: a.name),
    ]


def write_csv(spec: BenchmarkSpec, info: Sequence[str], trace: Path, path: Path) -> _Excerpt:
    """One line per row; cells of what a row has not (the reset's Action, an observation over the
    limit) are empty."""
    excerpt = _excerpt(read_trace(trace), ROWS)
    observation = [f.name for f in observation_fields(spec)]
    action = [f.name for f in action_fields(spec)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *observation, *action, "reward", "terminated", "truncated", *info])
    for row in excerpt.rows:
        cells = [row.step, *_cells(spec.observation_space, row.observation, len(observation))]
        cells += _cells(spec.action_space, row.action, len(action))
        cells += [_number(row.reward), int(row.terminated), int(row.truncated)]
        writer.writerow(cells + [_number(row.info.get(name)) for name in info])
    path.write_text(text.getvalue(), encoding="utf-8")
    return excerpt


def write_npz(spec: BenchmarkSpec, info: Sequence[str], trace: Path, path: Path) -> _Excerpt:
    """Arrays of equal length: `step`, `reward`, `terminated`, `truncated`, the observation's and
    the Action's parts."""
    size = max(
        1,
        sum(
            part.nbytes
            for part in _parts(spec.observation_space, _first(trace), "observation").values()
        ),
    )
    excerpt = _excerpt(
        (row for row in read_trace(trace) if row.observation is not None),
        min(ROWS, max(2, ARRAY_BYTES // size)),
    )
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "step": np.array([row.step for row in excerpt.rows]),
        "reward": np.array([row.reward for row in excerpt.rows]),
        "terminated": np.array([row.terminated for row in excerpt.rows]),
        "truncated": np.array([row.truncated for row in excerpt.rows]),
    }
    arrays.update(
        _stack(
            [_parts(spec.observation_space, row.observation, "observation") for row in excerpt.rows]
        )
    )
    actions = [
        _parts(spec.action_space, row.action, "action")
        for row in excerpt.rows
        if row.action is not None
    ]
    arrays.update(_stack(actions))
    arrays.update(
        {name: np.array([row.info.get(name, np.nan) for row in excerpt.rows]) for name in info}
    )
    np.savez_compressed(path, allow_pickle=False, **arrays)
    return excerpt


def observation_fields(spec: BenchmarkSpec) -> Sequence[Field]:
    """The named columns of a flat observation."""
    return spec.observation_fields or _unnamed(spec.observation_space, "observation")


def action_fields(spec: BenchmarkSpec) -> Sequence[Field]:
    """The named columns of an Action; none where it is no table."""
    return spec.action_fields or _unnamed(spec.action_space, "action")


def _unnamed(space: Space, prefix: str) -> list[Field]:
    return [Field(name) for name in column_names(space, prefix) or []]


def _excerpt(rows: Iterator[TraceRow], limit: int) -> _Excerpt:
    head = limit // 2
    excerpt = _Excerpt()
    tail: deque[TraceRow] = deque(maxlen=limit - head)
    for row in rows:
        if len(excerpt.rows) < head:
            excerpt.rows.append(row)
            continue
        excerpt.omitted += len(tail) == tail.maxlen
        tail.append(row)
    excerpt.rows.extend(tail)
    return excerpt


def _cells(space: Space, value: Any, width: int) -> list[Any]:
    if value is None or not width:
        return [""] * width
    return [_number(x) for x in flatten(space, value)]


def _number(value: Any) -> Any:
    """Integers whole, floats with eight significant digits (all a float32 has), what is missing
    empty."""
    if value is None:
        return ""
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return int(value)
    return format(float(value), ".8g") if isinstance(value, float | np.floating) else value


def _info_names(profile: Profile, trace: Path) -> list[str]:
    """The profile's columns, and whatever else the first steps reported."""
    names = {column.name: None for column in profile.columns}
    for row in read_trace(trace):
        names.update(dict.fromkeys(row.info))
        if row.step >= 2:
            break
    return list(names)


def _first(trace: Path) -> Any:
    return next((row.observation for row in read_trace(trace) if row.observation is not None), None)


def _parts(space: Space, value: Any, prefix: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays a structured value is made of, by dotted name."""
    if value is None:
        return {}
    match space:
        case Dict():
            inner = {
                key: _parts(part, value[key], f"{prefix}.{key}")
                for key, part in space.spaces.items()
            }
            return {name: array for parts in inner.values() for name, array in parts.items()}
        case Tuple():
            pairs = enumerate(zip(space.spaces, value, strict=True))
            members = [_parts(part, item, f"{prefix}.{i}") for i, (part, item) in pairs]
            return {name: array for parts in members for name, array in parts.items()}
    return {prefix: np.asarray(value)}


def _stack(rows: Sequence[dict[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.stack([row[name] for row in rows]) for name in (rows[0] if rows else {})}


def _explain(spec: BenchmarkSpec, profile: Profile, info: Sequence[str]) -> list[Value]:
    known = {
        column.name: Field(column.name, column.unit, meaning=column.meaning)
        for column in profile.columns
    }
    fields = [
        Field("step", "steps", meaning="0 is the reset"),
        *observation_fields(spec),
        *action_fields(spec),
        Field("reward", meaning="of this step"),
        Field("terminated", meaning="1 where the task ended the Episode"),
        Field("truncated", meaning="1 where the step limit ended it"),
        *(known.get(name, Field(name, meaning="as the Environment reports it")) for name in info),
    ]
    return [{"name": f.name, "unit": f.unit, "meaning": f.meaning} for f in fields]


def _explain_arrays(profile: Profile, info: Sequence[str]) -> list[Value]:
    known = {column.name: column for column in profile.columns}
    about = {
        "step": "of each row, 0 is the reset",
        "observation": "after that step; one array per part, named observation.<key>, where it is "
        "structured",
        "action": "that led there; one row shorter where the reset is among the rows",
        "reward": "of that step",
        "terminated": "true where the task ended the Episode",
        "truncated": "true where the step limit ended it",
        **{
            name: known[name].meaning if name in known else "as the Environment reports it"
            for name in info
        },
    }
    return [{"name": name, "unit": "", "meaning": meaning} for name, meaning in about.items()]
