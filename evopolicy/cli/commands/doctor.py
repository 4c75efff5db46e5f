"""`evopolicy doctor`: what works on this machine, what is missing and how to get it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.cli.doctor import installed, machine
from evopolicy.cli.doctor.finding import Finding, Verdict
from evopolicy.cli.options import OUTPUT, pairs
from evopolicy.cli.text import show
from evopolicy.kernel.shown import clean

if TYPE_CHECKING:
    from rich.console import RenderableType

Section = tuple[str, Callable[[], Iterable[Finding]]]
_STYLES: dict[Verdict, str] = {
    "ok": "bold green",
    "warn": "bold yellow",
    "no": "bold red",
    "info": "dim",
}
_MARKS: dict[Verdict, str] = {"ok": "ok", "warn": "warn", "no": "no", "info": "-"}
_SHARED = ("evopolicy.authoring", "evopolicy.build", "evopolicy.execution.isolation")
"""What several sections import. Threads that come to a package from its two ends, by its name and
by that of a module in it, wait for each other, which Python ends by an error in one of them; so it
is loaded before they start."""


def doctor(words: Sequence[str]) -> int:
    """`output=` and `tracking.uri=` as the Runs will have them; `--json` for programs.

    Exit code 0 where a Run can be isolated here, 1 where not.
    """
    options = pairs("doctor", [word for word in words if word != "--json"])
    output = Path(options.get("output", OUTPUT))
    looked_at = sections(output, options.get("tracking.uri", ""))
    found = examine(looked_at)
    kept = (
        _print_json(found, [title for title, _ in looked_at])
        if "--json" in words
        else _print(found)
    )
    return (
        0
        if any(finding.name == machine.AUTO and finding.verdict == "ok" for finding in kept)
        else 1
    )


def sections(output: Path, uri: str) -> list[Section]:
    """What is looked at, in the order of the JSON."""
    return [
        ("this machine", machine.machine),
        ("isolation", machine.isolation),
        ("folders", lambda: machine.folders(output)),
        ("drawing without a screen", installed.rendering),
        ("Benchmarks", installed.benchmarks),
        ("agents", installed.agents),
        ("coding agents' programs", installed.clis),
        ("tracking", lambda: installed.tracking(output, uri)),
    ]


def examine(looked_at: Sequence[Section]) -> Iterator[tuple[str, list[Finding]]]:
    """Every section side by side, each given as soon as it is known. One that fails is a finding,
    spoiling no other."""
    for name in _SHARED:
        with contextlib.suppress(Exception):  # the section that needs it says so
            import_module(name)
    with ThreadPoolExecutor(max_workers=len(looked_at)) as at_once:
        running = {at_once.submit(_findings, look): title for title, look in looked_at}
        while running:
            known = wait(running, return_when=FIRST_COMPLETED).done
            for section in [section for section in running if section in known]:
                yield running.pop(section), section.result()


def _findings(look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(look())
    except Exception as error:  # what one part meets on a strange machine must not hide the others
        found.append(
            Finding("unknown", "warn", f"a fault inside evopolicy: {type(error).__name__}: {error}")
        )
    return found


def _print(found: Iterator[tuple[str, list[Finding]]]) -> list[Finding]:
    from rich.console import Console

    kept: list[Finding] = []
    for title, findings in found:
        kept.extend(findings)
        show(partial(_section, title, findings), partial(_plain, title, findings))
    best = next((finding for finding in kept if finding.name == machine.AUTO), None)
    good = best is not None and best.verdict == "ok"
    missing = sum(finding.verdict == "no" for finding in kept)
    said = (
        f"Runs can be isolated here: auto {best.detail}."
        if best and good
        else "No Run can be isolated here."
    )
    Console(highlight=False).print(
        f"\n{said}" + (f" {missing} missing, see above." if missing else ""),
        style="bold" if good else "red",
    )
    return kept


def _section(title: str, findings: Sequence[Finding]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=6, justify="right")
    grid.add_column(width=16)
    grid.add_column()
    for finding in findings:
        detail = Text(clean(finding.detail), style="dim" if finding.verdict == "info" else "")
        if remedy := _remedy(finding):
            detail.append(f"\nto get it: {remedy}", style="cyan")
        mark = Text(_MARKS[finding.verdict], style=_STYLES[finding.verdict])
        grid.add_row(mark, Text(clean(finding.name)), detail)
    return Group(Text(title, style="bold underline"), grid)


def _plain(title: str, findings: Sequence[Finding], _: int) -> str:
    """Lines as long as they are: they are read by other programs too."""
    lines = [title]
    for finding in findings:
        lines.append(
            f"  {_MARKS[finding.verdict]:<5}{clean(finding.name):<16} {clean(finding.detail)}"
        )
        if remedy := _remedy(finding):
            lines.append(f"  {'':<5}{'':<16} to get it: {remedy}")
    return "\n".join([*lines, ""])


def _remedy(finding: Finding) -> str:
    return clean(finding.remedy) if finding.verdict in ("no", "warn") else ""


def _print_json(found: Iterator[tuple[str, list[Finding]]], titles: Sequence[str]) -> list[Finding]:
    """One object: 'schema', 'isolated', and 'sections' in the order of `titles`, each with its
    'findings'."""
    told = sorted(found, key=lambda section: titles.index(section[0]))
    kept = [finding for _, findings in told for finding in findings]
    shown = [
        {
            "title": title,
            "findings": [{**asdict(finding), "remedy": _remedy(finding)} for finding in findings],
        }
        for title, findings in told
    ]
    isolated = any(finding.name == machine.AUTO and finding.verdict == "ok" for finding in kept)
    json.dump({"schema": 1, "isolated": isolated, "sections": shown}, sys.stdout, indent=2)
    print()
    return kept
