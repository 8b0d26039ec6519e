"""An entry of the reference: what it shows, in which order, and what it leaves out."""

import pytest

from definitions import Definition, Module
from entries import write_entry

SOURCE = '''
Key: TypeAlias = "str | Sequence[Key]"
"""What opens a box."""
Lid: TypeAlias = bool
Public: TypeAlias = Lid | None
"""For everybody."""
LIMIT = 3


class Thing(Protocol):
    """A thing."""

    name: str
    """What it is called."""


class Box(Thing, Generic[T], ValueError):
    """Holds things.

    Many of them.
    """

    def __init__(self, size: int) -> None:
        """`size` is large."""
        self.size = size

    def open(self, key: Key) -> Public: ...

    def _inner(self, lid: Lid) -> None: ...


class Options(Thing, total=False):
    """What is taken."""

    lid: Lid


@overload
def pack(box: Box, /) -> Box: ...


@overload
def pack(**options: Unpack[Options]) -> Box: ...


def pack(box=None, /, **options: Unpack[Options]):
    """Put things in."""


async def unpack(**options: Unpack[Options]) -> None:
    """Take things out."""


def weigh(box: Box) -> float: ...
'''
MODULE = Module("wholecall.sample", SOURCE)


def find(name: str) -> Definition:
    found = MODULE.find(name)
    assert found is not None
    return found


PUBLIC = {name: find(name) for name in ("unpack", "weigh", "pack", "Box", "Public")}

ENTRIES = {
    "Box": """\
### Box

```
Box(size: int)
```

Holds things.

Many of them.

`size` is large.

Bases: `Thing`, `ValueError`.

- `name: str`: What it is called.
- `size: int`
- `open(key: Key) -> Public`

In these types:

- `Key = str | Sequence[Key]`: What opens a box.""",
    "Thing": """\
### Thing

A thing.

- `name: str`: What it is called.""",
    "pack": """\
### pack

```
pack(box: Box, /) -> Box
pack(**options: Unpack[Options]) -> Box
```

Put things in.

What is taken. A thing.

- `name: str`: What it is called.
- `lid: Lid`

In these types:

- `Lid = bool`""",
    "unpack": """\
### unpack

```
async unpack(**options: Unpack[Options]) -> None
```

Take things out.

Its options are those of `pack`.""",
    "weigh": """\
### weigh

```
weigh(box: Box) -> float
```""",
    "Public": """\
### Public

```
Public = Lid | None
```

For everybody.

In these types:

- `Lid = bool`""",
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_tells(name: str) -> None:
    assert write_entry(find(name), PUBLIC) == ENTRIES[name]


def test_a_base_of_the_same_name_is_not_told() -> None:
    module = Module("wholecall.sample", "class Box(buffer.Box):\n    '''Holds things.'''")
    found = module.find("Box")
    assert found is not None
    assert write_entry(found, {}) == "### Box\n\nHolds things."


def test_a_constant_has_no_entry() -> None:
    with pytest.raises(LookupError, match="'LIMIT' is not a function, class or type"):
        write_entry(find("LIMIT"), {})
