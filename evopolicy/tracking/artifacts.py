"""Reading the artifacts of an MLflow run, whoever wrote them: names are checked, sizes bounded,
links refused."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from evopolicy.kernel.errors import TrackingError
from evopolicy.tracking.files import FILE_BYTES, FILES, RUN_BYTES
from evopolicy.tracking.store import guarded

DEPTH = 16
"""Folders within each other."""
_THREADS = 8
_NAME_LENGTH = 255


@dataclass(frozen=True)
class Artifact:
    """A regular file among a run's artifacts."""

    path: str
    """POSIX, relative, with no part that leads out of a folder."""
    bytes: int


@dataclass(frozen=True)
class Artifacts:
    """The artifacts of one run. Everything that reads raises TrackingError with the path and the
    rule."""

    uri: str
    """Of the store."""
    client: Any
    """`mlflow.MlflowClient`."""
    run_id: str
    root: Path | None
    """Where they lie, when that is a folder of this machine."""

    @classmethod
    def of(cls, uri: str, client: Any, run: Any) -> Artifacts:
        parts = urlsplit(str(run.info.artifact_uri))
        local = parts.scheme == "file" and parts.netloc in ("", "localhost")
        return cls(
            uri, client, str(run.info.run_id), Path(url2pathname(parts.path)) if local else None
        )

    def files(self, top: Iterable[str]) -> list[Artifact]:
        """Every file named in `top` or below a folder named in it, in order; what is not there is
        left out."""
        wanted = set(top)
        found: list[Artifact] = []
        with ThreadPoolExecutor(_THREADS) as pool:
            level = [""]
            seen = 0
            for _ in range(DEPTH):
                listed = [entry for entries in pool.map(self._list, level) for entry in entries]
                listed = [entry for entry in listed if entry[0].partition("/")[0] in wanted]
                seen += len(listed)
                if seen > FILES:
                    raise TrackingError(
                        f"artifacts: more than {FILES:,} files are too many for one Run"
                    )
                found.extend(Artifact(path, size) for path, folder, size in listed if not folder)
                level = [path for path, folder, _ in listed if folder]
                if not level:
                    return sorted(found, key=lambda artifact: artifact.path)
        raise TrackingError(f"artifacts: '{level[0][:80]}' lies deeper than {DEPTH} folders")

    def fetch(self, wanted: Sequence[tuple[Artifact, Path]]) -> None:
        """Write each artifact to its path."""
        total = sum(artifact.bytes for artifact, _ in wanted)
        large = next((artifact for artifact, _ in wanted if artifact.bytes > FILE_BYTES), None)
        if large is not None:
            raise TrackingError(
                f"artifacts: '{large.path}' has {large.bytes:,} bytes, more than {FILE_BYTES:,}"
            )
        if total > RUN_BYTES:
            raise TrackingError(
                f"artifacts: {total:,} bytes are more than the {RUN_BYTES:,} one Run may have"
            )
        for _, target in wanted:
            target.parent.mkdir(parents=True, exist_ok=True)
        if self.root is not None:
            for artifact, target in wanted:
                _copy(self.root, artifact.path, target)
        elif wanted:
            with (
                tempfile.TemporaryDirectory(
                    prefix=".arriving-", dir=wanted[0][1].parent
                ) as scratch,
                ThreadPoolExecutor(_THREADS) as pool,
            ):
                jobs = [
                    pool.submit(self._download, a, t, Path(scratch) / str(n))
                    for n, (a, t) in enumerate(wanted)
                ]
                for job in jobs:
                    job.result()

    def _list(self, path: str) -> list[tuple[str, bool, int]]:
        """Path, whether it is a folder, and bytes of what lies in the folder `path`."""
        if self.root is not None:
            return list(_entries(self.root, path))
        listed = guarded(
            self.uri, "listing artifacts", self.client.list_artifacts, self.run_id, path or None
        )
        return [(checked(str(e.path), path), bool(e.is_dir), int(e.file_size or 0)) for e in listed]

    def _download(self, artifact: Artifact, target: Path, scratch: Path) -> None:
        scratch.mkdir()
        get = self.client.download_artifacts
        arrived = Path(
            guarded(
                self.uri, "downloading artifacts", get, self.run_id, artifact.path, str(scratch)
            )
        )
        status = arrived.lstat()
        if not stat.S_ISREG(status.st_mode) or not arrived.resolve().is_relative_to(
            scratch.resolve()
        ):
            raise TrackingError(f"artifacts: '{artifact.path}' is not a regular file")
        if status.st_size > FILE_BYTES:
            raise TrackingError(f"artifacts: '{artifact.path}' has more than {FILE_BYTES:,} bytes")
        arrived.replace(target)


def checked(path: str, folder: str) -> str:
    """`path`, which a store says lies directly in `folder` ('' for the top). Raises TrackingError
    where it may not."""
    pure = PurePosixPath(path)
    name = path.rpartition("/")[2]
    bad = (
        not name
        or name in (".", "..")
        or "\\" in name
        or len(name.encode("utf-8", "replace")) > _NAME_LENGTH
    )
    if (
        bad
        or any(ord(letter) < 32 or letter == "\x7f" for letter in name)
        or pure.is_absolute()
        or path != (f"{folder}/{name}" if folder else name)
    ):
        raise TrackingError(
            f"artifacts: the path {path[:120]!r} leads out of its folder or has a name no file "
            "may have"
        )
    return path


def _entries(root: Path, folder: str) -> Iterator[tuple[str, bool, int]]:
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrackingError(
            f"artifacts: {root / folder} cannot be read ({error.strerror})"
        ) from None
    for entry in entries:
        path = checked(f"{folder}/{entry.name}" if folder else entry.name, folder)
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise TrackingError(
                f"artifacts: '{path}' is a link or a special file; only files and folders are read"
            )
        yield path, stat.S_ISDIR(status.st_mode), status.st_size


def _copy(root: Path, path: str, target: Path) -> None:
    """Copy one file by descriptors: a link that took a part's place meanwhile is not followed."""
    parts = PurePosixPath(path).parts
    handles = [os.open(root, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in parts[:-1]:
            handles.append(
                os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handles[-1])
            )
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handles[-1])
        with os.fdopen(file, "rb") as read, target.open("wb") as write:
            shutil.copyfileobj(read, write)
    except OSError as error:
        raise TrackingError(f"artifacts: '{path}' cannot be copied ({error.strerror})") from None
    finally:
        for handle in handles:
            os.close(handle)
