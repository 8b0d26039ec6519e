"""Every client protocol, every upstream protocol, streamed and not: the same outcome.

The clients are the official SDKs, the proxy listens on a socket, and the upstream that fails
stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import anthropic
import openai
import pytest

from official_clients import CLIENTS, FAILURES, Clients, Delivered
from proxy_server import Offer, proxy_in_thread, upstream
from wholecall.faults import start_in_thread
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import Form, Scenario, ToolRun

UPSTREAMS = {"openai": "openai-chat", "responses": "openai-responses", "anthropic": "anthropic"}
MODES = (True, False)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Clients]:
    """Clients of a proxy that serves every scenario in every protocol: `openai:good`.

    As `openai+good` the model is asked again for calls that were wrong.
    """
    with start_in_thread(hang_seconds=1.0) as faults:
        bases = {"anthropic": faults.address}
        models = {
            f"{prefix}{sign}{name}": upstream(
                f"{prefix}/{name}", bases.get(prefix, faults.base_url), api_key=None, reask=reask
            )
            for prefix, name, (sign, reask) in product(UPSTREAMS, SCENARIOS, ((":", 0), ("+", 1)))
        }
        with (
            proxy_in_thread(Offer(models)) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as chat,
            anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as messages,
        ):
            yield Clients(chat, messages)


# ── Sound answers ───────────────────────────────────────────────────────────────────

MAIL: tuple[str, dict[str, Any]] = (
    "send_email",
    {"to": "ada@example.org", "body": "Dinner is at eight."},
)
PARALLEL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_weather", {"city": "Oslo", "unit": "C"}),
    ("get_weather", {"city": "Rome", "unit": "C"}),
    ("list_items", {}),
)
SOUND = {
    "answer-only": Delivered("All done.", (), "", "stop"),
    "good": Delivered("", (MAIL,), "", "tool_calls"),
    "parallel-calls": Delivered("", PARALLEL, "", "tool_calls"),
    "text-and-call": Delivered("Let me write to her.", (MAIL,), "", "tool_calls"),
    "reasoning-and-call": Delivered("", (MAIL,), "I could send_email to Ada.", "tool_calls"),
}
ERRORS = ("error-in-call", "server-error-always", "dropped-always", "unauthorized")


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", SOUND)
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_gets_the_same_from_every_upstream(
    proxy: Clients, client: str, *, prefix: str, scenario: str, stream: bool
) -> None:
    assert CLIENTS[client](proxy, f"{prefix}:{scenario}", stream=stream) == SOUND[scenario]


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", ERRORS)
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_hears_of_every_failure(
    proxy: Clients, client: str, *, prefix: str, scenario: str, stream: bool
) -> None:
    with pytest.raises(FAILURES):
        CLIENTS[client](proxy, f"{prefix}:{scenario}", stream=stream)


# ── Asked again ─────────────────────────────────────────────────────────────────────

RECOVERED = (
    "truncated-in-string",
    "truncated-before-first-byte",
    "error-in-call",
    "wrong-type",
    "unknown-tool",
    "unknown-and-known",
)


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", RECOVERED)
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_gets_the_corrected_call(
    proxy: Clients, client: str, *, prefix: str, scenario: str, stream: bool
) -> None:
    delivered = CLIENTS[client](proxy, f"{prefix}+{scenario}", stream=stream)
    expected = SCENARIOS[scenario].expect(Form(UPSTREAMS[prefix], stream)).runs
    assert delivered.calls == tuple(expected)
    assert delivered.finish == "tool_calls"


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", ["truncated-in-string", "wrong-calls"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_that_cannot_be_had_is_named_in_an_error_that_no_sdk_resends(
    proxy: Clients, client: str, *, scenario: str, stream: bool
) -> None:
    name = "write_file" if scenario.startswith("truncated") else "send_email"
    with pytest.raises(FAILURES, match=name) as caught:
        CLIENTS[client](proxy, f"openai:{scenario}", stream=stream)
    response = getattr(caught.value, "response", None)
    assert response is not None
    assert response.headers["x-should-retry"] == "false"


# ── Faults ──────────────────────────────────────────────────────────────────────────


def _faults() -> Iterator[Any]:
    for (name, scenario), (prefix, protocol), stream in product(
        SCENARIOS.items(), UPSTREAMS.items(), MODES
    ):
        form = Form(protocol, stream)
        if form in scenario.forms:
            kind = "streamed" if stream else "whole"
            yield pytest.param(scenario, prefix, form, id=f"{name}-{prefix}-{kind}")


@pytest.mark.parametrize(("scenario", "prefix", "form"), list(_faults()))
def test_no_client_gets_a_call_that_must_not_run(
    proxy: Clients, scenario: Scenario, *, prefix: str, form: Form
) -> None:
    """A client either gets the right calls of the first answer, or an error."""
    ask = CLIENTS[form.protocol]
    try:
        delivered = ask(proxy, f"{prefix}:{scenario.name}", stream=form.streamed)
    except FAILURES:
        return
    expected = scenario.expect(form)
    allowed = [*scenario.first_runs(form), *expected.instead]
    for name, arguments in delivered.calls:
        assert ToolRun(name, arguments) in allowed
