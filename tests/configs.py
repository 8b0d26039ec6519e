"""Configurations for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wholecall.proxy.config.load import Loaded, load
from wholecall.proxy.config.settings_reader import YamlValue


def plain(written: YamlValue) -> object:
    """The values without their places."""
    match written.value:
        case tuple() as items:
            return [plain(item) for item in items]
        case Mapping() as members:
            return {name: plain(member) for name, member in members.items()}
        case value:
            return value


def load_text(folder: Path, text: str, *, environ: Mapping[str, str] | None = None) -> Loaded:
    """Load a file of this text."""
    file = folder / "wholecall.yaml"
    file.write_text(text, "utf-8")
    return load(file, environ or {})
