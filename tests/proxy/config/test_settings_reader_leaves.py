from wholecall.proxy.config.schema import Config, McpTool, ModelConfig, PythonTool
from wholecall.proxy.config.settings_reader import Leaf, walk


def test_every_setting_is_found_under_its_name() -> None:
    config = Config(
        models={"fast": ModelConfig(upstream="openai/x", headers={"A": "b"})},
        tools=(PythonTool(python="a:b"), McpTool(mcp="c", command="d")),
    )
    leaves = {".".join(leaf.path): leaf for leaf in walk(config)}
    assert leaves["listen.port"] == Leaf(("listen", "port"), 8787, restart=True)
    assert leaves["listen.hosts"] == Leaf(("listen", "hosts"), ())
    assert leaves["models.fast.headers.A"].value == "b"
    assert leaves["models.fast.limits.turns"] == Leaf(("models", "fast", "limits", "turns"), 10)
    assert leaves["tools.0.python"].value == "a:b"
    assert leaves["tools.1.headers"].value == {}
    assert next(iter(leaves)) == "listen.host"


def test_nothing_is_a_leaf_too() -> None:
    leaves = {".".join(leaf.path): leaf.value for leaf in walk(Config())}
    assert (leaves["models"], leaves["tools"]) == ({}, ())
