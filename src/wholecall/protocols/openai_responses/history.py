"""The history of OpenAI's Responses protocol: a flat list of items.

A turn is a run of items that the model produced: reasoning, calls, text. Reasoning belongs to the
next item and must not be separated from it, so results follow the whole run.

A call that is marked `async` may be answered at any time, or never; it and its result are left
unchanged (https://developers.openai.com/api/docs/guides/async-tool-calling).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from wholecall.events import Text
from wholecall.messages import Result, ToolKind, ToolSpec
from wholecall.protocols.decoder import CUSTOM, present
from wholecall.protocols.history import (
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
    Target,
    Wire,
    is_blank,
    read_id,
    tidy,
    write_arguments,
)
from wholecall.protocols.history_repair import drop_repeated
from wholecall.protocols.request_fields import fit, read_function, read_word, refuse, speak
from wholecall.protocols.tool_kinds import FUNCTION, INPUT, read_input, text_tool

_OUTPUT = StoredOutput("output", "input_text")
OPENAI_RESPONSES = Target(IdRule(longest=64))
"""The requirements of OpenAI's own endpoint."""
# The calls that the client answers with text. The others (computer, shell, patch) have results of
# their own shapes, which only the client can fill in.
_RESULT_TYPES = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_RESULTS = frozenset(_RESULT_TYPES.values())
_REASONING = "reasoning"
_MODEL_TYPES = frozenset(
    {_REASONING, "mcp_list_tools", "mcp_approval_request", "program", "compaction"}
)
# An item that the upstream holds: it may be a call, or what reasoning belongs to.
_HIDDEN = "item_reference"
# Under their own ids these are known to the upstream together with the reasoning before them.
_LINKED = frozenset({*_RESULT_TYPES, "message"})
_Placed: TypeAlias = tuple[int, Any]


def _split(items: Sequence[Any], mending: Mending) -> list[Piece]:
    unhurried = {read_id(item, "call_id") for item in items if _is_unhurried(item)}
    pieces: list[Piece] = []
    run: list[_Placed] = []
    for at, item in enumerate(items):
        if _is_models(item):
            run.append((at, item))
            continue
        pieces += _read_run(run, mending, hidden=_type(item) == _HIDDEN)
        run = []
        if _type(item) in _RESULTS and read_id(item, "call_id") not in unhurried:
            pieces.append(_read_result(item, Spot(at, mending)))
        else:
            pieces.append(_read_said(item, Spot(at, mending)))
    return pieces + _read_run(run, mending, hidden=False)


def _type(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _HIDDEN
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    # Both may leave their type out.
    return "message" if "role" in item else _HIDDEN


def _is_models(item: Any) -> bool:
    kind = _type(item)
    if kind == "message":
        return bool(item.get("role") == "assistant")
    return kind in _MODEL_TYPES or kind.endswith("_call")


def _is_unhurried(item: Any) -> bool:
    return _type(item) in _RESULT_TYPES and bool(item.get("async"))


def _read_result(item: Wire, spot: Spot) -> Piece:
    filled = _OUTPUT.fill_blank(item, spot)
    return StoredResult(spot.at, read_id(item, "call_id"), filled)


def _read_said(item: Any, spot: Spot) -> Piece:
    kind = _type(item)
    if kind != "message":
        return Aside(spot.at, item, opaque=kind == _HIDDEN)
    tidied = tidy(item, spot)
    return Aside(spot.at, {**tidied, "content": ""} if tidied.get("content") == [] else tidied)


# ── Turns ───────────────────────────────────────────────────────────────────────────


def _read_run(run: Sequence[_Placed], mending: Mending, *, hidden: bool) -> list[Piece]:
    kept = _drop_silence(_drop_reasoning(run, mending), mending)
    read = [(at, _read_entry(item, Spot(at, mending))) for at, item in kept]
    # Drop a repeated call first: then the reasoning before it is at the end.
    once = drop_repeated([entry for _, entry in read], mending)
    left = {id(entry) for entry in once}
    placed = [(at, entry) for at, entry in read if id(entry) in left]
    if not hidden:
        placed = _drop_dangling(placed, mending)
    entries = tuple(entry for _, entry in placed)
    if any(isinstance(entry, StoredCall) for entry in entries):
        return [StoredTurn(placed[-1][0], entries)]
    return [Aside(at, entry) for at, entry in placed]


def _drop_reasoning(run: Sequence[_Placed], mending: Mending) -> list[_Placed]:
    """Drop what the target does not take, and the ids that would ask for it."""
    kept: list[_Placed] = []
    for at, item in run:
        if _type(item) == _REASONING and _is_unwanted(item, mending.target.reasoning):
            mending.note(ChangeKind.REASONING_DROPPED, at)
        else:
            kept.append((at, item))
    return kept if len(kept) == len(run) else [(at, _unlink(item)) for at, item in kept]


def _is_unwanted(item: Wire, wanted: ReasoningRule) -> bool:
    if wanted is ReasoningRule.SIGNED:
        return not item.get("encrypted_content")
    return wanted is ReasoningRule.NONE


def _unlink(item: Wire) -> Wire:
    if _type(item) not in _LINKED:
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _drop_silence(run: Sequence[_Placed], mending: Mending) -> list[_Placed]:
    kept: list[_Placed] = []
    for at, item in run:
        tidied = tidy(item, Spot(at, mending)) if _type(item) == "message" else item
        content = tidied.get("content", [])
        if _type(item) == "message" and (content == [] or is_blank(content)):
            mending.note(ChangeKind.BLANK_DROPPED, at, detail="message")
        else:
            kept.append((at, tidied))
    return kept


def _drop_dangling(run: list[_Placed], mending: Mending) -> list[_Placed]:
    """Drop reasoning at the end of a run: it comes from a cut answer, and upstreams refuse it."""
    while run and not isinstance(run[-1][1], StoredCall) and _type(run[-1][1]) == _REASONING:
        at, _ = run.pop()
        mending.note(ChangeKind.REASONING_DROPPED, at, detail="nothing follows it")
    return run


def _read_entry(item: Wire, spot: Spot) -> StoredCall | Wire:
    kind = _type(item)
    if kind not in _RESULT_TYPES or _is_unhurried(item):
        return item
    id = read_id(item, "call_id")
    if kind != "function_call":
        return StoredCall(spot.at, id, item)  # a custom tool: its input is any text
    text, lost = write_arguments(item.get("arguments"))
    if text == item.get("arguments"):
        return StoredCall(spot.at, id, item)
    spot.note(ChangeKind.ARGUMENTS_EMPTIED if lost else ChangeKind.ARGUMENTS_ENCODED, id)
    return StoredCall(spot.at, id, {**item, "arguments": text}, lost)


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _join(pieces: Sequence[Piece], _: Mending) -> list[Any]:
    items: list[Any] = []
    for piece in pieces:
        items += piece.natives if isinstance(piece, StoredTurn) else [piece.native]
    return items


def _fill(call: StoredCall, words: str) -> Wire:
    kind = _RESULT_TYPES[_type(call.native)]
    return {"type": kind, "call_id": call.id, "output": words}


HISTORY = HistoryForm(
    split=_split,
    join=_join,
    call_id="call_id",
    result_id="call_id",
    fill=_fill,
    annotate=_OUTPUT.annotate,
)


# ── Tools that the client runs and that are not plain functions ───────────────────────
#
# | tool                    | a call of it       | arguments     | its result                |
# |-------------------------|--------------------|---------------|---------------------------|
# | function in a namespace | `function_call`    | by its schema | `function_call_output`    |
# | `custom`, free text     | `custom_tool_call` | `input`       | `custom_tool_call_output` |
# | `shell`                 | `shell_call`       | `action`      | `shell_call_output`       |
# | `local_shell`           | `local_shell_call` | `action`      | `local_shell_call_output` |
# | `apply_patch`           | `apply_patch_call` | `operation`   | `apply_patch_call_output` |
# | `tool_search` (client)  | `tool_search_call` | `arguments`   | `tool_search_output`      |
#
# Elsewhere each of them is a function with the arguments of the third column. A `tool_search` that
# the provider runs is left out elsewhere: there, the tools that it would find are offered at once.


PROTOCOL = "openai-responses"
NAMESPACE = "namespace"
TOOL_SEARCH = "tool_search"
ADDITIONAL_TOOLS = "additional_tools"
SEARCH_RESULT = "tool_search_output"
_Fields = dict[str, Any]
_Wire = Mapping[str, Any]


# ── Results ─────────────────────────────────────────────────────────────────────────


def _write_plain(result: Result) -> _Fields:
    return {"output": speak(result)}


def _read_shell(item: _Wire) -> Result:
    chunks = item.get("output")
    listed = chunks if isinstance(chunks, list) else [{"stdout": chunks}]
    said = [_tell_chunk(chunk) for chunk in listed if isinstance(chunk, Mapping)]
    return Result((Text("\n".join(said)),))


def _tell_chunk(chunk: _Wire) -> str:
    outcome = chunk.get("outcome")
    ended = outcome if isinstance(outcome, Mapping) else {}
    code = ended.get("exit_code")
    told = {"timeout": "(timed out)", "exit": f"(exit code {code})" if code else ""}
    lines = (chunk.get("stdout"), chunk.get("stderr"), told.get(str(ended.get("type"))))
    return "\n".join(str(line).rstrip("\n") for line in lines if line)


def _write_shell(result: Result) -> _Fields:
    outcome = {"type": "exit", "exit_code": int(result.failed)}
    texts = {"stdout": "", "stderr": "", "stderr" if result.failed else "stdout": result.text}
    return {"output": [{**texts, "outcome": outcome}]}


def _read_patched(item: _Wire) -> Result:
    status = str(item.get("status") or "completed")
    text = item.get("output") or status
    return Result((Text(str(text)),), failed=status == "failed")


def _write_patched(result: Result) -> _Fields:
    return {"status": "failed" if result.failed else "completed", "output": result.text}


def _read_found(item: _Wire) -> Result:
    tools = item.get("tools")
    names = [
        str(tool.get("name") or tool.get("type"))
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, Mapping)
    ]
    return Result((Text(f"Tools that can be called now: {', '.join(names) or 'no others'}."),))


def _write_found(_: Result) -> _Fields:
    return {"tools": [], "execution": "client", "status": "completed"}


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _as_they_are(arguments: _Wire) -> Any:
    return arguments


def _write_exec(arguments: _Wire) -> Any:
    return {"type": "exec", "env": {}, **arguments}


def _read_object(value: Any) -> _Wire:
    return present(value) if isinstance(value, Mapping) else {}


def _read_exec(value: Any) -> _Wire:
    return {key: given for key, given in _read_object(value).items() if key != "type"}


def _read_free(value: Any) -> _Wire:
    return {INPUT: value if isinstance(value, str) else ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolItem:
    """The form of the calls and the results of one type of tool."""

    type: str
    call: str
    """The type of the item that is a call."""
    result: str
    prefix: str
    """The beginning of its items' ids."""
    holder: str
    """The field of a call that holds the arguments."""
    read: Callable[[Any], _Wire] = _read_object
    write: Callable[[_Wire], Any] = _as_they_are
    read_result: Callable[[_Wire], Result] | None = None
    """None: the output is a content, as that of a function."""
    write_result: Callable[[Result], _Fields] = _write_plain
    result_id: str = "call_id"
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a call."""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def read_call(self, item: _Wire) -> _Wire:
        """Return the arguments of a call."""
        return self.read(item.get(self.holder))

    def write_call(self, kind: ToolKind, arguments: _Wire) -> _Fields:
        """Return the fields of a call that depend on the tool."""
        return {**wire_name(kind), self.holder: self.write(arguments), **self.more}


def wire_name(kind: ToolKind) -> _Fields:
    """Return the fields that name the tool of a call."""
    return present({"name": kind.name or None, NAMESPACE: kind.namespace or None})


def _texts(*names: str) -> _Fields:
    return {name: {"type": "string"} for name in names}


def _object(properties: _Fields, *required: str) -> _Fields:
    # Later versions of the tool may have parameters that are not known here.
    rules = {"required": list(required), "additionalProperties": True}
    return {"type": "object", "properties": properties, **rules}


_LINES = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_COUNT = {"type": "integer", "minimum": 0}
_DIFF = (
    "The change in the V4A format: lines of context begin with a space, removed lines with `-`, "
    "added lines with `+`, and a line `@@` with a nearby line of code begins each place. All lines "
    "of a new file begin with `+`. Omit it to delete a file."
)
_ITEMS = (
    ToolItem(
        type=CUSTOM,
        call="custom_tool_call",
        result="custom_tool_call_output",
        prefix="ctc",
        holder="input",
        read=_read_free,
        write=read_input,
    ),
    ToolItem(
        type="shell",
        call="shell_call",
        result="shell_call_output",
        prefix="sh",
        holder="action",
        read_result=_read_shell,
        write_result=_write_shell,
        description="Run commands in a shell, one after the other.",
        parameters=_object(
            {"commands": _LINES, "timeout_ms": _COUNT, "max_output_length": _COUNT}, "commands"
        ),
    ),
    ToolItem(
        type="local_shell",
        call="local_shell_call",
        result="local_shell_call_output",
        prefix="lsh",
        holder="action",
        read=_read_exec,
        write=_write_exec,
        result_id="id",
        description="Run a command on the user's machine. It is a list: program and arguments.",
        parameters=_object(
            {
                "command": _LINES,
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                "timeout_ms": _COUNT,
                **_texts("user", "working_directory"),
            },
            "command",
        ),
    ),
    ToolItem(
        type="apply_patch",
        call="apply_patch_call",
        result="apply_patch_call_output",
        prefix="apc",
        holder="operation",
        read_result=_read_patched,
        write_result=_write_patched,
        description="Create, change or delete one file.",
        parameters=_object(
            {
                "type": {"enum": ["create_file", "update_file", "delete_file"]},
                **_texts("path"),
                "diff": {"type": "string", "description": _DIFF},
            },
            "type",
            "path",
        ),
    ),
    ToolItem(
        type=TOOL_SEARCH,
        call="tool_search_call",
        result=SEARCH_RESULT,
        prefix="tsc",
        holder="arguments",
        read_result=_read_found,
        write_result=_write_found,
        more={"execution": "client"},
        description="Find further tools. What it finds can be called afterwards.",
    ),
)
BY_TYPE = {item.type: item for item in _ITEMS}
BY_CALL = {item.call: item for item in _ITEMS}
BY_RESULT = {item.result: item for item in _ITEMS}


def find_form(kind: ToolKind | None) -> ToolItem | None:
    """Return the form of a tool's calls; None for those that are function calls."""
    return None if kind is None else BY_TYPE.get(kind.type)


# ── Definitions ─────────────────────────────────────────────────────────────────────


def read_kinds(definition: Any, at: str) -> Sequence[ToolSpec] | None:
    """Read a definition of tools in this table; None for any other tool."""
    fields = fit(definition, dict[str, Any], at=at)
    reader = _READERS.get(str(fields.get("type")))
    return None if reader is None or _is_hosted(fields) else list(reader(fields, at))


def _is_hosted(fields: _Wire) -> bool:
    """Return True if the provider runs a tool whose type the client may run as well."""
    if fields["type"] == TOOL_SEARCH:
        return fields.get("execution") != "client"
    environment = fields.get("environment")
    kind = environment.get("type") if isinstance(environment, Mapping) else None
    return str(kind).startswith("container")


def read_inline(items: object) -> Iterator[tuple[Any, str]]:
    """Yield the definitions that stand in items of the input, each with its path."""
    for at, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping) and item.get("type") in (ADDITIONAL_TOOLS, SEARCH_RESULT):
            tools = fit(item.get("tools") or [], list[Any], at=f"input[{at}].tools")
            yield from ((tool, f"input[{at}].tools[{place}]") for place, tool in enumerate(tools))


def _read_namespace(fields: _Wire, at: str) -> Iterator[ToolSpec]:
    """Read the functions of a namespace. Each is told what all of them are for."""
    namespace, about = _read_name(fields, at), read_word(fields.get("description"))
    tools = fit(fields.get("tools") or [], list[Any], at=f"{at}.tools")
    for place, tool in enumerate(tools):
        where = f"{at}.tools[{place}]"
        wire = fit(tool, dict[str, Any], at=where)
        is_custom = wire.get("type") == CUSTOM
        for spec in _read_custom(wire, where) if is_custom else [read_function(wire, where)]:
            kind = spec.kind or ToolKind(PROTOCOL, FUNCTION, spec.name)
            told = "\n".join(filter(None, (spec.description, about)))
            yield replace(spec, description=told, kind=replace(kind, namespace=namespace))


def _read_custom(fields: _Wire, at: str) -> Iterator[ToolSpec]:
    kind = ToolKind(PROTOCOL, CUSTOM, _read_name(fields, at))
    form = fields.get("format")
    rules = form if isinstance(form, Mapping) and form.get("type") == "grammar" else {}
    yield text_tool(
        kind,
        description=str(fields.get("description") or ""),
        syntax=str(rules.get("syntax") or ""),
        grammar=str(rules.get("definition") or ""),
    )


def _read_own(fields: _Wire, _: str) -> Iterator[ToolSpec]:
    item = BY_TYPE[fields["type"]]
    yield ToolSpec(item.type, item.parameters, item.description, kind=ToolKind(PROTOCOL, item.type))


def _read_search(fields: _Wire, at: str) -> Iterator[ToolSpec]:
    schema = fit(fields.get("parameters") or {}, dict[str, Any], at=f"{at}.parameters")
    item = BY_TYPE[TOOL_SEARCH]
    description = str(fields.get("description") or item.description)
    yield ToolSpec(item.type, schema, description, kind=ToolKind(PROTOCOL, item.type))


def _read_name(fields: _Wire, at: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise refuse(f"{at}.name", "a tool of this type has a name")
    return name


_READERS: dict[str, Callable[[_Wire, str], Iterator[ToolSpec]]] = {
    NAMESPACE: _read_namespace,
    CUSTOM: _read_custom,
    "local_shell": _read_own,
    "apply_patch": _read_own,
    "shell": _read_own,
    TOOL_SEARCH: _read_search,
}
