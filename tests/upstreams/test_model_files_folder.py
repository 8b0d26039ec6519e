"""Where models lie, on each system and where the environment says otherwise."""

from pathlib import Path

import pytest

from wholecall.upstreams.model_files import list_files, models_folder

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
