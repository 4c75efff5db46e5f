"""Episodes in this process: run a Program or a function through one, step a trace again, draw
it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from evopolicy.authoring.graphics import mujoco_gl, settings
from evopolicy.authoring.profile import Profile
from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.policy import BoundPolicy, PolicyContext, bind
from evopolicy.kernel.ports.benchmark import Artifact, Benchmark, Environment, EpisodeSpec
from evopolicy.kernel.ports.outcome import Outcome
from evopolicy.kernel.spaces import Box, Space, cast_action
from evopolicy.kernel.trace import TraceRow, TraceWriter, read_trace

if TYPE_CHECKING:
    from PIL.Image import Image

FRAMES = 40
SHEET = 20
WIDTH = 320
SHEET_WIDTH = 200
_SHEET_COLUMNS = 5
_LINE = 16
_LEAST_PICTURE = 64


class DrawnBenchmark(Benchmark, Protocol):
    """A Benchmark whose Environments can be opened for drawing: `GymnasiumBenchmark`."""

    @property
    def profile(self) -> Profile: ...

    def open(self, **options: Any) -> Any:
        """A fresh `gymnasium.Env`, made with `options`."""

    def wrap(self, env: Any, episode: EpisodeSpec) -> Environment:
        """`env` as the Environment of `episode`."""


class Frame(NamedTuple):
    """One picture of a replay and what is written over it."""

    picture: Image
    text: str


def policy_context(benchmark: Benchmark, episode: EpisodeSpec) -> PolicyContext:
    """What the engine tells a Policy of `episode`."""
    spec = benchmark.spec
    return PolicyContext(
        observation_space=spec.observation_space,
        action_space=spec.action_space,
        parameters=dict(spec.parameters),
        seed=episode.policy_seed,
        max_steps=spec.max_steps,
    )


def load_policy(program: Path, context: PolicyContext) -> BoundPolicy:
    """The Policy a Program makes, in this very process and without isolation: for tests of Programs
    one trusts."""
    path = program / "policy.py"
    module_spec = importlib.util.spec_from_file_location(f"program_{abs(hash(path))}", path)
    if module_spec is None or module_spec.loader is None or not path.is_file():
        raise BenchmarkError(f"the Program {program.name} has no policy.py")
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    policy = bind(module, context)
    policy.reset()
    return policy


def run_program(
    benchmark: Benchmark,
    program: Path,
    episode: EpisodeSpec,
    *,
    trace: Path | None = None,
    steps: int | None = None,
) -> Outcome:
    """`rollout` with the Policy of `program`."""
    policy = load_policy(program, policy_context(benchmark, episode))
    return rollout(benchmark, episode, policy.act, trace=trace, steps=steps)


def rollout(
    benchmark: Benchmark,
    episode: EpisodeSpec,
    act: Callable[[Any], Any],
    *,
    trace: Path | None = None,
    steps: int | None = None,
) -> Outcome:
    """One Episode with `act(observation) -> Action`, ended by the task or after `steps`, its trace
    in `trace`.

    Raises InvalidAction for an Action that is no member of the space; nothing is caught.
    """
    spec = benchmark.spec
    environment = benchmark.make(episode)
    with ExitStack() as stack:
        stack.callback(environment.close)
        writer = stack.enter_context(TraceWriter(trace)) if trace is not None else None
        observation = environment.reset()
        if writer:
            writer.write(TraceRow(0, observation, None, 0.0, False, False, {}))
        total, step, clipped, ended, terminated = 0.0, 0, 0, False, False
        while not ended and (steps is None or step < steps):
            action, was_clipped = cast_action(spec.action_space, act(observation), clip=spec.clips)
            observation, reward, terminated, truncated, info = environment.step(action)
            total, step, clipped, ended = (
                total + reward,
                step + 1,
                clipped + was_clipped,
                terminated or truncated,
            )
            if writer:
                writer.write(
                    TraceRow(step, observation, action, reward, terminated, truncated, dict(info))
                )
        return Outcome(
            index=episode.index,
            episode_return=total,
            length=step,
            ending="terminated" if terminated else "truncated",
            measures=dict(environment.measures()),
            clipped=clipped,
        )


def step_again(benchmark: Benchmark, environment: Environment, trace: Path) -> Iterator[TraceRow]:
    """The rows `trace` would have if its Actions were taken now in `environment`, never past its
    recorded end."""
    spec = benchmark.spec
    for row in read_trace(trace):
        if row.action is None:
            yield TraceRow(0, environment.reset(), None, 0.0, False, False, {})
            continue
        action, _ = cast_action(spec.action_space, row.action, clip=spec.clips)
        observation, reward, terminated, truncated, info = environment.step(action)
        yield TraceRow(row.step, observation, action, reward, terminated, truncated, dict(info))
        if terminated or truncated:
            return


# --- pictures -------------------------------------------------------------------------------------


def draw_replay(
    benchmark: DrawnBenchmark, episode: EpisodeSpec, trace: Path, folder: Path
) -> list[Artifact]:
    """`replays/<index>.gif` and `.png` (a contact sheet), at most FRAMES frames, each numbered by
    its step.

    Nothing where it cannot draw, whatever the reason: a picture is never worth a Run.
    """
    try:
        frames = list(_frames(benchmark, episode, trace))
        if not frames:
            return []
        place = folder / "replays"
        place.mkdir(parents=True, exist_ok=True)
        animated, sheet = place / f"{episode.index:04d}.gif", place / f"{episode.index:04d}.png"
        _write_gif(frames, animated)
        _contact_sheet(frames).save(sheet, optimize=True)
    except Exception:  # drivers, foreign drawing code, a corrupt trace
        return []
    return [
        Artifact(f"replays/{animated.name}", animated, "image/gif", "bulk", episode.index),
        Artifact(f"replays/{sheet.name}", sheet, "image/png", "bulk", episode.index),
    ]


def chosen_steps(length: int, limit: int) -> list[int]:
    """At most `limit` of the steps 0 ... `length`, evenly spread, the first and the last among
    them."""
    count = min(limit, length + 1)
    if count < 2:
        return [0]
    return sorted({round(i * length / (count - 1)) for i in range(count)})


def _frames(benchmark: DrawnBenchmark, episode: EpisodeSpec, trace: Path) -> Iterator[Frame]:
    from PIL import Image

    length = max((row.step for row in read_trace(trace)), default=-1)
    if length < 0:
        return
    wanted = set(chosen_steps(length, FRAMES))
    if _is_picture(benchmark.spec.observation_space):
        yield from _seen(trace, wanted)
        return
    with ExitStack() as stack:
        stack.enter_context(settings(SDL_VIDEODRIVER="dummy", PYGAME_HIDE_SUPPORT_PROMPT="1"))
        env = benchmark.open(render_mode="rgb_array", **benchmark.profile.drawing)
        stack.callback(env.close)
        if _draws_with_mujoco(env):
            gl = mujoco_gl()
            if not gl:
                return
            stack.enter_context(settings(MUJOCO_GL=gl))
        total = 0.0
        for row in step_again(benchmark, benchmark.wrap(env, episode), trace):
            total += row.reward
            if row.step in wanted:
                picture = Image.fromarray(env.render()).convert("RGB")
                yield Frame(picture, f"step {row.step}  return {total:.4g}")


def _is_picture(space: Space) -> bool:
    """An image a person sees something in; a grid of a few cells is none."""
    return (
        isinstance(space, Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and space.shape[2] == 3
        and (min(space.shape[:2]) >= _LEAST_PICTURE)
    )


def _seen(trace: Path, wanted: Collection[int]) -> Iterator[Frame]:
    """What the Policy itself saw, enlarged: nothing is stepped or drawn again, which may take
    longer than the score."""
    from PIL import Image

    total = 0.0
    for row in read_trace(trace):
        total += row.reward
        if row.step in wanted and row.observation is not None:
            picture = Image.fromarray(row.observation)
            times = max(1, WIDTH // picture.width)
            size = (picture.width * times, picture.height * times)
            yield Frame(
                picture.resize(size, Image.Resampling.NEAREST),
                f"step {row.step}  return {total:.4g}",
            )


def _draws_with_mujoco(env: Any) -> bool:
    return any(
        "mujoco" in cls.__module__ or "robotics" in cls.__module__
        for cls in type(env.unwrapped).__mro__
    )


def _labelled(frame: Frame, width: int) -> Image:
    """The frame, at most `width` wide, under a line with its number."""
    from PIL import Image, ImageDraw

    picture = frame.picture.copy()
    picture.thumbnail((width, width))
    framed = Image.new("RGB", (picture.width, picture.height + _LINE), "white")
    framed.paste(picture, (0, _LINE))
    ImageDraw.Draw(framed).text((4, 2), frame.text, fill="black")
    return framed


def _write_gif(frames: list[Frame], path: Path) -> None:
    from PIL import Image

    small = [
        _labelled(frame, WIDTH).quantize(
            64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        for frame in frames
    ]
    small[0].save(path, save_all=True, append_images=small[1:], duration=120, loop=0)


def _contact_sheet(frames: list[Frame]) -> Image:
    from PIL import Image

    shown = [_labelled(frames[i], SHEET_WIDTH) for i in chosen_steps(len(frames) - 1, SHEET)]
    width, height = shown[0].size
    columns = min(_SHEET_COLUMNS, len(shown))
    sheet = Image.new("RGB", (columns * width, math.ceil(len(shown) / columns) * height), "white")
    for i, picture in enumerate(shown):
        sheet.paste(picture, (i % columns * width, i // columns * height))
    return sheet
