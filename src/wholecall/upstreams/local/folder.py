"""The folder of the models' files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

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
