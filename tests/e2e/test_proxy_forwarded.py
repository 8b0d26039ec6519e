"""Embeddings, audio, images, files and other routes that pass through, over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from proxy_server import KEY, Served, in_loop, proxying, upstream
from upstreams.fake_endpoint import Server, serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ModelConfig, Secret
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.routes.forwarded_routes import find_model_field

SOUND = bytes(range(256)) * 1000
JSON = {"content-type": "application/json"}


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """An upstream: sound for speech, events for a stream, else what it was sent."""
    if request.path.endswith("/speech"):
        response = web.StreamResponse(headers={"Content-Type": "audio/mpeg"})
        await response.prepare(request)
        for at in range(0, len(SOUND), 7000):
            await response.write(SOUND[at : at + 7000])
        return response
    if request.path.endswith("/content"):
        name = {"Content-Disposition": 'attachment; filename="a.bin"'}
        return web.Response(body=SOUND, content_type="application/octet-stream", headers=name)
    if request.path.endswith("/echo"):
        echoed = json.dumps(dict(request.headers))
        return web.Response(text=echoed, content_type=request.query["type"])
    if request.path.endswith("/broken"):
        return web.json_response({"error": {"message": "no such thing"}}, status=404)
    if request.path.endswith("/cut"):
        cut = web.StreamResponse(headers={"Content-Type": "audio/mpeg", "Content-Length": "1000"})
        await cut.prepare(request)
        await cut.write(b"x" * 10)
        raise ConnectionResetError
    return web.json_response({"path": request.path_qs, "method": request.method})


@asynccontextmanager
async def forwarding(
    folder: Path, *, locked: bool = False, **more: ModelConfig
) -> AsyncIterator[tuple[Served, Server]]:
    async with serving(answer) as behind:
        base = f"{behind.url}/v1"
        secret = Secret(KEY, written="${KEY}")
        everything = upstream(
            "openai/theirs", base, api_key=secret, routes=("audio", "embeddings", "files", "images")
        )
        models: dict[str, ModelConfig] = {
            "m": upstream("openai/theirs", base, api_key=secret),
            "all": everything,
            "claude": upstream("anthropic/x", behind.url),
            "none": upstream("openai/theirs", base, routes=()),
            **more,
        }
        keys = KeysConfig(path=str(folder / "keys.sqlite"), required=locked)
        config = Config(models=models, keys=keys)
        async with proxying(make_app(config, environ={})) as served:
            yield served, behind


FAILED = "the connection to the upstream failed"
DEAD = "http://127.0.0.1:9"
SAID = {"messages": [{"role": "user", "content": "Hello"}]}
OFFERED = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
# A route, and the fields of its body: they take each way to the upstream.
DEAD_WAYS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", SAID),
    ("/v1/chat/completions", {**SAID, **OFFERED}),
    ("/v1/messages", {**SAID, "max_tokens": 5}),
    ("/v1/messages/count_tokens", {**SAID, "model": "claude"}),
    ("/v1/responses", {"input": "Hello"}),
    ("/v1/embeddings", {"input": "Hello"}),
]


@pytest.mark.parametrize(("path", "fields"), DEAD_WAYS)
@in_loop
async def test_the_log_names_a_dead_upstream_and_its_client_does_not_read_of_it(
    path: str, fields: dict[str, Any], *, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dead, claude = upstream("openai/m", DEAD), upstream("anthropic/x", DEAD)
    async with forwarding(tmp_path, m=dead, claude=claude) as (served, _):
        status, told, _ = await served.post(path, {"model": "m", **fields})
    assert (status, told["error"]["message"]) == (502, f"{FAILED}: Connection refused")
    assert "127.0.0.1" not in json.dumps(told)
    if "count_tokens" not in path:  # counting is not an exchange, and has no line in the log
        assert f"the connection to {DEAD}/" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "/v1/completions",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/rerank",
    ],
)
@in_loop
async def test_json_passes_with_the_upstreams_name_for_the_model(tmp_path: Path, path: str) -> None:
    async with forwarding(tmp_path) as (served, behind):
        status, body, _ = await served.post(path, {"model": "m", "input": "hi", "unknown": [1]})
        assert (status, body) == (200, {"path": path, "method": "POST"})
        [got], [sent] = behind.requests, behind.bodies
        assert json.loads(sent) == {"model": "theirs", "input": "hi", "unknown": [1]}
        assert got.headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
@in_loop
async def test_an_echoed_key_does_not_reach_a_client(tmp_path: Path, media_type: str) -> None:
    async with (
        forwarding(tmp_path) as (served, _),
        served.http.get(f"{served.url}/v1/files/echo?type={media_type}") as response,
    ):
        told = await response.text()
    assert KEY not in told
    assert '"Bearer ***"' in told


@in_loop
async def test_the_sdk_embeds(tmp_path: Path) -> None:
    async with forwarding(tmp_path) as (served, behind):
        await served.openai.embeddings.with_raw_response.create(model="m", input=["a", "b"])
        assert json.loads(behind.bodies[0])["input"] == ["a", "b"]


@in_loop
async def test_sound_comes_as_it_is_made(tmp_path: Path) -> None:
    async with forwarding(tmp_path) as (served, _):
        asked = {"model": "m", "input": "hi", "voice": "x"}
        async with served.http.post(f"{served.url}/v1/audio/speech", json=asked) as response:
            assert response.content_type == "audio/mpeg"
            assert await response.read() == SOUND


@in_loop
async def test_a_form_passes_unharmed(tmp_path: Path) -> None:
    async with forwarding(tmp_path) as (served, behind):
        form = aiohttp.FormData()
        form.add_field("file", SOUND, filename="model", content_type="audio/wav")
        form.add_field("model", "m")
        form.add_field("language", "en")
        url = f"{served.url}/v1/audio/transcriptions"
        async with served.http.post(url, data=form) as response:
            assert response.status == 200
        [got], [sent] = behind.requests, behind.bodies
        assert SOUND in sent
        assert b'name="model"' in sent
        assert b"\r\n\r\ntheirs\r\n--" in sent
        assert got.headers["Content-Type"].startswith("multipart/form-data")


FILES = [
    ("GET", "/v1/files?purpose=batch&after=x", "/v1/files?purpose=batch&after=x"),
    ("GET", "/v1/files/file-1", "/v1/files/file-1"),
    ("DELETE", "/v1/files/file-1", "/v1/files/file-1"),
]


@pytest.mark.parametrize(("method", "path", "sent"), FILES)
@in_loop
async def test_files_go_to_the_model_that_allows_them(
    tmp_path: Path, *, method: str, path: str, sent: str
) -> None:
    async with (
        forwarding(tmp_path) as (served, _),
        served.http.request(method, served.url + path) as response,
    ):
        assert await response.json() == {"path": sent, "method": method}


@in_loop
async def test_the_content_of_a_file_keeps_its_name(tmp_path: Path) -> None:
    async with (
        forwarding(tmp_path) as (served, _),
        served.http.get(f"{served.url}/v1/files/file-1/content") as response,
    ):
        assert await response.read() == SOUND
        assert response.headers["Content-Disposition"] == 'attachment; filename="a.bin"'


REFUSED: dict[str, tuple[str, Any, int]] = {
    "a model that is not there": ("/v1/embeddings", {"model": "x"}, 404),
    "a model that does not allow it": ("/v1/embeddings", {"model": "none"}, 400),
    "an upstream that has no such route": ("/v1/embeddings", {"model": "claude"}, 400),
    "a route that no model allows": ("/v1/batches", {"input_file_id": "x"}, 400),
    "a model that is not a name": ("/v1/embeddings", {"model": 7}, 400),
    "the upstream's own refusal": ("/v1/images/broken", {"model": "m"}, 404),
    "a way out of the folder": ("/v1/files/..%2fmodels", {}, 404),
}


@pytest.mark.parametrize(("path", "body", "status"), REFUSED.values(), ids=REFUSED)
@in_loop
async def test_refusals(tmp_path: Path, *, path: str, body: Any, status: int) -> None:
    async with forwarding(tmp_path) as (served, _):
        got, told, _ = await served.post(path, body)
        assert (got, bool(told["error"]["message"])) == (status, True)


@pytest.mark.parametrize("model", ["7", "9" * 5_000, "1e999", "null", "[]", "{}", '"\\ud800x'])
@in_loop
async def test_a_model_that_is_no_name_is_refused(tmp_path: Path, *, model: str) -> None:
    async with forwarding(tmp_path) as (served, behind):
        body = f'{{"model": {model}}}'
        async with served.http.post(f"{served.url}/v1/embeddings", data=body, headers=JSON) as told:
            assert told.status == 400
        assert not behind.requests


@in_loop
async def test_an_answer_that_is_cut_does_not_look_finished(tmp_path: Path) -> None:
    async with forwarding(tmp_path) as (served, _):
        with pytest.raises(aiohttp.ClientError):
            async with served.http.post(
                f"{served.url}/v1/audio/cut", json={"model": "m"}
            ) as response:
                await response.read()


@in_loop
async def test_a_key_has_its_models_here_too(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    text, _ = store.create(Key(id="", name="a", models=("m",)))
    store.close()
    async with forwarding(tmp_path, locked=True) as (served, behind):
        told = {"authorization": f"Bearer {text}"}
        assert (await served.post("/v1/embeddings", {"model": "m"}))[0] == 401
        assert (await served.post("/v1/embeddings", {"model": "m"}, **told))[0] == 200
        assert (await served.post("/v1/embeddings", {"model": "all"}, **told))[0] == 404
        assert (await served.post("/v1/files", {}, **told))[0] == 400
        assert len(behind.requests) == 1
        assert text not in str(behind.requests[0].headers)


TYPE = "multipart/form-data; boundary=x"
FORMS = [
    (
        "the field is found",
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--',
        b"m",
    ),
    (
        "a file of that name is not it",
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="model"\r\n\r\nm\r\n--x--',
        None,
    ),
    (
        "a field without an end is not one",
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm',
        None,
    ),
    ("a form may be empty", b"--x--", None),
]


@pytest.mark.parametrize(("sentence", "body", "name"), FORMS)
def test_the_model_in_a_form(*, sentence: str, body: bytes, name: bytes | None) -> None:
    place = find_model_field(body, TYPE)
    assert (None if place is None else body[place.start : place.end]) == name, sentence
