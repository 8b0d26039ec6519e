from dataclasses import replace

import pytest

from wholecall.proxy.config.check import needs_restart, walk
from wholecall.proxy.config.load import Changes, changes, take_over
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    InspectorConfig,
    JournalConfig,
    KeysConfig,
    ListenConfig,
    LogConfig,
    McpTool,
    MetricsConfig,
    ModelConfig,
    PythonTool,
    Secret,
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


def test_what_comes_and_what_goes_is_one_change() -> None:
    more = replace(OLD, models={"a": MODEL, "b": MODEL}, tools=(*OLD.tools, McpTool(mcp="c")))
    assert changes(OLD, more).live == ("models.b (added)", "tools.1 (added)")
    assert changes(more, OLD).live == ("models.b (removed)", "tools.1 (removed)")
    renamed = replace(OLD, models={"c": replace(MODEL, headers={"X": "y"})})
    assert changes(OLD, renamed) == Changes(
        live=("models.a (removed)", "models.c (added)"), restart=()
    )
    other = replace(OLD, tools=(McpTool(mcp="c"),))
    assert changes(OLD, other).live == ("tools.0",)


def test_what_changes_in_an_entry_is_named() -> None:
    before = replace(OLD, models={"a": replace(MODEL, headers={"X": "y", "Z": "z"})})
    model = replace(MODEL, headers={"X": "x", "Y": "y"}, tools=("a", "b"))
    assert changes(before, replace(OLD, models={"a": model})).live == (
        "models.a.headers.X",
        "models.a.headers.Z (removed)",
        "models.a.headers.Y (added)",
        "models.a.tools",
    )


def test_what_needs_a_restart_stays_and_the_rest_is_taken_over() -> None:
    new = replace(
        OLD,
        listen=ListenConfig(port=1, origins=("https://a.example",)),
        limits=ServerLimits(body_bytes=5, header_seconds=5),
        models={"b": MODEL},
        tools=(),
    )
    held = take_over(OLD, new)
    assert held.listen == replace(new.listen, port=8787)
    assert held.limits == replace(new.limits, header_seconds=10.0)
    assert (held.models, held.tools) == (new.models, ())
    assert changes(held, new).live == ()


def test_an_open_address_does_not_lose_its_keys_before_it_is_left() -> None:
    listen = ListenConfig(host="10.0.0.1", hosts=("*",))
    old = replace(OLD, listen=listen, keys=KeysConfig(required=True))
    with pytest.raises(ConfigError, match=r"set keys\.required: true") as refused:
        take_over(old, OLD)
    assert "with a restart only" in str(refused.value)
    assert take_over(old, replace(OLD, listen=listen, keys=old.keys, models={})).models == {}


def test_no_setting_that_needs_a_restart_is_taken_over() -> None:
    new = Config(
        listen=ListenConfig(host="::1", port=1, workers=2),
        keys=KeysConfig(path="other.sqlite"),
        limits=ServerLimits(header_seconds=5),
        journal=JournalConfig(url="sqlite:other.sqlite"),
        log=LogConfig(format="text"),
        metrics=MetricsConfig(enabled=False),
        inspector=InspectorConfig(enabled=True, days=1.0, megabytes=1),
    )
    differ = changes(OLD, new).restart
    assert set(differ) == {".".join(path) for path, _ in walk(new) if needs_restart(path)}
    assert changes(OLD, take_over(OLD, new)).restart == ()
