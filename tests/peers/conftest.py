"""Settings for the tests with other libraries: none of them reaches beyond loopback."""

from __future__ import annotations

import os

# Otherwise LiteLLM asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
