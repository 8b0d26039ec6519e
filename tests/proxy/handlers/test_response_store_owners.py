"""Whose a response is that an upstream holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy_server import in_loop
from wholecall.proxy.handlers.response_store import ResponseOwners
from wholecall.storage import BlobStore


@in_loop
async def test_an_id_is_its_keys_and_nobody_elses_over_a_restart(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "s.sqlite")
    await ResponseOwners(blobs).bind("key_a", b'{"id": "resp_1"}')
    blobs.close()
    binding = ResponseOwners(BlobStore(tmp_path / "s.sqlite"))
    asked = [("key_a", "resp_1"), ("key_b", "resp_1"), ("key_a", "resp_2"), ("", "resp_2")]
    assert [await binding.is_of(key, id) for key, id in asked] == [True, False, False, True]


@pytest.mark.parametrize("response", [b"{}", b"[", b'{"id": ""}'])
@in_loop
async def test_what_has_no_id_is_nobodys(response: bytes) -> None:
    binding = ResponseOwners(BlobStore())
    await binding.bind("key_a", response)
    assert not await binding.is_of("key_a", "")


@in_loop
async def test_a_file_that_cannot_be_written_breaks_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    blobs = BlobStore()
    blobs.close()
    await ResponseOwners(blobs).bind("key_a", b'{"id": "resp_1"}')
    assert "the owner of a response" in caplog.text
