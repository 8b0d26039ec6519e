import pytest

from wholecall.errors import WholecallError
from wholecall.proxy.config.schema import (
    ConfigError,
    ConfigProblem,
    McpTool,
    ModelConfig,
    Position,
    Secret,
    matches,
    reveal,
)


@pytest.mark.parametrize(
    ("name", "patterns", "fits"),
    [
        ("gpt-x", ("*",), True),
        ("gpt-x", ("gpt-*",), True),
        ("gpt-x", ("claude-*", "gpt-x"), True),
        ("gpt-x", (), False),
        ("gpt-x", ("gpt",), False),
        ("gpt-x", ("gpt-?",), False),
        ("gpt-?", ("gpt-?",), True),
        ("gpt-x", ("gpt-[a-z]",), False),
        ("gpt-[a-z]", ("gpt-[a-z]",), True),
    ],
)
def test_only_a_star_is_special(name: str, patterns: tuple[str, ...], *, fits: bool) -> None:
    assert matches(name, patterns) is fits


def test_a_long_name_is_compared_in_time_that_grows_with_it() -> None:
    assert not matches("-a" * 200_000, ("*-a*-a*-b*",))
    assert matches("-a" * 200_000 + "-b", ("*-a*-a*-b*",))


def test_a_model_reveals_its_headers_where_they_are_sent() -> None:
    model = ModelConfig(
        upstream="openai/x", headers={"X-Team": "a", "Authorization": Secret("Bearer b")}
    )
    assert model.as_named().headers == {"X-Team": "a", "Authorization": "Bearer b"}
    assert "Bearer b" not in repr(model)


def test_an_mcp_entry_becomes_the_server_it_describes() -> None:
    entry = McpTool(
        mcp="time",
        command="uvx",
        args=("mcp-server-time",),
        env={"API_TOKEN": Secret("t"), "MODE": "fast"},
        cwd="here",
        trusted=True,
        required=False,
        timeout=3.0,
        start_timeout=4.0,
        concurrency=5,
        prefix="clock",
        allow=("get_*",),
        deny=("get_all",),
    )
    server = entry.make_server()
    assert server.env == {"API_TOKEN": "t", "MODE": "fast"}
    told = {name: getattr(server, name) for name in McpTool.__slots__ if hasattr(server, name)}
    meant = {name: getattr(entry, name) for name in told}
    assert told | {"env": {}} == meant | {"env": {}}
    assert (server.name, len(told)) == ("time", len(McpTool.__slots__) - 1)


def test_settings_that_do_not_go_together_are_no_server() -> None:
    with pytest.raises(ValueError, match="either a command or a url"):
        McpTool(mcp="time").make_server()


# ── Problems ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("place", "setting", "shown"),
    [
        (Position("a.yaml", 3), "listen.port", "a.yaml:3: listen.port: it is wrong"),
        (Position("a.yaml", 3), "", "a.yaml:3: it is wrong"),
        (Position("WHOLECALL__X"), "x", "WHOLECALL__X: x: it is wrong"),
    ],
)
def test_a_problem_says_where_and_what(place: Position, setting: str, *, shown: str) -> None:
    assert str(ConfigProblem(place, setting, "it is wrong")) == shown


def test_an_error_has_all_problems_and_the_place_of_the_first() -> None:
    first = ConfigProblem(Position("a.yaml", 3), "x", "one")
    error = ConfigError([first, ConfigProblem(Position("a.yaml", 5), "y", "two")])
    assert isinstance(error, WholecallError)
    assert (error.file, error.line, error.message) == ("a.yaml", 3, "one")
    assert str(error) == "a.yaml:3: x: one; a.yaml:5: y: two"


# ── Secret ──────────────────────────────────────────────────────────────────────────────


def test_a_secret_is_shown_nowhere_but_where_it_is_asked_for() -> None:
    secret = Secret("sk-123", written="${KEY}")
    assert "sk-123" not in f"{secret} {secret!r} {[secret]} {secret.written}"
    assert (repr(secret), str(secret)) == ("Secret('${KEY}')", "***")
    assert secret.reveal() == reveal(secret) == "sk-123"
    assert reveal("plain") == "plain"


def test_secrets_are_equal_by_what_they_hold() -> None:
    assert Secret("a", written="${ONE}") == Secret("a", written="${TWO}")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
