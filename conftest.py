"""What holds for every test, here and in benchmarks/: none has a clock, which may be skipped where
CI=true, and what root cannot run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No example fails for being slow on a busy machine. Here, since a test takes the profile that is
# loaded when its module is imported, and this file is read before all of them.
settings.register_profile(
    "no_clock", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no_clock")
AS_ANOTHER = (
    "root may do what it is about: tests/execution/hostile/test_not_root.py runs it as another user"
)
MAY_BE_SKIPPED = {
    re.escape(AS_ANOTHER): "it is run, by another process",
    r"it installs dozens of packages: asked for by EVOPOLICY_PUBLIC_ENVIRONMENTS=FOLDER": "see docs/benchmarks.md",
    r"isolation 'none' (keeps no Episode from another one's files|does not hold back '\w+')": "none isolates nothing",
    r"isolation 'landlock': .+": "docs/isolation.md says what Landlock leaves open, and a test "
    "holds the two together",
}
"""Reasons, as patterns, for which a test may be skipped where CI=true, and why. With any other the
run fails there: bubblewrap, Landlock, the browser, OpenGL, the coding agents' programs, openssl,
root and setpriv have to be there."""


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts a command in the background has it ignore SIGINT, and so would all that
    # the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "skips")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if os.geteuid() == 0 and item.get_closest_marker("not_as_root"):
        pytest.skip(AS_ANOTHER)


class Skips:
    """Counts what was skipped in every worker, names it at the end, and fails the run for what may
    not be."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.skipped:
            said = (
                report.longrepr[2]
                if isinstance(report.longrepr, tuple)
                else f"xfail: {report.longrepr}"
            )
            self.found[report.nodeid] = said.removeprefix("Skipped: ")

    def refused(self) -> dict[str, str]:
        """Node ids and reasons of those that may not be skipped."""
        return {
            test: why
            for test, why in self.found.items()
            if not any(re.fullmatch(p, why) for p in MAY_BE_SKIPPED)
        }

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        if os.environ.get("CI") == "true" and self.refused() and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        refused = self.refused()
        counted: dict[str, list[str]] = {}
        for test, why in self.found.items():
            if test not in refused:
                counted.setdefault(why, []).append(test)
        for why, tests in sorted(counted.items()):
            terminalreporter.write_line(f"skipped: {why}: {len(tests)}, {_few(tests)}")
        for test, why in sorted(refused.items()):
            terminalreporter.write_line(f"NOT RUN: {test}: {why}", red=True)
        if refused and os.environ.get("CI") == "true":
            terminalreporter.write_line(
                f"CI=true: {len(refused)} tests may not be skipped (conftest.py)", red=True
            )


def _few(tests: list[str]) -> str:
    return ", ".join(sorted(tests)[:3]) + (", ..." if len(tests) > 3 else "")
