"""EvoPolicy Benchmarks: the classic control family. `load(task="cartpole")` makes one; `TASKS`
lists them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_classic_control.balance import CARTPOLE
from evopolicy_classic_control.mountain import MOUNTAIN_CAR, MOUNTAIN_CAR_CONTINUOUS
from evopolicy_classic_control.swing_up import ACROBOT, PENDULUM

TASKS = table(CARTPOLE, PENDULUM, ACROBOT, MOUNTAIN_CAR, MOUNTAIN_CAR_CONTINUOUS)
load = Family("evopolicy_classic_control:load", TASKS, programs_folder(__file__))

__all__ = ["TASKS", "load"]
