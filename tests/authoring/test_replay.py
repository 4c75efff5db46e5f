"""Replays: the recorded Actions again, never past their end, as bounded pictures or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from evopolicy.authoring import (
    BenchmarkReference,
    EpisodeResult,
    EpisodeSpec,
    GymnasiumBenchmark,
    Outcome,
    PolicyFailure,
    Profile,
    TraceRow,
    TraceWriter,
    box,
    graphics,
    read_trace,
    replay,
    rollout,
    step_again,
    worst_median_best,
)
from evopolicy.authoring.replay import FRAMES, chosen_steps

EPISODE = EpisodeSpec(7, 3, 4)


def toy(**kwargs: Any) -> GymnasiumBenchmark:
    text: dict[str, Any] = dict.fromkeys(("title", "goal", "scoring", "ending"), "text")
    profile = Profile(
        "toy", "test/Toy-v0", "evopolicy-test/Toy-v0", failure_score=-200.0, kwargs=kwargs, **text
    )
    return GymnasiumBenchmark(profile, BenchmarkReference("nowhere:load"))


def record(
    benchmark: GymnasiumBenchmark, folder: Path, push: float, steps: int | None = None
) -> Path:
    trace = folder / "t.trace"
    rollout(benchmark, EPISODE, lambda _: [push], trace=trace, steps=steps)
    return trace


def test_stepping_again_gives_the_recorded_rows(tmp_path: Path) -> None:
    benchmark = toy()
    trace = record(benchmark, tmp_path, 0.75)
    again = list(step_again(benchmark, benchmark.make(EPISODE), trace))
    recorded = list(read_trace(trace))
    assert [row.reward for row in again] == [row.reward for row in recorded]
    assert all((a.observation == b.observation).all() for a, b in zip(again, recorded, strict=True))


def test_stepping_again_ends_where_the_environment_ends_now(tmp_path: Path) -> None:
    trace = record(toy(), tmp_path, 0.75)
    nearer = toy(end=1.5)
    again = list(step_again(nearer, nearer.make(EPISODE), trace))
    assert 1 < len(again) < len(list(read_trace(trace)))
    assert [row.terminated for row in again] == [False] * (len(again) - 1) + [True]


def test_a_replay_is_an_animation_and_a_contact_sheet(tmp_path: Path) -> None:
    benchmark = toy()
    artifacts = benchmark.render(EPISODE, record(benchmark, tmp_path, 0.0), tmp_path)
    assert [(a.name, a.media_type, a.retention, a.episode) for a in artifacts] == [
        ("replays/0007.gif", "image/gif", "bulk", 7),
        ("replays/0007.png", "image/png", "bulk", 7),
    ]
    with Image.open(artifacts[0].path) as animation:
        assert 1 < getattr(animation, "n_frames", 1) <= FRAMES
    with Image.open(artifacts[1].path) as sheet:
        assert sheet.size[0] == 5 * 80


def test_where_the_policy_sees_pictures_the_replay_is_made_of_them_without_stepping_again(
    tmp_path: Path,
) -> None:
    class Seeing(GymnasiumBenchmark):
        def open(self, **options: Any) -> Any:
            raise AssertionError(f"nothing is to be drawn again, with {options}")

    benchmark = Seeing(toy().profile, BenchmarkReference("nowhere:load"))
    benchmark.spec = replace(toy().spec, observation_space=box(0, 255, (96, 80, 3), "uint8"))
    with TraceWriter(tmp_path / "t") as writer:
        for step in range(3):
            picture = np.full((96, 80, 3), 100 * step, np.uint8)
            writer.write(TraceRow(step, picture, [0.0] if step else None, 1.0, False, False, {}))
    animated, sheet = benchmark.render(EPISODE, tmp_path / "t", tmp_path)
    with Image.open(animated.path) as frames:
        assert isinstance(frames, GifImageFile)
        assert frames.n_frames == 3
        assert frames.width > 240, "enlarged"
        frames.seek(2)
        assert frames.convert("RGB").getpixel((50, 200)) == pytest.approx((200, 200, 200), abs=4)
    assert sheet.name == "replays/0007.png"


def test_the_end_is_drawn_and_never_stepped_past(tmp_path: Path) -> None:
    """The toy raises when it is stepped after its end; a drawn replay shows that nobody did."""
    benchmark = toy()
    assert len(benchmark.render(EPISODE, record(benchmark, tmp_path, 1.0), tmp_path)) == 2


def test_an_episode_cut_by_a_failure_is_drawn_up_to_it(tmp_path: Path) -> None:
    benchmark = toy()
    trace = record(benchmark, tmp_path, 0.0, steps=3)
    artifacts = benchmark.render(EPISODE, trace, tmp_path)
    with Image.open(artifacts[0].path) as animation:
        assert getattr(animation, "n_frames", 1) == 4


@pytest.mark.parametrize("content", [b"", b"\x07\x00\x00\x00no", b"\x05\x00\x00\x00hello"])
def test_a_corrupt_trace_gives_no_picture(tmp_path: Path, content: bytes) -> None:
    trace = tmp_path / "bad.trace"
    trace.write_bytes(content)
    assert toy().render(EPISODE, trace, tmp_path) == []


def test_an_environment_that_cannot_draw_gives_no_picture(tmp_path: Path) -> None:
    class Blind(GymnasiumBenchmark):
        def open(self, **options: Any) -> Any:
            if "render_mode" in options:
                raise RuntimeError("no screen")
            return super().open()

    benchmark = Blind(toy().profile, BenchmarkReference("nowhere:load"))
    assert benchmark.render(EPISODE, record(benchmark, tmp_path, 0.0), tmp_path) == []
    assert not (tmp_path / "replays").exists()


def test_mujoco_is_not_drawn_where_no_opengl_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = toy()
    trace = record(benchmark, tmp_path, 0.0)
    monkeypatch.setattr(replay, "_draws_with_mujoco", lambda _: True)
    monkeypatch.setattr(replay, "mujoco_gl", lambda: "")
    assert benchmark.render(EPISODE, trace, tmp_path) == []


def test_the_probe_tries_what_is_set_then_egl_then_osmesa(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def draws(name: str) -> bool:
        tried.append(name)
        return name == "egl"

    monkeypatch.setattr(graphics, "draws", draws)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    graphics.mujoco_gl.cache_clear()
    assert graphics.mujoco_gl() == "egl"
    assert tried == ["osmesa", "egl"]
    graphics.mujoco_gl.cache_clear()


def test_settings_hold_for_the_drawing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("EVOPOLICY_TEST_A", "before")
    monkeypatch.delenv("EVOPOLICY_TEST_B", raising=False)
    with graphics.settings(EVOPOLICY_TEST_A="now", EVOPOLICY_TEST_B="now"):
        assert os.environ["EVOPOLICY_TEST_A"] == os.environ["EVOPOLICY_TEST_B"] == "now"
    assert os.environ["EVOPOLICY_TEST_A"] == "before"
    assert "EVOPOLICY_TEST_B" not in os.environ


@given(st.integers(0, 5_000), st.integers(1, 60))
def test_chosen_steps_hold_first_and_last_within_the_limit(length: int, limit: int) -> None:
    steps = chosen_steps(length, limit)
    assert len(steps) == len(set(steps)) == min(limit, length + 1)
    assert steps[0] == 0
    assert limit == 1 or steps[-1] == length


def result(
    index: int, episode_return: float, failed: bool = False, trace: bool = True, length: int = 3
) -> EpisodeResult:
    failure = PolicyFailure("exception", "ValueError") if failed else None
    outcome = Outcome(index, episode_return, length, "failed" if failed else "terminated", failure)
    return EpisodeResult(index, outcome, trace=Path("t") if trace else None)


def returned(outcome: Outcome) -> float:
    return outcome.episode_return


def test_worst_median_and_best_are_pictured() -> None:
    assert worst_median_best([result(i, x) for i, x in enumerate((5, 1, 9, 3, 7))], returned) == [
        1,
        0,
        2,
    ]


def test_a_failed_episode_is_graded_as_the_host_grades_it() -> None:
    assert toy().pictured([result(0, 50, failed=True), result(1, 3), result(2, 9)])[0] == 0
    below = [result(0, -220, failed=True), result(1, -250, failed=True), result(2, 9)]
    assert toy().pictured(below) == [1, 0, 2], "what it lost before it failed counts"


def test_episodes_are_pictured_by_a_score_of_the_benchmarks_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GymnasiumBenchmark, "score", lambda _, outcome: -outcome.episode_return)
    assert toy().pictured([result(i, x) for i, x in enumerate((5, 1, 9, 3, 7))]) == [2, 0, 1]


def test_without_steps_or_trace_nothing_is_pictured() -> None:
    results = [result(0, 1, trace=False), result(1, 2, length=0), EpisodeResult(2)]
    assert worst_median_best(results, returned) == []
    assert worst_median_best([result(4, 1)], returned) == [4]


def test_arrays_of_a_trace_may_be_read_only(tmp_path: Path) -> None:
    """Rows come back as read-only views; an Environment that writes into its Action still
    replays."""
    benchmark = toy()
    trace = record(benchmark, tmp_path, 0.5)

    class Writing:
        def __init__(self) -> None:
            self.inner = benchmark.make(EPISODE)

        def reset(self) -> Any:
            return self.inner.reset()

        def step(self, action: Any) -> Any:
            transition = self.inner.step(action)
            np.asarray(action)[:] = 0
            return transition

        def measures(self) -> Any:
            return {}

        def close(self) -> None: ...

    assert len(list(step_again(benchmark, Writing(), trace))) == len(list(read_trace(trace)))
