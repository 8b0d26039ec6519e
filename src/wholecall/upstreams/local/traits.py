"""Traits of local models, which llama.cpp serves."""

from __future__ import annotations

from wholecall.upstreams.base import Traits

PREFIX = "local/"
"""Before the name of every such model."""

TRAITS = Traits(
    emulation="constrained",
    # Our own grammar costs llama.cpp a fraction of what a schema does.
    constraint="grammar",
    # Its own template offers tools, but where one must be called it lets the model write newlines
    # until the output limit.
    forces_natively=False,
    # A small model at temperature 0 that makes a call again will make it on and on. Without tools
    # it says what it knows by then.
    identical=2,
)
