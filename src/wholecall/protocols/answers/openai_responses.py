"""Answers as OpenAI's responses, streamed.

Everything is said several times, with numbers that rise: an item when it begins, its text in
pieces and whole, the item when it is done, and all items at the end. Clients check that an item
keeps its id. So what the upstream's own reasoning is bound to, its id, must be known before a
word of it is written, and such reasoning waits until its item is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholecall.core.values import JSON, Call, Opened, Reasoning, Usage
from wholecall.protocols.answers.failures import Failure, openai_error
from wholecall.protocols.answers.frames import END, KEEP_ALIVE, frame, quote
from wholecall.protocols.answers.head import PRIVATE, Head, Style
from wholecall.protocols.answers.response_items import (
    IN_PROGRESS,
    ItemIds,
    call_item,
    finish_response,
    message_item,
    reasoning_item,
    summary_part,
    text_part,
    write_response,
)
from wholecall.protocols.answers.writer import ChoiceWriter, Finish
from wholecall.protocols.requests.encoding.openai_responses import CALL_EXTRAS, ITEM, MESSAGE, PROTOCOL
