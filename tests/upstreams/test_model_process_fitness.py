"""Whether a model can run here, from files that say what Linux would."""

from pathlib import Path

import pytest

from wholecall.errors import UpstreamError
from wholecall.upstreams.model_process import available_bytes, demand_fit

GIGABYTE = 1024**3


def make_root(tmp_path: Path, *, available: int | None = None, limit: str = "") -> Path:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "sys/fs/cgroup").mkdir(parents=True)
    if available is not None:
        lines = f"MemTotal:  99 kB\nMemAvailable:  {available // 1024} kB\n"
        (root / "proc/meminfo").write_text(lines)
    if limit:
        (root / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
    return root


@pytest.mark.parametrize(
    ("available", "limit", "bytes_left"),
    [
        (2 * GIGABYTE, "", 2 * GIGABYTE),
        (2 * GIGABYTE, "max", 2 * GIGABYTE),
        (2 * GIGABYTE, str(GIGABYTE), GIGABYTE),
        (None, str(GIGABYTE), GIGABYTE),
        (None, "", None),
    ],
)
def test_the_smaller_of_what_is_left_and_what_is_allowed_counts(
    available: int | None, limit: str, *, bytes_left: int | None, tmp_path: Path
) -> None:
    assert available_bytes(make_root(tmp_path, available=available, limit=limit)) == bytes_left


def test_a_list_of_memory_without_the_word_says_nothing(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    (root / "proc/meminfo").write_text("MemTotal: 5 kB\n")
    assert available_bytes(root) is None


def test_this_machine_is_read_by_default() -> None:
    left = available_bytes()
    assert left is None or left > 0


def make_file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("available", [2 * GIGABYTE, None])
def test_a_model_that_fits_is_let_through(available: int | None, *, tmp_path: Path) -> None:
    root = make_root(tmp_path, available=available)
    demand_fit(make_file(tmp_path, b"GGUF and more"), root=root)


def test_too_little_memory_is_told_with_both_numbers(tmp_path: Path) -> None:
    root = make_root(tmp_path, available=GIGABYTE // 4)
    with pytest.raises(UpstreamError, match=r"tiny.gguf needs about 536 MB .* 268 MB are left"):
        demand_fit(make_file(tmp_path, b"GGUF"), root=root)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04"])
def test_another_file_is_no_model(content: bytes, *, tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="is not a model in GGUF") as raised:
        demand_fit(make_file(tmp_path, content))
    assert str(tmp_path) not in str(raised.value)
    assert (raised.value.status, raised.value.code) == (503, "local")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="cannot be read: Is a directory") as raised:
        demand_fit(tmp_path)
    assert str(tmp_path) not in str(raised.value)
