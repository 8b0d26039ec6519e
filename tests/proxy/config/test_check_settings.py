from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.check import (
    SettingRow,
    describe,
    find_node,
    list_settings,
    needs_restart,
    show_config,
    walk,
    write_markdown,
)
from wholecall.proxy.config.schema import Config, McpTool, ModelConfig, PythonTool


def test_every_setting_is_found_under_its_name() -> None:
    config = Config(
        models={"fast": ModelConfig(upstream="openai/x", headers={"A": "b"})},
        tools=(PythonTool(python="a:b"), McpTool(mcp="c", command="d")),
    )
    leaves = {".".join(path): value for path, value in walk(config)}
    assert leaves["listen.port"] == 8787
    assert leaves["listen.hosts"] == ()
    assert leaves["models.fast.headers.A"] == "b"
    assert leaves["models.fast.limits.turns"] == 10
    assert leaves["tools.0.python"] == "a:b"
    assert leaves["tools.1.headers"] == {}
    assert next(iter(leaves)) == "listen.host"


def test_nothing_is_a_leaf_too() -> None:
    leaves = {".".join(path): value for path, value in walk(Config())}
    assert (leaves["models"], leaves["tools"]) == ({}, ())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("keys.required", "true or false"),
        ("limits.concurrent", "a whole number above 0"),
        ("limits.header_count", "a whole number of at least 10"),
        ("limits.keep_alive_seconds", "a number from 0.1 to 15"),
        ("limits.drain_seconds", "a number of at least 0"),
        ("models.NAME.limits.seconds", "a number above 0"),
        ("models.NAME.limits.turn_retries", "a whole number of at least 0"),
        ("models.NAME.timeouts.connect", "a number above 0"),
        ("models.NAME.base_url", "text"),
        ("models.NAME.api_key", "${NAME}"),
        ("models.NAME.mode", '"gate" or "run"'),
        ("models.NAME.headers", "names with texts"),
        ("models.NAME.headers.X", "text"),
        ("tools.0.args", "a list"),
        ("tools.0.args.1", "text"),
    ],
)
def test_the_type_of_a_setting_says_what_it_takes(path: str, words: str) -> None:
    assert describe(find_node(path.split("."))) == words


def test_what_is_no_setting_takes_nothing() -> None:
    assert find_node(["listen", "prot", "x"]) == {}
    assert find_node(["tools", "0", "pyton"]) == {}


def test_a_setting_says_whether_it_needs_a_restart() -> None:
    assert needs_restart(("listen", "port"))
    assert not needs_restart(("listen", "hosts"))
    assert not needs_restart(("models", "a (added)"))


# ── The table of the settings, and the page that shows it ───────────────────────────────

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_has_the_table_as_it_is() -> None:
    """To renew it: paste what `write_markdown()` gives below the last heading."""
    table = PAGE.read_text("utf-8").rpartition("\n\n")[2].strip()
    assert table == write_markdown()


def test_every_setting_of_a_configuration_has_its_row() -> None:
    config = Config(
        models={"NAME": ModelConfig(upstream="x")},
        tools=(PythonTool(python="a:b"), McpTool(mcp="a")),
    )
    names = {".".join(path) for path, _ in walk(config)}
    names = {name.replace("tools.0", "tools.N").replace("tools.1", "tools.N") for name in names}
    assert {row.setting for row in list_settings()} == names


def test_a_row_says_what_its_field_says() -> None:
    rows = {row.setting: row for row in list_settings()}
    assert rows["listen.port"] == SettingRow(
        "listen.port",
        "a whole number from 0 to 65535",
        "`8787`",
        "Port to listen on; 0: any that is free.",
        restart=True,
    )
    assert rows["models.NAME.upstream"].default == "(required)"
    assert rows["models.NAME.base_url"].default == "none"
    assert rows["models.NAME.tools"].default == '`["*"]`'
    assert all(row.meaning.endswith(".") for row in rows.values())


def test_the_files_of_the_page_are_good(tmp_path: Path) -> None:
    blocks = PAGE.read_text("utf-8").split("```yaml\n")[1:]
    environ = {"OPENAI_API_KEY": "a", "TICKETS_TOKEN": "b"}
    small, large = (
        load_text(tmp_path, block.split("```")[0], environ=environ).config for block in blocks
    )
    assert list(small.models) == ["fast"]
    assert len(large.tools) == 3


# ── Showing ─────────────────────────────────────────────────────────────────────────────


def test_every_setting_is_shown_with_its_origin_and_no_secret_is(tmp_path: Path) -> None:
    text = """\
listen: {port: 99}
models:
  fast:
    upstream: openai/x
    api_key: ${THE_KEY}
    headers: {Authorization: "Bearer ${THE_KEY}"}
  slow: {upstream: openai/y}
tools: [{mcp: a, command: b, args: [c, d]}]
"""
    environ = {
        "THE_KEY": "sk-123",
        "WHOLECALL__LIMITS__BODY_BYTES": "5",
        "WHOLECALL__MODELS__SLOW__API_KEY": "sk-456",
    }
    loaded = load_text(tmp_path, text, environ=environ)
    lines = list(show_config(loaded.config, loaded.places))
    file = tmp_path / "wholecall.yaml"
    for line in [
        f"listen.port = 99  # {file}:1",
        'listen.host = "127.0.0.1"  # default',
        "limits.body_bytes = 5  # WHOLECALL__LIMITS__BODY_BYTES",
        f'models.fast.api_key = "${{THE_KEY}}"  # {file}:5',
        f'models.fast.headers.Authorization = "Bearer ${{THE_KEY}}"  # {file}:6',
        'models.slow.api_key = "***"  # WHOLECALL__MODELS__SLOW__API_KEY',
        f'tools.0.args = ["c", "d"]  # {file}:8',
    ]:
        assert line in lines
    assert "sk-" not in "".join(lines)
