"""Benchmarks: the digest of what defines a task, and how another process makes the same one."""

from __future__ import annotations

import pytest

from evopolicy.kernel.errors import BenchmarkError, did_you_mean
from evopolicy.kernel.ports.benchmark import BenchmarkReference
from tests.kernel.bench import Tally


def test_the_digest_is_of_id_and_parameters_alone() -> None:
    spec = Tally({"gravity": 2}).spec
    assert spec.digest == Tally({"gravity": 2}).spec.digest
    assert (
        len(
            {
                spec.digest,
                Tally().spec.digest,
                Tally({"gravity": 3}).spec.digest,
                Tally(id="test/T-v2").spec.digest,
            }
        )
        == 4
    )


def test_clipping_is_off_unless_a_public_parameter_says_so() -> None:
    assert not Tally().spec.clips
    assert not Tally({"out_of_bounds": "invalid"}).spec.clips
    assert Tally({"out_of_bounds": "clip"}).spec.clips


def test_a_reference_makes_the_same_benchmark_again() -> None:
    benchmark = BenchmarkReference(
        "tests.kernel.bench:Tally", {"parameters": {"gravity": 2}}
    ).load()
    assert benchmark.spec.digest == Tally({"gravity": 2}).spec.digest


@pytest.mark.parametrize(
    "factory", ["nowhere.at_all:load", "tests.kernel.bench:nothing", "nocolon", "", ":"]
)
def test_a_factory_that_cannot_be_imported_is_named(factory: str) -> None:
    with pytest.raises(
        BenchmarkError, match=f"the Benchmark factory '{factory}' cannot be imported"
    ):
        BenchmarkReference(factory).load()


def test_a_lookup_suggests_the_near_name_or_lists_what_there_is() -> None:
    assert did_you_mean("codx", ["claude_code", "codex"]) == " Did you mean 'codex'?"
    assert did_you_mean("zzz", ["b", "a"]) == " Known: a, b."
    assert did_you_mean("zzz", []) == ""
