"""CarRacing: drive a lap of a track seen from above, from pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evopolicy.authoring import Column, Episode, Field, Measure, Profile

_TERMS = ("reward_tiles", "reward_time", "reward_left")


class CarWatch:
    """Tiles, speed and grip, read from the car after each step. Nothing is drawn for it."""

    def __init__(self, racing: Any) -> None:
        self._racing = racing

    def start(self, observation: Any) -> Mapping[str, float]:  # noqa: ARG002
        return self._read()

    def step(
        self,
        observation: Any,  # noqa: ARG002
        action: Any,  # noqa: ARG002
        reward: float,
        terminated: bool,
    ) -> Mapping[str, float]:
        left = terminated and reward == -100
        terms = (0.0, 0.0, -100.0) if left else (reward + 0.1, -0.1, 0.0)
        return {**self._read(), **dict(zip(_TERMS, terms, strict=True))}

    def _read(self) -> dict[str, float]:
        racing, car = self._racing, self._racing.car
        visited, tiles = racing.tile_visited_count, len(racing.track)
        return {
            "tiles_visited": float(visited),
            "track_share": visited / tiles,
            "speed": float(car.hull.linearVelocity.length),
            "wheels_on_road": float(sum(bool(wheel.tiles) for wheel in car.wheels)),
        }


def _ended_by(episode: Episode) -> str:
    if episode.terminated:
        return "left_field" if episode.series["reward_left"].value("last") else "lap"
    return "time" if episode.truncated else "failure"


def _tiles(episode: Episode) -> int | None:
    visited = episode.series["tiles_visited"].value("last")
    return None if visited is None else int(visited)


def _steps_off_road(episode: Episode) -> int:
    return int((episode.series["wheels_on_road"].values == 0).sum())


CAR_RACING = Profile(
    slug="car_racing",
    id="box2d/CarRacing-v3",
    env_id="CarRacing-v3",
    title="CarRacing",
    goal=(
        "A car with rear-wheel drive stands on a closed track, seen from above. Drive a whole "
        "lap, over every tile of the road, as fast as possible.\n\n"
        "The track is drawn anew in every Episode: about 250 to 350 tiles, each 3.5 m long and "
        "13.3 m wide, through twelve random points around the middle of a square field of 667 m. "
        "The car weighs 7 units, stands on the road in the direction of the lap, and slides: a "
        "wheel on grass has 0.6 of the grip it has on the road. Full gas with the wheels turned, "
        "or a full brake in a bend, makes it spin. A step lasts 0.02 s."
    ),
    scoring=(
        "Every step gives -0.1, and `1000 / tiles` for each tile of the road that a wheel touches "
        "for the first time; the two under the car at the start are counted in the first step. "
        "The step in which the car leaves the field gives only -100. The score of an Episode is "
        "the sum: a lap in `n` steps gives `1000 - 0.1 n`. A Policy that fails in an Episode "
        "scores at most -200 in it, just below the least sum there can be."
    ),
    ending=(
        "**Terminated** when every tile has been visited, or when the car is more than 333 m from "
        "the field's middle along x or y, far off the road. **Truncated** after 1,000 steps."
    ),
    failure_score=-200.0,
    observation_text=(
        "An image as an array of uint8 of shape (96, 96, 3): row (0 at the top), column, and red, "
        "green, blue from 0 to 255. It is a window of 1000 by 800 points scaled down, edges "
        "smoothed.\n\n"
        "- **Rows 0 to 83**: the surroundings from above, turned so that the car always points "
        "up; the car's centre is at row 72, column 48. From the 50th step on a pixel is 0.64 m "
        "wide and 0.51 m high; during the first 50 the view zooms in from far. Road is grey, "
        "about (102, 102, 102) to (107, 107, 107): tiles not yet visited differ a little, visited "
        "ones are all 102. Grass is about (102, 204, 102) and (102, 230, 102) in squares. On "
        "sharp bends a kerb of red and white stripes lies along the road. The car's body is red "
        "(204, 0, 0), its wheels black. Beyond the field all is black.\n"
        "- **Rows 84 to 95**: a black bar with the return so far as white digits at the left, and "
        "bars that grow from 0: speed, white, at columns 12 to 14, upward from row 93 by 0.048 "
        "rows per m/s; spin of the front left, front right, rear left and rear right wheel, blue, "
        "at columns 17 to 26, upward by 0.024 rows per rad/s; steering angle, green, rows 86 to "
        "91, from column 48, 24 columns per rad, to the right where the wheels are turned to the "
        "right; the car's rotation, red, rows 86 to 91, from column 72, 1.9 columns per rad/s, to "
        "the right where it turns to the right."
    ),
    action_fields=(
        Field(
            "steer",
            "rad",
            -1.0,
            1.0,
            "Where the front wheels turn to, positive to the right; they stop at 0.4.",
        ),
        Field(
            "gas",
            "",
            0.0,
            1.0,
            "Share of the engine's power; it rises by 0.1 a step at most and falls at once.",
        ),
        Field(
            "brake",
            "",
            0.0,
            1.0,
            "Share of the brakes' force on all wheels; from 0.9 on they lock.",
        ),
    ),
    action_text="An array of three numbers.",
    columns=(
        Column("tiles_visited", "", "Tiles of the road touched so far."),
        Column("track_share", "", "Share of the track's tiles touched so far."),
        Column("speed", "m/s", "Of the car."),
        Column("wheels_on_road", "", "Of four."),
        Column("reward_tiles", "", "The reward's term for new tiles."),
        Column("reward_time", "", "The reward's term for time."),
        Column("reward_left", "", "-100 in the step in which the car leaves the field."),
    ),
    measures=(
        Measure("ended_by", "", "lap, left_field, time or failure.", how=_ended_by),
        Measure("tiles_visited", "", "Tiles of the road touched.", how=_tiles),
        Measure("track_share", "", "Share of the track's tiles touched.", "track_share", "last"),
        Measure("mean_speed", "m/s", "Mean speed.", "speed", "mean"),
        Measure("top_speed", "m/s", "Largest speed.", "speed", "max"),
        Measure("mean_wheels_on_road", "", "Of four.", "wheels_on_road", "mean"),
        Measure("steps_off_road", "steps", "Steps with no wheel on the road.", how=_steps_off_road),
        Measure("tiles_reward", "", "Sum of reward_tiles.", "reward_tiles", "sum"),
    ),
)
