"""From what was written to the settings: each value is checked against the type of its field.

Every problem is collected, so that a file can be mended in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, TypeAlias, get_args, get_origin

from wholecall.core.near import nearest
from wholecall.core.words import show, show_names
from wholecall.proxy.config.kinds import Expected, describe, expected_of, fits, hint_for
from wholecall.proxy.config.problems import ConfigProblem, Position
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import Config
from wholecall.proxy.config.written import Written

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Path: TypeAlias = tuple[str, ...]
"""The name of a setting, with those of its sections before it."""

_WRONG = object()
"""Represents a value that cannot be used. The problems say why."""
_LITERAL_KEY = (
    "a key may not stand in the file: write ${NAME} and put it into the environment variable NAME"
)


class SettingsReader:
    """Reads one configuration. Afterwards `problems` and `places` say what it found."""

    def __init__(self) -> None:
        self.problems: list[ConfigProblem] = []
        self.places: dict[Path, Position] = {}
        """The position of each setting that was written."""

    def read(self, written: Written) -> Config | None:
        """The settings; None if there are problems."""
        self.places[()] = written.place
        config = self._read_section(Config, written, path=())
        return config if isinstance(config, Config) and not self.problems else None

    def _read(self, expected: Expected, written: Written, *, path: Path) -> object:
        self.places[path] = written.place
        if expected.optional and written.value is None:
            return None
        if get_origin(expected.kind) is tuple:
            return self._read_list(expected, written, path=path)
        if get_origin(expected.kind) is Mapping:
            return self._read_mapping(expected, written, path=path)
        sections = list(expected.sections)
        if sections:
            return self._choose_section(sections, written, path=path)
        return self._read_scalar(expected, written, path=path)

    # ── Sections ────────────────────────────────────────────────────────────────────

    def _choose_section(
        self, sections: list[type[DataclassInstance]], written: Written, *, path: Path
    ) -> object:
        """Of several kinds of sections, the first setting of one says which it is."""
        if len(sections) == 1:
            return self._read_section(sections[0], written, path=path)
        given = written.value if isinstance(written.value, Mapping) else {}
        marks = {fields(section)[0].name: section for section in sections}
        named = [section for mark, section in marks.items() if mark in given]
        if len(named) != 1:
            return self._refuse(written, f"write one of {show_names(marks)} here", path=path)
        return self._read_section(named[0], written, path=path)

    def _read_section(
        self, section: type[DataclassInstance], written: Written, *, path: Path
    ) -> object:
        members = {} if written.value is None else written.value
        if not isinstance(members, Mapping):
            hint = f"{_show(written)} stands where a section with settings belongs"
            return self._refuse(written, f"{hint}: {show_names(expected_of(section))}", path=path)
        self._refuse_unknown(section, members, path=path)
        values = {}
        for field in fields(section):
            if field.name in members:
                below = (*path, field.name)
                expected = expected_of(section)[field.name]
                values[field.name] = self._read(expected, members[field.name], path=below)
            elif field.default is MISSING and field.default_factory is MISSING:
                self._refuse(written, f"the setting {field.name!r} is missing", path=path)
                values[field.name] = _WRONG
        return _WRONG if _WRONG in values.values() else section(**values)

    def _refuse_unknown(self, section: type, members: Mapping[str, Written], *, path: Path) -> None:
        known = expected_of(section)
        for name in (name for name in members if name not in known):
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known are {show_names(known)}"
            self._refuse(members[name], f"there is no such setting; {hint}", path=(*path, name))

    # ── Lists and mappings ──────────────────────────────────────────────────────────

    def _read_list(self, expected: Expected, written: Written, *, path: Path) -> object:
        if written.value is None:
            return ()
        if not isinstance(written.value, tuple):
            return self._refuse(written, f"{_show(written)} is no list: write [ … ]", path=path)
        item = expected.within(get_args(expected.kind)[0])
        values = [
            self._read(item, one, path=(*path, str(number)))
            for number, one in enumerate(written.value)
        ]
        return _WRONG if _WRONG in values else tuple(values)

    def _read_mapping(self, expected: Expected, written: Written, *, path: Path) -> object:
        if written.value is None:
            return {}
        if not isinstance(written.value, Mapping):
            return self._refuse(
                written, f"{_show(written)} has no names: write `name: …`", path=path
            )
        member = expected.within(get_args(expected.kind)[1])
        values = {
            name: self._read(member, one, path=(*path, name)) for name, one in written.value.items()
        }
        return _WRONG if _WRONG in values.values() else values

    # ── Single values ───────────────────────────────────────────────────────────────

    def _read_scalar(self, expected: Expected, written: Written, *, path: Path) -> object:
        value = written.value
        if isinstance(value, tuple | Mapping):
            return self._refuse(written, f"{_show(written)} is not {describe(expected)}", path=path)
        if fits(value, expected):
            return float(value) if expected.kind is float and isinstance(value, int) else value
        if expected.kind is Secret and isinstance(value, str) and written.place.line is None:
            # An environment variable is where a key belongs, whatever its name.
            return Secret(value)
        if expected.kind is Secret:
            return self._refuse(written, _LITERAL_KEY, path=path)
        if isinstance(value, Secret):
            why = f"this setting takes no {value.written}: only keys, headers and env do"
            return self._refuse(written, why, path=path)
        why = f"{show(value)} is not {describe(expected)}{hint_for(value, expected)}"
        return self._refuse(written, why, path=path)

    def _refuse(self, written: Written, why: str, *, path: Path) -> object:
        self.problems.append(ConfigProblem(written.place, ".".join(path), why))
        return _WRONG


def _show(written: Written) -> str:
    match written.value:
        case tuple():
            return "a list"
        case Mapping():
            return "a section"
        case Secret():
            return str(written.value)
        case value:
            return show(value)
