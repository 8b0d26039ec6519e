"""What a server's definition must say, which of its tools are offered, when it is restarted."""

from typing import Any

import pytest

from wholecall.tools.mcp.server_config import McpServer, Restart


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": "two words", "command": "x"}, "the name must match"),
        ({"name": "", "command": "x"}, "the name must match"),
        ({"name": "s"}, "either a command or a url"),
        ({"name": "s", "command": "x", "url": "http://h/"}, "either a command or a url"),
        ({"name": "s", "url": "http://h/", "args": ("a",)}, "args and env belong to a command"),
        ({"name": "s", "url": "http://h/", "env": {"A": "b"}}, "args and env belong to a command"),
        ({"name": "s", "command": "x", "headers": {"a": "b"}}, "headers belong to a url"),
        ({"name": "s", "url": "ftp://h/"}, "HTTP endpoint"),
        ({"name": "s", "url": "http:///path"}, "HTTP endpoint"),
        ({"name": "s", "url": "http://[::1"}, "HTTP endpoint"),
        ({"name": "s", "command": "x", "args": "-m time"}, "tuples of strings"),
        ({"name": "s", "command": "x", "allow": "echo"}, "tuples of strings"),
        ({"name": "s", "command": "x", "timeout": 0}, "the timeout"),
        ({"name": "s", "command": "x", "start_timeout": 0}, "the start_timeout"),
        ({"name": "s", "command": "x", "concurrency": 0}, "the concurrency"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        McpServer(**options)
    assert repr(options["name"]) in str(refused.value)


def test_what_may_hold_secrets_is_not_shown() -> None:
    process = McpServer("s", command="x", args=("--key=secret",), env={"KEY": "secret"})
    service = McpServer("s", url="https://h/?key=secret", headers={"Authorization": "secret"})
    assert "secret" not in repr(process) + repr(service)


@pytest.mark.parametrize(("prefix", "written"), [(None, "s__"), ("other", "other__"), ("", "")])
def test_the_prefix_is_the_servers_name_unless_it_is_given(
    prefix: str | None, written: str
) -> None:
    assert McpServer("s", command="x", prefix=prefix).written_prefix == written


@pytest.mark.parametrize(
    ("allow", "deny", "offered"),
    [
        (("*",), (), True),
        (("read_file",), (), True),
        (("read_*",), (), True),
        (("write_*",), (), False),
        ((), (), False),
        (("*",), ("read_file",), False),
        (("*",), ("READ_FILE",), True),
    ],
)
def test_the_operator_says_which_tools_are_offered(
    allow: tuple[str, ...], deny: tuple[str, ...], *, offered: bool
) -> None:
    server = McpServer("s", command="x", allow=allow, deny=deny)
    assert server.offers("read_file") is offered


def test_the_pause_before_a_restart_grows_up_to_a_limit() -> None:
    restart = Restart(first_delay=1, longest_delay=5, jitter=lambda: 1.0)
    assert [restart.delay(failures) for failures in (1, 2, 3, 4, 5000)] == [1, 2, 4, 5, 5]


def test_half_of_a_pause_is_random() -> None:
    assert Restart(first_delay=1, jitter=lambda: 0.0).delay(1) == 0.5
