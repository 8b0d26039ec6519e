"""The table of the settings, and the page that shows it."""

from pathlib import Path

from configs import load_text
from wholecall.proxy.config.check import SettingRow, list_settings, walk, write_markdown
from wholecall.proxy.config.schema import Config, McpTool, ModelConfig, PythonTool

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
