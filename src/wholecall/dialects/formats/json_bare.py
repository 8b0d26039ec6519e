"""Call objects as JSON without any marker: where an answer begins; Llama's, in its prose, too."""

from __future__ import annotations

from wholecall.dialects.declaration import Dialect, Written
from wholecall.dialects.encoding import Template
from wholecall.dialects.formats.json_marked import OBJECT
from wholecall.dialects.json_calls import BRACE, JsonCalls
from wholecall.dialects.python_calls import PythonCalls

_LIST = Template(OBJECT, before="[", between=", ", after="]")
_WRAPPED = Template(OBJECT, before='{"tool_calls": [', between=", ", after="]}")
_BARE = JsonCalls(marked=False)

LLAMA3 = Dialect(
    name="llama3_json",
    written=(
        Written(
            ("<|python_tag|>", "<|python_start|>"),
            JsonCalls(closers=("<|python_end|>", "<|eom_id|>")),
        ),
        Written(("<|python_tag|>",), PythonCalls(("<|eom_id|>",), brackets=False, method=".call")),
        Written((BRACE,), _BARE),
    ),
    bare=(_BARE,),
    template=Template('{"name": {name_json}, "parameters": {arguments}}', between="; "),
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
    template=_LIST,
    models="xLAM, Watt",
)
JSON_ARRAY = Dialect(
    name="json_array", bare=(_BARE,), template=_LIST, models="a forced tool choice in servers"
)
GENERIC = Dialect(
    name="json_generic", bare=(_BARE,), template=_WRAPPED, models="any model under a JSON grammar"
)
LITELLM = Dialect(
    name="litellm_json",
    bare=(_BARE,),
    template=Template(OBJECT, between="\n"),
    models="any prompted model",
)

DIALECTS = (LLAMA3, XLAM, JSON_ARRAY, GENERIC, LITELLM)
