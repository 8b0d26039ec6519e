"""What would keep the proxy from starting."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from configs import load_text
from damaged_files import SEEN_AT_ONCE, overwrite_head
from wholecall.proxy.config.schema import ConfigError
from wholecall.proxy.http.api_keys import KeyStore
from wholecall.proxy.observe.inspector_feed import STORE_FILE
from wholecall.proxy.preflight import check_start
from wholecall.proxy.service_builder import RESPONSES_FILE, STATE_FILE
from wholecall.storage import BlobStore


def _folder(path: Path) -> None:
    path.mkdir()


def _no_database(path: Path) -> None:
    path.write_text("{}\n" * 500, "utf-8")


def _other_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE keys (name TEXT)")


def _other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE others (name TEXT)")


def _keys(path: Path) -> None:
    KeyStore(path).close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_folder, "is no file of keys (unable to open"),
        (_no_database, "is no file of keys (file is not a database): name another file"),
        (_other_table, "is no file of keys (no such column: digest): name another file"),
    ],
)
def test_a_file_that_cannot_hold_keys_is_told_with_its_line(
    tmp_path: Path, make: Callable[[Path], None], *, why: str
) -> None:
    make(tmp_path / "k.sqlite")
    loaded = load_text(tmp_path, "keys:\n  required: true\n  path: k.sqlite\n")
    with pytest.raises(ConfigError) as refused:
        check_start(loaded, {})
    assert str(refused.value).startswith(f"{tmp_path / 'wholecall.yaml'}:3: keys.path: ")
    assert why in refused.value.message


def test_a_folder_that_workers_cannot_share_is_told(tmp_path: Path) -> None:
    text = "keys: {path: missing/k.sqlite}\nlisten:\n  workers: 2\n"
    with pytest.raises(ConfigError, match=r":3: listen\.workers: .*wholecall-responses\.sqlite"):
        check_start(load_text(tmp_path, text), {})
    check_start(load_text(tmp_path, text + "responses: {kept_seconds: 0}\n"), {})


MODEL = "upstream: openai/x, base_url: http://h"
STORES = {
    STATE_FILE: "  required: true\nmodels: {a: {upstream: responses/x, base_url: http://h}}",
    RESPONSES_FILE: f"models: {{a: {{{MODEL}}}}}\nlisten: {{workers: 2}}",
    STORE_FILE: f"models: {{a: {{{MODEL}}}}}\ninspector: {{enabled: true}}",
}


@pytest.mark.parametrize(("name", "text"), STORES.items())
@pytest.mark.parametrize("damage", SEEN_AT_ONCE)
def test_a_damaged_file_is_told_with_what_to_do_if_it_is_needed(
    tmp_path: Path, name: str, *, text: str, damage: Callable[[Path], None]
) -> None:
    BlobStore(tmp_path / name).close()
    loaded = load_text(tmp_path, f"keys:\n  path: k.sqlite\n{text}\n")
    assert check_start(loaded, {}) == ()
    damage(tmp_path / name)
    with pytest.raises(ConfigError, match=rf":2: keys\.path: .*{name}: .* move it away"):
        check_start(loaded, {})
    other = next(each for key, each in STORES.items() if key != name)
    assert check_start(load_text(tmp_path, f"keys:\n  path: k.sqlite\n{other}\n"), {}) == ()


def test_what_an_upstream_holds_is_kept_for_keys_only(tmp_path: Path) -> None:
    overwrite_head(tmp_path / STATE_FILE)
    text = "models: {a: {upstream: responses/x, base_url: http://h}}\n"
    assert check_start(load_text(tmp_path, f"keys: {{path: k.sqlite}}\n{text}"), {}) == ()
    with pytest.raises(ConfigError, match=f"{STATE_FILE}: .* move it away"):
        check_start(load_text(tmp_path, f"keys: {{path: k.sqlite, required: true}}\n{text}"), {})


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, "keys: {required: true, path: missing/k.sqlite}")
    with pytest.raises(ConfigError, match=r":1: keys\.path: there is no folder .*missing'"):
        check_start(loaded, {})
    assert not (tmp_path / "missing").exists()


def test_what_stands_in_the_usual_place_is_told_by_the_file(tmp_path: Path) -> None:
    _no_database(tmp_path / "wholecall-keys.sqlite")
    with pytest.raises(ConfigError, match=r"wholecall\.yaml: keys\.path: .* is no file of keys"):
        check_start(load_text(tmp_path, "{}"), {})


@pytest.mark.parametrize("make", [None, _other_database, _keys, Path.touch])
def test_a_file_that_can_hold_keys_is_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None] | None
) -> None:
    if make is not None:
        make(tmp_path / "k.sqlite")
    loaded = load_text(tmp_path, "keys: {required: true, path: k.sqlite}")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert check_start(loaded, {}) == ()
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("model", "environ", "why"),
    [
        (
            "{upstream: openai/x}",
            {"OPENAI_BASE_URL": "foo"},
            "OPENAI_BASE_URL: 'foo' is not an http",
        ),
        (
            "{upstream: ollama/x}",
            {"OLLAMA_HOST": ":port"},
            "OLLAMA_HOST: ':port' is not the address",
        ),
        ("{upstream: gemini/x}", {"GOOGLE_API_KEY": "sk\nx"}, "GOOGLE_API_KEY: the key"),
        ("{upstream: x, base_url: http://h}", {"OPENAI_API_KEY": "sk\nx"}, "OPENAI_API_KEY: the"),
    ],
)
def test_a_variable_that_an_upstream_cannot_use_is_told_by_its_name(
    tmp_path: Path, model: str, *, environ: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_start(load_text(tmp_path, f"models:\n  a: {model}\n"), environ)
    assert refused.value.line == 2
    assert why in refused.value.message
    assert "sk" not in refused.value.message


def test_a_variable_that_is_not_used_may_be_anything(tmp_path: Path) -> None:
    model = "{upstream: openai/x, base_url: http://h, api_key: '${KEY}'}"
    (tmp_path / "x.gguf").touch()
    text = f"models:\n  a: {model}\n  b: {{upstream: local/x}}\n"
    loaded = load_text(tmp_path, text, environ={"KEY": "sk-1"})
    environ = {"OPENAI_BASE_URL": "foo", "OPENAI_API_KEY": "\n", "WHOLECALL_MODELS": str(tmp_path)}
    assert check_start(loaded, environ) == ()


def test_a_model_that_was_not_pulled_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    text = "models:\n  a: {upstream: local/smollm2}\n  b: {upstream: local/./none.gguf}\n"
    with pytest.raises(ConfigError) as refused:
        check_start(load_text(tmp_path, text), {"WHOLECALL_MODELS": str(tmp_path)})
    first, second = refused.value.problems
    assert str(first).startswith(f"{tmp_path / 'wholecall.yaml'}:2: models.a.upstream: ")
    assert "run `wholecall model pull smollm2" in first.message
    assert "there is no file none.gguf" in second.message


def test_an_extra_that_is_missing_is_told_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("litellm", "xllamacpp"):
        monkeypatch.setitem(sys.modules, package, None)  # what cannot be imported
    text = "models:\n  a: {upstream: litellm/x}\n  b: {upstream: local/x}\n"
    with pytest.raises(ConfigError) as refused:
        check_start(load_text(tmp_path, text), {})
    assert [each.message.partition(": ")[2] for each in refused.value.problems] == [
        "pip install 'wholecall[litellm]'",
        "pip install 'wholecall[local]'",
    ]


@pytest.mark.parametrize("made", ["missing", "file"])
def test_a_folder_to_count_in_that_is_none_is_told(tmp_path: Path, made: str) -> None:
    (tmp_path / "file").touch()
    environ = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / made)}
    with pytest.raises(
        ConfigError, match=r"^PROMETHEUS_MULTIPROC_DIR: .* is not a folder that can"
    ):
        check_start(load_text(tmp_path, ""), environ)
    check_start(load_text(tmp_path, "metrics: {enabled: false}"), environ)
    check_start(load_text(tmp_path, ""), {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
