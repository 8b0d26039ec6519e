"""Steps as one whole answer."""

from __future__ import annotations

from wholecall.faults.script import (
    AUTO,
    Begin,
    CountTokens,
    Drop,
    Fail,
    FinishWith,
    Grow,
    Pause,
    Raw,
    Say,
    Seal,
    Terminate,
    Think,
    WholeScript,
    WrittenCall,
    drop_empty,
    fold,
    name_id,
)


def test_all_that_is_said_is_taken() -> None:
    steps = (
        Think("h"),
        Think("m"),
        Say("a"),
        Pause(),
        Say("b"),
        Begin(name="n", id="x", arguments="{"),
        Grow(arguments="}"),
        Seal(),
        Begin(call=1, name="m"),
        CountTokens(),
        Raw("x"),
        FinishWith("stop"),
        Fail("no"),
        Terminate(),
        Drop(),
    )
    assert fold(steps) == WholeScript(
        text="ab",
        thought="hm",
        calls={
            0: WrittenCall(number=0, name="n", id="x", arguments="{}", sealed=True),
            1: WrittenCall(number=1, name="m"),
        },
        reason="stop",
        error="no",
    )


def test_a_split_name_is_joined_and_a_repeated_one_is_not() -> None:
    assert fold((Begin(name="a_"), Grow(name="b"))).calls[0].name == "a_b"
    assert fold((Begin(name="a"), Grow(name="a"))).calls[0].name == "a"
    assert fold((Begin(), Grow(name="late"))).calls[0].name == "late"


def test_an_object_stands_for_itself() -> None:
    assert fold((Begin(arguments={"a": 1}),)).calls[0].arguments == {"a": 1}


def test_an_id_is_the_scripts_or_one_of_its_own() -> None:
    assert name_id(AUTO, prefix="call", turn=3, call=1) == "call_3_1"
    assert name_id("x", prefix="call", turn=3, call=1) == "x"
    assert name_id(None, prefix="call", turn=3, call=1) is None


def test_what_is_none_is_left_out() -> None:
    assert drop_empty({"a": None, "b": "", "c": 0}) == {"b": "", "c": 0}
