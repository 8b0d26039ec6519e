"""How tests start the program that stands in for a model."""

from __future__ import annotations

import sys
from pathlib import Path

from wholecall.upstreams.model_process import ServerOrder

PROGRAM = Path(__file__).with_name("fake_model.py")
ORDER = ServerOrder(
    path="tiny.gguf",
    key="secret-of-a-test",
    context=512,
    parallel=1,
    threads=1,
    output_tokens=16,
    temperature=0.0,
)


def program(behaviour: str, folder: Path) -> list[str]:
    return [sys.executable, str(PROGRAM), behaviour, str(folder / "starts")]


def count_starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())
