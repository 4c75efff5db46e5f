"""Pools: the Host's indexed Episodes, where their seeds come from, and the selectors an agent names
them by."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import get_args

from evopolicy.kernel.errors import BenchmarkError, ConfigError, Refused
from evopolicy.kernel.ports.benchmark import Benchmark, BenchmarkSpec, EpisodeSpec, Split
from evopolicy.kernel.values import public

SPLITS: tuple[Split, ...] = get_args(Split)
MAX_EPISODES = 500_000
"""Of one split: a Host plans them all, and a reader holds all it measured of a Program."""
SEED_BITS = 63
"""Of what `derive_seed` gives; a Benchmark may take fewer (`BenchmarkSpec.seed_bits`): the first of
them."""
_POOL_KINDS = ("derived", "paper")
_CASES = ("files", "hash")
_PAPER_SIZES = {"training": 1024, "validation": 64, "assessment": 256}
_PAPER_NAMES = {"training": "train", "validation": "valid", "assessment": "heldout"}


@dataclass(frozen=True)
class PoolConfig:
    """Which Episodes a Run has. The agent's `seed` does not change them."""

    kind: str
    """'derived' (SHA-256 over the secret, `seed`, Benchmark, split, index) or 'paper' (its
    published lists)."""
    training: int
    """Episodes the agent may submit on."""
    validation: int
    """Private Episodes that select among the candidates; 0 where the selection rule needs none."""
    assessment: int
    """Held-out Episodes that measure the selected Program."""
    seed: int
    """Another number, another pool."""
    cases: str = "files"
    """For 'paper': 'files' (one list for every Environment) or 'hash'."""
    policy_seed: str = "opaque"
    """'opaque', or 'case_plus_one' (case seed + 1, for `experiment=paper/random` only).

    An opaque one tells split, index and Environment seed to nobody who does not know the pool's
    secret. Without a secret anybody can compute it for each of them, and look which it is. """

    def __post_init__(self) -> None:
        _among("pool.kind", self.kind, _POOL_KINDS)
        _among("pool.cases", self.cases, _CASES)
        _among("pool.policy_seed", self.policy_seed, ("opaque", "case_plus_one"))
        for split, least in (("training", 1), ("validation", 0), ("assessment", 1)):
            size = self.size(split)  # type: ignore[arg-type]
            if size < least:
                raise ConfigError(f"pool.{split}: at least {least} is needed, found {size}")
            if size > MAX_EPISODES:
                raise ConfigError(
                    f"pool.{split}: at most {MAX_EPISODES:,} are possible, found {size:,}"
                )
            if self.kind == "paper" and self.cases == "files" and size > _PAPER_SIZES[split]:
                raise ConfigError(
                    f"pool.{split}: the paper's list has {_PAPER_SIZES[split]} cases, {size} are "
                    "asked for"
                )

    def size(self, split: Split) -> int:
        return int(getattr(self, split))


def _among(key: str, found: str, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        raise ConfigError(f"{key}: one of {', '.join(allowed)} is needed, found '{found}'")


@dataclass(frozen=True)
class Pool:
    """Every Episode of a Run, planned before its agent starts."""

    training: tuple[EpisodeSpec, ...]
    validation: tuple[EpisodeSpec, ...]
    assessment: tuple[EpisodeSpec, ...]

    def select(self, indices: tuple[int, ...]) -> tuple[EpisodeSpec, ...]:
        """The training Episodes at `indices`, in that order."""
        return tuple(self.training[i] for i in indices)


def plan_pool(config: PoolConfig, benchmark: Benchmark, secret: bytes = b"") -> Pool:
    """Plan every split. Raises BenchmarkError where two Episodes of a pool would have the same
    seed."""
    case = _case_seeds(config, benchmark, secret)
    splits = {split: _plan_split(config, benchmark, split, case, secret) for split in SPLITS}
    seeds = [episode.seed for episodes in splits.values() for episode in episodes]
    if len(set(seeds)) != len(seeds):
        raise BenchmarkError("the pool holds the same Episode seed twice; choose another pool.seed")
    return Pool(**splits)


def _plan_split(
    config: PoolConfig,
    benchmark: Benchmark,
    split: Split,
    case: Callable[[Split, int], int],
    secret: bytes,
) -> tuple[EpisodeSpec, ...]:
    episodes, spec = [], benchmark.spec
    for index in range(config.size(split)):
        seed = case(split, index)
        policy_seed = seed + 1
        if config.policy_seed == "opaque":
            policy_seed = (
                derive_seed("policy", secret, config.seed, spec.id, spec.digest, split, index)
                % 2**32
            )
        scenario = public(benchmark.plan(split, seed), f"{spec.slug}: plan")
        if not isinstance(scenario, dict):
            raise BenchmarkError(
                f"{spec.slug}: plan returned a {type(scenario).__name__}, a dict is needed"
            )
        episodes.append(EpisodeSpec(index, seed, policy_seed, scenario))
    return tuple(episodes)


def _case_seeds(
    config: PoolConfig, benchmark: Benchmark, secret: bytes
) -> Callable[[Split, int], int]:
    if config.kind == "derived":
        spec = benchmark.spec
        spare = SEED_BITS - spec.seed_bits
        return lambda split, index: (
            derive_seed("case", secret, config.seed, spec.id, spec.digest, split, index) >> spare
        )
    if config.cases == "files":
        return paper_case
    name = case_name(benchmark.spec)
    return lambda split, index: paper_hash_case(name, split, index)


def derive_seed(domain: str, *parts: object) -> int:
    """A seed in [0, 2**63): SHA-256 over the domain and length-prefixed parts, so that no two parts
    run together."""
    hasher = hashlib.sha256(b"evopolicy/seed/1")
    for part in (domain, *parts):
        data = part if isinstance(part, bytes) else str(part).encode()
        hasher.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(hasher.digest()[:8], "big") >> 1


# --- the paper's own derivations (arXiv 2607.02440, research code 0.1) ----------------------------


def case_name(spec: BenchmarkSpec) -> str:
    """What the Episodes of a Benchmark are drawn by where `pool.cases` is 'hash'."""
    return spec.case_name or f"gymnasium/{spec.id.rpartition('/')[2]}"


@cache
def _paper_list() -> tuple[int, ...]:
    rng, seen = random.Random(0), dict[int, None]()
    while len(seen) < sum(_PAPER_SIZES.values()):
        seen[rng.randrange(0, 2**31)] = None
    return tuple(seen)


def paper_case(split: Split, index: int) -> int:
    """Case seed of the list every Environment of the paper shares: 1,024 training, 64 validation,
    256 held-out."""
    start = {"training": 0, "validation": 1024, "assessment": 1088}[split]
    return _paper_list()[start + index]


def paper_hash_case(name: str, split: Split, index: int) -> int:
    """Case seed where the paper had no file: the first 8 bytes of SHA-256(`name/split/000000`)
    modulo 2**32."""
    text = f"{name}/{_PAPER_NAMES[split]}/{index:06d}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 2**32


# --- selectors ------------------------------------------------------------------------------------

_PART = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?")


def parse_selector(text: str, pool_size: int) -> tuple[int, ...]:
    """The indices a selector names, in its order: single indices and half-open ranges, `0:8,12`.

    Raises Refused for what is empty, malformed, out of the pool, or names an index twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if not text.strip():
        raise Refused(
            "selector_empty", "the selector names no Episode", "name indices such as 0:8,12"
        )
    indices: dict[int, None] = {}
    for part in parts:
        # Checked part by part: a short text that repeats a long range is refused before it is
        # spelled out.
        for index in _parse_part(part, text, pool_size):
            if index in indices:
                raise Refused(
                    "selector_duplicate",
                    f"the selector '{_short(text)}' names Episode {index} twice",
                    "name each index once",
                )
            indices[index] = None
    return tuple(indices)


def selected_units(text: str) -> int:
    """How many Episodes a selector names, without spelling them out. Raises Refused for what is
    malformed or empty."""
    return sum(len(_parse_part(part.strip(), text, 10**9)) for part in text.split(","))


def _parse_part(part: str, text: str, pool_size: int) -> range:
    match = _PART.fullmatch(part)
    if not match:
        raise Refused(
            "selector_malformed",
            f"'{_short(part)}' in the selector '{_short(text)}' is neither an index nor a range",
            "write indices and half-open ranges, such as 0:8,12",
        )
    start = int(match[1])
    stop = int(match[2]) if match[2] is not None else start + 1
    if stop <= start:
        raise Refused(
            "selector_empty", f"the range '{part}' is empty", "a range a:b holds a up to b-1"
        )
    if stop > pool_size:
        raise Refused(
            "selector_out_of_pool",
            f"'{part}' reaches past the pool's last index {pool_size - 1}",
            f"use 0:{pool_size}",
        )
    return range(start, stop)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def format_selector(indices: tuple[int, ...]) -> str:
    """The shortest selector that names `indices` in their order; `parse_selector` turns it back."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(indices) + 1):
        if end < len(indices) and indices[end] == indices[end - 1] + 1:
            continue
        first, last = indices[start], indices[end - 1]
        parts.append(str(first) if first == last else f"{first}:{last + 1}")
        start = end
    return ",".join(parts)
