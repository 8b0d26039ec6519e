"""Files and environments as configurations."""

from pathlib import Path

import pytest

from configs import load_text
from wholecall.agent.budget import RunLimits
from wholecall.proxy.config.check import walk
from wholecall.proxy.config.load import CHARACTERS, find_file, load, load_config
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    KeysConfig,
    McpTool,
    ModelConfig,
    Position,
    PythonTool,
    Secret,
)
from wholecall.upstreams.http_connection import Timeouts

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


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_text(tmp_path, "").config == resolved(tmp_path)


@pytest.mark.parametrize("section", ["listen", "models", "tools", "keys", "limits", "log"])
def test_an_empty_section_is_its_defaults(section: str, tmp_path: Path) -> None:
    assert load_text(tmp_path, f"{section}:").config == resolved(tmp_path)


def resolved(folder: Path) -> Config:
    """The defaults, as seen from a folder."""
    return Config(keys=KeysConfig(path=str(folder / KeysConfig().path)))


def test_an_empty_list_or_section_of_an_entry_is_empty(tmp_path: Path) -> None:
    models = "models: {a: {upstream: openai/x, tools: , headers: , limits: }}"
    tools = "tools: [{mcp: b, command: c, args: }]"
    config = load_text(tmp_path, f"{models}\n{tools}").config
    assert config.models["a"] == ModelConfig(upstream="openai/x", tools=())
    assert config.tools == (McpTool(mcp="b", command="c"),)


def test_every_kind_of_setting_is_read(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """\
listen: {port: 0, hosts: [a.example, b.example], origins:}
limits: {body_seconds: 5, keep_alive_seconds: 0.5}
models:
  fast:
    upstream: openai/gpt-x
    base_url: null
    headers: {X-Team: a}
    mode: run
    limits: {turns: 3, turn_retries: 0, seconds: null}
    timeouts: {connect: 1.5, first_byte: null}
tools:
  - python: shop:search
  - mcp: time
    command: uvx
    args: [a]
keys: {required: true, open: [/metrics]}
""",
    ).config
    assert (config.listen.port, config.listen.hosts) == (0, ("a.example", "b.example"))
    assert (config.limits.body_seconds, config.limits.keep_alive_seconds) == (5.0, 0.5)
    assert isinstance(config.limits.body_seconds, float)
    fast = config.models["fast"]
    assert (fast.mode, fast.base_url, fast.headers) == ("run", None, {"X-Team": "a"})
    assert fast.limits == RunLimits(turns=3, turn_retries=0)
    assert fast.timeouts == Timeouts(connect=1.5, first_byte=None)
    assert config.tools == (
        PythonTool(python="shop:search"),
        McpTool(mcp="time", command="uvx", args=("a",)),
    )
    assert (config.keys.required, config.keys.open) == (True, ("/metrics",))


def test_where_each_setting_was_written_is_kept(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, "listen:\n  port: 1\ntools:\n  - python: a:b\n")
    file = str(tmp_path / "wholecall.yaml")
    assert loaded.places == {
        (): Position(file, 1),
        ("listen",): Position(file, 1),
        ("listen", "port"): Position(file, 2),
        ("tools",): Position(file, 3),
        ("tools", "0"): Position(file, 4),
        ("tools", "0", "python"): Position(file, 4),
    }


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "listen: {zort: 1, pqrt: 1}\nlimits:\n  body_bytes: no\n  concurrent: 0\n"
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, text)
    assert [(each.place.line, each.setting) for each in refused.value.problems] == [
        (1, "listen.zort"),
        (1, "listen.pqrt"),
        (3, "limits.body_bytes"),
        (4, "limits.concurrent"),
    ]


ACCEPTED = {
    "keys: {required: true}": ("keys.required", True),
    "listen: {port: 0}": ("listen.port", 0),
    "listen: {port: 65535}": ("listen.port", 65535),
    "limits: {body_seconds: 1}": ("limits.body_seconds", 1.0),
    "limits: {body_seconds: 0.5}": ("limits.body_seconds", 0.5),
    "limits: {drain_seconds: 0}": ("limits.drain_seconds", 0.0),
    "tools: [{mcp: a, command: b, prefix: ''}]": ("tools.0.prefix", ""),
    "log: {level: debug}": ("log.level", "debug"),
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_values_at_the_edge_are_accepted(text: str, tmp_path: Path) -> None:
    name, value = ACCEPTED[text]
    found = {".".join(path): each for path, each in walk(load_text(tmp_path, text).config)}[name]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("listen:\n  port: x\n", 2, "is not a whole number"),
        ("\nlisten:\n  host: 0.0.0.0\n  hosts: ['*']\n", 3, "set keys.required: true"),
        ("\n\ntools:\n  - mcp: a\n", 4, "either a command or a url"),
        ("models:\n  a: {upstream: gpt}\n", 2, "does not say who answers for it"),
        ("- a\n", 1, "a list is not a section; its settings are"),
        ("a: [", 1, "this is not valid YAML"),
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
