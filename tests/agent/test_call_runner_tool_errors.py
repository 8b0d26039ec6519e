"""What the model reads of calls that gave no output."""

import asyncio

import pytest

from wholecall.agent.call_runner import (
    describe_cancelled,
    describe_denied,
    describe_error,
    describe_skipped,
    describe_timeout,
)
from wholecall.errors import ToolServerFailed
from wholecall.messages import Result
from wholecall.tools.tool import Failed, Retry


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


IF_CAUSE = "Correct the call if it was the cause; else go on without its result."
GO_ON = "Do not send the call again. Go on without its result, or say what is missing."

ERRORS: list[tuple[str, BaseException, list[str]]] = [
    (
        "Retry asks for another call",
        Retry("no city 'Olso'"),
        ["The tool \"w\" failed: no city 'Olso'", "Correct the call and send it again."],
    ),
    ("Failed asks for none", Failed("closed"), ['The tool "w" failed: closed', GO_ON]),
    ("class and message", ValueError("bad"), ['The tool "w" failed: ValueError: bad', IF_CAUSE]),
    ("no message", ValueError(), ['The tool "w" failed: ValueError', IF_CAUSE]),
    ("no message to be had", Unspeakable(), ['The tool "w" failed: Unspeakable', IF_CAUSE]),
    ("an exit", SystemExit(3), ['The tool "w" failed: SystemExit: 3', IF_CAUSE]),
    (
        "a long message is cut",
        ValueError("a" * 999),
        [f'The tool "w" failed: ValueError: {"a" * 499}…', IF_CAUSE],
    ),
    (
        "it cancelled itself",
        asyncio.CancelledError(),
        ['The tool "w" failed: it broke off by itself', IF_CAUSE],
    ),
]


@pytest.mark.parametrize(
    ("error", "lines"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS]
)
def test_an_error_is_told_without_internals(error: BaseException, lines: list[str]) -> None:
    result = describe_error("w", error, reveal=True)
    assert result.failed
    assert result.text.splitlines() == lines


LOST = ToolServerFailed("MCP server 's': it ended; unknown", server="s", outcome_unknown=True)
AWAY = ToolServerFailed("MCP server 's' cannot be reached", server="s")
UNKNOWN = "its server failed; what the call had done by then is unknown"
# what holds, the error, whether the tool may be repeated, whether all is revealed, what is said
SERVERS: list[tuple[str, ToolServerFailed, bool, bool, list[str]]] = [
    (
        "side effects are not repeated",
        LOST,
        False,
        True,
        ["MCP server 's': it ended; unknown", "Do not send the call again", "outcome is unknown"],
    ),
    ("… nor where little is revealed", LOST, False, False, [UNKNOWN, "Do not send the call again"]),
    ("what does no harm may be", LOST, True, True, ["it ended; unknown", "may be sent again"]),
    ("… also where little is revealed", LOST, True, False, [UNKNOWN, "may be sent again"]),
    ("what was not sent may be", AWAY, False, True, ["cannot be reached", "was not run", "later"]),
    (
        "… also where little is revealed",
        AWAY,
        False,
        False,
        ["its server cannot be reached", "later"],
    ),
]


@pytest.mark.parametrize(
    ("error", "repeatable", "reveal", "said"),
    [row[1:] for row in SERVERS],
    ids=[row[0] for row in SERVERS],
)
def test_a_server_that_failed_invites_to_repeat_only_what_does_no_harm(
    *, error: ToolServerFailed, repeatable: bool, reveal: bool, said: list[str]
) -> None:
    text = describe_error("w", error, reveal=reveal, repeatable=repeatable).text
    assert [words for words in said if words not in text] == []
    assert "Correct the call" not in text
    assert ("Do not send" in text) is (error.outcome_unknown and not repeatable)


@pytest.mark.parametrize("error", [ValueError("password"), SystemExit("password")])
def test_what_may_not_be_revealed_is_not(error: BaseException) -> None:
    text = describe_error("w", error, reveal=False).text
    assert text.splitlines()[0] == 'The tool "w" failed: an internal error'


@pytest.mark.parametrize("error", [Retry("for you"), Failed("for you")])
def test_what_is_meant_for_the_model_is_always_told(error: BaseException) -> None:
    assert "for you" in describe_error("w", error, reveal=False).text


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (describe_timeout("w", 2.5), "did not finish within 2.5 seconds"),
        (describe_skipped("w", "the run was cancelled"), "was not run: the run was cancelled."),
        (describe_denied("w", ""), "was not run: it was not approved."),
        (describe_denied("w", "too dear"), "was not run: it was not approved: too dear."),
        (describe_cancelled("w"), "what it had done is unknown"),
    ],
)
def test_every_end_has_its_words(result: Result, words: str) -> None:
    assert result.failed
    assert '"w"' in result.text
    assert words in result.text
