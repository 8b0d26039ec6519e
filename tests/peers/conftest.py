"""Settings for the tests with other libraries: none of them reaches beyond loopback."""

from __future__ import annotations

import importlib
import os

import pytest

# Otherwise LiteLLM asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


@pytest.fixture(scope="session")
def _litellm() -> None:
    """Imported by the first test that needs it: it takes longer than a test may."""
    importlib.import_module("litellm")
