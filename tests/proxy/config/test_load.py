"""Files and environments as configurations."""

from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.load import find_file, load, load_config
from wholecall.proxy.config.schema import ConfigError, McpTool, Position, Secret
from wholecall.proxy.config.settings_reader import CHARACTERS

FILE = """\
models:
  fast:
    upstream: openai/gpt-x
    api_key: ${THE_KEY}
"""


def test_without_a_file_there_are_defaults_and_the_environment() -> None:
    config = load_config(None, {"WHOLECALL__LISTEN__PORT": "99", "WHOLECALL_PORT": "tcp://x"})
    assert (config.listen.port, config.listen.host) == (99, "127.0.0.1")
    assert config.keys.path == "wholecall-keys.sqlite"


def test_a_file_is_read_and_its_keys_are_taken_from_the_environment(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, FILE, environ={"THE_KEY": "sk-123"})
    assert loaded.config.models["fast"].api_key == Secret("sk-123")
    assert loaded.places["models", "fast", "upstream"].line == 3
    assert "sk-123" not in repr(loaded)


def test_a_key_that_is_missing_is_named_unless_keys_do_not_matter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="THE_KEY is not set") as refused:
        load_text(tmp_path, FILE)
    assert refused.value.line == 4
    loaded = load(tmp_path / "wholecall.yaml", {}, without_keys=True)
    assert loaded.config.models["fast"].upstream == "openai/gpt-x"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    environ = {"THE_KEY": "k", "WHOLECALL__MODELS__FAST__MODE": "run"}
    loaded = load_text(tmp_path, FILE, environ=environ)
    assert loaded.config.models["fast"].mode == "run"
    assert loaded.places["models", "fast", "mode"] == Position("WHOLECALL__MODELS__FAST__MODE")


# what is written of the limits of a local model, and when identical calls end it
LIMITS = {"": 2, "turns: 30": 2, "stop_identical: 5": 5, "stop_identical: 3": 3}


@pytest.mark.parametrize(("written", "stops"), LIMITS.items())
def test_limits_that_nobody_wrote_fit_the_model(
    tmp_path: Path, written: str, *, stops: int
) -> None:
    text = f"models:\n  mine:\n    upstream: local/mine\n    limits: {{{written}}}\n"
    [local] = load_text(tmp_path, text).config.models.values()
    [other] = load_text(tmp_path, text.replace("local/", "openai/")).config.models.values()
    assert (local.limits.stop_identical, local.limits.turns) == (
        stops,
        30 if "30" in written else 10,
    )
    assert other.limits.stop_identical == (3 if "3" in written[-1:] else 5)


def test_paths_are_seen_from_the_folder_of_the_file(tmp_path: Path) -> None:
    text = """\
keys: {path: k.sqlite}
tools:
  - {mcp: a, command: x, cwd: work}
  - {mcp: b, command: x}
  - {python: a:b}
"""
    config = load_text(tmp_path, text).config
    assert config.keys.path == str(tmp_path / "k.sqlite")
    [first, second] = (tool for tool in config.tools if isinstance(tool, McpTool))
    assert (first.cwd, second.cwd) == (str(tmp_path / "work"), None)
    absolute = load_text(tmp_path, "keys: {path: /var/k.sqlite}").config
    assert absolute.keys.path == "/var/k.sqlite"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("listen:\n  port: x\n", 2, "is not a whole number"),
        ("\nlisten:\n  host: 0.0.0.0\n  hosts: ['*']\n", 3, "set keys.required: true"),
        ("\n\ntools:\n  - mcp: a\n", 4, "either a command or a url"),
        ("models:\n  a: {upstream: gpt}\n", 2, "does not say who answers"),
        ("- a\n", 1, "a list stands where a section with settings belongs"),
        ("a: [", 1, "this is no YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, text: str, *, line: int, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, text)
    assert refused.value.file == str(tmp_path / "wholecall.yaml")
    assert refused.value.line == line
    assert message in refused.value.message


def test_a_wrong_environment_without_a_file_is_refused_by_its_variable() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(None, {"WHOLECALL__LISTEN__HOST": "10.0.0.1"})
    assert refused.value.file == "WHOLECALL__LISTEN__HOST"
    with pytest.raises(ConfigError, match="did you mean 'limits'") as refused:
        load_config(None, {"WHOLECALL__LIMIT__BODY_BYTES": "5"})
    assert refused.value.file == "WHOLECALL__LIMIT__BODY_BYTES"


def test_problems_are_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = """\
limits: {concurrent: 0}
listen:
  port: x
models: {a: {upstream: x, api_key: '${K}'}}
keys: 1
"""
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, text)
    assert [problem.place.line for problem in refused.value.problems] == [1, 3, 4, 5]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.yaml: it cannot be read: No such file"):
        load_config(tmp_path / "missing.yaml", {})
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="it is not in UTF-8: byte 3 is wrong"):
        load_config(binary, {})
    endless = tmp_path / "endless.yaml"
    endless.write_bytes(b"#" * (5 * CHARACTERS))
    with pytest.raises(ConfigError, match="more than"):
        load_config(endless, {})


def test_the_file_is_the_given_one_the_named_one_or_the_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file(None, {}) is None
    (tmp_path / "wholecall.yaml").touch()
    assert find_file(None, {}) == Path("wholecall.yaml")
    assert find_file(None, {"WHOLECALL_CONFIG": "b.yaml"}) == Path("b.yaml")
    assert find_file(Path("a.yaml"), {"WHOLECALL_CONFIG": "b.yaml"}) == Path("a.yaml")
