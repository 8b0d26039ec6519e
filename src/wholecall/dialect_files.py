"""Dialects from files: learned from a chat template, or loaded from what describes one.

A dialect is written and read as JSON; the same tables describe it for the command line and the
docs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wholecall.arguments.describe import name_nearest
from wholecall.dialects.dialect import Dialect, Grammar, Named, Notation, Template, encode_calls
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.grammars.headed_calls import HeadedCalls, LineCalls
from wholecall.dialects.grammars.json_calls import JsonCalls, ReplyOrCalls
from wholecall.dialects.grammars.literal_calls import ArrowCalls, AttributeCalls, GemmaCalls
from wholecall.dialects.grammars.nested_tag_calls import (
    ChildTagCalls,
    MarkedTagCalls,
    NamedTagCalls,
)
from wholecall.dialects.grammars.python_calls import PythonCalls, RawCode
from wholecall.dialects.grammars.tag_calls import RoutedCalls, SuffixedCalls, TagCalls
from wholecall.dialects.grammars.yaml_calls import NamedYamlCalls
from wholecall.dialects.learn.call_shapes import MANNERS, TOOLS, Manner, Probe, conversations
from wholecall.dialects.learn.learner import Learned, learn
from wholecall.dialects.learn.response_template import load_response_template
from wholecall.errors import MissingExtra, UnusableDialect
from wholecall.events import JSON

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.parser import Parser

SECONDS = 10
"""Processor time for all conversations of one template. Real ones need a tenth of a second."""
MEMORY = 1 << 30
"""Address space of the process: Python and jinja2 take a fifth of it."""
LONGEST = 1 << 20
"""Characters of a template, and of what it writes."""


class TemplateRefused(Exception):
    """`raise_exception` of a template: it does not accept this conversation."""


def _refuse(message: str) -> None:
    raise TemplateRefused(message)


def _as_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """As transformers' `tojson`: characters stay themselves, nothing is escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def limit_process() -> None:
    """Let the process end when it needs more than a template may."""
    if sys.platform != "win32":  # which has no such limits; the parent's timeout holds there
        import resource  # noqa: PLC0415 - there is none on Windows

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def serve(order: str) -> Iterator[str]:
    """The lines that answer an order."""
    described = json.loads(order)
    for conversation in described["conversations"]:
        rendering = render_one(described["template"], {**described["tokens"], **conversation})
        yield json.dumps(rendering) + "\n"


def render_one(source: str, names: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what a template writes for these names, or why it does not."""
    # An optional extra, loaded only in this process.
    import jinja2  # noqa: PLC0415
    from jinja2.ext import Extension  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    class Generation(Extension):
        """`{% generation %}` marks what a model wrote, for training; it writes nothing."""

        tags: set[str] = {"generation"}  # noqa: RUF012 - jinja2 declares it so

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _as_json
    environment.globals.update(raise_exception=_refuse, strftime_now=_now)
    try:
        text = environment.from_string(source).render(names)
    except (TemplateRefused, jinja2.TemplateError) as error:
        return {"text": None, "why": str(error)[:300]}
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # What an expression of the template does with values that it did not expect.
        return {"text": None, "why": f"{type(error).__name__}: {error}"[:300]}
    return {"text": text, "why": ""} if len(text) <= LONGEST else {"text": None, "why": "too long"}


# ── Chat templates, rendered in a process with little time and memory ─────────────────
#
# A chat template is a program that came with a model: it may loop without end or allocate
# gigabytes. jinja2's sandbox keeps it away from Python's internals, and this process limits its
# time and memory. A failure is reported with a reason.


@dataclass(frozen=True, slots=True)
class Rendering:
    """The output of a template, or the reason why it is missing."""

    text: str | None
    why: str = ""


def render(
    template: str,
    conversations: Sequence[Mapping[str, JSON]],
    *,
    tokens: Mapping[str, str] | None = None,
    timeout: float = 2 * SECONDS,
) -> list[Rendering]:
    """Render conversations: each has `messages`, and what else the template is to see.

    `timeout` is in seconds of the clock; the process has its own limit of processor time.
    """
    if len(template) > LONGEST:
        raise UnusableDialect(f"the chat template has more than {LONGEST} characters")
    order = {"template": template, "tokens": dict(tokens or {}), "conversations": [*conversations]}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "wholecall.dialect_files"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnusableDialect(f"the chat template did not end within {timeout} s") from None
    if done.returncode:
        raise failure(done.stderr)
    return [Rendering(**json.loads(line)) for line in done.stdout.splitlines()]


def failure(told: str) -> Exception:
    """Return the error in the last line of a failed process."""
    last = (told.strip().splitlines() or ["it needed too much time or memory"])[-1]
    if "jinja2" in last and "ModuleNotFoundError" in last:
        return MissingExtra("chat templates", "learn")
    return UnusableDialect(f"the chat template could not be rendered: {last[:300]}")


_TOKENS = {"bos_token": "", "eos_token": "", "pad_token": "", "unk_token": ""}


def learn_dialect(
    template: str, *, name: str = "learned", tokens: Mapping[str, str] | None = None
) -> Learned:
    """Return the dialect in which a chat template writes calls, or raise UnusableDialect with the
    reason.

    `tokens` are the tokenizer's special ones, such as `bos_token`.
    """
    renderings = render(template, _orders(), tokens={**_TOKENS, **(tokens or {})})
    reasons: list[str] = []
    for start in range(0, len(renderings), len(Probe)):
        written = dict(zip(Probe, renderings[start : start + len(Probe)], strict=True))
        try:
            return learn(_texts(written), name=name)
        except UnusableDialect as error:
            reasons.append(f"{error}{_why(written)}")
    raise UnusableDialect(reasons[_best(reasons)])


def _orders() -> list[dict[str, Any]]:
    return [_order(manner, probe) for manner in MANNERS for probe in Probe]


def _order(manner: Manner, probe: Probe) -> dict[str, Any]:
    return {
        "messages": conversations(manner)[probe],
        "tools": TOOLS,
        "add_generation_prompt": probe is Probe.PROMPT,
    }


def _texts(written: Mapping[Probe, Rendering]) -> dict[Probe, str]:
    return {probe: each.text for probe, each in written.items() if each.text is not None}


def _why(written: Mapping[Probe, Rendering]) -> str:
    why = written[Probe.ONE].why
    return f": {why}" if why else ""


def _best(reasons: list[str]) -> int:
    """The reason that says most: of a template that wrote a call, if there is one."""
    told = [index for index, reason in enumerate(reasons) if "a form of its own" in reason]
    return told[0] if told else 0


# ── Files ───────────────────────────────────────────────────────────────────────────


def load_dialect(path: str | Path) -> Dialect:
    """A dialect from a file: a stored one, a `response_template`, or a `tokenizer_config.json`
    with either that or a chat template; or a chat template itself."""
    path = Path(path)
    text = _read(path)
    if path.suffix in (".jinja", ".jinja2", ".j2"):
        return learn_dialect(text, name=path.stem).dialect
    try:
        described = json.loads(text)
    except ValueError as error:
        raise UnusableDialect(f"{path.name} is neither JSON nor a .jinja file: {error}") from None
    if isinstance(described, Mapping) and VERSION_KEY in described:
        return read_dialect(described)
    if _is_tokenizer(described) and "response_template" not in described:
        template, tokens = _chat_template(described)
        return learn_dialect(template, name=path.stem, tokens=tokens).dialect
    return load_response_template(described, name=path.stem)


def save_dialect(dialect: Dialect, path: str | Path) -> None:
    """Store a dialect as JSON."""
    text = json.dumps(dump_dialect(dialect), ensure_ascii=False, indent=2)
    Path(path).write_text(text + "\n", encoding="utf-8")


def load_chat_template(path: str | Path) -> tuple[str, dict[str, str]]:
    """A chat template and its tokens, from a `.jinja` file or a `tokenizer_config.json`."""
    path = Path(path)
    text = _read(path)
    if path.suffix != ".json":
        return text, {}
    try:
        described = json.loads(text)
    except ValueError as error:
        raise UnusableDialect(f"{path.name} is no JSON: {error}") from None
    if not _is_tokenizer(described):
        raise UnusableDialect(f"{path.name} holds no chat_template")
    return _chat_template(described)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(8 * LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnusableDialect(f"{path} cannot be read: {why}") from None
    if len(text) > 8 * LONGEST:
        raise UnusableDialect(f"{path} is too long for a template")
    return text


def _is_tokenizer(described: object) -> bool:
    return isinstance(described, Mapping) and "chat_template" in described


def _chat_template(described: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Of several templates the one for tools, else the default one."""
    template = described["chat_template"]
    if isinstance(template, list):
        listed = [each for each in template if isinstance(each, Mapping)]
        named = {each.get("name"): each.get("template") for each in listed}
        template = named.get("tool_use") or named.get("default")
    if not isinstance(template, str):
        raise UnusableDialect("the chat_template is no text")
    tokens = {}
    for key in _TOKENS:
        token = described.get(key)
        content = token.get("content") if isinstance(token, Mapping) else token
        tokens[key] = content if isinstance(content, str) else ""
    return template, tokens


# ── Dialects as JSON ───────────────────────────────────────────────────────────────────

VERSION_KEY = "wholecall_dialect"
VERSION = 1
FAMILIES: Mapping[str, type[Grammar]] = {
    "json": JsonCalls,
    "headed": HeadedCalls,
    "tags": TagCalls,
    "marked_tags": MarkedTagCalls,
    "named_tags": NamedTagCalls,
    "child_tags": ChildTagCalls,
    "routed": RoutedCalls,
    "suffixed": SuffixedCalls,
    "lines": LineCalls,
    "python": PythonCalls,
    "code": RawCode,
    "gemma": GemmaCalls,
    "arrows": ArrowCalls,
    "attributes": AttributeCalls,
    "reply": ReplyOrCalls,
    "yaml": NamedYamlCalls,
}
_FAMILY_OF = {grammar: family for family, grammar in FAMILIES.items()}


def family_of(grammar: Grammar) -> str:
    """The word for a family of grammars."""
    return _FAMILY_OF[type(grammar)]


# ── Writing ─────────────────────────────────────────────────────────────────────────


def dump_dialect(dialect: Dialect) -> dict[str, JSON]:
    """A dialect as plain JSON values."""
    return {VERSION_KEY: VERSION, **_plain_fields(dialect)}


def _plain_fields(value: Any) -> dict[str, JSON]:
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields(value)
        if field.compare
        and (field.default is MISSING or getattr(value, field.name) != field.default)
    }


def _plain(value: Any) -> JSON:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    family = _FAMILY_OF.get(type(value))
    return {"family": family, **_plain_fields(value)} if family else _plain_fields(value)


# ── Reading ─────────────────────────────────────────────────────────────────────────


def read_dialect(stored: object) -> Dialect:
    """The dialect that was stored; UnusableDialect says what is wrong with it."""
    if not isinstance(stored, Mapping) or VERSION_KEY not in stored:
        raise UnusableDialect(f"it is no stored dialect: it has no {VERSION_KEY!r}")
    if stored[VERSION_KEY] != VERSION:
        raise UnusableDialect(f"{VERSION_KEY!r} is {stored[VERSION_KEY]!r}; only {VERSION} is read")
    described = {key: value for key, value in stored.items() if key != VERSION_KEY}
    unknown = described.keys() - {field.name for field in fields(Dialect) if field.compare}
    if unknown:
        raise UnusableDialect(f"a dialect has no field {', '.join(map(repr, sorted(unknown)))}")
    try:
        dialect = msgspec.convert(described, Dialect, dec_hook=_read_grammar)
    except ValueError as error:
        raise UnusableDialect(str(error)) from None
    if "" in _marks_in(described):
        raise UnusableDialect(f"an empty mark in the dialect {dialect.name!r} would be everywhere")
    return dialect


def _read_grammar(_: type, stored: object) -> Grammar:
    """`Grammar` is a protocol; the family says which class is meant."""
    described = dict(stored) if isinstance(stored, Mapping) else {}
    family = described.pop("family", None)
    if family not in FAMILIES:
        hint = name_nearest(str(family), FAMILIES)
        raise ValueError(f"there is no family of grammars {family!r}; {hint}")
    return msgspec.convert(described, FAMILIES[family], dec_hook=_read_grammar)


def _marks_in(described: Any) -> Iterator[str]:
    """Every string in a list: all of them are marks."""
    if isinstance(described, Mapping):
        described = [each for each in described.values() if not isinstance(each, str)]
    elif isinstance(described, list):
        yield from (each for each in described if isinstance(each, str))
    if isinstance(described, list):
        for each in described:
            yield from _marks_in(each)


# All dialects, described: for the command line and for docs/dialects.md.


SAMPLE_TOOL: Mapping[str, JSON] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the library.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many books at most."},
            },
            "required": ["query"],
        },
    },
}
SAMPLE_CALL: tuple[str, Mapping[str, JSON]] = ("search", {"query": "tea", "limit": 3})
SAMPLE_OUTPUT = "The Book of Tea"

_FAMILIES = {
    "json": "JSON objects",
    "headed": "a name, then JSON",
    "tags": "tags",
    "marked_tags": "tags, nested",
    "routed": "tags in addressed messages",
    "lines": "lines",
    "python": "Python calls",
    "gemma": "Gemma's literals",
    "arrows": "hashes with arrows",
    "reply": "JSON objects",
}
_NAMED = {Named.TAGS: "tags with the names of tools", Named.YAML: "YAML"}
_CANNOT: Mapping[Notation, str] = {
    Notation.JSON: "",
    Notation.TAGS: "a value that holds one of its tags; keys that are not words; types that no "
    "schema tells",
    Notation.PYTHON: "keys that are not identifiers",
    Notation.GEMMA: "a string that holds its quoting mark; keys that are not words",
    Notation.YAML: "",
}


# Where each format was seen: in the publisher's chat template, in a server's parser or its tests,
# in a model's answer that people reported or recorded.
_SEEN: Mapping[str, str] = {
    "template": (
        "apertus cohere_cmd3 command_r_plus deepseek_v3 deepseek_v31 deepseek_v32_dsml "
        "firefunction_v2 functionary_v31 functionary_v32 gemma4 gigachat3 gigachat31 glm45 glm47 "
        "granite3 harmony hermes hunyuan_v3 kimi_k2 kimi_k3 lfm2 llama3_json minicpm5 minimax_m1 "
        "minimax_m2 minimax_m3 mistral muse_atem nemotron_toolcall phi4_functools poolside_v1 "
        "pythonic qwen3_xml sarashina seed_oss solar_open"
    ),
    "parser": (
        "apertus apriel cohere_cmd3 cohere_cmd4 command_r_plus deepseek_v3 deepseek_v31 "
        "deepseek_v32_dsml deepseek_v4_dsml dots ernie45 firefunction_v2 functionary_v2 "
        "functionary_v31 functionary_v32 functiongemma gemma4 gigachat3 gigachat31 gigachat35 "
        "glm45 glm47 granite20b_fc granite3 harmony hermes hunyuan_a13b hunyuan_v3 hunyuan_v4 "
        "inkling internlm2 iquest_coder_v2 jamba json_array json_generic k2_horizon kimi_k2 "
        "kimi_k3 lfm2 litellm_json llama3_json lmstudio longcat longcat_xml minicpm5 minimax_m1 "
        "minimax_m2 minimax_m3 mistral morph_xml muse_atem nemotron_toolcall olmo3 "
        "phi4_functools plamo3 poolside_v1 pythonic qwen3_xml sarashina seed_oss solar_open "
        "solar_open2 step3 template_tag_json ui_tars xlam_json yaml_xml"
    ),
    "answer": (
        "anthropic_xml arrow_hash deepseek_v3 deepseek_v32_dsml functionary_v31 gemma4 glm45 "
        "glm47 harmony hermes internlm2 json_array json_generic kimi_k2 litellm_json llama3_json "
        "mistral pythonic qwen3_xml tool_code tool_use_xml tools_tag"
    ),
}


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One dialect, in words."""

    name: str
    family: str
    models: str
    sample: str
    """One call in it; empty if it can only be read."""
    cannot: str
    """The calls that cannot be written in it; empty if all can."""
    seen: str
    """Where it was seen: `template`, `parser`, `answer`; empty if it is not a model's format."""


def entries() -> Iterator[CatalogEntry]:
    """Every dialect, by name."""
    for name in sorted(DIALECTS):
        yield describe(DIALECTS[name])


def describe(dialect: Dialect) -> CatalogEntry:
    """One dialect, in words."""
    template = dialect.template
    return CatalogEntry(
        name=dialect.name,
        family=_family(dialect),
        models=dialect.models,
        sample="" if template is None else encode_calls(template, [SAMPLE_CALL]).strip(),
        cannot="" if template is None else _cannot(template),
        seen=", ".join(where for where, names in _SEEN.items() if dialect.name in names.split()),
    )


def _family(dialect: Dialect) -> str:
    if dialect.rescues:
        return "every family"
    grammars: tuple[Grammar, ...] = (*(each.grammar for each in dialect.written), *dialect.bare)
    if grammars:
        return _FAMILIES[family_of(grammars[0])]
    return _NAMED[dialect.named[0]] if dialect.named else "no calls"


def _cannot(template: Template) -> str:
    typed = "{string}" in template.value or "{type}" in template.value
    cannot = _CANNOT[template.notation]
    if typed:
        cannot = cannot.rpartition("; ")[0]
    if template.trims:
        cannot += "; white space around a value"
    return cannot


def table() -> str:
    """The table of docs/dialects.md."""
    lines = [
        "| dialect | family | written by | seen in | one call | what it cannot carry |",
        "|---|---|---|---|---|---|",
    ]
    for entry in entries():
        sample = f"`` {_one_line(entry.sample)} ``" if entry.sample else "can only be read"
        words = (f"`{entry.name}`", entry.family, entry.models, entry.seen)
        cells = (*words, sample, entry.cannot)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """A sample in a table's cell: line ends are shown, bars are escaped."""
    return text.replace("\n", "⏎").replace("|", "\\|")


if __name__ == "__main__":
    limit_process()
    sys.stdout.writelines(serve(sys.stdin.read()))
