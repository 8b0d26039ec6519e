"""Settings and keys from the environment.

`WHOLECALL__LIMITS__BODY_BYTES=1000000` sets `limits.body_bytes`. Section names are separated by two
underscores, and the value is written as in the file. Variables with another prefix are ignored: for
a service called `wholecall`, Kubernetes sets `WHOLECALL_PORT` on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from wholecall.proxy.config.problems import ConfigError, ConfigProblem
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.written import Written, compose

PREFIX = "WHOLECALL__"
FILE_VARIABLE = "WHOLECALL_CONFIG"
_SEPARATOR = "__"
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOREIGN = re.compile(r"[^A-Z0-9]")


def override(written: Written, environ: Mapping[str, str]) -> Written:
    """The file with what the environment says instead."""
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            names = variable.removeprefix(PREFIX).split(_SEPARATOR)
            value = compose(environ[variable], variable, line=None)
            written = _put(written, names, value=value)
    return written


def _put(written: Written, names: Sequence[str], *, value: Written) -> Written:
    """The value in its place. What is not there yet is added; whether it may be, others say."""
    if not names:
        return value
    if isinstance(written.value, tuple):
        whole = "a list can only be replaced as a whole: leave out what follows its name"
        raise ConfigError([ConfigProblem(value.place, "", whole)])
    members = dict(written.value) if isinstance(written.value, Mapping) else {}
    name = next((known for known in members if _fold(known) == names[0].upper()), names[0].lower())
    below = members.get(name, Written({}, value.place))
    return Written(members | {name: _put(below, names[1:], value=value)}, written.place)


def _fold(name: str) -> str:
    """Return a name as it is written in a variable, which has letters, digits and underscores
    only."""
    return _FOREIGN.sub("_", name.upper())


# ── Keys ────────────────────────────────────────────────────────────────────────────


def fill(written: Written, environ: Mapping[str, str]) -> tuple[Written, list[ConfigProblem]]:
    """Texts with `${NAME}` as secrets, and which of the names are not set."""
    problems: list[ConfigProblem] = []

    def fill_in(written: Written) -> Written:
        match written.value:
            case str(text) if _REFERENCE.search(text):
                missing = [name for name in _REFERENCE.findall(text) if not environ.get(name)]
                problems.extend(_complain(written, name) for name in missing)
                filled = _REFERENCE.sub(lambda found: environ.get(found[1], ""), text)
                return Written(Secret(filled, written=text), written.place)
            case tuple(items):
                return Written(tuple(map(fill_in, items)), written.place)
            case Mapping() as members:
                filled_in = {name: fill_in(member) for name, member in members.items()}
                return Written(filled_in, written.place)
            case _:
                return written

    return fill_in(written), problems


def _complain(written: Written, name: str) -> ConfigProblem:
    return ConfigProblem(written.place, "", f"the environment variable {name} is not set")
