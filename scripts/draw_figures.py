"""Draw the pictures of docs/figures.md: `python scripts/draw_figures.py SWEEP_FOLDER`.

curves, rank, profile and splits are of the sweep (`docs/figures.md` has its command), demand of the
published table; timeline, edits and usage of Runs made up here, since no agent that works offline
edits its source or uses tokens."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from evopolicy import analysis  # noqa: E402
from evopolicy.analysis.figures.style import picture  # noqa: E402
from evopolicy.analysis.records.columns import typed  # noqa: E402
from evopolicy.analysis.records.frames import COLUMNS, Frames  # noqa: E402
from tests.analysis.trajectories import Made, Sent, frames  # noqa: E402

FIRST = "def make_policy(c):\n    return lambda o: o[0] * 0.5\n"
SECOND = FIRST + "\n\ndef g(x):\n    return x + 1\n"
THIRD = SECOND + "\n\ndef h(x, y):\n    if x > y:\n        return x\n    return y\n"
SAME = {
    "axes": {}, "status": "done", "benchmark_id": "classic/CartPole-v1", "isolation": "landlock",
    "parameters": "d", "pool": "p", "budget": "b", "wall_seconds": 1.0,
}  # fmt: skip


def tuned(source: str, number: int) -> str:
    return source.replace("+ 1", f"+ {number}").replace("0.5", f"0.{number}")


def story() -> Made:
    """One Run with every kind of Submission."""
    told = [
        (FIRST, 20.0), (tuned(FIRST, 7), 25.0), (tuned(FIRST, 9), 24.0), (SECOND, 61.0), (SECOND, 61.0),
        (tuned(SECOND, 2), 90.0), (tuned(SECOND, 3), 88.0), (tuned(SECOND, 4), 130.0), (FIRST, 20.0), (THIRD, None),
        (tuned(THIRD, 2), 160.0), (tuned(THIRD, 3), 140.0), (tuned(THIRD, 4), 185.0), (tuned(THIRD, 6), 180.0),
        (SECOND + "\nz = max([3])\n", 100.0), (tuned(THIRD, 4), 185.0),
    ]  # fmt: skip
    sent = [Sent(s, v, v, status="failed" if v is None else "published") for s, v in told]
    return Made(sent, budget=40, name="runs/cartpole/ada/s0")


def walk(entry: str, seed: int, share: float, rng: np.random.Generator) -> Made:
    """A Run whose Submissions grow a new function with chance `share`, and are tuned or sent again
    otherwise."""
    sent: list[Sent] = []
    best, grown, source = 20.0, 0, FIRST
    for _ in range(14):
        if rng.random() < share:
            grown += 1
            source = FIRST + "".join(
                f"\n\ndef f{j}(x):\n    return x {'+-*'[j % 3]} {j}\n" for j in range(grown)
            )
        elif rng.random() < 0.8:
            source = source.replace("0.5", f"{rng.random():.3f}")
        mean = float(rng.normal(best + 2, 15))
        best = max(best, mean)
        sent.append(Sent(source, mean, mean, assessment=mean - float(rng.normal(4, 6))))
    chosen = max(range(len(sent)), key=lambda i: sent[i].validation or 0.0) + 1
    return Made(
        sent, f"r/{entry}/{seed}", entry, selected=chosen, budget=28, facts={**SAME, "seed": seed}
    )


def made_up() -> Frames:
    rng = np.random.default_rng(1)
    shares = {"ada": 0.5, "grace": 0.3, "lin": 0.7}
    found = frames(
        *(walk(entry, seed, share, rng) for entry, share in shares.items() for seed in range(3))
    )
    sizes = {"ada": 40_000, "grace": 160_000, "lin": 15_000}
    tokens = [int(sizes[entry] * rng.uniform(0.6, 1.6)) for entry in found.runs["entry"]]
    spent = found.runs.assign(
        input_tokens=tokens, cost_usd=[6e-6 * used for used in tokens], cost_is_estimate=True
    )
    return replace(found, usage=typed(COLUMNS["usage"], spent))


def main() -> None:
    from PIL import Image

    found, ours = analysis.load_frames(analysis.find_runs(sys.argv[1])), made_up()
    figures = {
        "curves": analysis.best_so_far_figure(found),
        "curves_dark": analysis.best_so_far_figure(found, dark=True),
        "rank": analysis.rank_figure(found),
        "profile": analysis.profile_figure(found),
        "splits": analysis.splits_figure(found),
        "demand": analysis.demand_figure(),
        "timeline": analysis.timeline_figure(frames(story())),
        "edits": analysis.edit_size_figure(analysis.diagnose(ours).edits),
        "usage": analysis.usage_figure(ours),
    }
    for name, figure in figures.items():
        # 128 colours are enough for these, and a fifth of the bytes
        image = Image.open(io.BytesIO(picture(figure, "png", dpi=120))).convert("RGB").quantize(128)
        image.save(ROOT / f"docs/pictures/figure_{name}.png", optimize=True)


if __name__ == "__main__":
    main()
