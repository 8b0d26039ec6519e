"""Which way a model is given tools, by its name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from wholecall.dialects.dialect_registry import (
    _TABLE,
    AUTO_SUPPORT,
    DIALECTS,
    Means,
    Way,
    dialect_named,
    explain_unread,
    plain_name,
    way_for,
)
from wholecall.dialects.rescue import encode, parse_text
from wholecall.errors import UnusableDialect
from wholecall.events import Oddity

# how, and the names that people give to these models
NAMES = {
    "native": "gpt-4o gpt-5.1-codex chatgpt-4o-latest o3-mini openai/gpt-4.1 claude-opus-4-5 "
    "anthropic/claude-sonnet-4-5 gemini-3-pro gemini/gemini-2.5-flash grok-4 amazon.nova-pro-v1:0 "
    "openrouter/qwen/qwen3-coder groq/llama-3.3-70b-versatile deepseek/deepseek-chat "
    "bedrock/meta.llama3-1-70b-instruct-v1:0 mistral/mistral-large-latest qwen-max",
    "harmony": "openai/gpt-oss-20b gpt-oss:120b hosted_vllm/openai/gpt-oss-120b",
    "hermes": "Qwen/Qwen3-8B qwen3:4b Qwen/Qwen2.5-72B-Instruct Qwen/QwQ-32B "
    "NousResearch/Hermes-3-Llama-3.1-8B NousResearch/Hermes-2-Pro-Mistral-7B "
    "DeepHermes-3-Mistral-24B Qwen/Qwen3-Next-80B-A3B-Instruct HuggingFaceTB/SmolLM3-3B "
    "ibm-granite/granite-4.0-h-tiny XiaomiMiMo/MiMo-VL-7B-RL bartowski/Qwen2.5-7B-Instruct-GGUF",
    "qwen3_xml": "Qwen/Qwen3-Coder-480B-A35B-Instruct qwen3-coder:30b Qwen/Qwen3.5-397B-A17B "
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B stepfun-ai/Step-3.5-Flash XiaomiMiMo/MiMo-V2-Flash "
    "ornith:9b",
    "llama3_json": "meta-llama/Llama-3.1-8B-Instruct llama3.1:8b ollama/llama3.3 "
    "meta-llama/Meta-Llama-3.1-70B-Instruct meta-llama/Llama-3.2-11B-Vision-Instruct",
    "pythonic": "meta-llama/Llama-4-Scout-17B-16E-Instruct meta-llama/Llama-3.2-3B-Instruct "
    "llama3.2:1b Team-ACE/ToolACE-8B",
    "constrained": "meta-llama/Llama-2-7b-chat-hf meta-llama/Meta-Llama-3-8B-Instruct "
    "google/gemma-2-9b-it gemma3:27b google/gemma-3n-E4B-it microsoft/Phi-3-mini-4k-instruct "
    "microsoft/phi-4 HuggingFaceTB/SmolLM2-1.7B-Instruct mistralai/Mistral-7B-Instruct-v0.2",
    "deepseek_v3": "deepseek-ai/DeepSeek-V3-0324 deepseek-ai/DeepSeek-R1 deepseek-r1:7b "
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B deepcogito/cogito-v2-preview-deepseek-671B-MoE",
    "deepseek_v31": "deepseek-ai/DeepSeek-V3.1 deepseek-ai/DeepSeek-V3.2-Exp",
    "deepseek_v32_dsml": "deepseek-ai/DeepSeek-V3.2",
    "deepseek_v4_dsml": "deepseek-ai/DeepSeek-V4-Pro",
    "kimi_k2": "moonshotai/Kimi-K2-Instruct moonshotai/Kimi-K2.5 moonshotai/Kimi-K2-Thinking",
    "kimi_k3": "moonshotai/Kimi-K3",
    "k2_horizon": "LLM360/K2-Horizon-7B",
    "gigachat35": "ai-sage/GigaChat3.5-432B-A28B",
    "plamo3": "pfnet/plamo-3-nict-8b-chat",
    "sarashina": "sbintuitions/sarashina2.2-3b-instruct-v0.1",
    "solar_open2": "upstage/Solar-Open2-250B",
    "functionary_v2": "meetkai/functionary-small-v2.4",
    "glm45": "zai-org/GLM-4.5-Air zai-org/GLM-4.6",
    "glm47": "zai-org/GLM-4.7 zai-org/GLM-5",
    "minimax_m1": "MiniMaxAI/MiniMax-M1-80k",
    "minimax_m2": "MiniMaxAI/MiniMax-M2",
    "minimax_m3": "MiniMaxAI/MiniMax-M3",
    "mistral": "mistralai/Mistral-7B-Instruct-v0.3 mistralai/Devstral-Small-2507 mistral-nemo "
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506 mistralai/Magistral-Small-2509 "
    "mistralai/Ministral-3-8B-Instruct-2512 mistralai/Mixtral-8x22B-Instruct-v0.1",
    "gemma4": "google/gemma-4-31B-it gemma4:e4b",
    "functiongemma": "google/functiongemma-270m-it",
    "phi4_functools": "microsoft/Phi-4-mini-instruct phi4-mini",
    "granite3": "ibm-granite/granite-3.3-8b-instruct granite3.2:8b",
    "granite20b_fc": "ibm-granite/granite-20b-functioncalling",
    "hunyuan_a13b": "tencent/Hunyuan-A13B-Instruct",
    "hunyuan_v3": "tencent/Hy3-preview",
    "hunyuan_v4": "tencent/Hy4-preview",
    "iquest_coder_v2": "IQuestLab/IQuest-Coder-V2-40B-Instruct",
    "ernie45": "baidu/ERNIE-4.5-21B-A3B-Thinking",
    "cohere_cmd3": "CohereLabs/c4ai-command-r7b-12-2024 CohereLabs/c4ai-command-a-03-2025",
    "cohere_cmd4": "CohereLabs/North-Mini-Code-1.0 CohereLabs/command-4",
    "command_r_plus": "CohereLabs/c4ai-command-r-plus CohereLabs/c4ai-command-r-v01",
    "xlam_json": "Salesforce/Llama-xLAM-2-8b-fc-r Salesforce/xLAM-7b-fc-r watt-ai/watt-tool-8B",
    "internlm2": "internlm/internlm2_5-7b-chat internlm/Intern-S1",
    "nemotron_toolcall": "nvidia/NVIDIA-Nemotron-Nano-9B-v2 "
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5",
    "jamba": "ai21labs/AI21-Jamba-Large-1.7",
    "lfm2": "LiquidAI/LFM2-1.2B lfm2.5-thinking",
    "olmo3": "allenai/Olmo-3-7B-Instruct",
    "step3": "stepfun-ai/step3",
    "seed_oss": "ByteDance-Seed/Seed-OSS-36B-Instruct",
    "functionary_v31": "meetkai/functionary-small-v3.1",
    "functionary_v32": "meetkai/functionary-medium-v3.2",
}


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for way, names in NAMES.items() for name in names.split()]
)
def test_a_name_says_how_a_model_is_given_tools(name: str, way: str) -> None:
    found = way_for(name)
    assert (found.dialect or found.means.value) == way
    assert (found.means is Means.DIALECT) is (way not in ("native", "constrained"))
    assert found.because


def test_an_unknown_model_is_asked_natively() -> None:
    assert way_for("acme/our-own-tune") == Way(Means.NATIVE)
    assert way_for("openai/our-own-tune") == Way(Means.NATIVE)
    assert way_for("groq") == Way(Means.NATIVE)


@pytest.mark.parametrize("override", [None, AUTO_SUPPORT])
def test_the_table_decides_unless_somebody_does(override: str | None) -> None:
    assert way_for("qwen3:4b", override=override).dialect == "hermes"


def test_an_override_decides() -> None:
    assert way_for("gpt-4o", override="glm45") == Way(Means.DIALECT, "glm45", "override")
    assert way_for("qwen3:4b", override="native") == Way(Means.NATIVE, because="override")
    assert way_for("gpt-4o", override="constrained").means is Means.CONSTRAINED


def test_an_override_that_is_none_is_refused() -> None:
    with pytest.raises(UnusableDialect, match="no dialect 'klingon'; did you mean 'inkling'"):
        way_for("gpt-4o", override="klingon")
    with pytest.raises(UnusableDialect, match=r"no dialect 'herms'; did you mean 'hermes'\?"):
        way_for("gpt-4o", override="herms")
    with pytest.raises(UnusableDialect, match="it can only be read"):
        way_for("gpt-4o", override="think_tags")


def test_the_table_names_only_what_exists() -> None:
    assert {way for way, _ in _TABLE} <= {"native", "constrained", *DIALECTS}
    written = {way for way, _ in _TABLE} - {"native", "constrained"}
    assert all(DIALECTS[way].template is not None for way in written)


def test_every_pattern_is_in_the_form_of_the_names() -> None:
    patterns = [pattern for _, patterns in _TABLE for pattern in patterns.split()]
    assert [plain_name(pattern) for pattern in patterns] == patterns


# The options of `--tool-call-parser`: vLLM's, SGLang's.
OPTIONS = (
    "apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 "
    "dots ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 "
    "hermes hunyuan_a13b hy_v3 inkling internlm jamba kimi_k2 kimi_k3 lfm2 ling3 llama3_json "
    "llama4_json llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse_glimmer "
    "olmo3 openai phi4_mini_json poolside_v1 pythonic qwen3_coder qwen3_xml seed_oss step3 "
    "step3p5 xlam "
    "apertus2509 cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 dots gemma4 "
    "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 kimi_k2 kimi_k3 lfm2 "
    "llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse poolside_v1 pythonic qwen qwen25 "
    "qwen3_coder step3 step3p5 trinity"
)


@pytest.mark.parametrize("name", sorted(set(OPTIONS.split())))
def test_the_option_of_a_server_is_a_dialect(name: str) -> None:
    assert dialect_named(name).template is not None


# ── An announced dialect is not stricter than `auto` ─────────────────────────────────

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
# Read only: what they announce is not text with calls, or is forced by a grammar.
NOT_ANNOUNCED = {"auto", "constrained", "hf_response_template", "think_tags"}
WRITERS = sorted(
    name
    for name, dialect in DIALECTS.items()
    # The only mark of the last three is plain: a name, or `>>>`.
    if dialect.template and name not in {"functionary_v32", "yaml_xml", "morph_xml"}
)


READERS = sorted(DIALECTS.keys() - NOT_ANNOUNCED)
LEADS = ("", "Let me look.\n", "Let me look. ", "<think>so</think>")
VALUES = st.text("ab <>/{}[]\"'=\n:,|", max_size=8)


@pytest.mark.parametrize("writer", WRITERS)
def test_every_announced_dialect_reads_what_auto_reads(writer: str) -> None:
    text = encode(writer, [("weather", {"city": "Rome", "days": 2})])
    for lead in LEADS[::2]:
        found = calls("auto", lead + text)
        for reader in READERS:
            if found:
                assert calls(reader, lead + text) == found, (reader, lead)


@settings(max_examples=examples(200))
@given(
    pair=st.tuples(st.sampled_from(WRITERS), st.sampled_from(READERS)),
    lead=st.sampled_from(LEADS),
    several=st.lists(st.tuples(VALUES, st.integers(0, 9)), min_size=1, max_size=3),
    tail=st.sampled_from(["", "\n", "</s>", "\nThat is all."]),
)
def test_announced_is_never_stricter(
    pair: tuple[str, str], lead: str, *, several: list[tuple[str, int]], tail: str
) -> None:
    writer, reader = pair
    try:
        text = encode(writer, [("weather", {"city": city, "days": days}) for city, days in several])
    except ValueError:
        return  # the format cannot carry it
    found = calls("auto", lead + text + tail)
    read = calls(reader, lead + text + tail)
    assert read[: len(found)] == found


def calls(dialect: str, text: str) -> list[tuple[str, dict[str, object]]]:
    outcome = parse_text(dialect, text, tools=[WEATHER])
    return [(call.name, dict(call.arguments)) for call in outcome.calls]


UNREAD = [
    ("", "", None),
    ("Use <tool_call> now", "", None),
    ("<a> is < and > or </a>", "", None),
    (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        "",
        "hermes or ernie45 or template_tag_json; set `emulate: hermes`",
    ),
    (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        "ernie45",
        "hermes or ernie45 or template_tag_json",
    ),
    (
        "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
        "",
        "glm47 or hunyuan_v4; set `emulate: glm47`",
    ),
]


@pytest.mark.parametrize(("text", "announced", "likely"), UNREAD)
def test_unread_markup_is_named(text: str, *, announced: str, likely: str | None) -> None:
    said = explain_unread(text, announced=announced)
    if likely is None:
        assert said is None
    else:
        assert said is not None
        assert said.oddity is Oddity.MARKUP_UNREAD
        assert said.detail == f"markup of a call stays in the text: this looks like {likely}"
