"""Every dialect by its name, and the way in which a model is given tools."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from wholecall.arguments.describe import name_nearest
from wholecall.dialects.dialect import (
    END_TOKENS,
    THINK,
    Dialect,
    Drift,
    Grammar,
    GrammarWithOpeners,
    Named,
    OfferedOnly,
    template_of,
)
from wholecall.dialects.formats import (
    headed_formats,
    json_formats,
    literal_formats,
    tag_formats,
    unannounced_formats,
)
from wholecall.dialects.grammars.headed_calls import HeadedCalls, LineCalls
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import Shape
from wholecall.dialects.grammars.python_calls import PythonCalls
from wholecall.dialects.grammars.tag_calls import TagCalls
from wholecall.errors import UnusableDialect
from wholecall.events import Inconsistent, Oddity

_WRITTEN = (
    *tag_formats.TAGGED_DIALECTS,
    *json_formats.DIALECTS,
    *headed_formats.DIALECTS,
    *tag_formats.INVOKED_DIALECTS,
    *literal_formats.DIALECTS,
    *tag_formats.NAMED_DIALECTS,
)
_BARE = json_formats.BARE_DIALECTS

# Words that are common in prose are not openers unless the format was announced, and a fence after
# prose shows an example.
_TOO_PLAIN = frozenset(
    {
        *(">>>", "[", "{", "to=", " to=", "Here are my reasoning steps:"),
        *("```", "```json", "```tool_code\n"),
    }
)


# Tokens around a section of calls are not prose, even alone.
_SECTION = "_section_"


def _auto(name: str, untyped: Shape | None = None) -> Dialect:
    """All formats at once: the first opener that is followed by a call selects one."""
    written = tuple(
        GrammarWithOpeners(
            tuple(each for each in entry.openers if each not in _TOO_PLAIN),
            _retyped(entry.grammar, untyped),
        )
        for dialect in (*_WRITTEN, *_BARE)
        for entry in dialect.written
    )
    channels = dict.fromkeys(channel for dialect in _WRITTEN for channel in dialect.reasoning)
    return Dialect(
        name=name,
        written=(*written, *unannounced_formats.WRITTEN),
        bare=(
            JsonCalls(closers=("</tool_call>", "</tool_calls>"), marked=False),
            PythonCalls(marked=False),
        ),
        alone=unannounced_formats.ALONE,
        fenced=tuple(pair for dialect in _WRITTEN for pair in dialect.fenced),
        reasoning=tuple(each for each in channels if each.open not in _TOO_PLAIN),
        texts=tuple(channel for each in _WRITTEN for channel in each.texts),
        dropped=tuple(mark for each in _WRITTEN for mark in each.dropped if _SECTION in mark),
        remains=(*END_TOKENS, *dict.fromkeys(mark for each in _WRITTEN for mark in each.dropped)),
        named=(Named.TAGS, Named.HEADS),
        rescues=True,
        models="any",
    )


def _retyped(grammar: Grammar, untyped: Shape | None) -> Grammar:
    if untyped is None or not isinstance(grammar, TagCalls):
        return grammar
    return replace(grammar, untyped=untyped)


AUTO = _auto("auto")
# The answer of a model whose response template is not at hand: parameters may also stand in lines.
_LINES = LineCalls(head_end=(">",), closers=("</tool_call>", "</function>"), begin="<function=")
_TEMPLATED = _auto("hf_response_template", Shape.JSON)
# Ollama reads the marker of a model from its template; here all that are followed by JSON may
# stand there.
_TEMPLATE_TAG = replace(
    json_formats.TEMPLATE_TAG,
    written=tuple(
        GrammarWithOpeners(
            tuple(each for each in entry.openers if each not in _TOO_PLAIN), entry.grammar
        )
        for dialect in (json_formats.TEMPLATE_TAG, *_WRITTEN)
        for entry in dialect.written
        if isinstance(entry.grammar, JsonCalls | HeadedCalls)
    ),
)
_ANY = (
    Dialect(name="think_tags", reasoning=(THINK,), models="any that reasons and calls nothing"),
    AUTO,
    json_formats.CONSTRAINED,
    replace(
        _TEMPLATED, written=(*_TEMPLATED.written, GrammarWithOpeners(("<tool_call>",), _LINES))
    ),
)


_OFFERED = tuple(
    GrammarWithOpeners(entry.openers, OfferedOnly(entry.grammar)) for entry in AUTO.written
)


def _with_drift(dialect: Dialect) -> Dialect:
    """A dialect that also reads what `auto` reads: after its own openers, where the answer begins,
    after the openers of other formats, and no plan in the reasoning of other formats. People
    announce a format by an option of their server, and models drift."""
    own = {opener for entry in dialect.written for opener in entry.openers}
    grammars = {entry.grammar for entry in dialect.written}
    marks = _own_marks(dialect)
    same, others = [], []
    for declared, offered in zip(AUTO.written, _OFFERED, strict=True):
        bare_openers = tuple(each.removeprefix("\n") for each in declared.openers)
        if not own.isdisjoint(bare_openers) and declared.grammar not in grammars:
            same.append(_opened_by(offered, tuple(each for each in bare_openers if each in own)))
        others.append(_opened_by(offered, _foreign(declared.openers, marks)))
    known = {*marks, *(close for channel in dialect.texts for close in channel.close)}
    thoughts = (each for each in AUTO.reasoning if known.isdisjoint((each.open, *each.close)))
    drift = Drift(
        written=tuple(each for each in (*same, *others) if each.openers),
        bare=tuple(OfferedOnly(each) for each in AUTO.bare if each not in dialect.bare),
        alone=tuple(OfferedOnly(each) for each in AUTO.alone if each not in dialect.alone),
        fenced=tuple(
            (language, OfferedOnly(grammar))
            for language, grammar in AUTO.fenced
            if (language, grammar) not in dialect.fenced
        ),
        reasoning=tuple(thoughts),
        named=AUTO.named,
    )
    return replace(dialect, drift=drift)


def _opened_by(entry: GrammarWithOpeners, openers: tuple[str, ...]) -> GrammarWithOpeners:
    return GrammarWithOpeners(openers, entry.grammar)


def _foreign(openers: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """The openers of another format. A line end before one that a mark of the dialect begins with
    would take the place of that mark."""
    bare = ((each, each.removeprefix("\n")) for each in openers)
    return tuple(
        plain if any(mark.startswith(plain) for mark in own) else opener
        for opener, plain in bare
        if plain not in own
    )


def _own_marks(dialect: Dialect) -> tuple[str, ...]:
    channels = (each.open for each in (*dialect.reasoning, *dialect.texts))
    openers = (opener for entry in dialect.written for opener in entry.openers)
    marks = (*openers, *channels, *dialect.dropped)
    return tuple(dict.fromkeys(mark.removeprefix("\n") for mark in marks))


class _Dialects(Mapping[str, Dialect]):
    """The dialects by name. What one reads beside its own format is worked out when it is first
    asked for: to do it for all of them took a sixth of the time that the proxy takes to start."""

    def __init__(self, declared: Iterable[Dialect], complete: Iterable[Dialect]) -> None:
        self._complete = {dialect.name: dialect for dialect in complete}
        self.declared = {each.name: each for each in declared} | self._complete

    def __getitem__(self, name: str) -> Dialect:
        if name not in self._complete:
            # Of two threads that ask at the same time, both get the same.
            self._complete.setdefault(name, _with_drift(self.declared[name]))
        return self._complete[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.declared)

    def __len__(self) -> int:
        return len(self.declared)


DIALECTS = _Dialects((*_WRITTEN, *_BARE, _TEMPLATE_TAG), _ANY)


# What servers call the same in their options (`--tool-call-parser`).
_ELSEWHERE: Mapping[str, str] = {
    "apertus2509": "apertus",
    "cohere_command3": "cohere_cmd3",
    "cohere_command4": "cohere_cmd4",
    "deepseek_v32": "deepseek_v32_dsml",
    "deepseek_v4": "deepseek_v4_dsml",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek_v32_dsml",
    "deepseekv4": "deepseek_v4_dsml",
    "functionary": "functionary_v32",
    "glm": "glm45",
    "gigachat3p5": "gigachat35",
    "glm53_flash": "glm47",
    "gpt_oss": "harmony",
    "granite": "granite3",
    "granite4": "hermes",
    "granite_20b_fc": "granite20b_fc",
    "hunyuan": "hunyuan_v3",
    "hy_v3": "hunyuan_v3",
    "hy_v4": "hunyuan_v4",
    "interns1": "internlm2",
    "internlm": "internlm2",
    "iquest_coder": "qwen3_xml",
    "k2_v3": "k2_horizon",
    "ling3": "glm47",
    "llama3": "llama3_json",
    "llama4": "pythonic",
    "llama4_json": "llama3_json",
    "llama4_pythonic": "pythonic",
    "longcat_json": "longcat",
    "mimo": "qwen3_xml",
    "minicpm5xml": "minicpm5",
    "minimax": "minimax_m1",
    "muse": "muse_atem",
    "muse_glimmer": "muse_atem",
    "nemotron_v3": "qwen3_xml",
    "openai": "harmony",
    "phi4_mini_json": "phi4_functools",
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3_coder": "qwen3_xml",
    "step3p5": "qwen3_xml",
    "trinity": "hermes",
    "xlam": "xlam_json",
}


def dialect_named(name: str) -> Dialect:
    """The dialect of this name, or of the name that a server gives to it."""
    written = name.lower().replace("-", "_")
    try:
        return DIALECTS[_ELSEWHERE.get(written, written)]
    except KeyError:
        hint = name_nearest(name, sorted(DIALECTS))
        raise UnusableDialect(f"there is no dialect {name!r}; {hint}") from None


# Recognise a format by its marks, those that its template writes.

_HOLE = re.compile(r"\{\w*\}")
_WORD = re.compile(r"\w{3}")
_FEWEST_MARKS = 2
"""Marks with words in them. A single one may be mentioned in prose, and brackets say nothing."""
MOST_GUESSES = 3


@cache
def _marks_of_all() -> Mapping[str, tuple[str, ...]]:
    forms = {
        name: (written.before, written.call, written.value, written.after)
        for name, dialect in DIALECTS.declared.items()
        if (written := dialect.template) is not None
    }
    parts = {name: _HOLE.split("{}".join(form)) for name, form in forms.items()}
    return {
        name: tuple(dict.fromkeys(filter(None, map(str.strip, each))))
        for name, each in parts.items()
    }


def guess(text: str) -> list[tuple[str, list[str]]]:
    """Return the dialects that a text may be written in, the likeliest first, with the marks of
    each that occur in it. The marks that it lacks count against a dialect."""
    found = [
        (sum(len(mark) if mark in text else -len(mark) for mark in marks), name, marks)
        for name, marks in _marks_of_all().items()
        if any(mark in text for mark in marks)
    ]
    ordered = sorted(found, key=lambda each: -each[0])
    return [(name, [mark for mark in marks if mark in text]) for _, name, marks in ordered]


def explain_unread(text: str, *, announced: str = "") -> Inconsistent | None:
    """Say which format the unread markup of an answer looks like; None if it may be prose."""
    likely = [
        (name, marks)
        for name, marks in (guess(text) if text else ())
        if sum(map(bool, map(_WORD.search, marks))) >= _FEWEST_MARKS
    ]
    if not likely:
        return None
    same = [name for name, marks in likely if marks == likely[0][1]][:MOST_GUESSES]
    detail = f"markup of a call stays in the text: this looks like {' or '.join(same)}"
    if announced not in same:
        detail += f"; set `emulate: {same[0]}`"
    return Inconsistent(Oddity.MARKUP_UNREAD, detail)


# Choose how a model is given tools, by its name: natively, in a dialect, or with a grammar.
#
# A name is compared in a plain form: its last part, in lower case, without a hyphen between a word
# and its number. So `meta-llama/Llama-3.1-8B-Instruct`, `llama3.1:8b` and `ollama/llama3.1` are one
# family. The first pattern that fits decides.
#
# An unknown name is asked natively: that is right if the server supports tools, and otherwise calls
# in the text are rescued. An override is better.


class Means(enum.Enum):
    """By what means a model calls tools."""

    NATIVE = "native"
    DIALECT = "dialect"
    CONSTRAINED = "constrained"


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which one model is given tools."""

    means: Means
    dialect: str = ""
    """The dialect, where there is one."""
    because: str = ""
    """The pattern that decided, `override`, or nothing if no pattern fits."""


AUTO_SUPPORT = "auto"
"""An override that overrides nothing."""

_NATIVE = "native"
_CONSTRAINED = "constrained"

# Services that parse the calls of every model that they serve.
_SERVICES = frozenset(
    {"anthropic", "azure", "azure_ai", "bedrock", "cerebras", "cohere_chat", "databricks"}
    | {"deepinfra", "deepseek", "fireworks_ai", "gemini", "github", "groq", "mistral"}
    | {"nvidia_nim", "openrouter", "perplexity", "sambanova", "together_ai", "vertex_ai", "xai"}
)

# In this order: the more specific comes first.
_TABLE: tuple[tuple[str, str], ...] = (
    # Hosted models, and the open ones that share a maker's name with them.
    ("harmony", "gpt-oss*"),
    (_NATIVE, "gpt-* gpt3* gpt4* gpt5* chatgpt* o1* o3* o4* claude* gemini* grok* nova-* sonar*"),
    (
        _NATIVE,
        "amazon.nova* anthropic.claude* deepseek-chat deepseek-reasoner qwen-max* qwen-plus*",
    ),
    # Trained on a format of their own, whatever they were made of.
    ("xlam_json", "*xlam* watt-tool*"),
    ("qwen3_xml", "*nemotron3*"),
    ("nemotron_toolcall", "*nemotron*"),
    ("functionary_v31", "functionary*v3.1*"),
    ("functionary_v2", "functionary*v2*"),
    ("functionary_v32", "functionary*"),
    ("firefunction_v2", "firefunction*"),
    ("functiongemma", "functiongemma*"),
    ("hermes", "*hermes*"),
    ("pythonic", "toolace*"),
    # Qwen and those that write like it.
    ("iquest_coder_v2", "iquest-coder-v[2-9]*"),
    ("qwen3_xml", "qwen3-coder* qwen3.[5-9]* step3.5* ui-tars* k-exaone2* iquest-coder*"),
    (
        "hermes",
        "qwen2* qwen3* qwq* mimo-vl* bielik* reka-edge* trinity* exaone* k-exaone* smollm3*",
    ),
    ("qwen3_xml", "mimo* ornith*"),
    # Llama.
    ("pythonic", "*llama4* *llama3.2-1b* *llama3.2-3b*"),
    ("llama3_json", "*llama3.[1-3]*"),
    (_CONSTRAINED, "*llama2* *llama3*"),
    # DeepSeek.
    ("deepseek_v4_dsml", "deepseek-v4*"),
    ("deepseek_v31", "deepseek-v3.1* deepseek-v3.2-exp*"),
    ("deepseek_v32_dsml", "deepseek-v3.2*"),
    ("deepseek_v3", "deepseek-v3* deepseek-r1* cogito*"),
    # The others, by their makers.
    ("kimi_k3", "kimi-k3*"),
    ("kimi_k2", "kimi-k2*"),
    ("glm45", "glm4.5* glm4.6*"),
    ("glm47", "glm4.7* glm5* ling3* laguna-s*"),
    ("poolside_v1", "laguna*"),
    ("minimax_m3", "minimax-m3*"),
    ("minimax_m2", "minimax-m2*"),
    ("minimax_m1", "minimax-m1*"),
    (_CONSTRAINED, "mistral7b-instruct-v0.[12]* mixtral8x7b*"),
    ("mistral", "*mistral* mixtral* devstral* magistral* ministral* codestral* pixtral*"),
    ("gemma4", "gemma4*"),
    (_CONSTRAINED, "gemma* codegemma*"),
    ("phi4_functools", "phi4-mini*"),
    (_CONSTRAINED, "phi*"),
    ("granite20b_fc", "granite20b-functioncalling*"),
    ("hermes", "granite4*"),
    ("granite3", "granite*"),
    ("hunyuan_a13b", "hunyuan-a13b*"),
    ("hunyuan_v4", "hunyuan4* hy4*"),
    ("hunyuan_v3", "hunyuan3* hy3*"),
    ("ernie45", "ernie4.5*"),
    ("cohere_cmd4", "command4* north-mini*"),
    ("command_r_plus", "*command-r-plus* *command-r-v*"),
    ("cohere_cmd3", "*command-r7b* *command-a*"),
    ("command_r_plus", "*command-r*"),
    ("internlm2", "internlm2* intern-s1*"),
    ("jamba", "jamba* ai21-jamba*"),
    ("step3", "step3*"),
    ("seed_oss", "seed-oss*"),
    ("longcat", "longcat*"),
    ("apertus", "apertus*"),
    ("apriel", "apriel*"),
    ("gigachat35", "gigachat3.5*"),
    ("gigachat31", "gigachat3.1*"),
    ("gigachat3", "gigachat3*"),
    ("inkling", "inkling*"),
    ("k2_horizon", "k2-horizon*"),
    ("plamo3", "plamo3*"),
    ("sarashina", "sarashina*"),
    ("solar_open2", "solar-open2*"),
    ("solar_open", "solar-open*"),
    ("lfm2", "lfm2*"),
    ("olmo3", "olmo3*"),
    ("dots", "dots*"),
    ("minicpm5", "minicpm5*"),
    ("muse_atem", "muse*"),
    (_CONSTRAINED, "smollm* tinyllama* stablelm* yi1.5*"),
)
_HYPHEN = re.compile(r"(?<=[a-z])[-_](?=\d)")


@lru_cache(maxsize=256)
def way_for(model: str, *, override: str | None = None) -> Way:
    """Return how to give tools to this model.

    `override` is `native`, `constrained`, the name of a dialect, or `auto`: as the table says.

    ```python
    from wholecall.dialects.dialect_registry import way_for

    print(way_for("qwen2.5-coder-1.5b").dialect)
    ```

    ```text
    hermes
    ```
    """
    if override is not None and override != AUTO_SUPPORT:
        return _overridden(override)
    service, _, _ = model.partition("/")
    if service.lower() in _SERVICES and service != model:
        return Way(Means.NATIVE, because=f"{service}/")
    name = plain_name(model)
    for way, patterns in _TABLE:
        for pattern in patterns.split():
            if fnmatchcase(name, pattern):
                return _way(way, because=pattern)
    return Way(Means.NATIVE)


def plain_name(model: str) -> str:
    """The form in which names are compared."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    return _HYPHEN.sub("", last.replace(":", "-"))


def _overridden(override: str) -> Way:
    if override not in (_NATIVE, _CONSTRAINED):
        template_of(dialect_named(override))  # says which there are, or that none can be written
    return _way(override, because="override")


def _way(way: str, *, because: str) -> Way:
    if way in (_NATIVE, _CONSTRAINED):
        return Way(Means(way), because=because)
    return Way(Means.DIALECT, way, because)
