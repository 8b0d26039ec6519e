"""Structured output: read like the arguments of a call, by the same rules.

A form that is not an object is requested inside one (`{"value": …}`), because upstreams constrain
objects only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from wholecall.core.arguments import Refused, read_arguments
from wholecall.core.conversation import OutputSchema, Result
from wholecall.core.spec import ToolSpec
from wholecall.core.words import show
from wholecall.errors import UnusableFunction

_VALUE = "value"


class OutputForm(Protocol):
    """The form of the final answer."""

    @property
    def schema(self) -> OutputSchema | None:
        """The form for the upstream; None: any text."""

    def read(self, text: str) -> tuple[object, str]:
        """The answer in its form, or, in words for the model, what is wrong with it."""

    def complain(self, text: str) -> str:
        """Say in the caller's words why an answer does not fit."""

    def take(self, result: Result) -> object:
        """The result of a tool that ends the run, in the form; None if it is of another."""


class AnyText:
    """No form: the answer is its text."""

    schema = None

    def read(self, text: str) -> tuple[object, str]:
        """The text itself."""
        return text, ""

    def complain(self, text: str) -> str:  # noqa: ARG002 - any text fits
        """Say nothing: every text fits."""
        return ""

    def take(self, result: Result) -> object:
        """The tool's own value."""
        return result.structured


class _Unfit(NamedTuple):
    """Why an answer is not in the form."""

    problems: tuple[str, ...]
    told: str
    """The same for the model, with what it should send instead."""


class TypedOutput:
    """A type that pydantic knows: a model, a dataclass, a TypedDict, a list of them, …"""

    def __init__(self, type_: Any) -> None:
        try:
            self._adapter: TypeAdapter[object] = TypeAdapter(type_)
            schema = self._adapter.json_schema()
        except PydanticUserError as error:
            message = f"output={type_!r} has no JSON schema: give a type that pydantic knows"
            raise UnusableFunction(message) from error
        plain = isinstance(type_, type) and get_origin(type_) is None
        self._name = type_.__qualname__ if plain else repr(type_)
        self._is_wrapped = schema.get("type") != "object" and "properties" not in schema
        self._spec = ToolSpec("answer", _wrapped(schema) if self._is_wrapped else schema)
        self.schema: OutputSchema | None = OutputSchema(schema=self._spec.parameters)

    def read(self, text: str) -> tuple[object, str]:
        """Parse, repair what is safe to repair, check, and make the value."""
        value = self._read(text)
        return (None, value.told) if isinstance(value, _Unfit) else (value, "")

    def complain(self, text: str) -> str:
        """Name the type, what is wrong with the answer, and the answer itself."""
        unfit = self._read(text)
        problems = unfit.problems if isinstance(unfit, _Unfit) else ()
        return (
            f"the model gave no answer that fits output={self._name}: "
            f"{'; '.join(problems)}. Its last text was {show(text)}"
        )

    def _read(self, text: str) -> object:
        found = read_arguments(text, self._spec, whole=True)
        if isinstance(found, Refused):
            problems = tuple(problem.message for problem in found.problems) or (found.detail,)
            return _Unfit(tuple(map(self._unwrap, problems)), _say(found))
        value: Any = found.value[_VALUE] if self._is_wrapped else found.value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            problems = tuple(
                f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}"
                for each in error.errors(include_url=False, include_input=False)
            )
            wrong = "; ".join(problems)
            told = f"Your answer does not fit: {wrong}. Send the whole answer again."
            return _Unfit(problems, told)

    def _unwrap(self, problem: str) -> str:
        """Leave out the object around the value, which the caller has not asked for."""
        return problem.replace(f"$.{_VALUE}", "$") if self._is_wrapped else problem

    def take(self, result: Result) -> object:
        """A tool gives the value itself, or writes it as a model would."""
        given = result.text if result.structured is None else result.structured
        try:
            return self._adapter.validate_python(given)
        except ValidationError:
            value, _ = self.read(result.text)
            return value


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema inside of an object; its definitions stay at the root, where `$ref` looks."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _say(refused: Refused) -> str:
    problems = [f"- {problem.message}" for problem in refused.problems]
    return "\n".join(
        [
            "Your answer must be one JSON object in the given form.",
            *(problems or [f"- {refused.detail}"]),
            "Send the whole answer again, as JSON and nothing else.",
        ]
    )
