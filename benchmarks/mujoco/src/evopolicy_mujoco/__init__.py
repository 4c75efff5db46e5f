"""EvoPolicy Benchmarks: the MuJoCo family. `load(task="half_cheetah")` makes one; `TASKS` lists
them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_mujoco.balancing import INVERTED_DOUBLE_PENDULUM, INVERTED_PENDULUM
from evopolicy_mujoco.four_legs import ANT
from evopolicy_mujoco.planar import HALF_CHEETAH, HOPPER, SWIMMER, WALKER2D
from evopolicy_mujoco.reaching import PUSHER, REACHER
from evopolicy_mujoco.two_legs import HUMANOID, HUMANOID_STANDUP

TASKS = table(
    HALF_CHEETAH,
    REACHER,
    ANT,
    PUSHER,
    HOPPER,
    WALKER2D,
    SWIMMER,
    INVERTED_PENDULUM,
    INVERTED_DOUBLE_PENDULUM,
    HUMANOID,
    HUMANOID_STANDUP,
)
load = Family("evopolicy_mujoco:load", TASKS, programs_folder(__file__))

__all__ = ["TASKS", "load"]
