"""EvoPolicy Benchmarks: MiniGrid and BabyAI.

`load(task="minigrid_door_key")` makes one of the tasks in `TASKS`;
`load_any(env_id="BabyAI-GoTo-v0")` any other."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_minigrid.any_id import load_any
from evopolicy_minigrid.benchmark import MiniGridBenchmark
from evopolicy_minigrid.tasks import DOOR_KEY, FOUR_ROOMS, KEY_CORRIDOR, OBSTRUCTED_MAZE

TASKS = table(DOOR_KEY, KEY_CORRIDOR, FOUR_ROOMS, OBSTRUCTED_MAZE)
load = Family("evopolicy_minigrid:load", TASKS, programs_folder(__file__), MiniGridBenchmark)

__all__ = ["TASKS", "load", "load_any"]
