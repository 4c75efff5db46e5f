"""EvoPolicy Benchmarks: the Box2D family. `load(task="lunar_lander")` makes one; `TASKS` lists
them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_box2d.benchmark import Box2dBenchmark
from evopolicy_box2d.lander import LUNAR_LANDER, LUNAR_LANDER_CONTINUOUS
from evopolicy_box2d.racing import CAR_RACING
from evopolicy_box2d.walker import BIPEDAL_WALKER, BIPEDAL_WALKER_HARDCORE

TASKS = table(
    LUNAR_LANDER, LUNAR_LANDER_CONTINUOUS, BIPEDAL_WALKER, BIPEDAL_WALKER_HARDCORE, CAR_RACING
)
load = Family("evopolicy_box2d:load", TASKS, programs_folder(__file__), Box2dBenchmark)

__all__ = ["TASKS", "load"]
