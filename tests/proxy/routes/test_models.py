"""The models of an upstream, as it lists them itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from aiohttp import web

from proxy_server import KEY, Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import always, serving
from wholecall.proxy.config.schema import Secret
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.routes.models import FRESH_SECONDS, MOST_LISTED, UpstreamModels, read_names
from wholecall.upstreams.endpoint import Endpoint

PAGES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "OpenAI's": ({"object": "list", "data": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, ("a", "b")),
    "Ollama's": ({"models": [{"name": "qwen3:8b"}]}, ("qwen3:8b",)),
    "Gemini's": ({"models": [{"name": "models/gemini-x"}]}, ("gemini-x",)),
    "one that is empty": ({"data": None, "models": []}, ()),
    "one without names": ({"data": [{}]}, ()),
    "none": ([], ()),
    "too many": ({"data": [{"id": str(n)} for n in range(MOST_LISTED + 1)]}, ()),
}


@pytest.mark.parametrize(("page", "names"), PAGES.values(), ids=PAGES)
def test_names_are_read_from_every_form(page: Any, names: tuple[str, ...]) -> None:
    read = read_names(json.dumps(page).encode())
    assert read == names or len(read) == MOST_LISTED


def test_what_is_no_json_has_no_names() -> None:
    assert read_names(b"<html>") == ()
    assert read_names(b'{"data": [{"id": "\xff"}]}') == ()


URLS = {
    "openai-chat": ("http://h/v1", "http://h/v1/models"),
    "openai-responses": ("http://h", "http://h/v1/models"),
    "anthropic": ("http://h", "http://h/v1/models"),
    "ollama": ("http://h", "http://h/api/tags"),
    "gemini": ("http://h?key=k", "http://h/v1beta/models?key=k"),
}


@pytest.mark.parametrize(("protocol", "urls"), URLS.items(), ids=URLS)
def test_each_protocol_lists_its_models_somewhere(protocol: str, urls: tuple[str, str]) -> None:
    assert str(Endpoint(protocol, urls[0]).models_url) == urls[1]


@in_loop
async def test_a_list_is_believed_for_a_while() -> None:
    now = 0.0
    listing = UpstreamModels(clock=lambda: now)
    async with serving(always(lambda: web.json_response({"data": [{"id": "a"}]}))) as behind:
        pipe = UpstreamPipe(Endpoint("openai-chat", behind.url))
        assert await listing.find_names(pipe) == ("a",)
        assert await listing.find_names(pipe) == ("a",)
        assert [request.path for request in behind.requests] == ["/v1/models"]
        now = FRESH_SECONDS
        await listing.find_names(pipe)
        assert len(behind.requests) == 2
        await pipe.close()
    now *= 2
    assert await listing.find_names(pipe) == ()
    await pipe.close()


@in_loop
async def test_who_asks_meanwhile_gets_the_same_list() -> None:
    async with serving(always(lambda: web.json_response({"data": [{"id": "a"}]}))) as behind:
        listing, pipe = UpstreamModels(), UpstreamPipe(Endpoint("openai-chat", behind.url))
        asked = [listing.find_names(pipe) for _ in range(3)]
        assert await asyncio.gather(*asked) == [("a",)] * 3
        assert len(behind.requests) == 1
        await pipe.close()


@in_loop
async def test_clients_see_the_models_that_any_name_leads_to() -> None:
    listed = always(lambda: web.json_response({"data": [{"id": "a"}, {"id": "theirs"}]}))
    async with serving(listed) as behind:
        models = {
            "a": upstream("openai/x", behind.url),
            "*": upstream("openai/*", behind.url, api_key=Secret(KEY)),
        }
        async with proxying(Offer(models)) as served:
            assert [model.id async for model in served.openai.models.list()] == ["a", "theirs"]
            assert (await served.openai.models.retrieve("theirs")).id == "theirs"
            with pytest.raises(openai.NotFoundError, match="'other' does not exist"):
                await served.openai.models.retrieve("other")
        assert behind.requests[0].headers["authorization"] == f"Bearer {KEY}"
    refusing = always(lambda: web.json_response({}, status=404))
    async with serving(refusing) as behind:
        offer = Offer({"*": upstream("openai/*", behind.url)})
        async with proxying(offer) as served:
            assert [model.id async for model in served.openai.models.list()] == []
            # It lists nothing, and is asked for whatever a client names.
            assert (await served.openai.models.retrieve("other")).id == "other"
