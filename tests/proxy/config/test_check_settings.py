import pytest

from wholecall.proxy.config.check import describe, find_node, needs_restart, walk
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
