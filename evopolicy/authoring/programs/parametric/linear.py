"""A linear Policy for any task of numbers: features of the observation times the weights in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
WIDE = 1e6  # a Box wider than this has bounds for form's sake


def features(space, value):
    """Numbers about -1 to 1: one for each of a Box, one for each choice of a Discrete."""
    kind = type(space).__name__
    if kind == "Discrete":
        return np.eye(space.n)[int(value) - space.start]
    if kind == "Dict":
        return np.concatenate([features(part, value[key]) for key, part in space.spaces.items()])
    if kind == "Tuple":
        return np.concatenate([features(part, item) for part, item in zip(space.spaces, value, strict=True)])
    numbers = np.asarray(value, np.float64).ravel()
    if kind == "MultiBinary":
        return 2 * numbers - 1
    if kind == "MultiDiscrete":
        return 2 * numbers / np.maximum(space.nvec.ravel() - 1, 1) - 1
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = 2 * (numbers - low) / (high - low) - 1
        narrow = (high - low > 0) & (high - low < WIDE)
    return np.nan_to_num(np.where(narrow, scaled, np.arcsinh(numbers)))


def action(space, scores):
    """The best choice of a Discrete, a number of a Box between its bounds."""
    kind = type(space).__name__
    if kind == "Discrete":
        return space.start + int(np.argmax(scores))
    if kind == "MultiBinary":
        return (scores > 0).astype(np.int8).reshape(space.shape)
    if kind == "MultiDiscrete":
        ends = np.cumsum(space.nvec.ravel())[:-1]
        return np.array([np.argmax(part) for part in np.split(scores, ends)], np.int64).reshape(space.shape)
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        between = (low + high) / 2 + (high - low) / 2 * np.tanh(scores)
        narrow = high - low < WIDE
    numbers = np.clip(np.where(narrow, between, scores), low, high)
    numbers = np.rint(numbers) if space.dtype.kind in "biu" else numbers
    return np.clip(numbers.astype(space.dtype), space.low.ravel(), space.high.ravel()).reshape(space.shape)


class Linear:
    def __init__(self, context):
        self.context = context
        self.weights, self.bias = np.array(PARAMS["weights"]), np.array(PARAMS["bias"])

    def act(self, observation):
        scores = self.weights @ features(self.context.observation_space, observation) + self.bias
        return action(self.context.action_space, scores)


def make_policy(context):
    return Linear(context)
