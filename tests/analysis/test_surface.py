"""What `evopolicy.analysis` offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import evopolicy.analysis


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    for name in evopolicy.analysis.__all__:
        first, again = (getattr(evopolicy.analysis, name) for _ in range(2))
        assert first is again
        assert first is not None
        assert not isinstance(again, ModuleType), "a module of that name hides it once it is loaded"
    assert dir(evopolicy.analysis) == sorted(evopolicy.analysis.__all__)


def test_tables_and_figures_by_config_are_there() -> None:
    names = {"FigureConfig", "TableConfig", "draw_figure", "figure_config", "paper_table"}

    assert names <= set(evopolicy.analysis.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="rank_tables"):
        getattr(evopolicy.analysis, "rank_tables")  # noqa: B009


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not {"pandas", "numpy", "rich", "msgspec"} & modules_after("import evopolicy.analysis")


def test_ranks_and_tables_of_runs_need_no_pandas() -> None:
    loaded = modules_after(
        "from evopolicy.analysis import entry_ranks, find_runs, present_ranks, rank_table"
    )

    assert "pandas" not in loaded
    assert "matplotlib" not in loaded
