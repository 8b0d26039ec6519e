"""What is known of who answers for a model, by the prefix of its name."""

from __future__ import annotations

from wholecall.upstreams.base import Traits
from wholecall.upstreams.local import traits as local

_USUAL = Traits()
_BY_PREFIX = {local.PREFIX: local.TRAITS}


def traits_of(model: str) -> Traits:
    """What is known of who answers for a model; where nothing is, what most of them want."""
    prefix, slash, _ = model.partition("/")
    return _BY_PREFIX.get(prefix + slash, _USUAL)
