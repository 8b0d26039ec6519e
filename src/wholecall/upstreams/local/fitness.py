"""Check whether a model can run here, before it is tried and in words that help."""

from __future__ import annotations

from pathlib import Path

from wholecall.errors import UpstreamError

MORE_BYTES = 512 * 1024 * 1024
"""Memory in addition to the weights: the context, the prompt cache, the program."""
CODE = "local"
"""The code of every error that says why a model does not run here."""
_UNAVAILABLE = 503
_MAGIC = b"GGUF"
_MEGABYTE = 1_000_000
_LIMIT = Path("sys/fs/cgroup/memory.max")
_MEMORY = Path("proc/meminfo")


def unfit(why: str, *, retry_after: float | None = None) -> UpstreamError:
    """Return the error for a model that cannot run here. Clients of the proxy read it, so it names
    files without their folders."""
    return UpstreamError(why, status=_UNAVAILABLE, retry_after=retry_after, code=CODE)


def demand_fit(path: Path, *, root: Path = Path("/")) -> None:
    """Raise `UpstreamError` if the file is not a model, or larger than the free memory."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        size = path.stat().st_size
    except OSError as error:
        raise unfit(f"the model {path.name} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise unfit(f"{path.name} is no model in GGUF, the format of llama.cpp")
    demand_memory(path.name, size, root=root)


def demand_memory(name: str, size: int, *, root: Path = Path("/")) -> None:
    """`UpstreamError` if a model of this size is larger than the memory that is left."""
    available, needed = available_bytes(root), size + MORE_BYTES
    if available is not None and available < needed:
        raise unfit(
            f"{name} needs about {needed // _MEGABYTE:,} MB of memory, and "
            f"{available // _MEGABYTE:,} MB are left: close something, or take a smaller model"
        )


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the available memory according to Linux; None if it is unknown."""
    found = [each for each in (_left(root / _MEMORY), _allowed(root / _LIMIT)) if each is not None]
    return min(found, default=None)


def _left(path: Path) -> int | None:
    for line in _read(path).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _allowed(path: Path) -> int | None:
    """Return the memory limit of a container, where the machine's own memory says little."""
    limit = _read(path).strip()
    return int(limit) if limit.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
