"""The held-out means the paper published, as data.

Source: arXiv 2607.02440, "EvoPolicyGym: Evaluating Autonomous Policy Evolution in Interactive
Environments": one Run a cell, 128 training Episodes, the Program selected on 16 validation cases
and measured on 32 held-out cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evopolicy.analysis.records.scores import CellScore
from evopolicy.kernel.errors import ConfigError, did_you_mean

SOURCE = "arXiv 2607.02440"
NOTE = (
    f"Published rows ({SOURCE}): one Run a cell, Policies not isolated, 32 held-out cases; the "
    "random row lies on other cases than the agents'."
)
"""How their conditions differ from a Run's of ours; any table that shows them carries it."""

AGENTS = ("GPT-5.5", "Claude Opus 4.7", "MiniMax-M3", "DeepSeek-V4-Pro")
RANDOM = "uniform random"
ENTRIES = (*AGENTS, RANDOM)


@dataclass(frozen=True)
class PublishedBenchmark:
    """One row of the paper's table."""

    id: str
    """Gymnasium's."""
    family: str
    """'Gym/Box2D', 'MuJoCo', 'MiniGrid' or 'Robotics/Driving': the table's category columns."""
    demand: str
    """'synthesis' or 'tuning': what dominates the improvement there."""
    means: tuple[float, float, float, float, float]
    """Held-out means of ENTRIES, in that order."""


# fmt: off
CORE16: tuple[PublishedBenchmark, ...] = (
    PublishedBenchmark("Acrobot-v1", "Gym/Box2D", "tuning",
                       (-84.6875, -88.59375, -136.40625, -91.15625, -499.15625)),
    PublishedBenchmark("MountainCarContinuous-v0", "Gym/Box2D", "tuning",
                       (95.21632036034762, 98.77355865253121, 91.88134370232375, 94.47733594465815, -33.359488)),
    PublishedBenchmark("BipedalWalker-v3", "Gym/Box2D", "tuning",
                       (248.87433952921492, -15.844270020538715, -80.87367647010615, -97.4750034402532, -100.975808)),
    PublishedBenchmark("CarRacing-v3", "Gym/Box2D", "synthesis",
                       (604.1449208431347, 602.3372652227846, 233.43482820221337, 25.198665586048296, -29.627216)),
    PublishedBenchmark("Reacher-v5", "MuJoCo", "tuning",
                       (-3.4726870331754416, -3.978723597456614, -5.103383964072854, -6.505763722363936, -43.771999)),
    PublishedBenchmark("HalfCheetah-v5", "MuJoCo", "tuning",
                       (601.8327115520541, 452.0217704626293, 606.1536322343612, -0.4676944161665676, -291.843544)),
    PublishedBenchmark("Ant-v5", "MuJoCo", "tuning",
                       (989.5804753204281, 990.149093275651, 983.4252953407882, 897.9947631876837, -34.602259)),
    PublishedBenchmark("Pusher-v5", "MuJoCo", "tuning",
                       (-37.10630011891853, -38.51977888437037, -39.245446618032645, -54.17974515479469, -147.461739)),
    PublishedBenchmark("MiniGrid-DoorKey-16x16-v0", "MiniGrid", "synthesis",
                       (0.98622314453125, 0.982696533203125, 0.0, 0.0, 0.0)),
    PublishedBenchmark("MiniGrid-KeyCorridorS4R3-v0", "MiniGrid", "synthesis",
                       (0.91826171875, 0.9297460937500001, 0.0, 0.0, 0.0)),
    PublishedBenchmark("MiniGrid-FourRooms-v0", "MiniGrid", "synthesis",
                       (0.6641874999999999, 0.70103125, 0.4034375, 0.07856250000000001, 0.041688)),
    PublishedBenchmark("MiniGrid-ObstructedMaze-1Q-v1", "MiniGrid", "synthesis",
                       (0.90359375, 0.911328125, 0.0, 0.0, 0.0)),
    PublishedBenchmark("parking-v0", "Robotics/Driving", "tuning",
                       (-30.23652819689018, -38.1811543444992, -32.70967968450967, -53.38364468084845, -47.447772)),
    PublishedBenchmark("roundabout-v0", "Robotics/Driving", "tuning",
                       (9.817708333333334, 9.330729166666666, 9.520833333333334, 10.203125, 7.1875)),
    PublishedBenchmark("FetchPush-v4", "Robotics/Driving", "tuning",
                       (-18.15625, -19.6875, -25.875, -27.65625, -46.03125)),
    PublishedBenchmark("FetchPickAndPlace-v4", "Robotics/Driving", "tuning",
                       (-11.8125, -13.34375, -13.21875, -20.5625, -43.75)),
)
# fmt: on

SLUGS = dict(
    zip(
        (benchmark.id for benchmark in CORE16),
        (
            "acrobot", "mountain_car_continuous", "bipedal_walker", "car_racing",
            "reacher", "half_cheetah", "ant", "pusher",
            "minigrid_door_key", "minigrid_key_corridor", "minigrid_four_rooms", "minigrid_obstructed_maze",
            "parking", "roundabout", "fetch_push", "fetch_pick_and_place",
        ),
        strict=True,
    )
)  # fmt: skip
"""The slug of our Benchmark of each, by Gymnasium id: those of `suite=core16`."""

_IDS = {slug: id_ for id_, slug in SLUGS.items()}

DEMANDS = {benchmark.id: benchmark.demand for benchmark in CORE16}
"""The demand group of each Benchmark, by Gymnasium id."""

FAMILIES = {benchmark.id: benchmark.family for benchmark in CORE16}
"""The category of each Benchmark, by Gymnasium id: the `groups` of `rank_table`."""


def gymnasium_id(benchmark_id: str) -> str:
    """`CartPole-v1` of `classic/CartPole-v1`: what an id has in common with the paper's."""
    return benchmark_id.rpartition("/")[2]


def slugs_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By Gymnasium id, the slug of the one Benchmark that published scores stand beside.

    Several Benchmarks may have one id: it is that of `suite=core16`, else the first.

    Args:
        pairs: (slug, `family/Name-vN`); '' for the id of a cell that is planned, which the suite's
        slugs tell.
    """
    found: dict[str, str] = {}
    for slug, benchmark_id in pairs:
        id_ = gymnasium_id(benchmark_id) or _IDS.get(slug, "")
        if id_ and (id_ not in found or SLUGS.get(id_) == slug):
            found[id_] = slug
    return found


def as_published(entry: str) -> str:
    """What a published entry is called where a person's entry has its name."""
    return f"{entry} (published)"


def published_scores(entries: Iterable[str] = ENTRIES) -> list[CellScore]:
    """The published cells of `entries`, one Run each, Benchmarks named by Gymnasium id.

    Raises ConfigError for an entry the paper has not.
    """
    chosen = tuple(entries)
    for entry in chosen:
        if entry not in ENTRIES:
            raise ConfigError(
                f"published: the paper has no entry '{entry}'.{did_you_mean(entry, ENTRIES)}"
            )
    return [
        CellScore(
            entry,
            b.id,
            0,
            "done",
            mean=b.means[ENTRIES.index(entry)],
            episodes=32,
            benchmark_id=b.id,
        )
        for entry in chosen
        for b in CORE16
    ]
