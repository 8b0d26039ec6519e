"""What settings must hold together."""

from dataclasses import replace

import pytest

from wholecall.proxy.config.check import find_breaches, is_loopback
from wholecall.proxy.config.schema import (
    Config,
    KeysConfig,
    ListenConfig,
    McpTool,
    ModelConfig,
    PythonTool,
    Secret,
)

MODEL = ModelConfig(upstream="openai/x")


def breaches(config: Config) -> list[tuple[str, str]]:
    return [(".".join(path), why) for path, why in find_breaches(config)]


def test_the_defaults_break_no_rule() -> None:
    assert breaches(Config()) == []


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing is bound here
        ("::", False),
        ("192.168.0.1", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_only_a_loopback_address_is_closed_to_others(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    open_to_all = bool(breaches(Config(listen=ListenConfig(host=host))))
    assert open_to_all is not loopback


@pytest.mark.parametrize(
    "host",
    [
        *("256.1.1.1", "999", "1.2.3", "127.0.0.1:80", "http://127.0.0.1", "[::1]", "a b", ""),
        *("fe80::g", "*", "a..b"),
    ],
)
def test_what_is_no_address_is_told_as_such(host: str) -> None:
    keys = KeysConfig(required=False)
    [(setting, why)] = breaches(Config(listen=ListenConfig(host=host), keys=keys))
    assert setting == "listen.host"
    assert why.startswith(f"{host!r} is not an address: ")


@pytest.mark.parametrize(
    "host", ["a.example", "a.example.", "my-host_1", "fe80::1%eth0", "10.0.0.1"]
)
def test_an_address_or_a_name_of_another_machine_is_told_by_what_it_needs(host: str) -> None:
    found = breaches(Config(listen=ListenConfig(host=host)))
    assert all("can be reached from other machines" in why for _, why in found)
    assert found


@pytest.mark.parametrize(
    ("required", "hosts", "advice"),
    [
        (False, (), ["set keys.required: true", "list the host names that clients use"]),
        (False, ("a.example",), ["set keys.required: true"]),
        (True, (), ["list the host names that clients use"]),
        (True, ("a.example",), []),
        (True, ("*",), []),
    ],
)
def test_an_open_address_needs_keys_and_names(
    required: bool, hosts: tuple[str, ...], *, advice: list[str]
) -> None:
    listen = ListenConfig(host="0.0.0.0", hosts=hosts)  # noqa: S104 - it is refused here
    found = breaches(Config(listen=listen, keys=KeysConfig(required=required)))
    assert len(found) == len(advice)
    for (setting, why), expected in zip(found, advice, strict=True):
        assert setting == "listen.host"
        assert expected in why


@pytest.mark.parametrize(
    ("hosts", "wrong"),
    [
        (("a.example", "*.b.example", "*", "[::1]"), []),
        (("http://a.example",), ["listen.hosts.0"]),
        (("a b",), ["listen.hosts.0"]),
        (("a.example", "b.example:80", ""), ["listen.hosts.1", "listen.hosts.2"]),
    ],
)
def test_hosts_are_names(hosts: tuple[str, ...], wrong: list[str]) -> None:
    found = breaches(Config(listen=ListenConfig(hosts=hosts)))
    assert [setting for setting, _ in found] == wrong


@pytest.mark.parametrize(
    ("origin", "good"),
    [
        ("https://a.example", True),
        ("http://a.example:3000", True),
        ("a.example", False),
        ("https://a.example/", False),
        ("https://a.example/page", False),
        ("ftp://a.example", False),
        ("https://", False),
        ("http://[::1]:3000", True),
        ("https://xn--mnchen-3ya.example", True),
        ("http://[::1", False),
        ("http://a.example:99999", False),
        ("http://a b", False),
        ("null", False),
        ("*", False),
    ],
)
def test_origins_are_those_that_browsers_send(origin: str, *, good: bool) -> None:
    found = breaches(Config(listen=ListenConfig(origins=(origin,))))
    assert (found == []) is good


@pytest.mark.parametrize(
    ("name", "model", "setting", "why"),
    [
        (
            "a",
            replace(MODEL, upstream="gpt-x"),
            "models.a.upstream",
            "does not say who answers for it",
        ),
        ("a", replace(MODEL, upstream="openai"), "models.a.upstream", "missing: write openai/…"),
        ("a", replace(MODEL, upstream="openai/"), "models.a.upstream", "missing: write openai/…"),
        ("a", replace(MODEL, base_url="x.example"), "models.a.base_url", "is not an http://"),
        ("a", replace(MODEL, base_url="ftp://x"), "models.a.base_url", "is not an http://"),
        ("a", replace(MODEL, base_url="http://[::1"), "models.a.base_url", "Invalid IPv6 URL"),
        ("a", replace(MODEL, base_url="http://h:99999"), "models.a.base_url", "0-65535"),
        ("a", replace(MODEL, base_url="http://h:x"), "models.a.base_url", "port"),
        ("a", replace(MODEL, base_url="http://h:0"), "models.a.base_url", "from 1 to 65535"),
        ("a", replace(MODEL, base_url="http://a b/"), "models.a.base_url", "write it as in http"),
        (
            "a",
            replace(MODEL, base_url="http://u:p@x"),
            "models.a.base_url",
            "must not contain a password",
        ),
        ("a", replace(MODEL, headers={"a b": "x"}), "models.a.headers.a b", "is not a header name"),
        ("a", replace(MODEL, headers={"": "x"}), "models.a.headers.", "is not a header name"),
        ("a", replace(MODEL, headers={"a": "x\ny"}), "models.a.headers.a", "control character"),
        ("a", replace(MODEL, headers={"a": Secret("x\n")}), "models.a.headers.a", "in one line"),
        ("a", replace(MODEL, api_key=Secret("sk\nx")), "models.a.api_key", "in one line"),
        ("a", replace(MODEL, emulate="klingon"), "models.a.emulate", "klingon"),
        ("a", replace(MODEL, emulate="think_tags"), "models.a.emulate", "it can only be read"),
        ("a", replace(MODEL, live=True, mode="run"), "models.a.live", "use mode gate"),
        ("gpt-*", MODEL, "models.gpt-*", "cannot contain `*`"),
        (" ", MODEL, "models. ", "cannot contain `*`"),
        ("*", MODEL, "models.*.upstream", "belongs to the model '*' only"),
        (
            "a",
            replace(MODEL, upstream="openai/*"),
            "models.a.upstream",
            "belongs to the model '*' only",
        ),
        (
            "a",
            replace(MODEL, headers={"Authorization": "x"}),
            "models.a.headers.Authorization",
            "${NAME}",
        ),
        ("a", replace(MODEL, headers={"x-api-key": "x"}), "models.a.headers.x-api-key", "${NAME}"),
    ],
)
def test_a_model_that_could_not_answer_is_refused(
    name: str, model: ModelConfig, *, setting: str, why: str
) -> None:
    [(found, told)] = breaches(Config(models={name: model}))
    assert found == setting
    assert why in told


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("a", MODEL),
        ("gpt-x.1:8b", replace(MODEL, upstream="ollama/qwen3:8b")),
        ("a", replace(MODEL, upstream="my-model", base_url="http://127.0.0.1:8000/v1")),
        ("*", replace(MODEL, upstream="openai/*")),
        ("a", replace(MODEL, emulate="auto")),
        ("a", replace(MODEL, live=True)),
        ("a", replace(MODEL, emulate="hermes")),
        ("a", replace(MODEL, emulate="constrained")),
        ("a", replace(MODEL, headers={"Authorization": Secret("x"), "X-Monkey": "y\tz ü"})),
        ("a", replace(MODEL, base_url="https://[::1]:8000/v 1")),
        ("a", replace(MODEL, base_url="http://münchen.example:65535 ")),
    ],
)
def test_a_model_that_can_answer_is_let_through(name: str, model: ModelConfig) -> None:
    assert breaches(Config(models={name: model})) == []


@pytest.mark.parametrize(
    ("tool", "setting", "why"),
    [
        (PythonTool(python="shop.search"), "tools.0.python", "write module:function"),
        (PythonTool(python="shop:"), "tools.0.python", "write module:function"),
        (PythonTool(python="../shop:search"), "tools.0.python", "write module:function"),
        (McpTool(mcp="a"), "tools.0", "either a command or a url"),
        (McpTool(mcp="a b", command="x"), "tools.0", "the name must match"),
        (McpTool(mcp="a", url="http://u:p@x"), "tools.0.url", "must not contain a password"),
        (McpTool(mcp="a", url="http://[::1"), "tools.0.url", "Invalid IPv6 URL"),
        (McpTool(mcp="a", url="ftp://x"), "tools.0.url", "is not an http://"),
        (
            McpTool(mcp="a", url="http://x", headers={"a b": "t"}),
            "tools.0.headers.a b",
            "is not a header name",
        ),
        (McpTool(mcp="a", url="http://x", headers={"a": "\n"}), "tools.0.headers.a", "in one line"),
        (
            McpTool(mcp="a", command="x", env={"GITHUB_TOKEN": "t"}),
            "tools.0.env.GITHUB_TOKEN",
            "${NAME}",
        ),
        (
            McpTool(mcp="a", command="x", env={"PGPASSWORD": "t"}),
            "tools.0.env.PGPASSWORD",
            "${NAME}",
        ),
        (
            McpTool(mcp="a", url="http://x", headers={"Cookie": "t"}),
            "tools.0.headers.Cookie",
            "${NAME}",
        ),
    ],
)
def test_a_tool_that_could_not_work_is_refused(
    tool: PythonTool | McpTool, setting: str, *, why: str
) -> None:
    [(found, told)] = breaches(Config(tools=(tool,)))
    assert found == setting
    assert why in told


def test_servers_have_names_that_differ() -> None:
    server = McpTool(mcp="a", command="x", env={"TOKENIZERS_PARALLELISM": "1"})
    other = replace(server, mcp="b")
    function = PythonTool(python="shop.tools:search")
    assert breaches(Config(tools=(server, function, other))) == []
    [(setting, why)] = breaches(Config(tools=(server, function, server)))
    assert (setting, why) == ("tools.2.mcp", "another server is already called 'a'")
