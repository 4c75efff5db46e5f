"""Uniform random Actions, as Gymnasium's `action_space.sample()` draws them after `seed(context.seed)`."""

import numpy as np


def draw(space, rng):
    kind = type(space).__name__
    if kind == "Discrete":
        return space.start + int(rng.integers(space.n))
    if kind == "Box":
        return draw_box(space, rng)
    if kind == "MultiDiscrete":
        return (rng.random(space.nvec.shape) * space.nvec).astype(np.int64)
    if kind == "MultiBinary":
        return rng.integers(0, 2, size=space.shape, dtype=np.int8)
    if kind == "Dict":
        return {key: draw(inner, rng) for key, inner in space.spaces.items()}
    if kind == "Tuple":
        return tuple(draw(inner, rng) for inner in space.spaces)
    return space.sample(rng)


def draw_box(space, rng):
    """Uniform between finite bounds; normal or exponential where a bound is missing."""
    whole = space.dtype.kind in "iu"
    high = space.high.astype("int64") + 1 if whole else space.high
    below, above = np.isfinite(space.low), np.isfinite(space.high)
    both = below & above
    if both.all():
        sample = rng.uniform(space.low, high)
    else:
        sample = np.empty(space.shape)
        sample[~below & ~above] = rng.normal(size=(~below & ~above).sum())
        sample[below & ~above] = rng.exponential(size=(below & ~above).sum()) + space.low[below & ~above]
        sample[~below & above] = -rng.exponential(size=(~below & above).sum()) + space.high[~below & above]
        sample[both] = rng.uniform(low=space.low[both], high=high[both], size=both.sum())
    return (np.floor(sample) if whole else sample).astype(space.dtype)


class Random:
    def __init__(self, context):
        self.space = context.action_space
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(context.seed)))

    def act(self, _):
        return draw(self.space, self.rng)


def make_policy(context):
    return Random(context)
