"""The texts of a run that grow."""

from __future__ import annotations

from inspector.recorded import SECRET, Hider
from wholecall.inspector.run_record import REASONING, STEP, TEXT, GrowingTexts, Grown, TextPlace


def test_pieces_of_the_same_moment_are_joined() -> None:
    texts = GrowingTexts(Hider())
    for at, text in [(1.0, "a"), (1.0 + STEP / 2, "b"), (1.0 + STEP, "c")]:
        texts.add(at, TEXT, text=text)
    assert texts.join(2.0) == [Grown(1.0, TEXT, "ab"), Grown(1.0 + STEP, TEXT, "c")]
    assert not texts.fresh
    assert list(texts.end(3.0)) == [Grown(3.0, TEXT, "abc")]
    assert list(texts.end(3.0)) == []


def test_several_texts_grow_at_a_time() -> None:
    texts = GrowingTexts(Hider())
    texts.add(3.0, TEXT, text="x")
    texts.add(1.0, texts.find_call(0), text="{")
    texts.add(2.0, REASONING, text="hm")
    texts.add(4.0, texts.find_call(0), text="}")
    call = TextPlace("Grew", 0)
    assert texts.join(5.0) == [
        Grown(1.0, call, "{"),
        Grown(2.0, REASONING, "hm"),
        Grown(3.0, TEXT, "x"),
        Grown(4.0, call, "}"),
    ]


def test_a_secret_is_taken_back_and_told_again_at_the_end() -> None:
    texts = GrowingTexts(Hider())
    texts.add(1.0, TEXT, text=SECRET[:5])
    assert texts.join(1.0) == [Grown(1.0, TEXT, SECRET[:5])]
    texts.add(2.0, TEXT, text=SECRET[5:])
    texts.add(2.0, REASONING, text="hm")
    assert texts.join(2.0) == [Grown(2.0, TEXT, "***", whole=True), Grown(2.0, REASONING, "hm")]
    texts.add(3.0, TEXT, text=" more")
    assert texts.join(3.0) == []
    assert list(texts.end(4.0)) == [
        Grown(4.0, TEXT, "*** more", whole=True),
        Grown(4.0, REASONING, "hm"),
    ]


def test_there_is_room_for_so_many_characters() -> None:
    texts = GrowingTexts(Hider(), most=3)
    for text in ("ab", "cd", "e"):
        texts.add(1.0, TEXT, text=text)
    assert (texts.left_out, texts.join(1.0)) == (2, [Grown(1.0, TEXT, "ab")])


def test_halves_of_characters_are_replaced() -> None:
    texts = GrowingTexts(Hider())
    texts.add(1.0, TEXT, text="é\ud800")
    assert texts.join(1.0) == [Grown(1.0, TEXT, "é?")]
