"""Choose how a model is given tools, by its name: natively, in a dialect, or with a grammar.

A name is compared in a plain form: its last part, in lower case, without a hyphen between a word
and its number. So `meta-llama/Llama-3.1-8B-Instruct`, `llama3.1:8b` and `ollama/llama3.1` are one
family. The first pattern that fits decides.

An unknown name is asked natively: that is right if the server supports tools, and otherwise calls
in the text are rescued. An override is better.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from wholecall.dialects.declaration import template_of
from wholecall.dialects.registry import dialect_named


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


AUTO = "auto"
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
    ("functionary_v32", "functionary*"),
    ("firefunction_v2", "firefunction*"),
    ("functiongemma", "functiongemma*"),
    ("hermes", "*hermes*"),
    ("pythonic", "toolace*"),
    # Qwen and those that write like it.
    ("qwen3_xml", "qwen3-coder* qwen3.[5-9]* step3.5* ui-tars* k-exaone2*"),
    (
        "hermes",
        "qwen2* qwen3* qwq* mimo-vl* bielik* reka-edge* trinity* exaone* k-exaone* smollm3*",
    ),
    ("qwen3_xml", "mimo*"),
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
    ("hunyuan_v3", "hunyuan3* hy3*"),
    ("ernie45", "ernie4.5*"),
    ("cohere_cmd4", "command4*"),
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
    ("gigachat31", "gigachat3.1*"),
    ("gigachat3", "gigachat3*"),
    ("inkling", "inkling*"),
    ("lfm2", "lfm2*"),
    ("olmo3", "olmo3*"),
    ("dots", "dots*"),
    ("minicpm5", "minicpm5*"),
    ("muse_atem", "muse*"),
    (_CONSTRAINED, "smollm* tinyllama* stablelm* yi1.5*"),
)
_HYPHEN = re.compile(r"(?<=[a-z])[-_](?=\d)")


def way_for(model: str, *, override: str | None = None) -> Way:
    """Return how to give tools to this model.

    `override` is `native`, `constrained`, the name of a dialect, or `auto`: as the table says.

    ```python
    from wholecall import way_for

    print(way_for("qwen2.5-coder-1.5b").dialect)
    ```

    ```text
    hermes
    ```
    """
    if override is not None and override != AUTO:
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
