"""Convert a server's answer to a result for the model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from wholecall.core.coerce import CoercionOptions
from wholecall.core.conversation import Content, Media, Result
from wholecall.core.schema import check
from wholecall.core.spec import ToolSpec
from wholecall.core.values import JSON, Text
from wholecall.core.words import cut
from wholecall.tools.results import MEDIA_BYTES, NO_OUTPUT, STRUCTURED_BYTES, add_note, to_result

SILENT_FAILURE = "the tool failed and did not say why"
_UNFIT = "[The structured output does not fit the schema that the tool declares; it was left out.]"
_KINDS = {"image": "image", "audio": "audio", "application/pdf": "document"}
"""Content that a model can see or hear, by media type or by the first half of it."""
_BASE64_CHARACTERS = MEDIA_BYTES // 3 * 4 + 4


def read_answer(answer: types.CallToolResult, *, output: Mapping[str, Any] | None) -> Result:
    """Read a `tools/call` answer; `output` is the schema of the tool's structured output."""
    content = tuple(_read_block(block) for block in answer.content)
    if answer.is_error:
        return Result(content or (Text(SILENT_FAILURE),), failed=True)
    if answer.structured_content is None:
        return Result(content or (Text(NO_OUTPUT),))
    structured = answer.structured_content
    written = to_result(structured)
    # Servers should write the value as text, too. If one did not, the model would not see it.
    result = Result(content or written.content, structured=_keep(structured, written))
    fits = output is None or _fits(structured, output)
    return result if fits else add_note(Result(result.content), _UNFIT)


def _keep(structured: JSON, written: Result) -> JSON:
    """The value as it can be passed on: what is too large is left out, NaN is written out."""
    small = isinstance(structured, str) and len(structured) <= STRUCTURED_BYTES
    return structured if small else written.structured


def _fits(structured: JSON, output: Mapping[str, Any]) -> bool:
    """Return True if a value fits the tool's output schema. Only objects are checked, as most
    versions of the protocol allow no others. The SDK's check uses backtracking patterns: a
    hostile one would block the event loop."""
    if not isinstance(structured, dict):
        return True
    options = CoercionOptions(keep_unknown=True)
    return not check(structured, ToolSpec("output", output), options=options).problems


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_block(block: types.ContentBlock) -> Content:
    match block:
        case types.TextContent():
            return Text(block.text)
        case types.ImageContent() | types.AudioContent():
            return _read_media(block.data, block.mime_type, name=f"[{block.type}]")
        case types.ResourceLink():
            return Text(_describe_link(block))
        case _:
            return _read_resource(block.resource)


def _read_resource(
    resource: types.TextResourceContents | types.BlobResourceContents,
) -> Content:
    if isinstance(resource, types.TextResourceContents):
        return Text(f"[{resource.uri}]\n{resource.text}")
    return _read_media(resource.blob, resource.mime_type or "", name=f"[{resource.uri}]")


def _describe_link(link: types.ResourceLink) -> str:
    about = "; ".join(part for part in (link.mime_type, link.description) if part)
    return f"[{link.title or link.name}]({link.uri})" + (f" {about}" if about else "")


def _read_media(data: str, media_type: str, *, name: str) -> Content:
    """Read an image or a sound. An upstream would refuse the whole conversation because of an
    invalid or oversized one."""
    kind = _KINDS.get(media_type) or _KINDS.get(media_type.partition("/")[0])
    if kind is None:
        return Text(f"{name} (not shown: {cut(media_type) or 'of an unknown type'})")
    if len(data) > _BASE64_CHARACTERS:
        return Text(f"{name} (not shown: more than {MEDIA_BYTES} bytes)")
    if not _is_base64(data):
        return Text(f"{name} (not shown: its bytes are not in base64)")
    return Media(kind=kind, media_type=media_type, data=data)


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False
