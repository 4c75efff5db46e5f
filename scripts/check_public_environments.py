"""Look at Environments of public packages, as `benchmark=gymnasium` does before anything is spent,
and print a table.

    uv run python scripts/check_public_environments.py [PACKAGE ...] [--folder DIR] [--json FILE]

Each package gets a virtual environment of its own under `--folder` (kept, so that a second run is
quick) by `uv`, with what this project needs beside it. Each of its ids is either refused in one
sentence, or plays two Episodes of random Actions. What does not install is skipped by name. Ends
with 1 where an id is neither refused nor plays."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("gymnasium>=1.0", "msgspec>=0.19", "numpy>=2.0", "packaging", "pygame", "setuptools<81")
MUJOCO = "mujoco<3.4"
"""What was written for earlier ones fails with a newer one."""
STEPS = 50
INSTALL_SECONDS, LOOK_SECONDS = 900.0, 900.0


@dataclass(frozen=True)
class Package:
    """What is installed, which module registers its ids, and which of them are looked at (none: the
    first two)."""

    requirements: tuple[str, ...]
    module: str
    ids: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `benchmark`, beside env_id, failure_score and max_steps."""


PACKAGES = {
    "ale-py": Package(("ale-py",), "ale_py", ("ALE/Pong-v5", "ALE/Breakout-v5")),
    "shimmy[dm-control]": Package(
        ("shimmy[dm-control]", MUJOCO),
        "shimmy",
        ("dm_control/cartpole-balance-v0", "dm_control/walker-walk-v0"),
    ),
    "shimmy[bsuite]": Package(
        ("shimmy[bsuite]",), "shimmy", ("bsuite/catch-v0", "bsuite/mountain_car-v0")
    ),
    "metaworld": Package(
        ("metaworld",), "metaworld", ("Meta-World/MT1",), {"kwargs": {"env_name": "reach-v3"}}
    ),
    "metaworld, seeded": Package(
        ("metaworld",),
        "metaworld",
        ("Meta-World/MT1",),
        {"kwargs": {"env_name": "reach-v3", "seed": 1}},
    ),
    "mo-gymnasium": Package(
        ("mo-gymnasium",), "mo_gymnasium", ("mo-mountaincar-v0", "deep-sea-treasure-v0")
    ),
    "highway-env": Package(("highway-env",), "highway_env", ("highway-v0", "parking-v0")),
    "minigrid": Package(("minigrid",), "minigrid", ("MiniGrid-FourRooms-v0", "BabyAI-GoToObj-v0")),
    "minigrid[wfc]": Package(("minigrid[wfc]",), "minigrid", ("MiniGrid-WFC-MazeSimple-v0",)),
    "pyflyt": Package(("pyflyt",), "PyFlyt.gym_envs"),
    "crafter": Package(("crafter",), "crafter"),
    "gymnasium-robotics": Package(
        ("gymnasium-robotics", MUJOCO),
        "gymnasium_robotics",
        ("FetchReach-v4", "PointMaze_UMaze-v3"),
    ),
    "miniworld": Package(("miniworld",), "miniworld", ("MiniWorld-OneRoom-v0",)),
    "flappy-bird-gymnasium": Package(
        ("flappy-bird-gymnasium",), "flappy_bird_gymnasium", ("FlappyBird-v0",)
    ),
    "gym-pusht": Package(("gym-pusht",), "gym_pusht", ("gym_pusht/PushT-v0",)),
    "gym-xarm": Package(("gym-xarm",), "gym_xarm"),
    "panda-gym": Package(("panda-gym",), "panda_gym", ("PandaReach-v3", "PandaPush-v3")),
    "rware": Package(("rware",), "rware", ("rware-tiny-2ag-v2",)),
    "lbforaging": Package(("lbforaging",), "lbforaging"),
    "popgym": Package(("popgym",), "popgym"),
    "memory-gym": Package(("memory-gym",), "memory_gym"),
    "vizdoom": Package(("vizdoom",), "vizdoom.gymnasium_wrapper", ("VizdoomBasic-v1",)),
    "nle": Package(("nle",), "nle", ("NetHackScore-v0",)),
    "stable-retro": Package(("stable-retro",), "stable_retro"),
    "gym-anytrading": Package(("gym-anytrading",), "gym_anytrading"),
    "tetris-gymnasium": Package(
        ("tetris-gymnasium",), "tetris_gymnasium.envs", ("tetris_gymnasium/Tetris",)
    ),
    "buffalo-gym": Package(("buffalo-gym",), "buffalo_gym"),
    "bluesky-gym": Package(("bluesky-gym",), "bluesky_gym"),
    "gym-electric-motor": Package(
        ("gym-electric-motor",), "gym_electric_motor", ("Cont-CC-PMSM-v0",)
    ),
    "matrix-mdp-gym": Package(("matrix-mdp-gym",), "matrix_mdp"),
    "minatar": Package(("minatar",), "minatar", ("MinAtar/Breakout-v1",)),
    "gym-simplegrid": Package(("gym-simplegrid",), "gym_simplegrid"),
    "gymnasium-search-race": Package(("gymnasium-search-race",), "gymnasium_search_race"),
    "gymnasium-2048": Package(("gymnasium-2048",), "gymnasium_2048"),
    "gymnasium-sudoku": Package(("gymnasium-sudoku",), "gymnasium_sudoku"),
    "gymnasium-mars-lander": Package(("gymnasium-mars-lander",), "gymnasium_mars_lander"),
    "gymnasium-hardmaze": Package(("gymnasium-hardmaze",), "gymnasium_hardmaze"),
    "gymnasium-cartpole-swingup": Package(
        ("gymnasium-cartpole-swingup",), "gymnasium_cartpole_swingup"
    ),
    "gym-classics": Package(("gym-classics",), "gym_classics"),
    "evogym": Package(("evogym",), "evogym.envs", ("Walker-v0",)),
    "safety-gymnasium": Package(("safety-gymnasium",), "safety_gymnasium"),
    "pogema": Package(("pogema",), "pogema"),
    "simglucose": Package(("simglucose",), "simglucose"),
}
"""By the name they have in a package index."""


# --- inside a package's environment ---------------------------------------------------------------


def look_at(
    module: str, ids: Sequence[str], options: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    """What is said of each id: that it runs, or why not."""
    if not ids:
        done = subprocess.run(
            [sys.executable, __file__, "--list", module],
            capture_output=True,
            text=True,
            check=False,
            timeout=LOOK_SECONDS,
        )
        ids = (
            json.loads(done.stdout.splitlines()[-1])
            if done.returncode == 0 and done.stdout
            else [""]
        )
    for env_id in ids or [""]:
        yield {"id": env_id, **_answer(f"{module}:{env_id or 'Env-v0'}", options)}


def _answer(env_id: str, options: Mapping[str, Any]) -> dict[str, str]:
    from evopolicy.authoring import gymnasium
    from evopolicy.execution import foreign_call
    from evopolicy.kernel.errors import EvoPolicyError

    asked = {"env_id": env_id, "failure_score": -1e6, "seed_bits": 31, "max_steps": 200, **options}
    try:
        spec = gymnasium.load_in_subprocess(
            lambda function, arguments: foreign_call.call(function, arguments, 120.0), **asked
        ).spec
    except EvoPolicyError as error:
        return {"ended": "refused", "said": str(error)}
    done = subprocess.run(
        [sys.executable, __file__, "--play", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LOOK_SECONDS,
    )
    if done.returncode:
        return {
            "ended": "FAULT",
            "said": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1],
        }
    return {
        "ended": "runs",
        "said": ", ".join(
            [
                *spec.remarks,
                *([spec.observation_text] if "lie outside" in spec.observation_text else []),
            ]
        ),
    }


def play(asked: Mapping[str, Any]) -> None:
    """Two Episodes of random Actions, cut short."""
    from evopolicy.authoring import EpisodeSpec, gymnasium, run_program

    benchmark = gymnasium.load(**asked)
    for index, seed in enumerate((0, 2**31 - 1)):
        run_program(
            benchmark, benchmark.programs["random"], EpisodeSpec(index, seed, seed), steps=STEPS
        )


def first_ids(module: str) -> list[str]:
    """The first two ids that importing `module` registers."""
    import importlib

    import gymnasium

    before = set(gymnasium.registry)
    importlib.import_module(module)
    return [name for name in gymnasium.registry if name not in before][:2]


# --- outside --------------------------------------------------------------------------------------


def check(name: str, folder: Path) -> list[dict[str, str]]:
    """One row for each id of the package `name`; one that is skipped where it does not install."""
    package = PACKAGES[name]
    place = folder / "".join(c if c.isalnum() else "-" for c in name)
    python = place / "bin" / "python"
    try:
        if not python.exists():
            _run(
                ["uv", "venv", "-q", "--no-config", "--python", sys.executable, str(place)],
                INSTALL_SECONDS,
            )
        _run(
            [
                "uv",
                "pip",
                "install",
                "-q",
                "--no-config",
                "--python",
                str(python),
                *NEEDED,
                *package.requirements,
            ],
            INSTALL_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = getattr(error, "stderr", None) or str(error)
        return [
            {
                "package": name,
                "id": "",
                "ended": "skipped",
                "said": f"does not install: {_last(said)}",
            }
        ]
    try:
        given = json.dumps([package.module, list(package.ids), dict(package.options)])
        out = _run(
            [str(python), __file__, "--look", given], LOOK_SECONDS, PYTHONPATH=str(ROOT), cwd=place
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return [
            {
                "package": name,
                "id": "",
                "ended": "FAULT",
                "said": _last(getattr(error, "stderr", None) or str(error)),
            }
        ]
    rows = [json.loads(line.replace(str(place), "...")) for line in out.splitlines()]
    return [{"package": name, **row} for row in rows]


def _run(command: Sequence[str], seconds: float, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
        cwd=cwd,
        env={**os.environ, **variables},
    )
    return done.stdout


def _last(text: str | bytes) -> str:
    lines = (
        (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).strip().splitlines()
    )
    return lines[-1].strip()[:200] if lines else "without a word"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    cells = [
        [row["package"], f"`{row['id']}`" if row["id"] else "", row["ended"], row["said"]]
        for row in rows
    ]
    lines = ["| package | id | | what is said |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells)]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", help=f"some of {', '.join(PACKAGES)}")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "public-environments"
    )
    parser.add_argument("--json", type=Path, help="also write the rows there")
    for inner in ("--look", "--list", "--play"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.look:
        for row in look_at(*json.loads(asked.look)):
            print(json.dumps(row), flush=True)
        return 0
    if asked.list:
        print("\n" + json.dumps(first_ids(asked.list)))
        return 0
    if asked.play:
        play(json.loads(asked.play))
        return 0
    if unknown := [name for name in asked.packages if name not in PACKAGES]:
        parser.error(f"no package here is called {', '.join(unknown)}")
    rows: list[dict[str, str]] = []
    for name in asked.packages or PACKAGES:
        rows += check(name, asked.folder)
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    return int(any(row["ended"] == "FAULT" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
