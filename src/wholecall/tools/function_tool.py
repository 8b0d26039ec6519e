"""Make a tool of a Python function: signature, type hints and docstring become the schema."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, closing
from dataclasses import dataclass
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import pydantic_core
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from wholecall.arguments.describe import name_nearest
from wholecall.arguments.feedback import feedback
from wholecall.arguments.parse import join_path
from wholecall.arguments.validate import require_admissible
from wholecall.errors import UnusableFunction
from wholecall.events import JSON, Problem, Start, Text
from wholecall.messages import Result, ToolSpec
from wholecall.tools.tool import (
    Approve,
    Blocking,
    Context,
    OnCrash,
    Runner,
    Tool,
    to_progress,
    to_result,
)

_GOOGLE_PARAMETERS = frozenset({"Args:", "Arguments:", "Params:", "Parameters:"})
_SECTIONS = _GOOGLE_PARAMETERS | {
    "Example:",
    "Examples:",
    "Note:",
    "Raises:",
    "Returns:",
    "Yields:",
}
_NUMPY_PARAMETERS = frozenset({"Parameters", "Other Parameters"})
_UNDERLINE = re.compile(r"-{3,}|={3,}")
_FIELD = re.compile(r":[a-z]+(?: [^:]*)?:")
# Each gives the names and the text of an entry.
_GOOGLE = re.compile(r"(?P<names>\*{0,2}\w+)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*))?")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?(?P<text>)")
_SPHINX = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword) (?:[^:]* )?"
    r"(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring that a model gets to read."""

    summary: str
    """The first paragraph. What follows is for those who read the code."""
    parameters: Mapping[str, str]


def read_docstring(docstring: str | None) -> Docstring:
    """Read a docstring in Google's, NumPy's or Sphinx's style."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters: dict[str, list[str]] = {}
    for entry in _find_entries(lines):
        for name in re.findall(r"\w+", entry.names):
            parameters.setdefault(name, []).append(entry.text)
    return Docstring(
        _join(_summary(lines)), {name: _join(texts) for name, texts in parameters.items()}
    )


class _Entry(NamedTuple):
    names: str
    text: str


def _summary(lines: list[str]) -> Iterator[str]:
    for line, following in pairwise([*lines, ""]):
        begins = line in _SECTIONS or _UNDERLINE.fullmatch(following) or _FIELD.match(line)
        if begins or not line.strip():
            return
        yield line


def _find_entries(lines: list[str]) -> Iterator[_Entry]:
    """Yield each entry; its continuation comes as a further entry of the same names."""
    style: re.Pattern[str] | None = None
    names, depth = "", 0
    for line, following in pairwise([*lines, ""]):
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        if not words:
            continue
        if names and indent > depth:
            yield _Entry(names, words)
            continue
        names, depth = "", indent
        if indent == 0:
            style = _style_at(words, following.strip(), before=style)
        found = _SPHINX.fullmatch(words) or _read_entry(words, style, indent=indent)
        if found:
            names = found["names"]
            yield _Entry(names, found["text"] or "")


def _style_at(
    line: str, following: str, *, before: re.Pattern[str] | None
) -> re.Pattern[str] | None:
    """Return the style of the entries after a line that is not indented."""
    if _UNDERLINE.fullmatch(following):
        return _NUMPY if line in _NUMPY_PARAMETERS else None
    if _UNDERLINE.fullmatch(line):
        return before
    if line in _GOOGLE_PARAMETERS:
        return _GOOGLE
    return before if before is _NUMPY else None


def _read_entry(line: str, style: re.Pattern[str] | None, *, indent: int) -> re.Match[str] | None:
    # Google's entries are indented below their heading, NumPy's are not.
    if style is None or (style is _GOOGLE) != (indent > 0):
        return None
    return None if line in _NUMPY_PARAMETERS else style.fullmatch(line)


def _join(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines).strip()


# A function's parameters: as a JSON Schema, and as Python values read from arguments.
#
# Pydantic does both, on a model with one field for each parameter. The fields have names of their
# own (`p0`, `p1`, …) and the parameters' names as aliases, so that a parameter may be called
# `json`, `copy` or `_private` without hiding what a model has.


Function = Callable[..., object]


class Parameters:
    """The parameters that a function takes from the model."""

    def __init__(
        self, model: type[BaseModel], taken: tuple[_Parameter, ...], *, context: str
    ) -> None:
        self._model = model
        self._taken = taken
        self.context = context
        """The name of the parameter that gets the `Context`; empty without one."""

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
_UNREADABLE = (PydanticUserError, PydanticUndefinedAnnotation, pydantic_core.SchemaError, TypeError)


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


# A tool of a Python function: its signature, hints and docstring become the schema.
#
#     @tool(read_only=True)
#     async def weather(city: str, unit: Literal["C", "F"] = "C") -> dict[str, float]:
#         """Current weather of a city."""
#
# The function stays what it was: it can be called as before, in tests for example.


P = ParamSpec("P")
R = TypeVar("R")
StartWord: TypeAlias = Literal["closed", "sealed", "confirmed"]


class ToolRules(TypedDict, total=False):
    """The rules by which a tool runs; `Tool` says what each means."""

    read_only: bool
    idempotent: bool
    timeout: float | None
    barrier: bool
    approve: Approve
    retries: int
    concurrency: int | None
    result_limit: int | None
    ends_run: bool
    on_crash: OnCrash | None


class ToolOptions(ToolRules, total=False):
    """Options of a tool that the function itself does not state."""

    name: str
    """Instead of the function's own."""
    description: str
    """Instead of the first paragraph of the docstring."""
    start: Start | StartWord
    """The evidence that a call needs before it may run. Default: `closed` for a read-only or
    idempotent tool that needs no approval, else `confirmed`."""


class FunctionTool(Generic[P, R]):
    """A function that can be offered as a tool, and called as ever."""

    __name__: str

    def __init__(self, function: Callable[P, R], tool: Tool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.tool = tool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.tool.name!r} of {name_of(self._function)}>"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Offer a function as a tool: `@tool`, or `@tool(read_only=True, timeout=5)`.

    The model reads its docstring and its types. It can still be called as the function that it is.

    ```python
    from wholecall import tool


    @tool
    def weather(city: str, days: int = 1) -> str:
        "Forecast for a city."
        return f"{city}: sunny"


    print(weather("Oslo"))
    print(weather.tool.spec.parameters["properties"]["days"])
    ```

    ```text
    Oslo: sunny
    {'default': 1, 'type': 'integer'}
    ```
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(function, make_tool(function, **options))

    return decorate if function is None else decorate(function)


def make_tool(
    function: Function,
    *,
    name: str | None = None,
    description: str | None = None,
    start: Start | StartWord | None = None,
    **rules: Unpack[ToolRules],
) -> Tool:
    """Make a tool of a function: sync (it runs in a thread), async, or a generator of either.

    What a generator yields is reported as progress, and the last of it is the result.
    `UnusableFunction` or `InadmissibleTools` says why a function cannot be one.
    """
    _demand_function(function)
    known = ToolOptions.__annotations__
    for option in rules.keys() - known.keys():
        raise TypeError(f"a tool has no option {option!r}; {name_nearest(option, known)}")
    docstring = read_docstring(inspect.getdoc(underlying(function)))
    parameters = read_parameters(function, docstring.parameters)
    spec = ToolSpec(
        name or _find_name(function),
        parameters.schema,
        docstring.summary if description is None else description,
        _default_start(rules) if start is None else Start(start),
    )
    require_admissible([spec])
    body = _Body(function, parameters, spec=spec)
    return Tool(spec=spec, run=body.runner, **rules)


def _demand_function(function: object) -> None:
    if not callable(function) or inspect.isclass(function):
        hint = "offer the function itself: neither its name nor what it returns"
        raise UnusableFunction(f"{function!r} is not a function; {hint}")


def _find_name(function: Function) -> str:
    name = underlying(function).__name__
    if name in {"<lambda>", "__call__"}:
        raise UnusableFunction(f"{function!r} has no name: write make_tool(…, name='…')")
    return name


def _default_start(rules: ToolRules) -> Start:
    repeatable = rules.get("read_only", False) or rules.get("idempotent", False)
    # A call that may still be rejected must not request approval.
    return Start.CLOSED if repeatable and rules.get("approve", False) is False else Start.CONFIRMED


MANY_ROWS = 1_000
"""Items of a result that is converted in a thread."""


# ── The body ────────────────────────────────────────────────────────────────────────


class _Body:
    """Calls the function with arguments that have the types of its hints."""

    def __init__(self, function: Function, parameters: Parameters, *, spec: ToolSpec) -> None:
        self._function = function
        self._parameters = parameters
        self._spec = spec

    @property
    def runner(self) -> Runner | Blocking:
        kind = underlying(self._function)
        is_async = inspect.iscoroutinefunction(kind) or inspect.isasyncgenfunction(kind)
        return self._run_async if is_async else Blocking(self._run_blocking)

    async def _run_async(self, arguments: Mapping[str, JSON], context: Context) -> Result:
        values = self._read(arguments, context)
        if isinstance(values, Result):
            return values
        value = self._function(**values)
        if isinstance(value, AsyncGenerator):
            value = await _drain_async(value, context)
        # A wrapper around a coroutine function may have answered by itself.
        value = await value if isinstance(value, Awaitable) else value
        return await asyncio.to_thread(to_result, value) if _is_long(value) else to_result(value)

    def _run_blocking(self, arguments: Mapping[str, JSON], context: Context) -> Result:
        values = self._read(arguments, context)
        if isinstance(values, Result):
            return values
        value = self._function(**values)
        return to_result(_drain(value, context) if isinstance(value, Generator) else value)

    def _read(self, arguments: Mapping[str, JSON], context: Context) -> dict[str, object] | Result:
        """Return the arguments of the function; or a failure, if they do not fit after all."""
        values = self._parameters.read(arguments)
        if isinstance(values, tuple):
            return Result((Text(feedback(values, self._spec)),), failed=True)
        if self._parameters.context:
            values[self._parameters.context] = context
        return values


def _is_long(value: object) -> bool:
    """Return True for many rows, also as a member: others would wait until they are written."""
    members = (*value.values(), value) if isinstance(value, dict) else (value,)
    return any(isinstance(each, list | tuple | dict) and len(each) > MANY_ROWS for each in members)


async def _drain_async(values: AsyncGenerator[object, None], context: Context) -> object:
    last: object = None
    async with aclosing(values):
        async for last in values:
            _report(last, context)
    return last


def _drain(values: Generator[object, None, object], context: Context) -> object:
    """Consume a generator, until it ends or its result is not awaited any more."""
    last: object = None
    with closing(values):
        while not context.is_cancelled():
            try:
                last = next(values)
            except StopIteration as stop:
                return last if stop.value is None else stop.value
            _report(last, context)
    return last


def _report(value: object, context: Context) -> None:
    progress = to_progress(value)
    if progress is not None:
        context.report(progress)
