"""Messages and results give their text, whatever else stands in them."""

import pytest

from wholecall.events import Text
from wholecall.messages import CallResult, Media, Message, Request, Result, Role

IMAGE = Media(kind="image", media_type="image/png", data="aGk=")


def test_the_text_of_a_result_leaves_media_out() -> None:
    assert Result((Text("Two "), IMAGE, Text("cats."))).text == "Two cats."
    assert Result().text == ""


def test_the_text_of_a_message_leaves_everything_else_out() -> None:
    done = CallResult(call_id="call_1", result=Result((Text("sunny"),)))
    assert Message(Role.USER, (Text("Look: "), IMAGE, done, Text("?"))).text == "Look: ?"


def test_requests_share_no_default() -> None:
    first, second = (Request(model="m", messages=()) for _ in range(2))
    assert first == second
    assert first.choice == second.choice


def test_media_of_a_kind_that_nobody_sends_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="'video'"):
        Media(kind="video", data="aGk=")
