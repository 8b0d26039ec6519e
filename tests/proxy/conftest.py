"""What several tests of the proxy need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wholecall.proxy.http.api_keys import KeyStore


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(tmp_path / "keys.sqlite")) as store:
        yield store
