"""Costs by a dated list of prices, always marked as estimates."""

from __future__ import annotations

import pytest

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.transcript import Usage
from evopolicy.kernel.run.prices import NO_PRICES, Price, PriceTable

TABLE = PriceTable(
    "2026-01-01",
    "a page",
    {"m": Price(1.0, 0.1, 2.0, 10.0), "m-large": Price(5.0, 0.5, 10.0, 50.0)},
)


def test_a_cost_is_estimated_kind_by_kind() -> None:
    used = Usage(
        input_tokens=1_000_000,
        cached_tokens=2_000_000,
        cache_write_tokens=500_000,
        output_tokens=100_000,
    )
    priced = TABLE.estimated(used, "m")
    assert (priced.cost_usd, priced.cost_is_estimate) == (
        pytest.approx(1.0 + 0.2 + 1.0 + 1.0),
        True,
    )


def test_the_providers_own_figure_is_never_replaced() -> None:
    assert TABLE.estimated(Usage(output_tokens=5, cost_usd=0.7), "m") == Usage(
        output_tokens=5, cost_usd=0.7
    )


def test_nothing_is_made_up_for_an_unknown_model_or_unknown_tokens() -> None:
    assert TABLE.estimated(Usage(output_tokens=5), "other").cost_usd is None
    assert TABLE.estimated(Usage(), "m").cost_usd is None
    assert NO_PRICES.estimated(Usage(output_tokens=5), "m").cost_usd is None


def test_a_dated_snapshot_costs_what_its_model_does_and_a_sibling_does_not() -> None:
    assert TABLE.price("m-large-20260101") == TABLE.models["m-large"]
    assert TABLE.price("m@20260101") == TABLE.models["m"]
    assert TABLE.price("m-mini") is None


def test_a_users_own_price_goes_before_the_list_and_counts_for_a_model_with_a_longer_window() -> (
    None
):
    own = TABLE.with_own("m[1m]", Price(7.0, 7.0, 7.0, 7.0))
    assert own.price("m") == own.price("m[1m]") == Price(7.0, 7.0, 7.0, 7.0)
    assert own.price("m-large") == TABLE.models["m-large"]
    assert TABLE.with_own("m", None) == TABLE


def test_a_price_is_no_negative_number() -> None:
    with pytest.raises(ConfigError, match="prices: cached"):
        Price(1.0, -1.0, 0.0, 0.0)
