"""Compiles a Program's modules once per fork server, so that no Episode spends its time on it.

A confined process does it, as each Episode would for itself: compiling runs nothing of the Program,
but its text is not trusted. What cannot be compiled in time, or at all, is left for the Episodes to
find out."""

from __future__ import annotations

import marshal
import os
import resource
import signal
import sys
import time
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any

from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.sandbox import landlock, process

CPU_SECONDS = 5
"""Of its own: on a busy machine as much is compiled as on a quiet one."""
_SECONDS = 600.0
_POLL = 0.002


class _Loader(SourceFileLoader):
    """Loads a module of the Program from its compiled code where there is some, else from its
    source."""

    compiled: dict[str, str]
    """Source file -> file with its code."""

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            with open(self.compiled[self.path], "rb") as file:  # noqa: PTH123 (once per module and Episode)
                code: CodeType = marshal.load(file)
                return code
        except (KeyError, OSError, EOFError, ValueError):
            return super().get_code(fullname)


def compile_all(confinement: sandbox.Confinement, program: str, folder: str) -> None:
    """Fill `folder` with the code of the modules in `program`, and have this process and its
    children import it."""
    sources = [str(path) for path in sorted(Path(program).rglob("*.py")) if path.is_file()]
    _Loader.compiled = {source: f"{folder}/{number}" for number, source in enumerate(sources)}
    sys.path_hooks.insert(0, _hook(program))
    sys.path.insert(0, program)
    find_spec("policy")  # Runs nothing of it: its folder is listed here, once.
    domain = sandbox.own_domain(confinement)
    pid = process.patient_fork()
    if pid == 0:
        try:
            if domain is not None:
                domain.allow(folder, landlock.CHANGE)
            sandbox.confine_child(confinement, domain)
            process.limit(resource.RLIMIT_CPU, CPU_SECONDS)
            for source, compiled in _Loader.compiled.items():
                _compile(source, compiled)
        finally:
            os._exit(0)
    if domain is not None:
        domain.close()
    _wait(pid)


def _hook(program: str) -> Any:
    loaders = ((_Loader, [".py"]), (ExtensionFileLoader, EXTENSION_SUFFIXES))

    def finder(path: str) -> FileFinder:
        if path != program and not path.startswith(f"{program}/"):
            raise ImportError
        return FileFinder(path, *loaders)

    return finder


def _compile(source: str, compiled: str) -> None:
    try:
        with open(source, "rb") as file:  # noqa: PTH123
            code = compile(file.read(), source, "exec", dont_inherit=True)
        # Written elsewhere first: a process that is killed leaves no half of it.
        with open(f"{compiled}.part", "wb") as file:  # noqa: PTH123
            marshal.dump(code, file)
        os.rename(f"{compiled}.part", compiled)  # noqa: PTH104
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return


def _wait(pid: int) -> None:
    end = time.monotonic() + _SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(_POLL)
