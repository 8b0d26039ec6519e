"""Starting and stopping the server, in an event loop and in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request

import pytest

from wholecall.faults.fault_server import FaultServer, start_in_thread


def fetch_models(server: FaultServer) -> bytes:
    with urllib.request.urlopen(f"{server.base_url}/models", timeout=30) as answer:  # noqa: S310  # loopback
        content: bytes = answer.read()
    return content


def test_it_listens_on_loopback_and_stops() -> None:
    with start_in_thread() as server:
        assert server.address.startswith("http://127.0.0.1:")
        assert server.base_url == f"{server.address}/v1"
        assert b'"faults/good"' in fetch_models(server)
    with pytest.raises(urllib.error.URLError):
        fetch_models(server)
    assert "wholecall-faults" not in {thread.name for thread in threading.enumerate()}


def test_two_servers_do_not_meet() -> None:
    with start_in_thread() as one, start_in_thread() as other:
        assert one.address != other.address


def test_a_taken_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"), start_in_thread(port=port):
            raise AssertionError("it must not start")


def test_an_error_inside_stops_the_server() -> None:
    with pytest.raises(KeyError), start_in_thread() as server:
        raise KeyError("mine")
    with pytest.raises(urllib.error.URLError):
        fetch_models(server)


def test_a_server_that_never_started_is_closed_without_harm() -> None:
    asyncio.run(FaultServer().__aexit__())


def test_forgetting_begins_anew() -> None:
    with start_in_thread() as server:
        request = urllib.request.Request(  # noqa: S310  # loopback
            f"{server.address}/faults/ran", b'{"tool": "list_items", "arguments": {}}'
        )
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310  # loopback
        [_] = server.reported
        server.forget()
        assert not server.reported
        assert not server.received
