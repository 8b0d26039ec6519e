from dataclasses import replace

import pytest

from wholecall.proxy.config.changing import Changes, changes
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import (
    Config,
    KeysConfig,
    ListenConfig,
    McpTool,
    ModelConfig,
    PythonTool,
    ServerLimits,
)

MODEL = ModelConfig(upstream="openai/x", api_key=Secret("old"))
OLD = Config(models={"a": MODEL}, tools=(PythonTool(python="a:b"),))


@pytest.mark.parametrize(
    ("new", "live", "restart"),
    [
        (OLD, (), ()),
        (replace(OLD, limits=ServerLimits(body_bytes=5)), ("limits.body_bytes",), ()),
        (replace(OLD, keys=KeysConfig(required=True)), ("keys.required",), ()),
        (replace(OLD, listen=ListenConfig(hosts=("*",))), ("listen.hosts",), ()),
        (
            replace(OLD, listen=ListenConfig(host="::1", port=1, workers=2)),
            (),
            ("listen.host", "listen.port", "listen.workers"),
        ),
        (replace(OLD, limits=ServerLimits(header_seconds=5)), (), ("limits.header_seconds",)),
        (
            replace(OLD, models={"a": replace(MODEL, api_key=Secret("new"))}),
            ("models.a.api_key",),
            (),
        ),
        (replace(OLD, tools=(PythonTool(python="a:c"),)), ("tools.0.python",), ()),
    ],
)
def test_what_differs_is_live_or_needs_a_restart(
    new: Config, *, live: tuple[str, ...], restart: tuple[str, ...]
) -> None:
    assert changes(OLD, new) == Changes(live=live, restart=restart)


def test_what_comes_and_what_goes_is_a_change() -> None:
    more = replace(OLD, models={"a": MODEL, "b": MODEL}, tools=(*OLD.tools, McpTool(mcp="c")))
    for before, after in [(OLD, more), (more, OLD)]:
        found = changes(before, after)
        assert "models.b.upstream" in found.live
        assert "tools.1.mcp" in found.live
        assert not any(name.startswith(("models.a", "tools.0")) for name in found.live)
        assert found.restart == ()
