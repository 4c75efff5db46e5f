"""Programs that Node runs: which interpreter is new enough, and what such a program reads of this
machine."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.coding.cli import CodingConfig, find_cli, version_of
from evopolicy.kernel.errors import AgentError

SCRIPTS = (".js", ".mjs", ".cjs")


@dataclass(frozen=True)
class Program:
    """A CLI as it is started here."""

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    """What it runs from: itself or its package, and the interpreter."""
    node: str = ""
    """Version of the interpreter; '' for a program that needs none."""


def node_program(config: CodingConfig, node: str, least: tuple[int, int], install: str) -> Program:
    """How to start `agent.cli`, with Node where it is a script.

    `node`: the interpreter the user names, '' to look for one. Raises AgentError with the command
    that mends it where the CLI is missing or no Node has at least the version `least`."""
    named = find_cli(config, install)
    program = named.resolve()
    if program.suffix not in SCRIPTS:
        return Program((str(named),), tuple(dict.fromkeys((named, program))))
    interpreter, version = _interpreter(config, node, least, named, program)
    real = interpreter.resolve()
    readable = dict.fromkeys((interpreter, real, *package_files(program)))
    return Program((str(interpreter), str(program)), tuple(readable), version)


def _interpreter(
    config: CodingConfig, node: str, least: tuple[int, int], named: Path, program: Path
) -> tuple[Path, str]:
    found: list[str] = []
    for candidate in candidates(node, named, program):
        version = version_of((str(candidate), "--version"))
        if _numbers(version) >= least:
            return candidate, version
        found.append(f"{version} ({candidate})")
    needed = f"{least[0]}.{least[1]}"
    if node and not found:
        raise AgentError(
            f"agent.node: '{node}' is not here; name a Node of {needed} or newer, or '' to look "
            "for one"
        )
    raise AgentError(
        f"agent.node: '{config.cli}' needs Node {needed} or newer, found "
        f"{', '.join(found) or 'none'}; install one with `npm install --prefix "
        "~/.local/share/node node@24` and set "
        "agent.node=~/.local/share/node/node_modules/node/bin/node"
    )


def candidates(node: str, named: Path, program: Path) -> Iterator[Path]:
    """The named interpreter alone; else those beside the CLI, in the npm tree it lies in, and on
    the PATH."""
    names = [str(Path(node).expanduser())] if node else [str(named.parent / "node")]
    if not node:
        names += [
            str(folder / "node" / "bin" / "node")
            for folder in program.parents
            if folder.name == "node_modules"
        ]
        names.append("node")
    seen: set[Path] = set()
    for name in names:
        path = shutil.which(name)
        if path is not None and (real := Path(path).resolve()) not in seen:
            seen.add(real)
            yield Path(path).absolute()


def _numbers(version: str) -> tuple[int, int]:
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def package_files(program: Path) -> Iterator[Path]:
    """The script's package, and those npm installed beside it for it."""
    root = next((folder for folder in program.parents if (folder / "package.json").is_file()), None)
    if root is None:
        yield program
        return
    yield root
    tree = next((folder for folder in root.parents if folder.name == "node_modules"), None)
    waiting, seen = [root], {root}
    while tree is not None and waiting:
        for name in _needs(waiting.pop() / "package.json"):
            beside = tree / name
            if beside.is_dir() and beside not in seen:
                seen.add(beside)
                waiting.append(beside)
                yield beside


def _needs(package: Path) -> Iterator[str]:
    try:
        value = json.loads(package.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for kind in ("dependencies", "optionalDependencies"):
        needs = value.get(kind) if isinstance(value, dict) else None
        yield from needs if isinstance(needs, dict) else ()
