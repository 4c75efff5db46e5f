"""README and docs: every command can be typed, every page renders with its tables whole, every link
leads somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evopolicy.cli.hydra.named import read_named
from evopolicy.cli.main import main
from evopolicy.cli.options import pairs
from evopolicy.cli.verbs import VERBS
from evopolicy.sweeps.plan import plan_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS_MORE = re.compile(
    r"agent\.(cli|model): |is not set|there is no (sweep|folder|database)|is not a folder"
    r"|No module named 'some_package'|name (what to read|what to compare|Runs)"
)
"""What a command may say here: of a CLI, a key or Runs that only its reader has."""


def commands(page: Path) -> list[tuple[str, ...]]:
    """Those in its code blocks, and those in its text that give a value to a key; `...` is the
    reader's."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```.*?$(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines = [
        line.rpartition("uv run ")[2] if line.startswith(("uv run", "pip install uv && ")) else line
        for line in lines
    ]
    inline = re.findall(r"`(evopolicy [^`]*=[^`]+)`", text)
    found = [
        shlex.split(line, comments=True)[1:]
        for line in [*lines, *inline]
        if line.startswith("evopolicy ")
    ]
    return [tuple(word for word in words if not word.endswith("...")) for words in found]


# A command that several pages show is tried once. The studies as they stand are planned, with what
# they come to, in tests/conf/test_studies.py.
ALL = sorted(
    (page, words)
    for words, page in {words: page.name for page in PAGES for words in commands(page)}.items()
    if not (len(words) == 2 and words[0] == "-m" and words[1].startswith("experiment=study/"))
)


def planned(words: Sequence[str]) -> list[str]:
    """The command as a dry run, with what its `...` has to say in the least."""
    least = {"agent": "random", "benchmark": "cartpole"}
    said = {word.lstrip("+").partition("=")[0] for word in words}
    whole = {"experiment", "suite"} & said
    more = [
        f"{key}={value}"
        for key, value in least.items()
        if key not in said and not (whole and key == "benchmark")
    ]
    return ["--dry-run", *words, *(more if "experiment" not in said else [])]


@pytest.mark.parametrize(
    ("page", "words"), [one for one in ALL if one[1] and one[1][0] not in VERBS]
)
def test_a_command_that_runs_something_can_be_planned(
    page: str,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first of its cells, for those that have many."""

    def some(overrides: Sequence[Sequence[str]], *rest: Any) -> Any:
        return plan_command(overrides[:1], *rest)

    monkeypatch.setattr("evopolicy.cli.hydra.launch.plan_command", some)
    monkeypatch.chdir(tmp_path)
    code = main(list(words) if "--cfg" in words or "--dry-run" in words else planned(words))
    said = capsys.readouterr()
    assert code == 0 or NEEDS_MORE.search(said.err), f"{page}: {said.err}"
    assert "a fault inside" not in said.err


@pytest.mark.parametrize(("page", "words"), [one for one in ALL if one[1] and one[1][0] in VERBS])
def test_a_verb_has_the_options_and_names_it_is_shown_with(
    page: str,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb, *options = words
    monkeypatch.chdir(tmp_path)
    named = dict(word.partition("=")[::2] for word in options)
    if verb in ("table", "figure") and "/" in named.get("name", ""):
        assert read_named(verb, named["name"])
    if verb in ("ui", "status", "doctor", "resume", "track") or "tracking.uri" in named:
        pairs(verb, options)  # they need a place of their own, or a server; each has its tests
        return
    if named.get("name", "").endswith(".yaml") or (verb == "evaluate" and "program" not in named):
        return  # its reader's own
    code = main([verb, *options])
    said = capsys.readouterr()
    assert code == 0 or NEEDS_MORE.search(said.err), f"{page}: {said.err}"
    assert "a fault inside" not in said.err


def test_there_are_commands_to_try() -> None:
    assert len(ALL) > 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_renders_with_its_tables_whole_and_its_links_lead_somewhere(page: Path) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))
    for token in tokens:
        if token.type == "inline":
            torn = [line for line in token.content.splitlines() if line.startswith("|")]
            assert not torn, (
                f"a row outside its table, line {token.map and token.map[0] + 1}: {torn[0]}"
            )
    lines = page.read_text("utf-8").splitlines()
    for token in tokens:
        if token.type == "table_open" and token.map:
            rows = lines[token.map[0] : token.map[1]]
            wide = {len(re.findall(r"(?<!\\)\|", row.strip())) for row in rows if row.strip()}
            assert len(wide) == 1, f"rows of unlike length from line {token.map[0] + 1}"
    for token in tokens:
        for child in token.children or ():
            target = str(child.attrs.get("href", child.attrs.get("src", ""))).partition("#")[0]
            if target and "://" not in target:
                assert (page.parent / target).exists(), f"{target} is not there"
