"""Wholecall inside other libraries, against an upstream that fails, without a proxy."""

from __future__ import annotations

import pytest

from peers.figures import EVERY, SECONDS, try_all
from peers.proxy_agents import WITH_WHOLECALL
from proxy_server import within
from wholecall.faults.score import Verdict

# The libraries and what they import warn about themselves.
pytestmark = pytest.mark.filterwarnings("default")

GOOD = ("good", "parallel-calls", "two-steps", "finish-stop", "no-arguments", "type-that-fits")
"""What each of them brings to a good end."""
TOO_LONG = {"huge-arguments": ("langchain-chat-stream", "langchain-messages-stream")}
"""LangChain parses all arguments again at each piece: half a megabyte holds up the loop for
minutes, and all other scenarios with it."""
LOST_BEFORE = {
    # LangChain hands over parsed arguments: of a key that was sent twice, the last value is left.
    "duplicate-keys": ("langchain-chat",),
    # Anthropic's SDK skips an event that is not JSON, and the library joins what is left.
    "malformed-event": ("langchain-messages-stream", "pydantic-ai-messages-stream"),
}
"""Faults that no trace is left of when the library hands the answer over. The proxy sees them."""


@pytest.mark.parametrize("name", WITH_WHOLECALL)
@within(2 * SECONDS)
async def test_no_partial_call_runs(name: str) -> None:
    scenarios = [each for each in EVERY if name not in TOO_LONG.get(each, ())]
    tried = await try_all(WITH_WHOLECALL[name], scenarios, through_proxy=False)
    unsafe = {
        scenario: attempt.judgement
        for scenario, attempt in tried.items()
        if attempt.judgement.verdict is Verdict.UNSAFE
    }
    assert set(unsafe) == {each for each, names in LOST_BEFORE.items() if name in names}
    failed = {each: tried[each] for each in GOOD if each in tried and not tried[each].answered}
    assert not failed
