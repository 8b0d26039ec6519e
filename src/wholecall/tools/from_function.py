"""A tool of a Python function: its signature, hints and docstring become the schema.

    @tool(read_only=True)
    async def weather(city: str, unit: Literal["C", "F"] = "C") -> dict[str, float]:
        \"\"\"Current weather of a city.\"\"\"

The function stays what it was: it can be called as before, in tests for example.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, closing
from typing import Generic, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack, overload

from wholecall.core.conversation import Result
from wholecall.core.feedback import feedback
from wholecall.core.schema import require_admissible
from wholecall.core.spec import ToolSpec
from wholecall.core.values import JSON, Start, Text
from wholecall.errors import UnusableFunction
from wholecall.tools.docstring import read_docstring
from wholecall.tools.parameters import Function, Parameters, name_of, read_parameters, underlying
from wholecall.tools.results import to_progress, to_result
from wholecall.tools.tool import Approve, Blocking, Context, Runner, Tool

P = ParamSpec("P")
R = TypeVar("R")
StartWord: TypeAlias = Literal["closed", "sealed", "confirmed"]


class Rules(TypedDict, total=False):
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


class Options(Rules, total=False):
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
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None, /, **options: Unpack[Options]
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
    **rules: Unpack[Rules],
) -> Tool:
    """Make a tool of a function: sync (it runs in a thread), async, or a generator of either.

    What a generator yields is reported as progress, and the last of it is the result.
    `UnusableFunction` or `InadmissibleTools` says why a function cannot be one.
    """
    _demand_function(function)
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
        raise UnusableFunction(f"{function!r} is no function")


def _find_name(function: Function) -> str:
    name = underlying(function).__name__
    if name in {"<lambda>", "__call__"}:
        raise UnusableFunction(f"{function!r} has no name: write make_tool(…, name='…')")
    return name


def _default_start(rules: Rules) -> Start:
    repeatable = rules.get("read_only", False) or rules.get("idempotent", False)
    # A call that may still be rejected must not request approval.
    return Start.CLOSED if repeatable and rules.get("approve", False) is False else Start.CONFIRMED


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
            return to_result(await _drain_async(value, context))
        # A wrapper around a coroutine function may have answered by itself.
        return to_result(await value if isinstance(value, Awaitable) else value)

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
