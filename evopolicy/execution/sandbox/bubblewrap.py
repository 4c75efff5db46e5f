"""Builds command lines of bubblewrap (`bwrap`): what the level of that name adds to what Landlock
and seccomp do.

The environment is the one `bwrap` itself is started with: values on a command line are seen by the
whole machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from evopolicy.execution.sandbox.packages import HIDDEN, Runtime, shared_libraries

SEEN = "/evopolicy"
"""Where a Policy's sandbox has the folder it shares with its worker, read-only."""
SCRATCH, CODE, PROGRAM = "/scratch", "/code", "/program"
_CODE_BYTES = 64 << 20
_LOCALE = Path("/usr/lib/locale/C.utf8")
# Each mount makes the next one slower: a folder with more libraries than this is mounted as a
# whole.
_FEW = 16


def find() -> Path | None:
    """The `bwrap` of this machine's PATH."""
    program = shutil.which("bwrap")
    return Path(program) if program else None


def base(program: str, *, network: bool = False) -> list[str]:
    """argv of `program` (a `bwrap`) up to its mounts: every namespace its own, no capability, an
    empty root, a `/dev`.

    With `network` the machine's network stays. Ends with whoever starts it; add mounts, then the
    command."""
    spaces = ["user", "pid", "ipc", "uts", "cgroup-try", *([] if network else ["net"])]
    unshared = [f"--unshare-{space}" for space in spaces]
    return [
        *(program, *unshared, "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--hostname", "sandbox", "--dev", "/dev"),
    ]


def runtime_mounts(runtime: Runtime, allowed: Iterable[Path]) -> list[str]:
    """Mounts of the interpreter, its libraries and standard library, and of `allowed`, all
    read-only at their places.

    Packages installed beside the standard library stay out unless they are `allowed`.
    """
    libraries = [path for folder in runtime.libraries for path in _libraries(folder)]
    shown = [*libraries, *runtime.folders]
    hidden = [
        folder_path for folder in shown if folder.is_dir() for folder_path in _installed(folder)
    ]
    arguments = [argument for path in shown for argument in _bind(path)]
    for name in ("lib", "lib64"):
        if (link := Path("/", name)).is_symlink():
            arguments += ["--symlink", str(link.readlink()), str(link)]
    arguments += [argument for folder_path in hidden for argument in ("--tmpfs", folder_path)]
    for path in (*runtime.files, _LOCALE):
        arguments += ["--ro-bind-try", str(path), str(path)]
    for path in dict.fromkeys([runtime.python, *allowed]):
        arguments += _bind(path)
    return arguments + [
        argument for folder_path in hidden for argument in ("--remount-ro", folder_path)
    ]


def _bind(path: Path, at: str = "") -> list[str]:
    return ["--ro-bind", str(path), at or str(path)]


def _libraries(folder: Path) -> list[Path]:
    libraries = shared_libraries(folder)
    return libraries if len(libraries) <= _FEW else [folder]


def _installed(folder: Path) -> Iterator[str]:
    for name in HIDDEN:
        yield from (
            str(place)
            for place in (folder / name, *folder.glob(f"python*/{name}"))
            if place.is_dir()
        )


def zygote(
    program: Path,
    runtime: Runtime,
    allowed: Iterable[Path],
    shared: Path,
    code: Mapping[str, Path],
    slots: int,
    scratch_bytes: int,
) -> tuple[str, ...]:
    """argv of a Policies' sandbox, the interpreter at its end.

    `shared` is seen at SEEN, with the engine's own `code` in its folder `engine`. Each of the
    `slots` below SCRATCH holds `scratch_bytes` bytes at most; nothing else but CODE can be written.
    There is no `/proc`."""
    # As user 0 of its own namespace, and with this capability, it bounds the names in its mounts,
    # and gives both up.
    arguments = [*base(str(program)), "--uid", "0", "--gid", "0", "--cap-add", "CAP_SYS_ADMIN"]
    arguments += [*runtime_mounts(runtime, allowed), *_bind(shared, SEEN)]
    for name, folder in code.items():
        # `shared` is seen read-only: the place to mount at has to be there.
        (shared / "engine" / name).mkdir(parents=True, exist_ok=True)
        arguments += _bind(folder, f"{SEEN}/engine/{name}")
    for place, size in (
        *((place, scratch_bytes) for place in scratches(slots)),
        (CODE, _CODE_BYTES),
    ):
        arguments += ["--size", str(size), "--tmpfs", place]
    return (
        *arguments,
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
        str(runtime.python),
    )


def scratches(slots: int) -> tuple[str, ...]:
    """The mounts of so many scratch folders."""
    return tuple(f"{SCRATCH}/{number}" for number in range(slots))


def with_programs(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """`command` of a zygote with one worker's `folder` seen at PROGRAM, read-only: there the name
    is all workers'."""
    return (command[0], *_bind(folder, PROGRAM), *command[1:])
