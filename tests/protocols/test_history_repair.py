"""What mending decides before it looks at calls: protocol, target, system messages."""

from typing import Any

import pytest

from wholecall.errors import UnknownProtocol
from wholecall.protocols.history import ChangeKind, System, Target
from wholecall.protocols.history_repair import mend, repair_history

BRIEF = {"role": "system", "content": "be brief"}
HELLO = {"role": "user", "content": "hello"}
KIND = {"role": "developer", "content": "be kind"}
# Its role is the developer's, but it is no message.
TOOLS = {"type": "additional_tools", "role": "developer", "tools": []}

# what holds, protocol, where, messages, mended, taken out, places that changed
SYSTEM: list[tuple[str, str, System, list[Any], list[Any], list[Any], list[str]]] = [
    ("it may stand anywhere", "anthropic", System.ANYWHERE, [HELLO, BRIEF], [HELLO, BRIEF], [], []),
    (
        "it goes to the front, in its order",
        "openai-chat",
        System.LEADING,
        [BRIEF, HELLO, KIND],
        [BRIEF, KIND, HELLO],
        [],
        ["$[2]"],
    ),
    (
        "it may not stand among the others",
        "anthropic",
        System.APART,
        [BRIEF, HELLO, BRIEF],
        [HELLO],
        [BRIEF, BRIEF],
        ["$[0]", "$[2]"],
    ),
    (
        "what is no message stays",
        "openai-responses",
        System.LEADING,
        [HELLO, TOOLS, KIND, None, {"role": ["system"], "content": "x"}],
        [KIND, HELLO, TOOLS, None, {"role": ["system"], "content": "x"}],
        [],
        ["$[2]"],
    ),
]


@pytest.mark.parametrize("row", [r[1:] for r in SYSTEM], ids=[r[0] for r in SYSTEM])
def test_system_messages_stand_where_the_target_wants_them(
    row: tuple[str, System, list[Any], list[Any], list[Any], list[str]],
) -> None:
    protocol, where, messages, expected, apart, places = row
    mended = mend(protocol, messages, target=Target(system=where))

    assert mended.messages == expected
    assert list(mended.system) == apart
    assert [change.where for change in mended.changes] == places
    assert {change.kind for change in mended.changes} <= {ChangeKind.SYSTEM_MOVED}


def test_the_protocols_own_rule_for_ids_holds_without_a_target() -> None:
    call = {"type": "tool_use", "id": "list_dir:0", "name": "t", "input": {}}
    [turn, results] = repair_history("anthropic", [{"role": "assistant", "content": [call]}])

    assert turn["content"][0]["id"] == "list_dir_0"
    assert results["content"][0]["tool_use_id"] == "list_dir_0"


def test_what_the_upstream_holds_is_not_missed() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}

    assert mend("openai-responses", [output], continues=True).messages == [output]
    assert mend("openai-responses", [output]).messages == []


def test_an_unknown_protocol_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownProtocol, match=r"'gopher' is none of .*'openai-chat'"):
        mend("gopher", [])
