"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The machine may be busy: a slow example is no failure. In CI the examples are always the
# same ones; at home new ones are tried each time.
settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
