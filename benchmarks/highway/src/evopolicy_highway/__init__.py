"""EvoPolicy Benchmarks: the highway-env family. `load(task="parking")` makes one; `TASKS` lists
them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_highway.benchmark import HighwayBenchmark
from evopolicy_highway.crossing import INTERSECTION, ROUNDABOUT
from evopolicy_highway.lanes import EXIT, HIGHWAY, MERGE
from evopolicy_highway.overtaking import TWO_WAY, U_TURN
from evopolicy_highway.steering import PARKING, RACETRACK

TASKS = table(PARKING, ROUNDABOUT, HIGHWAY, MERGE, INTERSECTION, RACETRACK, EXIT, TWO_WAY, U_TURN)
load = Family("evopolicy_highway:load", TASKS, programs_folder(__file__), HighwayBenchmark)

__all__ = ["TASKS", "load"]
