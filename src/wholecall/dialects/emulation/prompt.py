"""The instructions that teach a model to call tools in a dialect, and what they cost in tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from wholecall.arguments.compiled_schema import SizedCache
from wholecall.arguments.feedback import build_example
from wholecall.arguments.normalize_schema import Node, children, translate
from wholecall.dialects.dialect import Dialect, Notation, Template, encode_calls, template_of
from wholecall.events import JSON
from wholecall.messages import Choice, Mode, Offer, ToolSpec

_PIECES = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<digits>\d+)|(?P<blank>\s+)|(?P<marks>[!-/:-@\[-`{-~]+)|(?P<other>.)",
    re.DOTALL,
)
# Characters of each class that make one token; a blank goes with what follows it.
_CHARACTERS = {"word": 10, "digits": 3, "marks": 4, "other": 1}


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads for this text."""
    return sum(_count(found) for found in _PIECES.finditer(text))


def _count(piece: re.Match[str]) -> int:
    kind = piece.lastgroup or "other"
    if kind == "blank":
        return piece.group().count("\n") and 1
    return -(-len(piece.group()) // _CHARACTERS[kind])


# Tools written into a prompt: one line of JSON each, the same text for the same tools.
#
# A prompt that begins with the same text is read from the upstream's cache. So tools are sorted by
# name and the keys of their schemas by the alphabet: in which order a client happens to send them
# changes nothing. What no model needs to read is left out.


_UNREAD = frozenset({"title", "$comment"})
"""Keywords that say nothing about a value. Frameworks put a title on every parameter."""


def write_definitions(offer: Offer) -> str:
    """All tools, one a line."""
    return "\n".join(write_definition(offer[name]) for name in sorted(offer))


def write_definition(spec: ToolSpec) -> str:
    """One tool: its name, what it is for, and the JSON Schema of its parameters."""
    description = spec.description.strip()
    said = f'"description":{_dump(description)},' if description else ""
    schema = _WRITTEN.find(_as_text(spec.parameters), _write_schema)
    return f'{{"name":{_dump(spec.name)},{said}"parameters":{schema}}}'


def _write_schema(text: str) -> str:
    """Write the schema for the prompt."""
    return _dump(rewrite(_read_schema(text), _leave_out_unread))


_WRITTEN: SizedCache[str, str] = SizedCache()
"""The same tools come with every turn."""


def plain_schema(parameters: Mapping[str, Any]) -> Node:
    """The schema of a tool's arguments as Draft 2020-12, whatever it was written in."""
    return _read_schema(_as_text(parameters))


def _as_text(parameters: Mapping[str, Any]) -> str:
    # What JSON does not know, tuples and mappings of another make, becomes what it does.
    return json.dumps(parameters, default=dict)


def _read_schema(text: str) -> Node:
    return {"type": "object", **translate(json.loads(text))}


def rewrite(schema: Any, change: Callable[[Node], Node]) -> Any:
    """Change every schema inside a schema, and then itself. The input stays as it is."""
    if not isinstance(schema, dict):
        return schema
    node: Node = dict(schema)
    for (keyword, *key), child in children(schema):
        changed = rewrite(child, change)
        if not key:
            node[str(keyword)] = changed
            continue
        if node[str(keyword)] is schema[keyword]:
            node[str(keyword)] = schema[keyword].copy()
        node[str(keyword)][key[0]] = changed
    return change(node)


def _leave_out_unread(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in _UNREAD}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# The instructions that teach a model to call tools in a dialect.
#
#     <tool_instructions>          the marks, by which the section is found again
#     # Tools …                    what stays the same from turn to turn comes first: the
#     {tools}                      upstream's prefix cache then holds all of it
#     … how a call is written …
#     {example}                    one call of a real tool, written by the dialect's encoder
#     {rules}                      what this one answer may do comes last
#     </tool_instructions>
#
# The words are data: a `Prompt` with named places, one for each family of dialects, which a user
# may replace.


BEGIN, END = "<tool_instructions>", "</tool_instructions>"
_PLACE = re.compile(r"\{(\w+)\}")
_PLACES = ("tools", "example", "rules")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions with places: `{tools}`, `{example}`, `{rules}`; other braces are text."""

    text: str
    otherwise: str = "Call no tool that does not fit the question."
    """The sentence on when not to call, for a free choice."""
    must_call: str = "Your next answer must call a tool."
    must_call_one: str = "Your next answer must call one of these tools: {names}."
    may_repeat: str = "You may write several calls."
    one_at_a_time: str = "Write no more than one call."

    def __post_init__(self) -> None:
        found = _PLACE.findall(self.text)
        known = ", ".join(f"{{{place}}}" for place in _PLACES)
        for place in dict.fromkeys((*found, *_PLACES)):
            if place not in _PLACES:
                raise ValueError(f"the prompt has a place {{{place}}}; the places are {known}")
            if found.count(place) != 1:
                count = found.count(place)
                raise ValueError(f"{{{place}}} stands {count} times in the prompt, and must once")
        if BEGIN in self.text or END in self.text:
            raise ValueError(f"the prompt holds {BEGIN} or {END}, which are put around it anyway")

    def fill(self, places: Mapping[str, str]) -> str:
        """Put values into the places, all at once: a value is never read as a place."""
        return _PLACE.sub(lambda place: places[place[1]], self.text)


def write_prompt(
    dialect: Dialect, offer: Offer, *, choice: Choice | None = None, prompt: Prompt | None = None
) -> str:
    """The section for a system message that offers these tools in this dialect."""
    template = template_of(dialect)
    words = prompt or default_prompt(dialect)
    filled = words.fill(
        {
            "tools": write_definitions(offer),
            "example": write_example(template, offer),
            "rules": " ".join(_rules(offer, choice or Choice(), words=words)),
        }
    )
    return f"{BEGIN}\n{filled.strip()}\n{END}"


def write_silence(*, constrained: bool) -> str:
    """The section for a system message where tools were called and none may be any more."""
    form = _REPLY if constrained else ""
    return f"{BEGIN}\n{_ANSWER_NOW}{form}\n{END}"


def without_prompt(text: str) -> str:
    """A system message's text without the section that it begins with, if it does."""
    if not text.startswith(f"{BEGIN}\n"):
        return text
    _, end, rest = text.partition(f"\n{END}")
    return rest.removeprefix("\n\n") if end else text


# ── The example ─────────────────────────────────────────────────────────────────────

_NAME_IN_TAG = "={key}>"
_MADE_UP: tuple[str, Mapping[str, JSON]] = ("tool_name", {"parameter": "value"})


def write_example(template: Template, offer: Offer) -> str:
    """Write one call of an offered tool: the first for which an example can be made and written.

    One with arguments shows more than one without. If the name of a parameter is part of its tag, a
    call with other parameters is added: from one alone a small model does not see that it is a
    name, and writes `<parameter>`.
    """
    wanted = 2 if _NAME_IN_TAG in template.value else 1
    written: dict[frozenset[str], str] = {}
    for name, arguments in _examples(offer):
        with suppress(ValueError):  # the dialect cannot carry it; another tool may serve
            text = encode_calls(template, [(name, arguments)]).strip()
            written.setdefault(frozenset(arguments), text)
        if sum(map(bool, written)) == wanted:
            break
    without_arguments = written.pop(frozenset(), "")
    made_up = without_arguments or encode_calls(template, [_MADE_UP]).strip()
    return "\n".join(written.values()) or made_up


def _examples(offer: Offer) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    for name in sorted(offer):
        example = build_example(offer[name].parameters)
        if example is not None:
            yield name, example


# ── The rules of one answer ─────────────────────────────────────────────────────────


def _rules(offer: Offer, choice: Choice, *, words: Prompt) -> Iterator[str]:
    if choice.mode is not Mode.REQUIRED:
        yield words.otherwise
    elif choice.names:
        yield words.must_call_one.replace("{names}", ", ".join(sorted(offer)))
    else:
        yield words.must_call
    yield words.may_repeat if choice.parallel else words.one_at_a_time


# ── The words ───────────────────────────────────────────────────────────────────────

_OFFER = """\
# Tools
You can call tools. Each line is one tool, with the JSON Schema of its parameters:
{tools}

"""
# Measured on a model of 1.5 billion parameters with 50 questions: instructed only in how a call is
# written, it explains which call one could make; without the first sentence it calls a tool for
# everything.
_CALL = """\
To talk, to translate, to write, or to tell what you know, answer in plain words.
To find out what only a tool can tell, or to do what only a tool can do, your whole answer is a \
call, in exactly this form, with no other words:
{example}
"""
_WRITE = "Do not describe the call, and never say that you cannot know: write the call.\n"
# With an answer beside the call, and the advice what else to do, the same model abstains three
# times as often and misses no call. Not if the call is JSON: there it describes calls again.
_KNOWN = """\
A question that needs no tool, and your answer:
Who discovered penicillin?
Alexander Fleming.
"""
_IN_WORDS = "Call no tool that does not fit the question: answer in plain words then."
_VALUES: dict[Notation, str] = {
    Notation.JSON: "",
    Notation.TAGS: "Write strings as they are, without quotes; lists and objects as JSON.\n",
    Notation.PYTHON: "Name every argument. Values are Python literals.\n",
    Notation.YAML: "Indent what stands in lists, objects and long strings, as YAML does.\n",
    Notation.GEMMA: "Strings stand between two of the marks that the example has.\n",
}
_THEN = "Then stop. The next message has the results{marked}.\n"
_RULES = "{rules}"

# Without it, a small model writes further calls, or repeats the feedback on the last one.
_ANSWER_NOW = (
    "You called tools, and their results are in the conversation. No tool can be called any more. "
    "Answer the question now from these results, in plain words and whole sentences."
)
_REPLY = ' Your answer is one JSON object: {"reply": "…"}'

# For the sum of two temperatures, a small model adds two that it made up; shown a question in
# steps, it looks them up first. In tags it describes calls then.
_STEPS = """\
Never make up a value. Where a call needs one that you do not have, first call the tool that tells \
it, and wait for the result; then make the next call with it.
A question in steps. "How old will Ada be in 5 years?" needs her age first:
{"calls": [{"name": "get_age", "arguments": {"person": "Ada"}}]}
The result is 31, so the next call is
{"calls": [{"name": "add", "arguments": {"numbers": [31, 5]}}]}
The result is 36, so the answer is
{"reply": "Ada will be 36."}
"""

# Prompts of dialects that their family does not describe.
_OWN: dict[str, Prompt] = {
    # Seen on a model of 1.5 billion parameters, asked 85 questions: with the reply last it
    # calls a tool for everything, words in the reply it copies, and without "never" it says
    # that it cannot know what a tool would tell. A question with its reply changes nothing.
    "constrained": Prompt(
        f"{_OFFER}Your answer is one JSON object and nothing else.\n"
        "To talk, to translate, to write, or to tell what you know, reply:\n"
        '{"reply": "…"}\n'
        "To find out what only a tool can tell, call it, and never say that you cannot know:\n"
        f"{{example}}\n{_STEPS}{_THEN.format(marked=' in <tool_response>')}{_RULES}"
    )
}


def default_prompt(dialect: Dialect) -> Prompt:
    """The instructions of a dialect, unless the user brings others."""
    if dialect.name in _OWN:
        return _OWN[dialect.name]
    template = template_of(dialect)
    mark = template.result.partition("{")[0].strip()
    then = _THEN.format(marked=f" in {mark}" if mark else "")
    told = f"{_OFFER}{_CALL}{_VALUES[template.notation]}{_WRITE}"
    if template.notation is Notation.JSON:
        return Prompt(f"{told}{then}{_RULES}")
    return Prompt(f"{told}{_KNOWN}{then}{_RULES}", otherwise=_IN_WORDS)
