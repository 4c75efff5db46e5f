"""EvoPolicy Benchmarks: the robotics family. `load(task="fetch_push")` makes one; `TASKS` lists
them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_robotics.benchmark import RoboticsBenchmark
from evopolicy_robotics.fetch import FETCH_PICK_AND_PLACE, FETCH_PUSH, FETCH_REACH, FETCH_SLIDE
from evopolicy_robotics.hand import HAND_REACH
from evopolicy_robotics.maze import POINT_MAZE_MEDIUM

TASKS = table(
    FETCH_REACH, FETCH_PUSH, FETCH_PICK_AND_PLACE, FETCH_SLIDE, POINT_MAZE_MEDIUM, HAND_REACH
)
load = Family("evopolicy_robotics:load", TASKS, programs_folder(__file__), RoboticsBenchmark)

__all__ = ["TASKS", "load"]
