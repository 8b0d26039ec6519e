"""Configurations for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wholecall.proxy.config.load import Loaded, load


def load_text(folder: Path, text: str, *, environ: Mapping[str, str] | None = None) -> Loaded:
    """Load a file of this text."""
    file = folder / "wholecall.yaml"
    file.write_text(text, "utf-8")
    return load(file, environ or {})
