"""docs/authoring.md is enough: the family it shows, installed from a temporary folder, keeps the
contract."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "authoring.md"
BLOCK = re.compile(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """The family as the document has it, installed as an installer would: package, Programs, entry
    points."""
    files = dict(BLOCK.findall(DOCUMENT.read_text()))
    for name, content in files.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    entry = re.search(r'\[project\.entry-points\."(.+)"\]\n(.+) = "(.+)"', files["pyproject.toml"])
    assert entry is not None
    info = tmp_path / "src" / "evopolicy_icy_lake-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: evopolicy-icy-lake\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")
    return tmp_path


def run(family: Path, code: str) -> str:
    code = f"import sys; sys.path.insert(0, {str(family / 'src')!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_less_than_a_hundred_lines(family: Path) -> None:
    files = [path for path in family.rglob("*") if path.suffix in (".py", ".toml")]
    assert len(files) == 4
    assert sum(len(path.read_text().splitlines()) for path in files) < 100


def test_its_tasks_are_found_by_name_and_keep_the_contract(family: Path) -> None:
    code = """
from evopolicy.authoring import check_benchmark, find_benchmark, known_benchmarks
names = [name for name, known in known_benchmarks().items() if known.family == "icy_lake"]
for name in names:
    benchmark = find_benchmark(name)
    check_benchmark(benchmark, render=name == "icy_lake")
    print(name, benchmark.programs["initial"].parent.name)
"""
    assert run(family, code).splitlines() == ["icy_lake icy_lake", "icy_lake_8x8 programs"]
