"""The history of Anthropic's protocol: calls and results are blocks inside messages.

All results of a turn are in the one user message after it, before anything else that the user says.
Results in separate messages, or after a text, are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from wholecall.protocols.history import (
    LETTERS_AND_DIGITS,
    Aside,
    ChangeKind,
    HistoryForm,
    IdRule,
    Mending,
    Piece,
    ReasoningRule,
    Spot,
    StoredCall,
    StoredOutput,
    StoredResult,
    StoredTurn,
    System,
    Target,
    Wire,
    find_by_model,
    is_blank,
    read_arguments,
    read_id,
    tidy,
)

_OUTPUT = StoredOutput("content", "text")
ANTHROPIC_IDS = IdRule(LETTERS_AND_DIGITS | {"_", "-"})


def _split(messages: Sequence[Any], mending: Mending) -> list[Piece]:
    spots = ((Spot(at, mending), message) for at, message in enumerate(messages))
    pieces = (piece for spot, message in spots for piece in _read(message, spot))
    return list(_merge_turns(pieces, mending))


def _read(message: Any, spot: Spot) -> list[Piece]:
    role = message.get("role") if isinstance(message, Mapping) else None
    reader = _READERS.get(role) if isinstance(role, str) else None
    if reader is None:
        return [Aside(spot.at, message, opaque=True)]
    content = message.get("content")
    if not isinstance(content, str | list | None):
        return [Aside(spot.at, message, opaque=True)]
    if isinstance(content, str) and not is_blank(content):
        return [Aside(spot.at, message)]
    read = reader(message, spot) if isinstance(content, list) else []
    if not read:
        spot.note(ChangeKind.BLANK_DROPPED, "message")
    return read


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


def _read_said(message: Wire, spot: Spot) -> list[Piece]:
    tidied = tidy(message, spot)
    return [Aside(spot.at, tidied)] if tidied["content"] else []


def _read_user(message: Wire, spot: Spot) -> list[Piece]:
    blocks = tidy(message, spot)["content"]
    if not any(_is(block, "tool_result") for block in blocks):
        return [Aside(spot.at, {**message, "content": blocks})] if blocks else []
    # The rest of the message is one piece, at the place where it began.
    rest = [block for block in blocks if not _is(block, "tool_result")]
    begins = blocks.index(rest[0]) if rest else len(blocks)
    return [
        *(_read_result(block, spot) for block in blocks[:begins]),
        Aside(spot.at, {**message, "content": rest}),
        *(_read_result(b, spot) for b in blocks[begins:] if _is(b, "tool_result")),
    ]


def _read_result(block: Wire, spot: Spot) -> StoredResult:
    # A result may leave its content out, but not if it is an error.
    if "content" in block or block.get("is_error"):
        block = _OUTPUT.fill_blank(block, spot)
    return StoredResult(spot.at, read_id(block, "tool_use_id"), block)


def _read_assistant(message: Wire, spot: Spot) -> list[Piece]:
    tidied = tidy(message, spot)
    blocks = [block for block in _gather_inputs(tidied["content"]) if _keeps(block, spot)]
    # Results that a client stored with their calls belong to the next user message.
    results = [_read_result(block, spot) for block in blocks if _is(block, "tool_result")]
    blocks = [block for block in blocks if not _is(block, "tool_result")]
    if any(_is(block, "tool_use") for block in blocks):
        entries = tuple(_read_entry(block, spot) for block in blocks)
        return [StoredTurn(spot.at, entries, message), *results]
    return [*([Aside(spot.at, {**message, "content": blocks})] if blocks else []), *results]


_READERS: dict[str, Callable[[Wire, Spot], list[Piece]]] = {
    "assistant": _read_assistant,
    "user": _read_user,
    "system": _read_said,
}


_PIECE = "input_json_delta"


def _gather_inputs(blocks: Sequence[Any]) -> list[Any]:
    """Put the arguments that a client stored as they streamed, in blocks of their own, back into
    their calls. The API refuses such blocks."""
    gathered: list[Any] = []
    pieces: dict[int, list[str]] = {}
    latest: int | None = None
    for block in blocks:
        if not _is(block, _PIECE):
            gathered.append(block)
            latest = len(gathered) - 1 if _is(block, "tool_use") else latest
        elif latest is not None:
            pieces.setdefault(latest, []).append(str(block.get("partial_json") or ""))
    for at, texts in pieces.items():
        call = {key: value for key, value in gathered[at].items() if key != "index"}
        text = "".join(texts)
        gathered[at] = call if call.get("input") or not text else {**call, "input": text}
    return gathered


def _keeps(block: Any, spot: Spot) -> bool:
    """Tell whether a block goes back. Thinking that goes back is never changed."""
    thinking, redacted = _is(block, "thinking"), _is(block, "redacted_thinking")
    unwanted: dict[ReasoningRule, bool] = {
        ReasoningRule.ALL: False,
        ReasoningRule.SIGNED: thinking and not block.get("signature"),
        ReasoningRule.NONE: thinking or redacted,
    }
    if not unwanted[spot.target.reasoning]:
        return True
    spot.note(ChangeKind.REASONING_DROPPED)
    return False


def _read_entry(block: Any, spot: Spot) -> Any:
    if not _is(block, "tool_use"):
        return block
    id = read_id(block, "id")
    arguments, lost = read_arguments(block.get("input"))
    if arguments is block.get("input"):
        return StoredCall(spot.at, id, block)
    spot.note(ChangeKind.ARGUMENTS_EMPTIED if lost else ChangeKind.ARGUMENTS_ENCODED, id)
    return StoredCall(spot.at, id, {**block, "input": arguments}, lost)


def _merge_turns(pieces: Iterator[Piece], mending: Mending) -> Iterator[Piece]:
    """Calls made together but stored in a message each are one turn.

    Parted, they would teach the model to call one tool at a time, and the thinking before
    the first would be missing before the others.
    """
    for are_turns, group in groupby(pieces, lambda piece: isinstance(piece, StoredTurn)):
        if not are_turns:
            yield from group
            continue
        turns = [piece for piece in group if isinstance(piece, StoredTurn)]
        for turn in turns[1:]:
            mending.note(ChangeKind.TURNS_MERGED, turn.at)
        entries = tuple(entry for turn in turns for entry in turn.entries)
        yield replace(turns[0], at=turns[-1].at, entries=entries)


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _join(pieces: Sequence[Piece], _: Mending) -> list[Any]:
    messages: list[Any] = []
    rest = deque(pieces)
    while rest:
        piece = rest.popleft()
        if isinstance(piece, StoredTurn):
            messages.append({**piece.frame, "content": piece.natives})
        elif isinstance(piece, StoredResult):
            messages.append(_write_results(piece, rest))
        # A message that held nothing but results is empty now.
        elif piece.opaque or piece.native["content"]:
            messages.append(piece.native)
    return messages


def _write_results(first: StoredResult, rest: deque[Piece]) -> Wire:
    """Write a turn's results and, after them, what the user said in the same messages.

    Later messages stay separate: the upstream joins them as it always did.
    """
    results = [first]
    while rest and isinstance(piece := rest[0], StoredResult):
        results.append(piece)
        rest.popleft()
    last = max(result.at for result in results)
    said = list(_take_said(rest, last))
    blocks = [block for message in said for block in _write_blocks(message["content"])]
    frame = said[0] if said else {"role": "user"}
    return {**frame, "content": [*(result.native for result in results), *blocks]}


def _take_said(rest: deque[Piece], last: int) -> Iterator[Wire]:
    while rest and isinstance(piece := rest[0], Aside) and piece.at <= last:
        if piece.opaque or piece.native["role"] != "user":
            return
        rest.popleft()
        yield piece.native


def _write_blocks(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _fill(call: StoredCall, words: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": call.id, "content": words, "is_error": True}


HISTORY = HistoryForm(
    split=_split,
    join=_join,
    call_id="id",
    result_id="tool_use_id",
    fill=_fill,
    annotate=_OUTPUT.annotate,
    target=Target(ids=ANTHROPIC_IDS),
)


# ── What the upstreams accept ───────────────────────────────────────────────────────


# Models before Opus 4.8 take no system messages at all, later ones take them after a user's.
ANTHROPIC = Target(ANTHROPIC_IDS, reasoning=ReasoningRule.SIGNED, system=System.APART)


@dataclass(frozen=True, slots=True)
class AnthropicTraits:
    """The requirements of Anthropic's endpoint, or an imitation of it, for some models."""

    target: Target = ANTHROPIC
    sampling: bool = True
    """True if `temperature` and `top_p` are accepted."""
    top_p_with_temperature: bool = False
    """True if both are accepted together."""
    efforts: tuple[str, ...] = ()
    """The efforts that it takes, next to thinking by its own measure; none: a number of tokens."""
    thinks: bool = True
    most_output: int | None = None
    """The most tokens of an answer, if they are known."""
    is_claude: bool = True


_CLAUDE = AnthropicTraits(most_output=64_000)
# Since Opus 4.7 they are refused (https://github.com/UKGovernmentBEIS/inspect_ai/issues/3721).
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_NEWER_CLAUDE = AnthropicTraits(sampling=False, efforts=_EFFORTS, most_output=128_000)
# Effort and adaptive thinking came with 4.6; `xhigh` came later.
_OPUS_4_6 = AnthropicTraits(efforts=("low", "medium", "high", "max"), most_output=128_000)
_SONNET_4_6 = replace(_OPUS_4_6, most_output=64_000)
_CLAUDE_3 = AnthropicTraits(thinks=False, most_output=4096)
_CLAUDE_3_5 = AnthropicTraits(thinks=False, most_output=8192)
_OPUS_4 = AnthropicTraits(most_output=32_000)
# The others that speak this protocol sign nothing, and want their reasoning back all the same.
_IMITATOR = AnthropicTraits(
    replace(ANTHROPIC, reasoning=ReasoningRule.ALL), top_p_with_temperature=True, is_claude=False
)

_MODELS: tuple[tuple[str, AnthropicTraits], ...] = (
    ("claude-opus-4-7", _NEWER_CLAUDE),
    ("claude-opus-4-8", _NEWER_CLAUDE),
    ("claude-mythos-preview", replace(_NEWER_CLAUDE, efforts=_OPUS_4_6.efforts)),
    ("claude-opus-4-6", _OPUS_4_6),
    ("claude-sonnet-4-6", _SONNET_4_6),
    ("claude-opus-4-5", _CLAUDE),
    ("claude-2", _CLAUDE_3),
    ("claude-3-7", _CLAUDE),
    ("claude-3-5", _CLAUDE_3_5),
    ("claude-3", _CLAUDE_3),
    ("claude-opus-4", _OPUS_4),
    ("claude-sonnet-4", _CLAUDE),
    ("claude-haiku-4", _CLAUDE),
    ("claude", _NEWER_CLAUDE),
)


def anthropic_traits(model: str) -> AnthropicTraits:
    """Return the requirements of Anthropic's endpoint, or an imitation of it, for this model."""
    name = model.lower().rpartition("/")[2].rpartition("anthropic.")[2]  # as on Bedrock
    return find_by_model(name, _MODELS, other=_IMITATOR)
