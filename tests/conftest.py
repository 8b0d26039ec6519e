"""Settings for all tests."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

from example_counts import IN_CI, examples

# The machine may be busy: a slow example is no failure. In CI the examples are always the
# same ones; at home new ones are tried each time, and more of them.
settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("home"), derandomize=True, max_examples=examples(100)
)
settings.load_profile("ci" if IN_CI else "home")

# A shell that starts us in the background lets us ignore Ctrl-C, and the programs that tests
# start and interrupt would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
