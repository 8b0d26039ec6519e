"""LiteLLM where it is not installed. With the real package: tests/peers/test_litellm.py."""

from __future__ import annotations

import importlib.util

import pytest

from upstreams.fake_endpoint import REQUEST, in_loop
from wholecall.errors import MissingExtra
from wholecall.upstreams.litellm import LiteLLMUpstream

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is not None, reason="litellm is installed"
)


@in_loop
async def test_the_missing_extra_is_named_with_its_cure() -> None:
    upstream = LiteLLMUpstream()
    assert upstream.protocol == "openai-chat"
    with pytest.raises(MissingExtra, match=r"'litellm': pip install 'wholecall\[litellm\]'"):
        async with upstream.answer(REQUEST):
            pass
    await upstream.close()
