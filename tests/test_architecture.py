"""The import rule, the layers, names and habits."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from evopolicy.agents import AGENTS

ROOT = Path(__file__).parent.parent
FORBIDDEN_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "managers",
    "manager",
    "core",
    "registry",
    "common",
    "misc",
}
SIBLINGS = ("authoring", "session", "agents", "execution", "tracking", "analysis")


def modules(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "programs" not in path.parts]


SOURCES = modules("evopolicy", "hydra_plugins", "scripts", *(
    str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("benchmarks/*/src"))
))  # fmt: skip


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def loaded(statement: str) -> set[str]:
    """The modules in memory after `statement` in a fresh interpreter."""
    text = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


# --- imports --------------------------------------------------------------------------------------


def test_the_kernel_imports_only_the_standard_library_numpy_and_msgspec() -> None:
    """Dynamic imports included, which import-linter cannot see."""
    files = [
        path.relative_to(ROOT) for path in modules("evopolicy/kernel") if path.stem != "__init__"
    ]
    names = [".".join(path.with_suffix("").parts) for path in files]
    before, after = loaded("import numpy, msgspec"), loaded(f"import {', '.join(names)}")
    assert set(names) <= after
    tops = {module.partition(".")[0] for module in after - before}
    assert {top for top in tops if top not in sys.stdlib_module_names} <= {
        "evopolicy",
        "numpy",
        "msgspec",
    }
    ours = {module for module in after if module.startswith("evopolicy.")}
    assert {module for module in ours if not module.startswith("evopolicy.kernel")} == set()


def test_sweeps_run_without_hydra() -> None:
    """Its modules, and what the process of a cell and the tracker's import when they are at
    work."""
    names = [
        f"evopolicy.sweeps.{path.stem}"
        for path in modules("evopolicy/sweeps")
        if path.stem != "__init__"
    ]
    after = loaded(f"import {', '.join(names)}, evopolicy.build, evopolicy.tracking.follow")
    assert set(names) <= after
    assert {module.partition(".")[0] for module in after} & {
        "hydra",
        "omegaconf",
        "hydra_plugins",
    } == set()
    assert {module for module in after if module.startswith("evopolicy.cli")} == set()


@pytest.mark.parametrize("sibling", SIBLINGS)
def test_a_sibling_imports_no_other_sibling(sibling: str) -> None:
    after = loaded(f"import evopolicy.{sibling}")
    found = {module.split(".")[1] for module in after if module.startswith("evopolicy.")}
    assert found <= {"kernel", sibling}


OTHERS_OF_AN_AGENT = {
    # `agent.parser` of a program of one's own may name the parser of any CLI here.
    "evopolicy/agents/command/parsers.py": {
        "claude_code",
        "codex",
        "gemini_cli",
        "kimi_code",
        "opencode",
    },
    # `random` is `baseline` with another Program to begin with.
    "evopolicy/agents/random/config.py": {"baseline"},
    "evopolicy/agents/random/integration.py": {"baseline"},
}


def test_what_is_an_agents_own_is_in_its_folder() -> None:
    """No agent's folder imports another's, nor does what several share import any."""
    owners = {target.split(".")[2] for target in AGENTS.values()}
    found = {}
    for path in modules("evopolicy/agents"):
        own = path.relative_to(ROOT / "evopolicy/agents").parts[0]
        nodes = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        named = {
            f"{node.module}.{alias.name}" for node in nodes for alias in node.names if node.module
        }
        agents = {name.split(".")[2] for name in named if name.startswith("evopolicy.agents.")}
        if others := agents & owners - {own}:
            found[name(path)] = others
    assert found == OTHERS_OF_AN_AGENT


def test_importing_the_package_does_no_work() -> None:
    heavy = {
        "numpy",
        "gymnasium",
        "mlflow",
        "hydra",
        "omegaconf",
        "pandas",
        "mujoco",
        "msgspec",
        "matplotlib",
    }
    assert loaded("import evopolicy") & heavy == set()


@pytest.mark.slow
def test_the_layers_hold() -> None:
    """Exactly what the checks before a change run."""
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]


def test_what_is_imported_is_declared() -> None:
    """What another package happens to bring may go with its next version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {canonical(re.split(r"[<>=!;\[ ]", text)[0]) for text in project["dependencies"]}
    found = {
        top: name(path) for path in modules("evopolicy", "hydra_plugins") for top in imported(path)
    }
    by_module = packages_distributions()
    undeclared = {
        top: path
        for top, path in found.items()
        if not declared & {canonical(distribution) for distribution in by_module.get(top, [])}
    }
    # The agent's first process imports the file beside it; its sandbox has no `evopolicy`.
    assert undeclared == {"seccomp_notify": "evopolicy/execution/agent/init.py"}


def canonical(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def imported(path: Path) -> set[str]:
    """Top names of what a file imports, but of the standard library and of ours."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - {"evopolicy", "hydra_plugins"} - sys.stdlib_module_names


# --- names ----------------------------------------------------------------------------------------


def test_no_module_is_named_for_nothing() -> None:
    """A helper lies beside its user."""
    stems = {part.removesuffix(".py") for path in SOURCES for part in path.relative_to(ROOT).parts}
    assert stems & FORBIDDEN_NAMES == set()


# --- habits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path in SOURCES if path.read_text().strip()], ids=name)
def test_a_module_says_what_it_is_and_leaves_nothing_for_later(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert re.findall(r"\b(TODO|FIXME|XXX)\b", text) == []


@pytest.mark.parametrize("path", modules("evopolicy/kernel"), ids=name)
def test_the_kernel_reads_no_pickle_and_evaluates_no_text(path: Path) -> None:
    tree = ast.parse(path.read_text())
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert called & {"eval", "exec", "compile", "__import__"} == set()
    assert imported & {"pickle", "marshal", "shelve", "dill"} == set()
