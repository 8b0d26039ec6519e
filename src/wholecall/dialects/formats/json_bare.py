"""Call objects as JSON without any marker: only where an answer begins."""

from __future__ import annotations

from wholecall.dialects.declaration import Dialect, Written
from wholecall.dialects.json_calls import JsonCalls

_BARE = JsonCalls(marked=False)

LLAMA3 = Dialect(
    name="llama3_json",
    written=(
        Written(
            ("<|python_tag|>", "<|python_start|>"),
            JsonCalls(closers=("<|python_end|>", "<|eom_id|>")),
        ),
    ),
    bare=(_BARE,),
    models="Llama 3.1, 3.2, 3.3 and 4",
)
XLAM = Dialect(
    name="xlam_json",
    written=(
        Written(("[TOOL_CALLS]",), JsonCalls()),
        Written(("<tool_call>",), JsonCalls(closers=("</tool_call>",))),
        Written(("```json", "```"), JsonCalls(closers=("```",))),
    ),
    bare=(_BARE,),
    models="xLAM, Watt",
)
JSON_ARRAY = Dialect(name="json_array", bare=(_BARE,), models="a forced tool choice in servers")
GENERIC = Dialect(name="json_generic", bare=(_BARE,), models="any model under a JSON grammar")
LITELLM = Dialect(name="litellm_json", bare=(_BARE,), models="any prompted model")

DIALECTS = (LLAMA3, XLAM, JSON_ARRAY, GENERIC, LITELLM)
