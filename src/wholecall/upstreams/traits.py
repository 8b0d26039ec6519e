"""Traits of an upstream, by the prefix of the model's name."""

from __future__ import annotations

from wholecall.upstreams.base import Traits
from wholecall.upstreams.local import traits as local

_USUAL = Traits()
_BY_PREFIX = {local.PREFIX: local.TRAITS}


def traits_of(model: str) -> Traits:
    """Return the traits of a model's upstream; the usual ones if it is unknown."""
    prefix, slash, _ = model.partition("/")
    return _BY_PREFIX.get(prefix + slash, _USUAL)
