"""What a server answers becomes a result that can be sent to a model."""

import base64
from typing import Any

import mcp_types as types
import pytest

from wholecall.events import Text
from wholecall.messages import Media, Result
from wholecall.tools.mcp.session import SILENT_FAILURE, read_answer
from wholecall.tools.tool import MEDIA_BYTES, NO_OUTPUT, STRUCTURED_BYTES

WORDS = base64.b64encode("Grüße".encode()).decode()
PIXEL = base64.b64encode(b"pixel").decode()
LINK = {"type": "resource_link", "name": "report", "uri": "file:///r.md"}


def read(*content: dict[str, Any], output: dict[str, Any] | None = None, **more: Any) -> Result:
    answer = types.CallToolResult.model_validate({"content": list(content), **more})
    return read_answer(answer, output=output)


def resource(**contents: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///a", **contents}}


@pytest.mark.parametrize(
    ("block", "content"),
    [
        ({"type": "text", "text": "hi"}, Text("hi")),
        (
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            Media(kind="image", media_type="image/png", data=PIXEL),
        ),
        (
            {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
            Media(kind="audio", media_type="audio/wav", data=PIXEL),
        ),
        (LINK, Text("[report](file:///r.md)")),
        (
            LINK | {"title": "The report", "mimeType": "text/markdown", "description": "Of May"},
            Text("[The report](file:///r.md) text/markdown; Of May"),
        ),
        (resource(text="hello"), Text("[file:///a]\nhello")),
        (
            resource(blob=PIXEL, mimeType="application/pdf"),
            Media(kind="document", media_type="application/pdf", data=PIXEL),
        ),
        (
            resource(blob=PIXEL, mimeType="image/png"),
            Media(kind="image", media_type="image/png", data=PIXEL),
        ),
        (
            resource(blob="/w==", mimeType="application/zip"),
            Text("[file:///a] (not shown: application/zip)"),
        ),
        (resource(blob=WORDS, mimeType="text/plain"), Text("[file:///a]\nGrüße")),
        (resource(blob=WORDS, mimeType="Text/CSV; charset=utf-8"), Text("[file:///a]\nGrüße")),
        (resource(blob=WORDS, mimeType="application/json"), Text("[file:///a]\nGrüße")),
        (resource(blob=WORDS, mimeType="application/ld+json"), Text("[file:///a]\nGrüße")),
        (resource(blob="", mimeType="text/plain"), Text("[file:///a]\n")),
        (
            resource(blob="/w==", mimeType="text/plain"),
            Text("[file:///a] (not shown: text/plain)"),
        ),
        (
            resource(blob="/w==", mimeType="text/plain; charset=latin-1"),
            Text("[file:///a]\nÿ"),
        ),
        (
            resource(blob="//5oAGkA", mimeType='text/plain; charset="UTF-16"'),
            Text("[file:///a]\nhi"),
        ),
        (
            resource(blob=WORDS, mimeType="text/plain; charset=hex"),
            Text("[file:///a] (not shown: text/plain; charset=hex)"),
        ),
        (
            resource(blob="k/qWe4zq", mimeType="text/plain; charset=Shift_JIS"),
            Text("[file:///a]\n日本語"),
        ),
        (
            resource(blob=WORDS, mimeType="text/plain; charset=utf-8-le"),
            Text("[file:///a] (not shown: text/plain; charset=utf-8-le)"),
        ),
        (
            resource(blob=WORDS, mimeType="text/plain; charset=iso-8859-12"),
            Text("[file:///a] (not shown: text/plain; charset=iso-8859-12)"),
        ),
        # Codecs of Python that are no charsets: the first decodes in quadratic time.
        *(
            (
                resource(blob=base64.b64encode(b"abc-").decode(), mimeType=f"a/b; charset={name}"),
                Text(f"[file:///a] (not shown: a/b; charset={name})"),
            )
            for name in ("punycode", "idna", "unicode_escape", "raw-unicode-escape", "utf-7")
        ),
        # A text is one, whatever its server calls it.
        (resource(blob=WORDS), Text("[file:///a]\nGrüße")),
        (resource(blob=WORDS, mimeType="application/octet-stream"), Text("[file:///a]\nGrüße")),
        (resource(blob=WORDS, mimeType="image/svg+xml"), Text("[file:///a]\nGrüße")),
        (resource(blob="AGE="), Text("[file:///a] (not shown: of an unknown type)")),
        (
            {"type": "image", "data": PIXEL, "mimeType": "image/svg+xml"},
            Text("[image] (not shown: image/svg+xml)"),
        ),
        (
            resource(blob="A" * (MEDIA_BYTES * 2), mimeType="text/plain"),
            Text(f"[file:///a] (not shown: more than {MEDIA_BYTES} bytes)"),
        ),
        (resource(blob="/w=="), Text("[file:///a] (not shown: of an unknown type)")),
        (
            {"type": "image", "data": PIXEL, "mimeType": "text/html"},
            Text("[image] (not shown: text/html)"),
        ),
        (
            {"type": "image", "data": "no base64!", "mimeType": "image/png"},
            Text("[image] (not shown: its bytes are not in base64)"),
        ),
        (
            {"type": "image", "data": "äöü=", "mimeType": "image/png"},
            Text("[image] (not shown: its bytes are not in base64)"),
        ),
        (
            {"type": "image", "data": "", "mimeType": "image/png"},
            Text("[image] (not shown: its bytes are not in base64)"),
        ),
        (
            {"type": "image", "data": "A" * (MEDIA_BYTES * 2), "mimeType": "image/png"},
            Text(f"[image] (not shown: more than {MEDIA_BYTES} bytes)"),
        ),
    ],
)
def test_content_is_read(block: dict[str, Any], content: Text | Media) -> None:
    assert read(block) == Result((content,))


def test_an_error_is_a_failure() -> None:
    failed = read({"type": "text", "text": "no such file"}, isError=True)
    assert failed == Result((Text("no such file"),), failed=True)


def test_an_error_without_words_is_told_all_the_same() -> None:
    assert read(isError=True) == Result((Text(SILENT_FAILURE),), failed=True)


def test_nothing_is_said_to_be_nothing() -> None:
    assert read() == Result((Text(NO_OUTPUT),))


def test_structured_content_is_kept_beside_the_text() -> None:
    result = read({"type": "text", "text": "three"}, structuredContent={"total": 3})
    assert result == Result((Text("three"),), structured={"total": 3})


@pytest.mark.parametrize(
    ("structured", "text"),
    [({"total": 3}, '{"total":3}'), ([1, 2], "[1,2]"), ("three", "three"), (3, "3")],
)
def test_structured_content_without_text_is_written_as_text(structured: Any, text: str) -> None:
    result = read(structuredContent=structured)
    assert result == Result((Text(text),), structured=structured)


@pytest.mark.parametrize("structured", [{"text": "x" * STRUCTURED_BYTES}, "x" * 5_000_000])
def test_what_is_too_large_is_not_kept_as_a_value(structured: Any) -> None:
    assert read({"type": "text", "text": "long"}, structuredContent=structured).structured is None


SUM = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.parametrize(
    ("structured", "fits"),
    [
        ({"total": 3}, True),
        ({"total": 3, "more": 1}, True),
        ({"total": 3.0}, True),
        ({"total": "three"}, False),
        ({}, False),
        ([], True),
    ],
)
def test_a_value_that_breaks_its_tools_promise_is_left_out(structured: Any, *, fits: bool) -> None:
    result = read({"type": "text", "text": "three"}, structuredContent=structured, output=SUM)
    assert (result.structured == structured) is fits
    assert ("left out" in result.text) is not fits
    assert not result.failed


def test_a_hostile_pattern_does_not_stop_the_event_loop() -> None:
    hostile = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    result = read(structuredContent={"a": "a" * 50_000 + "!"}, output=hostile)
    assert result.structured is None
