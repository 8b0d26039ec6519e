"""From what was written to the settings, and what is said of mistakes."""

import pytest

from wholecall.agent.budget import RunLimits
from wholecall.proxy.config.schema import Config, McpTool, Position, PythonTool, Secret
from wholecall.proxy.config.settings_reader import Scalar, SettingsReader, YamlValue, compose
from wholecall.upstreams.http_connection import Timeouts


def read(text: str) -> tuple[Config | None, list[str]]:
    reader = SettingsReader()
    config = reader.read(compose(text, "a.yaml"))
    return config, [str(problem) for problem in reader.problems]


def test_an_empty_file_is_the_defaults() -> None:
    assert read("") == (Config(), [])


@pytest.mark.parametrize("section", ["listen", "models", "tools", "keys", "limits", "log"])
def test_an_empty_section_is_its_defaults(section: str) -> None:
    assert read(f"{section}:") == (Config(), [])


def test_every_kind_of_setting_is_read() -> None:
    config, problems = read(
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
    timeouts: {connect: 1.5}
tools:
  - python: shop:search
  - mcp: time
    command: uvx
    args: [a]
keys: {required: true, open: [/metrics]}
"""
    )
    assert problems == []
    assert config is not None
    assert (config.listen.port, config.listen.hosts) == (0, ("a.example", "b.example"))
    assert (config.limits.body_seconds, config.limits.keep_alive_seconds) == (5.0, 0.5)
    assert isinstance(config.limits.body_seconds, float)
    fast = config.models["fast"]
    assert (fast.mode, fast.base_url, fast.headers) == ("run", None, {"X-Team": "a"})
    assert fast.limits == RunLimits(turns=3, turn_retries=0)
    assert fast.timeouts == Timeouts(connect=1.5)
    assert config.tools == (
        PythonTool(python="shop:search"),
        McpTool(mcp="time", command="uvx", args=("a",)),
    )
    assert (config.keys.required, config.keys.open) == (True, ("/metrics",))


def test_where_each_setting_was_written_is_kept() -> None:
    reader = SettingsReader()
    reader.read(compose("listen:\n  port: 1\ntools:\n  - python: a:b\n", "a.yaml"))
    assert reader.places == {
        (): Position("a.yaml", 1),
        ("listen",): Position("a.yaml", 1),
        ("listen", "port"): Position("a.yaml", 2),
        ("tools",): Position("a.yaml", 3),
        ("tools", "0"): Position("a.yaml", 4),
        ("tools", "0", "python"): Position("a.yaml", 4),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lisen: {}", "1: lisen: there is no such setting; did you mean 'listen'?"),
        ("\nlisten: {prot: 1}", "2: listen.prot: there is no such setting; did you mean 'port'?"),
        (
            "log: {qqq: 1}",
            '1: log.qqq: there is no such setting; known are "level", "format", "bodies"',
        ),
        ("listen: {port: 70000}", "1: listen.port: 70000 is not a whole number from 0 to 65535"),
        (
            "listen: {port: '80'}",
            '1: listen.port: "80" is not a whole number from 0 to 65535; write 80 without quotes',
        ),
        ("listen: {host: 1}", '1: listen.host: 1 is not text; write "1" in quotes'),
        ("listen: {port: [1]}", "1: listen.port: a list is not a whole number from 0 to 65535"),
        ("listen: {host: {a: b}}", "1: listen.host: a section is not text"),
        ("listen: {hosts: a}", '1: listen.hosts: "a" is no list: write [ … ]'),
        ("listen: {hosts: [a, 1]}", '1: listen.hosts.1: 1 is not text; write "1" in quotes'),
        (
            "keys: {open: [/v1]}",
            '1: keys.open.0: "/v1" is not "/ready" or "/metrics" or "/inspector"',
        ),
        ("models: [a]", "1: models: a list has no names: write `name: …`"),
        ("models: {a: {}}", "1: models.a: the setting 'upstream' is missing"),
        ("models: {a: {upstream: x, mode: rum}}", '1: models.a.mode: "rum" is not "gate" or "run"'),
        (
            "models: {a: {upstream: x, limits: {turns: 0}}}",
            "1: models.a.limits.turns: 0 is not a whole number above 0",
        ),
        ("tools: [{pyton: a:b}]", '1: tools.0: write one of "python", "mcp" here'),
        ("tools: [{python: a:b, mcp: c}]", '1: tools.0: write one of "python", "mcp" here'),
        ("tools: [a:b]", '1: tools.0: write one of "python", "mcp" here'),
        ("tools: [{python: a:b, url: c}]", "1: tools.0.url: there is no such setting"),
        (
            "keys: 5",
            '1: keys: 5 stands where a section with settings belongs: "path", "required", "open"',
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_to_write(text: str, problem: str) -> None:
    config, [told] = read(text)
    assert config is None
    assert told.startswith(f"a.yaml:{problem}")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    _, problems = read("listen: {zort: 1, pqrt: 1}\nlimits:\n  body_bytes: no\n  concurrent: 0\n")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["a.yaml:1", "listen.zort"],
        ["a.yaml:1", "listen.pqrt"],
        ["a.yaml:3", "limits.body_bytes"],
        ["a.yaml:4", "limits.concurrent"],
    ]


def model(name: str, value: Scalar, *, line: int | None = 1) -> YamlValue:
    place = Position("a.yaml" if line else "WHOLECALL__X", line)
    settings = {"upstream": YamlValue("openai/x", place), name: YamlValue(value, place)}
    return YamlValue({"models": YamlValue({"a": YamlValue(settings, place)}, place)}, place)


def test_a_key_comes_from_the_environment_only() -> None:
    reader = SettingsReader()
    assert reader.read(model("api_key", "sk-123")) is None
    [problem] = reader.problems
    assert "write ${NAME}" in problem.message
    assert "sk-123" not in str(problem)


@pytest.mark.parametrize(
    ("value", "line"), [(Secret("sk-123", written="${KEY}"), 1), ("sk-123", None)]
)
def test_a_key_may_be_referred_to_or_be_set_by_a_variable(value: Scalar, line: int | None) -> None:
    config = SettingsReader().read(model("api_key", value, line=line))
    assert config is not None
    assert config.models["a"].api_key == Secret("sk-123")


def test_a_setting_that_is_no_key_takes_no_reference() -> None:
    reader = SettingsReader()
    assert reader.read(model("base_url", Secret("http://x", written="${URL}"))) is None
    [problem] = reader.problems
    assert "takes no ${URL}" in problem.message
    assert "http://x" not in str(problem)


def test_a_reference_in_place_of_a_section_is_not_shown() -> None:
    reader = SettingsReader()
    assert reader.read(model("limits", Secret("x-secret"))) is None
    assert "*** stands where" in str(reader.problems[0])
