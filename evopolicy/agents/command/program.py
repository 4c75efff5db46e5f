"""What a program is started by and runs from here: its own file, or a script's interpreter and
package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evopolicy.agents.coding.node import SCRIPTS, candidates, package_files
from evopolicy.kernel.errors import AgentError

LINKS = 40
"""One after the other that Linux follows."""


def started(executable: Path) -> tuple[list[str], list[Path]]:
    """The words that start `executable`, and the paths its sandbox has to show. Raises AgentError
    for want of Node."""
    real = executable.resolve()
    readable = [executable, *([real] if executable.is_symlink() else [])]
    if real.suffix in SCRIPTS:
        node = next(candidates("", executable, real), None)
        if node is None:
            raise AgentError(
                f"agent.argv: '{executable.name}' is a script for Node, which is not here: "
                "install it"
            )
        return [str(node), str(real)], list(
            dict.fromkeys([node, node.resolve(), *package_files(real)])
        )
    return [str(executable)], [*readable, *_python(real)]


def _python(script: Path) -> Iterator[Path]:
    """Of a script that a virtual environment's Python runs: that environment, and the Python it was
    made with."""
    try:
        with script.open("rb") as file:
            first = file.readline(1000).decode(errors="replace")
    except OSError:
        return
    interpreter = (
        Path(first[2:].split()[0]) if first.startswith("#!/") and first[2:].split() else None
    )
    if interpreter is None or not (interpreter.parent.parent / "pyvenv.cfg").is_file():
        return
    yield interpreter.parent.parent
    yield from _links(interpreter)
    real = interpreter.resolve()
    yield real
    # Not all that lies around it: that may be somebody's home.
    yield from (
        folder for folder in (real.parent.parent / "lib",) if any(folder.glob("python3*/os.py"))
    )


def _links(path: Path) -> Iterator[Path]:
    """What a chain of links leads through: each has to be there for the next to be found."""
    for _ in range(LINKS):
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
        yield path
