"""What tasks of this family share: rows of cars as fields, moves, columns of the driven car,
measures."""

from __future__ import annotations

from evopolicy.authoring import Column, Episode, Field, Measure

IMPORTS = ("highway_env",)

SPEED = Column("speed", "m/s", "Of the car along its heading; negative backwards.")
CAR_X = Column("car_x", "m", "Of the car's middle.")
CAR_Y = Column("car_y", "m", "Of the car's middle.")
HEADING = Column("heading", "rad", "Of the car: 0 along x, pi/2 along y, not wrapped.")
LANE = Column("lane", "", "The lane the car is on, 0 the leftmost.")
ON_ROAD = Column("on_road", "", "1 where the car's middle is on its lane.")
CRASHED = Column("crashed", "", "1 where the car has hit something.")
DRIVING = (SPEED, CAR_X, CAR_Y, HEADING, LANE, ON_ROAD, CRASHED)

COLLISION = Measure(
    "collision",
    "",
    "Whether the car hit something.",
    how=lambda e: bool((e.series["crashed"].values > 0).any()),
)
MEAN_SPEED = Measure(
    "mean_speed", "m/s", "Mean of the car's speed after each step.", "speed", "mean"
)
TOP_SPEED = Measure("top_speed", "m/s", "Largest speed after a step.", "speed", "max")
LOW_SPEED = Measure("low_speed", "m/s", "Smallest speed after a step.", "speed", "min")
STEPS_OFF_ROAD = Measure(
    "steps_off_road",
    "steps",
    "Steps that ended with the car off its lane.",
    how=lambda e: int((e.series["on_road"].values == 0).sum()),
)


def lane_changes(episode: Episode) -> int:
    lanes = episode.series["lane"].values
    return int((lanes[1:] != lanes[:-1]).sum())


LANE_CHANGES = Measure(
    "lane_changes", "", "How often the lane differs from the step before.", how=lane_changes
)
FORWARD = Measure("distance_x", "m", "Distance along x from start to end.", "car_x", "change")


def total(term: str, meaning: str) -> Measure:
    """The sum of one of the reward's terms, before its weight."""
    return Measure(
        f"{term}_sum", "", f"Sum over the steps of the reward's term: {meaning}.", term, "sum"
    )


def term(name: str, meaning: str) -> Column:
    return Column(name, "", f"A term of the reward, before its weight: {meaning}.")


MOVES = (
    Field(
        "move",
        "",
        0,
        4,
        "0 towards the lane on the left, 1 no change, 2 towards the lane on the right, 3 faster, "
        "4 slower.",
    ),
)


def moves_text(speeds: str) -> str:
    return (
        f"The car keeps its lane and holds a target speed by itself; target speeds are {speeds} "
        "m/s. `faster` and `slower` set the target one above or below the one nearest to the "
        "car's speed now, as far as there is one. A lane change is begun only where there is "
        "such a lane beside the car; it takes a second or so, in which the next Actions are "
        "taken already."
    )


def cars(
    count: int, features: dict[str, tuple[str, str, bool]], ego: dict[str, str] | None = None
) -> tuple[Field, ...]:
    """Fields of an array of `count` rows of cars; features give unit, meaning and whether it is cut
    to -1 ... 1."""
    fields = []
    for row in range(count):
        name = "ego" if row == 0 else f"other{row}"
        for feature, (unit, meaning, cut) in features.items():
            own = (ego or {}).get(feature) if row == 0 else None
            low, high = (-1.0, 1.0) if cut else (None, None)
            fields.append(
                Field(f"{name}_{feature}", unit, low, high, own or f"{_whose(row)} {meaning}.")
            )
    return tuple(fields)


def _whose(row: int) -> str:
    return "Of the driven car:" if row == 0 else f"Of row {row}:"


def rows_text(count: int, frame: str, objects: str = "cars") -> str:
    return (
        f"An array of {count} rows. Row 0 is the driven car. The others are the {count - 1} "
        f"{objects} with the smallest distance along the driven car's lane, nearest first, among "
        "those less than 200 m away and not more than 10 m behind it along that lane; rows left "
        f"over are 0. {frame}"
    )
