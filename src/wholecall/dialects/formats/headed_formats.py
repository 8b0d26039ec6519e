"""The name in a header, then the arguments as JSON."""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.dialect import THINK, Channel, Dialect, GrammarWithOpeners, Named, Template
from wholecall.dialects.grammars.headed_calls import HeadedCalls, Header

# ── Mistral ─────────────────────────────────────────────────────────────────────────

_MISTRAL = HeadedCalls(
    calls=("[TOOL_CALLS]",), head_end=("[ARGS]", "{"), id_mark="[CALL_ID]", whole_objects=True
)
MISTRAL = Dialect(
    name="mistral",
    written=(GrammarWithOpeners(("[TOOL_CALLS]",), _MISTRAL),),
    reasoning=(Channel("[THINK]", ("[/THINK]",)), THINK),
    dropped=("[/TOOL_CALLS]",),
    named=(Named.HEADS,),
    template=Template("[TOOL_CALLS]{name}[ARGS]{arguments}"),
    models="Mistral 7B v0.3, Nemo, Small 3.2, Devstral, Magistral, Ministral 3",
)

BAR = "\uff5c"
"""The full-width bar of DeepSeek's and StepFun's own tokens."""

# ── DeepSeek ────────────────────────────────────────────────────────────────────────


def _deepseek(bar: str, blank: str = "▁") -> HeadedCalls:
    def token(words: str) -> str:
        return f"<{bar}tool▁{words}{bar}>".replace("▁", blank)

    return HeadedCalls(
        sections=(token("calls▁begin"), token("calls")),
        section_close=(token("calls▁end"),),
        calls=(token("call▁begin"),),
        call_close=(token("call▁end"),),
        head_end=(token("sep"),),
        kind="function",
    )


def _written(grammar: HeadedCalls) -> GrammarWithOpeners:
    return GrammarWithOpeners((*grammar.sections, *grammar.calls), grammar)


def _closers(*grammars: HeadedCalls) -> tuple[str, ...]:
    return tuple(close for each in grammars for close in (*each.call_close, *each.section_close))


def _deepseek_template(call: str) -> Template:
    begin, end = f"<{BAR}tool▁call▁begin{BAR}>", f"<{BAR}tool▁call▁end{BAR}>"
    return Template(
        f"{begin}{call}{end}",
        before=f"<{BAR}tool▁calls▁begin{BAR}>",
        after=f"<{BAR}tool▁calls▁end{BAR}>",
    )


_SEPARATOR = f"<{BAR}tool▁sep{BAR}>"
# With its own tokens, and with what backends make of their bars and blanks.
_SPELLINGS = tuple(_deepseek(bar, blank) for bar in (BAR, "|") for blank in ("▁", "_", " "))
DEEPSEEK_V3 = Dialect(
    name="deepseek_v3",
    written=tuple(map(_written, _SPELLINGS)),
    dropped=_closers(*_SPELLINGS),
    template=_deepseek_template(f"function{_SEPARATOR}{{name}}\n```json\n{{arguments}}\n```"),
    models="DeepSeek V3-0324, R1 and its distillations, Cogito",
)
DEEPSEEK_V31 = Dialect(
    name="deepseek_v31",
    written=DEEPSEEK_V3.written,
    dropped=DEEPSEEK_V3.dropped,
    template=_deepseek_template(f"{{name}}{_SEPARATOR}{{arguments}}"),
    models="DeepSeek V3.1",
)

# ── Kimi K2 ─────────────────────────────────────────────────────────────────────────

_KIMI_ARGUMENTS = "<|tool_call_argument_begin|>"
_KIMI = HeadedCalls(
    sections=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
    section_close=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    calls=("<|tool_call_begin|>",),
    call_close=("<|tool_call_end|>",),
    head_end=(_KIMI_ARGUMENTS, "{"),  # the mark may be left out before an object
    head=Header.COUNTED,
)
# Where a server drops the tokens before the name, it is still counted.
_KIMI_STRIPPED = replace(_KIMI, sections=(), calls=("functions.", "\nfunctions."))
KIMI_K2 = Dialect(
    name="kimi_k2",
    written=(_written(_KIMI), GrammarWithOpeners(("\nfunctions.",), _KIMI_STRIPPED)),
    reasoning=(THINK, Channel("◁think▷", ("◁/think▷",))),
    dropped=(*_closers(_KIMI), *_KIMI.sections, _KIMI_ARGUMENTS),
    template=Template(
        "<|tool_call_begin|>functions.{name}:{index}"
        "<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
        before="<|tool_calls_section_begin|>",
        after="<|tool_calls_section_end|>",
    ),
    models="Kimi K2, K2.5, K2-Thinking",
)

# ── Harmony ─────────────────────────────────────────────────────────────────────────

_END = ("<|end|>", "<|call|>", "<|return|>")


_CHANNELS = ("commentary", "comment", "final", "analysis")
_ADDRESSED = tuple(f"<|channel|>{name} to=" for name in _CHANNELS)
_HARMONY = HeadedCalls(
    calls=(
        *_ADDRESSED,
        *(f"<|start|>assistant{address}" for address in _ADDRESSED),
        "<|start|>assistant to=",
        " to=",  # after the `<|start|>assistant` of the prompt
        "to=",
    ),
    call_close=_END,
    head_end=("<|message|>",),
    head=Header.RECIPIENT,
    thoughts=("<|channel|>analysis",),
    call_end="<|call|>",
)
# The end of the header may be missing where tokens begin it.
_UNENDED = replace(_HARMONY, calls=_HARMONY.calls[: 2 * len(_CHANNELS)], head_end=("json{", "{"))
# What is left of it where a server drops the tokens and keeps the words between them.
_STRIPPED = replace(
    _HARMONY,
    calls=tuple(
        f"{words}to=functions."
        for words in ("assistantcommentary ", "commentary ", "assistant ", "")
    ),
    head_end=("<|message|>", "json{", "code{", "{"),
)
# Among thoughts nothing shows then whether it was a call or a plan: it stays text.
_PLAN = HeadedCalls(calls=("analysis to=functions.",), head_end=())
# What is said to the user; where thoughts have no end of their own, they end here.
_SAID = tuple(
    f"{before}<|channel|>{channel}<|message|>"
    for before in ("", "<|start|>assistant")
    for channel in ("final", "final <|constrain|>json", "final json", "commentary")
)
HARMONY = Dialect(
    name="harmony",
    written=tuple(
        GrammarWithOpeners(each.calls, each) for each in (_HARMONY, _UNENDED, _STRIPPED, _PLAN)
    ),
    reasoning=(Channel("<|channel|>analysis<|message|>", ("<|end|>", "<|return|>", *_SAID)),),
    dropped=(*_END, "<|start|>assistant", "<|start|>", "<|message|>"),
    template=Template(
        "<|start|>assistant<|channel|>commentary to=functions.{name} "
        "<|constrain|>json<|message|>{arguments}<|call|>"
    ),
    models="gpt-oss",
)

# ── Functionary v3.2 ────────────────────────────────────────────────────────────────

_FUNCTIONARY = HeadedCalls(calls=(">>>",), head_end=("\n",), text_name="all")
FUNCTIONARY_V32 = Dialect(
    name="functionary_v32",
    written=(GrammarWithOpeners((">>>",), _FUNCTIONARY),),
    bare=(_FUNCTIONARY,),
    bare_words=True,
    template=Template(">>>{name}\n{arguments}", between="\n"),
    models="Functionary v3.2",
)

# ── Functionary v2 ──────────────────────────────────────────────────────────────────

_FROM = "<|from|>assistant\n"
_FUNCTIONARY_V2 = HeadedCalls(
    calls=(f"{_FROM}<|recipient|>", "<|recipient|>"),
    head_end=("\n<|content|>", "<|content|>"),
    call_close=("<|stop|>",),
    text_name="all",
)
FUNCTIONARY_V2 = Dialect(
    name="functionary_v2",
    written=(_written(_FUNCTIONARY_V2),),
    dropped=("<|stop|>", _FROM, "<|from|>assistant"),
    template=Template("<|from|>assistant\n<|recipient|>{name}\n<|content|>{arguments}<|stop|>"),
    models="Functionary v2",
)

# ── PLaMo 3 ─────────────────────────────────────────────────────────────────────────


def _plamo(word: str) -> tuple[str, str]:
    return f"<|plamo:begin_{word}:plamo|>", f"<|plamo:end_{word}:plamo|>"


_PLAMO_MESSAGE = "<|plamo:msg|>"
_PLAMO_NAME, _PLAMO_NAME_END = _plamo("tool_name")
_PLAMO_ARGUMENTS, _PLAMO_END = _plamo("tool_arguments")
_PLAMO_CALL, _PLAMO_CALL_END = _plamo("tool_request")
_PLAMO_SECTION, _PLAMO_SECTION_END = _plamo("tool_requests")
_PLAMO_HEAD = f"{_PLAMO_NAME_END}{_PLAMO_ARGUMENTS}"
_PLAMO = HeadedCalls(
    sections=(_PLAMO_SECTION,),
    section_close=(_PLAMO_SECTION_END,),
    calls=(f"{_PLAMO_CALL}{_PLAMO_NAME}", _PLAMO_NAME),
    head_end=(f"{_PLAMO_HEAD}{_PLAMO_MESSAGE}", _PLAMO_HEAD),
    call_close=(f"{_PLAMO_END}{_PLAMO_CALL_END}", _PLAMO_END),
)
PLAMO3 = Dialect(
    name="plamo3",
    written=(_written(_PLAMO),),
    reasoning=(Channel(_plamo("think")[0], (_plamo("think")[1],), prompted=True), THINK),
    dropped=(*_closers(_PLAMO), _PLAMO_CALL_END, _PLAMO_MESSAGE),
    template=Template(
        f"{_PLAMO_CALL}{_PLAMO_NAME}{{name}}{_PLAMO_HEAD}{_PLAMO_MESSAGE}{{arguments}}"
        f"{_PLAMO_END}{_PLAMO_CALL_END}",
        before=_PLAMO_SECTION,
        after=_PLAMO_SECTION_END,
    ),
    models="PLaMo 3",
)

# ── Solar Open ──────────────────────────────────────────────────────────────────────

_SOLAR = HeadedCalls(
    sections=("<|begin|>assistant<|tool_calls|>", "<|tool_calls|>"),
    section_close=("<|calls|>",),
    calls=("<|tool_call:begin|>",),
    call_close=("<|tool_call:end|>",),
    head_end=("<|tool_call:args|>",),
    head=Header.ID_FIRST,
    name_mark="<|tool_call:name|>",
)
SOLAR_OPEN = Dialect(
    name="solar_open",
    written=(_written(_SOLAR),),
    reasoning=tuple(
        Channel(begin, ("<|end|>",)) for begin in ("<|begin|>assistant<|think|>", "<|think|>")
    ),
    dropped=(
        *_closers(_SOLAR),
        "<|begin|>assistant<|content|>",
        "<|begin|>assistant",
        "<|content|>",
        "<|end|>",
    ),
    template=Template(
        "<|tool_call:begin|>{index}<|tool_call:name|>{name}"
        "<|tool_call:args|>{arguments}<|tool_call:end|>",
        before="<|begin|>assistant<|tool_calls|>",
        after="<|calls|>",
    ),
    models="Solar-Open-100B",
)

DIALECTS = (
    MISTRAL,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    KIMI_K2,
    HARMONY,
    FUNCTIONARY_V32,
    FUNCTIONARY_V2,
    PLAMO3,
    SOLAR_OPEN,
)
