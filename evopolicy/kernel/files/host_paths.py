"""What an agent is shown names no folder of the Host's machine: the one place where such paths are
taken out.

Errors of the engine, of Python and of the file system say where something lies, and a Policy may
print where it is. All of it passes here on its way to the agent: every answer of the Session, every
refusal, all text of Feedback."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import Refused

HIDDEN = "<host>"
"""Stands for a whole path of the Host's."""
_PYTHON = "python"
"""Stands for the folder of an installed module, whose own name tells nothing of the machine."""
_TOO_WIDE = frozenset({"/", "/usr", "/usr/local", "/opt", "/home", "/tmp", "/var", "/var/tmp"})
"""Folders that every machine, or an agent's own sandbox, has under the same name."""
_WIDE_PARTS = 2
"""Parts of a path, the root counted, that is as wide where it is only what two folders have in
common."""
_IN_PROGRAM = re.compile(r"/[0-9a-f]{2}/[0-9a-f]{64}(?:/(?P<inside>.+))?$")


@dataclass(frozen=True)
class HostPaths:
    """Folders of the Host's, and text without them."""

    folders: frozenset[str]
    """Paths below them are hidden whole; of a stored Program, the path inside it is left."""
    installed: frozenset[str]
    """Folders of modules: only they themselves are replaced."""

    def hide(self, value: Any) -> Any:
        """`value`, of mappings, lists, tuples and text, with no path of the Host's in any text of
        it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.hide(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide(inner) for inner in value]
        return value

    def text(self, text: str) -> str:
        """`text` with no path of the Host's in it."""
        if not any(folder in text for folder in self._all):
            return text
        return self._pattern.sub(self._shown, text)

    def refusal(self, refused: Refused) -> Refused:
        """The same refusal as an agent is told it."""
        return Refused(refused.code, self.text(refused.reason), self.text(refused.remedy))

    def data(self, data: bytes) -> bytes:
        """The same for a file of text, of whatever bytes."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    @cached_property
    def _all(self) -> tuple[str, ...]:
        """Longest first: a folder's own rule goes before that of a folder it lies in."""
        return tuple(
            sorted(self.folders | self.installed, key=lambda folder: (-len(folder), folder))
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = "|".join(re.escape(folder) for folder in self._all)
        # A prefix of temporary names ends with a dash and any may follow; after a folder, what is
        # no letter of its own.
        return re.compile(
            rf"(?<![\w.\-])(?P<folder>{names})(?:(?<=-)|(?![\w\-]))(?P<rest>[^\s'\"<>|:;,()\[\]{{}}]*)"
        )

    def _shown(self, found: re.Match[str]) -> str:
        if found["folder"] in self.installed:
            return _PYTHON + found["rest"]
        program = _IN_PROGRAM.search(found[0])
        return (program["inside"] or ".") if program else HIDDEN


def host_paths(*folders: Path) -> HostPaths:
    """Those of this process, and `folders` of the Run with what they lie in together.

    The user's home, this code and its Python, and every temporary folder of ours. Of the machine's
    temporary folder itself nothing: agents and Policies have one of the same name."""
    own = [*folders, Path(__file__).parents[3], Path(sys.prefix), Path(sys.base_prefix), *_home()]
    if len(folders) > 1:
        common = Path(os.path.commonpath([folder.absolute() for folder in folders]))
        own += [common] if len(common.parts) > _WIDE_PARTS else []
    temporary = {
        f"{one}/evopolicy-"
        for one in _both([Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")])
    }
    modules = [
        Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    return HostPaths(
        frozenset((_both(own) - _TOO_WIDE) | temporary), frozenset(_both(modules) - _TOO_WIDE)
    )


def _home() -> Iterator[Path]:
    try:
        yield Path.home()
    except RuntimeError:
        return  # a user without one


def _both(folders: Iterable[Path]) -> set[str]:
    """As they were named, and where links on the way lead."""
    return {str(form) for folder in folders for form in (folder.absolute(), folder.resolve())}
