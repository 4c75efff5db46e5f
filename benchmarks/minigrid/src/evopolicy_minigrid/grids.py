"""Traces as text: the agent's view at every step, and a map of all it saw."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evopolicy.authoring import Artifact, EpisodeResult, TraceRow, read_trace
from evopolicy_minigrid.progress import COLORS, DIRECTIONS, FORWARD, view_offsets

VIEWS = 400
"""Views of one Episode's file: the first and the last half of them, what lies between is
counted."""
TOTAL_BYTES = 16 * 2**20
"""Bytes of all text grids of one Submission; Episodes beyond are named, not written."""

_MOVES = ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done")
_KINDS = {1: " .", 2: "##", 8: "GG", 9: "~~"}
_LETTERS = {3: "F", 5: "K", 6: "O", 7: "B"}
_DOORS = "/DL"
_AGENT = ">v<^"
_COLOR_LETTERS = "rgbpye"
LEGEND = f"""\
One file per Episode: every view of the agent as text, then a map of all it saw. Two characters a cell:

  ## wall    .  empty   (blank) not seen   GG goal   ~~ lava
  Kx key     Ox ball    Bx box             Fx floor
  /x door, open         Dx door, closed    Lx door, locked

x is the colour: {", ".join(f"{letter} {name}" for letter, name in zip(_COLOR_LETTERS, COLORS, strict=True))}.
In a view the agent is ^^ in the middle of the last line and looks up; what it carries is said above the view.
In the map >> vv << ^^ is the agent at the end, looking right, down, left or up; ,, is a cell it was in and left empty.
Cells of the map are as they were last seen, also where they changed since. Its upper left cell is named above it.
"""


class _Look(NamedTuple):
    """One row of a trace with the place it was seen from."""

    row: TraceRow
    x: int
    y: int


def write_grids(
    results: Sequence[EpisodeResult], folder: Path, *, first: Sequence[int] = ()
) -> list[Artifact]:
    """`episodes/<index>.txt` per traced Episode, those in `first` before others; the legend is
    `episodes/grids.txt`."""
    place = folder / "episodes"
    place.mkdir(parents=True, exist_ok=True)
    traced = {r.index: r.trace for r in results if r.trace is not None and r.trace.is_file()}
    left_out: list[int] = []
    artifacts: list[Artifact] = []
    spent = 0
    for index in [*(i for i in first if i in traced), *sorted(i for i in traced if i not in first)]:
        if spent >= TOTAL_BYTES:
            left_out.append(index)
            continue
        path = place / f"{index:04d}.txt"
        path.write_text(episode_text(read_trace(traced[index])), encoding="utf-8")
        spent += path.stat().st_size
        artifacts.append(Artifact(f"episodes/{path.name}", path, "text/plain", "bulk", index))
    if not artifacts:
        return []
    path = place / "grids.txt"
    omitted = ", ".join(map(str, sorted(left_out))) or "none"
    path.write_text(f"{LEGEND}\nEpisodes not written: {omitted}.\n", encoding="utf-8")
    return [
        Artifact("episodes/grids.txt", path, "text/plain"),
        *sorted(artifacts, key=lambda a: a.name),
    ]


def episode_text(rows: Iterator[TraceRow]) -> str:
    """The views and the map of one Episode."""
    head: list[str] = []
    tail: deque[str] = deque(maxlen=VIEWS - VIEWS // 2)
    seen: dict[tuple[int, int], str] = {}
    trail: set[tuple[int, int]] = set()
    omitted, last = 0, None
    for look in _looks(rows):
        text = _view_text(look)
        if len(head) < VIEWS // 2:
            head.append(text)
        else:
            omitted += len(tail) == tail.maxlen
            tail.append(text)
        _remember(look, seen)
        trail.add((look.x, look.y))
        last = look
    middle = [f"[{omitted} steps left out]\n"] if omitted else []
    mission = [f"mission: {last.row.observation['mission']}\n"] if last else []
    return "\n".join(
        [*mission, *head, *middle, *tail, *([_map_text(seen, trail, last)] if last else [])]
    )


def _looks(rows: Iterator[TraceRow]) -> Iterator[_Look]:
    """Rows with places. The reset's is that of the first step, taken back."""
    start = None
    for row in rows:
        if row.observation is None:
            continue
        if row.step == 0:
            start = row
            continue
        place = (int(row.info["agent_x"]), int(row.info["agent_y"]))
        if start is not None:
            yield _Look(start, *_before(start, row, place))
            start = None
        yield _Look(row, *place)
    if start is not None:
        yield _Look(start, 0, 0)


def _before(start: TraceRow, row: TraceRow, place: tuple[int, int]) -> tuple[int, int]:
    if row.action != FORWARD or row.info["bumps"]:
        return place
    dx, dy = DIRECTIONS[int(start.observation["direction"])]
    return place[0] - dx, place[1] - dy


def _cell(cell: Any) -> str:
    kind, color, state = (int(part) for part in cell)
    if kind in _KINDS:
        return _KINDS[kind]
    letter = _DOORS[state] if kind == 4 and state < len(_DOORS) else _LETTERS.get(kind)
    return "  " if letter is None else letter + _COLOR_LETTERS[min(color, 5)]


def _view_text(look: _Look) -> str:
    row = look.row
    image = row.observation["image"]
    size = image.shape[0]
    own = image[size // 2, size - 1]
    parts = [
        f"step {row.step}" if row.action is None else f"step {row.step}: {_MOVES[int(row.action)]}"
    ]
    parts += [
        f"at {look.x},{look.y} looking "
        f"{('right', 'down', 'left', 'up')[int(row.observation['direction'])]}"
    ]
    parts += [f"carries {_cell(own)}"] if own[0] > 1 and row.info.get("carried_object") else []
    parts += [f"reward {row.reward:.6g}"] if row.reward else []
    parts += ["terminated"] if row.terminated else ["truncated"] if row.truncated else []
    lines = [
        "".join(
            "^^" if (i, j) == (size // 2, size - 1) else _cell(image[i, j]) for i in range(size)
        ).rstrip()
        for j in range(size)
    ]
    return "\n".join([", ".join(parts), *lines, ""])


def _remember(look: _Look, seen: dict[tuple[int, int], str]) -> None:
    observation = look.row.observation
    image = observation["image"]
    size = image.shape[0]
    xs, ys = _offsets(size)[int(observation["direction"])]
    for i in range(size):
        for j in range(size):
            if image[i, j, 0] and (i, j) != (size // 2, size - 1):
                seen[look.x + int(xs[i, j]), look.y + int(ys[i, j])] = _cell(image[i, j])


_offsets = lru_cache(view_offsets)


def _map_text(seen: Mapping[tuple[int, int], str], trail: set[tuple[int, int]], last: _Look) -> str:
    cells = {**seen, **{place: ",," for place in trail if seen.get(place, " .") == " ."}}
    cells[last.x, last.y] = _AGENT[int(last.row.observation["direction"])] * 2
    xs, ys = [x for x, _ in cells], [y for _, y in cells]
    lines = [
        "".join(cells.get((x, y), "  ") for x in range(min(xs), max(xs) + 1)).rstrip()
        for y in range(min(ys), max(ys) + 1)
    ]
    return "\n".join([f"map of what was seen, from {min(xs)},{min(ys)}", *lines, ""])
