"""What tokens cost by a dated list of prices, for providers that do not say it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.transcript import Usage

_MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens of each kind."""

    input: float
    cached: float
    cache_write: float
    output: float

    def __post_init__(self) -> None:
        for name in ("input", "cached", "cache_write", "output"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ConfigError(
                    f"prices: {name} has to be from 0 to 1e6 dollars, found {getattr(self, name)}"
                )

    def cost(self, tokens: Mapping[str, Any]) -> float:
        """US dollars for counts by the names of `Usage`; one that is missing or None counts as
        0."""
        each = {
            "input_tokens": self.input,
            "cached_tokens": self.cached,
            "cache_write_tokens": self.cache_write,
            "output_tokens": self.output,
        }
        return sum(price * (tokens.get(kind) or 0) for kind, price in each.items()) / _MILLION


@dataclass(frozen=True)
class PriceTable:
    """A list of prices as they were on a day."""

    as_of: str
    """The day, as 2026-11-30."""
    source: str
    """Where they were read."""
    models: Mapping[str, Price] = field(default_factory=dict)
    """By the provider's model id."""

    def price(self, model: str) -> Price | None:
        """Of `model`, or of the longest listed id it is a dated snapshot of: `id-20...` or
        `id@20...`.

        What follows in brackets, as `id[1m]`, is no other model.
        """
        model = model.partition("[")[0]
        if model in self.models:
            return self.models[model]
        begins = [name for name in self.models if model.startswith((f"{name}-20", f"{name}@20"))]
        return self.models[max(begins, key=len)] if begins else None

    def with_own(self, model: str, price: Price | None) -> PriceTable:
        """The list with the user's own `price` of `model`, where there is one."""
        return (
            self
            if price is None
            else replace(self, models={**self.models, model.partition("[")[0]: price})
        )

    def estimated(self, usage: Usage, model: str) -> Usage:
        """`usage` with a cost: the provider's own where it says one, else by this list and marked
        as an estimate."""
        price = self.price(model)
        if usage.cost_usd is not None or price is None or usage.output_tokens is None:
            return usage
        counts = {
            kind: getattr(usage, kind)
            for kind in ("input_tokens", "cached_tokens", "cache_write_tokens")
        }
        cost = price.cost({**counts, "output_tokens": usage.output_tokens})
        return replace(usage, cost_usd=round(cost, 6), cost_is_estimate=True)


NO_PRICES = PriceTable("", "")
