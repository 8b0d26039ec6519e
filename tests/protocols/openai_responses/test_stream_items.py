from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.errors import ProtocolError
from wholecall.events import CallDelta, CallSealed, Delta
from wholecall.protocols.openai_responses.shapes import CallItem
from wholecall.protocols.openai_responses.stream import Address, FunctionCalls, read_text

ITEM = CallItem(id="fc", call_id="x", name="f", arguments='{"a":1}')
HERE = Address(0, "fc")
BEGUN = CallItem(id="fc", call_id="x", name="f", arguments="")
OPENED = CallDelta(0, None, "f", "x", opens=True, extras={"item_id": "fc"})
WHOLE = CallDelta(0, '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"})
SEALED = CallSealed(0, '{"a":1}')


def item(**fields: Any) -> CallItem:
    return CallItem(**{"name": "f", "arguments": '{"a":1}', **fields})


ROWS: list[tuple[str, list[Any], list[Any]]] = [
    (
        "OpenAI says everything, and nothing is handed on twice",
        [
            ("begin", BEGUN, HERE),
            ("grow", '{"a"', HERE),
            ("grow", ":1}", HERE),
            ("complete", '{"a":1}', HERE),
            ("finish", ITEM, HERE),
            ("repeat", ITEM),
            ("conclude",),
        ],
        [OPENED, CallDelta(0, '{"a"'), CallDelta(0, ":1}"), SEALED],
    ),
    (
        "the arguments may come with the beginning",
        [("begin", ITEM, HERE), ("complete", '{"a":1}', HERE), ("finish", ITEM, HERE)],
        [WHOLE, SEALED],
    ),
    (
        "or only when they are complete",
        [("begin", BEGUN, HERE), ("complete", '{"a":1}', HERE), ("finish", ITEM, HERE)],
        [OPENED, SEALED],
    ),
    (
        "or only with the item that is done",
        [("begin", BEGUN, HERE), ("complete", "", HERE), ("finish", ITEM, HERE)],
        [OPENED, CallDelta(0, '{"a":1}'), SEALED],
    ),
    (
        "a call without arguments is sealed by its item",
        [("begin", BEGUN, HERE), ("complete", "", HERE), ("finish", BEGUN, HERE)],
        [OPENED, CallSealed(0)],
    ),
    (
        "pieces may name the call instead of its item",
        [
            ("begin", BEGUN, HERE),
            ("begin", item(call_id="y", arguments=""), Address(1)),
            ("grow", '{"a"', Address(call_id="x")),
            ("grow", '{"b"', Address(call_id="y")),
            ("grow", ":1}", Address(item_id="x")),
            ("complete", '{"a":1}', Address(call_id="x")),
        ],
        [
            OPENED,
            CallDelta(1, None, "f", "y", opens=True),
            CallDelta(0, '{"a"'),
            CallDelta(1, '{"b"'),
            CallDelta(0, ":1}"),
            SEALED,
        ],
    ),
    (
        "also before it",
        [("grow", '{"a":1}', Address(call_id="x")), ("begin", item(call_id="x"), Address())],
        [CallDelta("x", '{"a":1}', "f", "x", opens=True)],
    ),
    ("an item may begin twice", [("begin", BEGUN, HERE), ("begin", ITEM, HERE)], [OPENED]),
    ("or not at all", [("finish", ITEM, HERE)], [WHOLE, SEALED]),
    (
        "what comes before the name waits for it",
        [("grow", '{"a"', HERE), ("grow", ":1}", HERE), ("finish", ITEM, HERE)],
        [WHOLE, SEALED],
    ),
    (
        "also if it is said to be complete",
        [("complete", '{"a":1}', HERE), ("complete", '{"a":1}', HERE), ("finish", ITEM, HERE)],
        [WHOLE, SEALED],
    ),
    (
        "a name that never comes is none",
        [
            ("begin", CallItem(call_id="x"), Address(0)),
            ("grow", "{", Address(0)),
            ("finish", CallItem(), Address(0)),
            ("conclude",),
        ],
        [CallDelta(0, "{", None, "x", opens=True)],
    ),
    (
        "an id may come late",
        [
            ("begin", CallItem(name="f"), Address(0)),
            ("finish", item(call_id="x", arguments="{}"), Address(0)),
            ("repeat", item(call_id="x", arguments="{}")),
        ],
        [
            CallDelta(0, None, "f", opens=True),
            CallDelta(0, "{}"),
            CallDelta(0, id="x"),
            CallSealed(0, "{}"),
        ],
    ),
    (
        "an incomplete item was cut off and is not sealed",
        [
            ("begin", BEGUN, HERE),
            ("finish", item(id="fc", arguments="{", status="incomplete"), HERE),
        ],
        [OPENED, CallDelta(0, "{")],
    ),
    (
        "a seal that says something else is handed on",
        [
            ("begin", BEGUN, HERE),
            ("complete", '{"a":1}', HERE),
            ("finish", item(id="fc", arguments='{"a":2}'), HERE),
        ],
        [OPENED, SEALED, CallSealed(0, '{"a":2}')],
    ),
    (
        "without an index the id of the item is the slot",
        [("begin", BEGUN, Address(item_id="fc")), ("grow", "{", Address(item_id="fc"))],
        [
            CallDelta("fc", None, "f", "x", opens=True, extras={"item_id": "fc"}),
            CallDelta("fc", "{"),
        ],
    ),
    (
        "without both it is the call being built",
        [
            ("begin", item(arguments=""), Address()),
            ("grow", '{"a":1}', Address()),
            ("finish", item(call_id="x"), Address()),
            ("begin", item(arguments="{"), Address()),
        ],
        [
            CallDelta(None, None, "f", opens=True),
            CallDelta(None, '{"a":1}'),
            CallDelta(None, id="x"),
            CallSealed(None, '{"a":1}'),
            CallDelta(None, "{", "f", opens=True),
        ],
    ),
    (
        "which is none after it was sealed",
        [("finish", item(), Address()), ("grow", "{", Address()), ("conclude",)],
        [
            CallDelta(None, '{"a":1}', "f", opens=True),
            CallSealed(None, '{"a":1}'),
            CallDelta(None, "{", opens=True),
        ],
    ),
    (
        "an id that changes with every event is found by its index",
        [
            ("begin", BEGUN, HERE),
            ("grow", '{"a":1}', Address(0, "other")),
            ("finish", item(id="third", call_id="x"), Address(0, "third")),
        ],
        [OPENED, CallDelta(0, '{"a":1}'), SEALED],
    ),
    (
        "an index that is always the same is told apart by the id",
        [
            ("begin", item(id="p", call_id="x", arguments=""), Address(0, "p")),
            ("begin", item(id="q", call_id="y", arguments=""), Address(0, "q")),
            ("grow", "{", Address(0, "p")),
            ("grow", "[", Address(0, "q")),
        ],
        [
            CallDelta(0, None, "f", "x", opens=True, extras={"item_id": "p"}),
            CallDelta("q", None, "f", "y", opens=True, extras={"item_id": "q"}),
            CallDelta(0, "{"),
            CallDelta("q", "["),
        ],
    ),
    (
        "an item with another call's place is another call",
        [("begin", BEGUN, HERE), ("finish", item(id="fc", call_id="y"), HERE)],
        [
            OPENED,
            CallDelta("fc", '{"a":1}', "f", "y", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
        ],
    ),
    (
        "but the same item with the same arguments is the same call, whatever its id is by now",
        [
            ("begin", BEGUN, HERE),
            ("complete", '{"a":1}', HERE),
            ("finish", item(id="fc", call_id="y"), HERE),
            ("repeat", item(id="fc", call_id="y"), {"y"}),
        ],
        [OPENED, SEALED],
    ),
    (
        "the end tells calls that came nowhere before",
        [("finish", ITEM, HERE), ("repeat", ITEM), ("repeat", item(call_id="y")), ("conclude",)],
        [
            WHOLE,
            SEALED,
            CallDelta(None, '{"a":1}', "f", "y", opens=True),
            CallSealed(None, '{"a":1}'),
        ],
    ),
    (
        "the end repeats a call under an id that it made up, as vLLM's does",
        [("finish", ITEM, HERE), ("repeat", item(id="g", call_id="y"), {"y"}), ("conclude",)],
        [WHOLE, SEALED],
    ),
    (
        "and in other words",
        [("finish", ITEM, HERE), ("repeat", item(call_id="y", arguments='{"a": 1}'), {"y"})],
        [WHOLE, SEALED, CallSealed(0, '{"a": 1}')],
    ),
    (
        "and where the stream has not said that the call is over",
        [("begin", BEGUN, HERE), ("grow", '{"a":1}', HERE), ("repeat", item(call_id="y"), {"y"})],
        [OPENED, CallDelta(0, '{"a":1}'), SEALED],
    ),
    *(
        (
            f"but {why} is another call",
            [("finish", ITEM, HERE), ("repeat", item(call_id="y", **fields), ids)],
            [
                WHOLE,
                SEALED,
                CallDelta(None, text, fields.get("name", "f"), "y", opens=True),
                CallSealed(None, text),
            ],
        )
        for why, fields, ids, text in [
            ("another name", {"name": "g"}, {"y"}, '{"a":1}'),
            ("another object", {"arguments": '{"a":2}'}, {"y"}, '{"a":2}'),
            ("one that is cut", {"arguments": '{"a"'}, {"y"}, '{"a"'),
            ("one beside the call itself", {}, {"x", "y"}, '{"a":1}'),
        ]
    ),
    (
        "calls without ids are repeated in their order",
        [("finish", item(), Address(0)), ("repeat", item(call_id="x"))],
        [
            CallDelta(0, '{"a":1}', "f", opens=True),
            SEALED,
            CallDelta(0, id="x"),
        ],
    ),
    (
        "two calls under one id are told apart by their places, whatever is said of them",
        [
            ("begin", BEGUN, HERE),
            ("begin", item(id="fd", call_id="x", arguments=""), Address(1, "fd")),
            ("grow", '{"a":1}', HERE),
            ("grow", '{"a":2}', Address(1, "fd")),
            ("complete", '{"a":1}', HERE),
            ("complete", '{"a":2}', Address(1, "fd")),
            ("finish", ITEM, HERE),
            ("finish", item(id="fd", call_id="x", arguments='{"a":2}'), Address(1, "fd")),
            ("repeat", ITEM, {"x"}),
            ("repeat", item(id="fd", call_id="x", arguments='{"a":2}'), {"x"}),
        ],
        [
            OPENED,
            CallDelta(1, None, "f", "x", opens=True, extras={"item_id": "fd"}),
            CallDelta(0, '{"a":1}'),
            CallDelta(1, '{"a":2}'),
            SEALED,
            CallSealed(1, '{"a":2}'),
        ],
    ),
    (
        "also if the end lists them under other item ids, in another order",
        [
            ("finish", item(call_id="x"), Address(0)),
            ("finish", item(call_id="x", arguments='{"a":2}'), Address(1)),
            ("repeat", item(id="p", call_id="x", arguments='{"a":2}'), {"x"}),
            ("repeat", item(id="q", call_id="x"), {"x"}),
        ],
        [
            CallDelta(0, '{"a":1}', "f", "x", opens=True),
            SEALED,
            CallDelta(1, '{"a":2}', "f", "x", opens=True),
            CallSealed(1, '{"a":2}'),
        ],
    ),
    (
        "pieces that name the call by its id alone belong to the one at their index, or the newest",
        [
            ("begin", item(call_id="x", arguments=""), Address(0)),
            ("begin", item(call_id="x", arguments=""), Address(1)),
            ("grow", "{", Address(0, call_id="x")),
            ("grow", "[", Address(call_id="x")),
        ],
        [
            CallDelta(0, None, "f", "x", opens=True),
            CallDelta(1, None, "f", "x", opens=True),
            CallDelta(0, "{"),
            CallDelta(1, "["),
        ],
    ),
    (
        "without an index, another item id begins another call once the first is over",
        [
            ("finish", ITEM, Address(item_id="fc")),
            ("begin", item(id="fd", call_id="x", arguments=""), Address(item_id="fd")),
        ],
        [
            CallDelta("fc", '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
            CallDelta("fd", None, "f", "x", opens=True, extras={"item_id": "fd"}),
        ],
    ),
    (
        "and before that it is the same one under a new item id",
        [("begin", BEGUN, Address(item_id="fc")), ("begin", BEGUN, Address(item_id="fd"))],
        [CallDelta("fc", None, "f", "x", opens=True, extras={"item_id": "fc"})],
    ),
    (
        "what is done at another place and says the same is the same call",
        [("finish", ITEM, HERE), ("finish", item(id="fd", call_id="x"), Address(1, "fd"))],
        [WHOLE, SEALED],
    ),
    (
        "a whole answer lists different calls under one id",
        [("repeat", item(call_id="x")), ("repeat", item(call_id="x", arguments='{"a":2}'))],
        [
            CallDelta(None, '{"a":1}', "f", "x", opens=True),
            CallSealed(None, '{"a":1}'),
            CallDelta(None, '{"a":2}', "f", "x", opens=True),
            CallSealed(None, '{"a":2}'),
        ],
    ),
    (
        "an item without a call id is not listed twice",
        [("repeat", item(id="fc")), ("repeat", item(id="fc"))],
        [
            CallDelta("fc", '{"a":1}', "f", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
        ],
    ),
    (
        "where the call belongs is kept",
        [("begin", item(namespace="n", caller={"type": "program"}), Address(0))],
        [
            CallDelta(
                0,
                '{"a":1}',
                "f",
                opens=True,
                extras={"namespace": "n", "caller": {"type": "program"}},
            )
        ],
    ),
]


@pytest.mark.parametrize(("steps", "deltas"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_row(steps: list[Any], deltas: list[Any]) -> None:
    calls = FunctionCalls()
    methods: dict[str, Callable[..., Iterator[Delta]]] = {
        "begin": calls.begin,
        "grow": calls.grow,
        "complete": calls.complete,
        "finish": calls.finish,
        "repeat": calls.repeat,
        "conclude": calls.conclude,
    }
    assert [delta for name, *given in steps for delta in methods[name](*given)] == deltas


def test_what_waits_for_a_name_has_a_limit() -> None:
    calls = FunctionCalls()
    list(calls.grow("a" * DEFAULT.characters, HERE))
    with pytest.raises(ProtocolError, match="a function call without a name has more than"):
        list(calls.grow("a", HERE))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(None, ""), ("", ""), ("{", "{"), ({"a": [1]}, '{"a": [1]}'), ([1], "[1]")],
)
def test_arguments_of_every_form_are_text(arguments: Any, text: str) -> None:
    assert read_text(arguments) == text


def test_more_calls_than_the_limit_are_an_error() -> None:
    calls = FunctionCalls()
    for index in range(DEFAULT.blocks):
        list(calls.begin(CallItem(name="f"), Address(index)))
    with pytest.raises(ProtocolError, match="more than 1024 function calls"):
        list(calls.begin(CallItem(name="f"), Address(DEFAULT.blocks)))
