"""A function's parameters: as a JSON Schema, and as Python values read from arguments.

Pydantic does both, on a model with one field for each parameter. The fields have names of
their own (`p0`, `p1`, …) and the parameters' names as aliases, so that a parameter may be
called `json`, `copy` or `_private` without hiding what a model has.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pydantic_core
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from wholecall.core.parse import join_path
from wholecall.core.values import JSON, Problem
from wholecall.errors import UnusableFunction
from wholecall.tools.tool import Context

Function = Callable[..., object]


class Parameters:
    """The parameters that a function takes from the model."""

    def __init__(
        self, model: type[BaseModel], taken: tuple[_Parameter, ...], *, context: str
    ) -> None:
        self._model = model
        self._taken = taken
        self.context = context
        """The name of the parameter that gets the `Context`; empty if there is none."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        schema = self._model.model_json_schema(schema_generator=_Generator)
        del schema["title"]
        return schema

    def read(self, arguments: Mapping[str, JSON]) -> dict[str, object] | tuple[Problem, ...]:
        """Give the arguments the types of their hints, or say what is wrong with them."""
        try:
            # As JSON, because that is what a model sends: a strict date is a string in JSON only.
            model = self._model.model_validate_json(pydantic_core.to_json(arguments))
        except ValidationError as error:
            return tuple(_problems(error))
        values = dict(model)
        given = model.model_fields_set
        return {
            parameter.name: values[parameter.field]
            for parameter in self._taken
            if parameter.field in given or not parameter.has_default
        }


def read_parameters(function: Function, descriptions: Mapping[str, str]) -> Parameters:
    """Look at a function's signature; `UnusableFunction` names what a model could not give."""
    hints = _read_hints(function)
    taken: list[_Parameter] = []
    context = ""
    for index, parameter in enumerate(_list_parameters(function)):
        _refuse_kind(function, parameter)
        if parameter.name not in hints:
            raise UnusableFunction(_complain_of_hint(function, parameter))
        hint = hints[parameter.name]
        if hint is Context or Context in get_args(hint):
            context = parameter.name
            continue
        description = descriptions.get(parameter.name)
        taken.append(_Parameter(f"p{index}", parameter, hint=hint, description=description))
    model = _make_model(function, taken)
    return Parameters(model, tuple(taken), context=context)


def underlying(function: Function) -> Function:
    """The function that a partial, a wrapper or a callable object leads to."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Function) -> str:
    """Return the name of a function for a message."""
    return underlying(function).__qualname__


# ── The signature ───────────────────────────────────────────────────────────────────

_UNUSABLE_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "collects values without names: write a list parameter",
    inspect.Parameter.VAR_KEYWORD: "collects any names: write the parameters out",
    inspect.Parameter.POSITIONAL_ONLY: "has no name for a caller: take out the '/'",
}


def _list_parameters(function: Function) -> Iterator[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # functions written in C may have none
        raise UnusableFunction(f"{name_of(function)} has no signature: wrap it in a def") from None
    # What a partial has filled in is not the model's to know.
    filled = function.keywords if isinstance(function, functools.partial) else {}
    return (parameter for parameter in parameters if parameter.name not in filled)


def _read_hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(underlying(function), include_extras=True)
    except NameError as error:
        raise UnusableFunction(
            f"a type hint of {name_of(function)} cannot be found ({error}): "
            "define the type at the top of a module"
        ) from None


def _refuse_kind(function: Function, parameter: inspect.Parameter) -> None:
    if parameter.kind in _UNUSABLE_KINDS:
        why = _UNUSABLE_KINDS[parameter.kind]
        name = str(parameter.replace(annotation=inspect.Parameter.empty))
        raise UnusableFunction(f"parameter {name!r} of {name_of(function)} {why}")


def _complain_of_hint(function: Function, parameter: inspect.Parameter) -> str:
    name = parameter.name
    if name in {"self", "cls"}:
        return f"{name_of(function)} is a method: make the tool of the bound one, thing.method"
    return (
        f"parameter {name!r} of {name_of(function)} has no type hint: "
        f"write its type, as in {name}: str"
    )


# ── The model ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Parameter:
    field: str
    parameter: inspect.Parameter
    hint: Any = None
    description: str | None = None

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def has_default(self) -> bool:
        """True if the function has a default for it."""
        default = self.parameter.default
        return default is not inspect.Parameter.empty and not isinstance(default, FieldInfo)

    @property
    def definition(self) -> tuple[Any, Any]:
        """The field of the model. What the author of the function annotates wins over ours."""
        ours = Field(alias=self.name, description=self.description)
        core, theirs = self.hint, ()
        if get_origin(core) is Annotated:
            core, *rest = get_args(core)
            theirs = tuple(rest)
        default = self.parameter.default
        is_required = default is inspect.Parameter.empty
        return Annotated[(core, ours, *theirs)], ... if is_required else default


# What pydantic raises for hints and fields that it cannot make a schema of.
_UNREADABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    pydantic_core.SchemaError,
    TypeError,
)


def _make_model(function: Function, taken: list[_Parameter]) -> type[BaseModel]:
    definitions: dict[str, Any] = {parameter.field: parameter.definition for parameter in taken}
    try:
        model: type[BaseModel] = create_model(underlying(function).__name__, **definitions)
        model.model_json_schema(schema_generator=_Generator)
    except _UNREADABLE as error:
        raise UnusableFunction(_complain_of_type(function, taken, error=error)) from error
    return model


def _complain_of_type(function: Function, taken: list[_Parameter], *, error: Exception) -> str:
    why = str(error).splitlines()[0]
    for parameter in taken:
        try:
            TypeAdapter(parameter.hint).json_schema()
        except _UNREADABLE:
            return (
                f"parameter {parameter.name!r} of {name_of(function)} has a type that cannot be "
                f"read from JSON: {why}"
            )
    return f"the parameters of {name_of(function)} cannot be read from JSON: {why}"


class _Generator(GenerateJsonSchema):
    """Without what costs tokens and says nothing."""

    # A default that is not JSON is omitted from the schema; the function still has it.
    ignored_warning_kinds = {  # noqa: RUF012  # pydantic declares it
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  # pydantic's hook
        return False


# ── Problems ────────────────────────────────────────────────────────────────────────


def _problems(error: ValidationError) -> Iterator[Problem]:
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        path = "$"
        for step in found["loc"]:
            path = join_path(path, step)
        message = f"{path}: {found['msg']}"
        yield Problem(path, found["type"], message, "", "a value that the tool accepts")
