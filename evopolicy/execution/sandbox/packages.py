"""What a sandbox sees of this Python: the runtime without its installed packages, and links to the
allowed ones."""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from evopolicy.kernel.errors import ConfigError, ExecutionError, did_you_mean

HIDDEN = ("site-packages", "dist-packages")
"""Folders of installed packages, where the standard library holds them."""


@dataclass(frozen=True)
class Runtime:
    """Where the interpreter lives. All real paths."""

    python: Path
    """The interpreter itself, no virtual environment's link."""
    path: tuple[str, ...]
    """`sys.path` of the standard library."""
    readable: tuple[Path, ...]
    """The standard library's files and folders one by one, so that packages installed beside them
    stay out."""
    folders: tuple[Path, ...]
    """The standard library's folders, with what is installed in them."""
    libraries: tuple[Path, ...]
    """Folders with shared libraries, among other things."""
    files: tuple[Path, ...]
    """Single files it needs."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that hold `readable`: a second, coarser domain grants these."""
        return (*self.folders, *self.libraries, *self.files)


@dataclass(frozen=True)
class Packages:
    """Importable names and the files behind them."""

    links: dict[str, Path]
    """Entry of the view folder -> what it links to."""

    def link_into(self, view: Path) -> None:
        """Fill the folder `view` with the links."""
        view.mkdir(parents=True, exist_ok=True)
        for name, target in self.links.items():
            (view / name).symlink_to(target)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.links))


def runtime() -> Runtime:
    """This interpreter's runtime."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    python = Path(base).resolve()
    paths = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix})
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    platform_stdlib = Path(paths["platstdlib"]).resolve()
    dynload = platform_stdlib / "lib-dynload"
    archive = (
        Path(sys.base_prefix) / "lib" / f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    )
    folders = [stdlib] if stdlib == platform_stdlib else [stdlib, platform_stdlib]
    entries = (entry for folder in folders if folder.is_dir() for entry in sorted(folder.iterdir()))
    readable = [entry for entry in entries if entry.name not in HIDDEN]
    libraries = [*_library_folders(), Path(sys.base_prefix).resolve() / "lib"]
    readable += [path for folder in libraries for path in shared_libraries(folder)]
    files = (Path("/etc/ld.so.cache"),)
    path = (str(archive), *map(str, folders), str(dynload))
    return Runtime(python, path, (*readable, *files), tuple(folders), tuple(libraries), files)


def _library_folders() -> list[Path]:
    multiarch = str(sysconfig.get_config_var("MULTIARCH") or "")
    names = [
        f"/lib/{multiarch}",
        f"/usr/lib/{multiarch}",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
        "/usr/local/lib",
    ]
    folders = dict.fromkeys(Path(name).resolve() for name in names if Path(name).is_dir())
    return list(folders)


def shared_libraries(folder: Path) -> list[Path]:
    """`folder` itself where it holds nothing but a machine's libraries, else its shared libraries
    one by one."""
    if not folder.is_dir():
        return []
    if re.fullmatch(r"/(usr/)?lib/[\w]+-linux-\w+", str(folder)):
        return [folder]
    return sorted(path for path in folder.glob("*.so*") if path.is_file())


def resolve(names: Sequence[str]) -> Packages:
    """The packages `names` (importable names) and what their distributions need. Raises ConfigError
    for an absent."""
    links: dict[str, Path] = {}
    waiting, seen = list(names), set(names)
    for name in waiting:
        files = _files(name)
        if not files and name in names:
            installed = {
                info for info in metadata.packages_distributions() if not info.startswith("_")
            }
            raise ConfigError(
                f"execution.policy_packages: no package '{name}' can be imported "
                f"here.{did_you_mean(name, installed)}"
            )
        links.update(files)
        for needed in _needs(name):
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return Packages(links)


def _files(name: str) -> dict[str, Path]:
    if not name.isidentifier():
        return {}
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return {}
    if spec is None or spec.origin in (None, "built-in", "frozen"):
        return {}
    origin = Path(str(spec.origin)).resolve()
    if spec.submodule_search_locations is None:
        return {Path(str(spec.origin)).name: origin}
    folder = Path(next(iter(spec.submodule_search_locations))).resolve()
    # Wheels repaired by auditwheel keep their shared libraries beside the package.
    libraries = [folder.with_name(f"{name}.libs"), folder.with_name(f".{name}.libs")]
    return {folder.name: folder} | {lib.name: lib for lib in libraries if lib.is_dir()}


def own_code() -> Packages:
    """What a sandbox's own interpreter needs beside the Policies' packages. Raises
    ExecutionError."""
    links = {}
    for name in ("evopolicy", "msgspec"):
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ExecutionError(f"the package '{name}' cannot be found")
        links[name] = Path(next(iter(spec.submodule_search_locations))).resolve()
    return Packages(links)


def _needs(name: str) -> list[str]:
    """Importable names of what the distribution of the same name declares, extras left out."""
    try:
        required: Iterable[str] = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return []
    plain = [line for line in required if "extra ==" not in line]
    distributions = [match[0] for line in plain if (match := re.match(r"[\w.-]+", line))]
    return [module for distribution in distributions for module in _modules(distribution)]


def _modules(distribution: str) -> list[str]:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return []
    first = {path.parts[0] for path in files if len(path.parts) > 1 or path.suffix == ".py"}
    return sorted(
        name.removesuffix(".py") for name in first if name.removesuffix(".py").isidentifier()
    )
