"""Functions of every kind become tools, and stay functions."""

from __future__ import annotations

import asyncio
import datetime
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

from wholecall.errors import InadmissibleTools, UnusableFunction
from wholecall.events import JSON, Call, Start, Text
from wholecall.messages import Result, ToolSpec
from wholecall.tools.function_tool import FunctionTool, ToolOptions, ToolRules, make_tool, tool
from wholecall.tools.tool import Blocking, Context, Failed, Tool


def run(made: Tool, arguments: dict[str, JSON], *, reports: list[JSON] | None = None) -> Result:
    """Run a tool's body as an executor would, a blocking one in a thread."""
    report = (lambda _: None) if reports is None else reports.append
    context = Context(call_id="c1", run_id="r1", idempotency_key="k1", report=report)
    body = made.run
    assert body is not None
    if isinstance(body, Blocking):
        return body.run(arguments, context)

    async def scenario() -> Result:
        return await body(arguments, context)

    return asyncio.run(scenario())


@tool
async def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Current weather of a city.

    Args:
        city: Where.
    """
    return {"city": city, "days": days}


@tool(read_only=True, name="add.up", description="Adds.", timeout=5, retries=2)
def add(one: int, other: int) -> int:
    """Never shown."""
    return one + other


# ── The decorator ───────────────────────────────────────────────────────────────────


def test_a_decorated_function_is_called_as_before() -> None:
    total: int = add(1, other=2)
    assert total == 3
    assert asyncio.run(weather("Oslo")) == {"city": "Oslo", "days": 1}
    assert weather.__name__ == "weather"
    assert weather.__doc__ is not None
    assert repr(add) == "<tool 'add.up' of add>"


def test_signature_hints_and_docstring_become_the_spec() -> None:
    assert weather.tool.spec == ToolSpec(
        "weather",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["city"],
        },
        "Current weather of a city.",
        Start.CONFIRMED,
    )


def test_what_the_options_say_wins() -> None:
    made = add.tool
    assert (made.name, made.spec.description) == ("add.up", "Adds.")
    assert (made.read_only, made.timeout, made.retries) == (True, 5, 2)


def needs_nobody(_call: Call) -> bool:
    return False


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, Start.CONFIRMED),
        ({"read_only": True}, Start.CLOSED),
        ({"idempotent": True}, Start.CLOSED),
        ({"read_only": True, "approve": True}, Start.CONFIRMED),
        ({"read_only": True, "approve": needs_nobody}, Start.CONFIRMED),
        ({"read_only": True, "start": "sealed"}, Start.SEALED),
        ({"start": Start.CLOSED}, Start.CLOSED),
    ],
)
def test_only_what_does_no_harm_starts_early(options: ToolOptions, start: Start) -> None:
    def look() -> None: ...

    assert make_tool(look, **options).spec.start is start


def test_every_rule_of_a_tool_is_an_option() -> None:
    rules = set(Tool.__dataclass_fields__) - {"spec", "run", "places"}
    assert set(ToolRules.__annotations__) == rules
    assert set(ToolOptions.__annotations__) == rules | {"name", "description", "start"}


# ── Kinds of functions ──────────────────────────────────────────────────────────────


def says(city: str) -> str:
    return f"sunny in {city} by {threading.current_thread().name}"


def says_in_steps(city: str) -> Iterator[str]:
    yield "looking"
    yield f"sunny in {city}"


def says_at_the_end(city: str) -> Generator[object, None, str]:
    yield {"looked": 1}
    return f"sunny in {city}"


async def says_later(city: str) -> str:
    await asyncio.sleep(0)
    return f"sunny in {city}"


async def says_in_steps_later(city: str) -> AsyncIterator[str]:
    yield "looking"
    await asyncio.sleep(0)
    yield f"sunny in {city}"


@functools.wraps(says_later)
def hands_on(city: str) -> Awaitable[str]:
    return says_later(city)


@functools.wraps(says_later)
def answers_by_itself(city: str) -> str:
    return f"sunny in {city}"


class Station:
    """Measures."""

    async def measure(self, city: str) -> str:
        """Measure it."""
        return f"sunny in {city}"

    def __call__(self, city: str) -> str:
        return f"sunny in {city}"


KINDS: list[tuple[str, Callable[..., object], bool, list[JSON]]] = [
    ("a generator", says_in_steps, True, ["looking", "sunny in Oslo"]),
    ("a generator that returns", says_at_the_end, True, [{"looked": 1}]),
    ("a coroutine function", says_later, False, []),
    ("an async generator", says_in_steps_later, False, ["looking", "sunny in Oslo"]),
    ("a wrapper that hands the coroutine on", hands_on, False, []),
    ("a wrapper that answers by itself", answers_by_itself, False, []),
    ("a bound method", Station().measure, False, []),
    ("a callable object", Station(), True, []),
]


@pytest.mark.parametrize(
    ("function", "blocks", "reports"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS]
)
def test_every_kind_of_function_runs(
    *, function: Callable[..., object], blocks: bool, reports: list[JSON]
) -> None:
    made = make_tool(function, name="says")
    heard: list[JSON] = []
    assert run(made, {"city": "Oslo"}, reports=heard) == Result((Text("sunny in Oslo"),))
    assert heard == reports
    assert isinstance(made.run, Blocking) is blocks


def test_a_plain_function_blocks() -> None:
    assert isinstance(make_tool(says).run, Blocking)


def test_a_generator_stops_when_nobody_waits_any_more() -> None:
    closed = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    heard: list[JSON] = []
    context = Context(
        call_id="c",
        run_id="r",
        idempotency_key="k",
        report=heard.append,
        is_cancelled=lambda: len(heard) == 3,
    )
    body = make_tool(endless).run
    assert isinstance(body, Blocking)
    assert body.run({}, context).text == "1"
    assert (heard, closed) == ([1, 1, 1], [True])


def test_an_async_generator_is_closed_when_it_fails() -> None:
    closed = []

    async def breaks() -> AsyncIterator[object]:
        try:
            yield object()
        finally:
            closed.append(True)

    with pytest.raises(Failed, match="cannot be written as JSON"):
        run(make_tool(breaks), {})
    assert closed == [True]


def test_a_generator_that_yields_nothing_gives_nothing() -> None:
    def silent() -> Iterator[str]:
        yield from ()

    assert run(make_tool(silent), {}).text == "(no output)"


# ── Arguments ───────────────────────────────────────────────────────────────────────


def waits_until(day: datetime.date, context: Context) -> str:
    return f"{context.call_id}: {day:%d.%m.%Y}"


async def waits_until_later(day: datetime.date, context: Context) -> str:
    return waits_until(day, context)


@pytest.mark.parametrize("function", [waits_until, waits_until_later])
def test_arguments_have_the_types_of_the_hints(function: Callable[..., object]) -> None:
    assert run(make_tool(function), {"day": "2026-01-31"}).text == "c1: 31.01.2026"


@pytest.mark.parametrize("function", [waits_until, waits_until_later])
def test_arguments_that_do_not_fit_after_all_are_told_with_their_paths(
    function: Callable[..., object],
) -> None:
    result = run(make_tool(function, name="wait"), {"day": "2026-02-31"})
    assert result.failed
    first, problem, *rest = result.text.splitlines()
    assert first == 'Your call of "wait" was not run, because its arguments do not fit:'
    assert problem.startswith("- $.day: Input should be a valid date")
    assert rest == [
        'Required parameters: "day".',
        'An example that fits: {"day": "2026-01-31"}',
        "Correct this and send the whole call.",
    ]


# ── What cannot be a tool ───────────────────────────────────────────────────────────


def bad_name() -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "lambda.* has no name: write make_tool"),
        (Station(), "Station object .* has no name: write make_tool"),
        (Station, "Station'> is not a function"),
        ("weather", "'weather' is not a function; offer the function itself"),
    ],
)
def test_what_is_no_function_or_has_no_name_is_refused(function: Any, words: str) -> None:
    with pytest.raises(UnusableFunction, match=words):
        make_tool(function)


def test_an_option_that_no_tool_has_is_refused_with_the_one_that_is_meant() -> None:
    options: Any = {"readonly": True}
    with pytest.raises(TypeError, match=r"no option 'readonly'; did you mean 'read_only'\?"):
        make_tool(bad_name, name="good_name", **options)


def test_a_name_that_providers_refuse_is_refused_at_once() -> None:
    with pytest.raises(InadmissibleTools, match='tool "bad name" must have another name'):
        make_tool(bad_name, name="bad name")


def test_a_decorated_function_may_be_decorated_with_other_options() -> None:
    again = FunctionTool(add, make_tool(add, name="sum"))
    assert again(1, 2) == 3
    assert run(again.tool, {"one": 1, "other": 2}) == Result((Text("3"),), structured=3)
