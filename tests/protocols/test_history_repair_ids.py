"""Ids are unique over a conversation, accepted by its reader, and the same each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.protocols.anthropic.history import ANTHROPIC_IDS
from wholecall.protocols.history import IdRule
from wholecall.protocols.history_repair import Ids
from wholecall.protocols.openai_chat.history import MISTRAL_IDS

ANY = IdRule()
FORTY = IdRule(longest=40)

# what holds, rule, ids as they come, ids as they go on
CLAIMED: list[tuple[str, IdRule, list[str], list[str]]] = [
    ("an id stays", ANY, ["a", "b:0"], ["a", "b:0"]),
    # https://github.com/fw-ai/fireconnect/issues/16
    ("a count goes on", ANY, ["ls:0", "ls:0", "ls:1"], ["ls:0", "ls:1", "ls:2"]),
    ("over each id that is taken", ANY, ["ls:0", "ls:1", "ls:0"], ["ls:0", "ls:1", "ls:2"]),
    ("an id without a count gets one", ANY, ["a", "a", "a"], ["a", "a_2", "a_3"]),
    ("a later id makes way", ANY, ["a", "a", "a_2"], ["a", "a_2", "a_3"]),
    ("long digits are no count", ANY, ["a1234567890"] * 2, ["a1234567890", "a1234567890_2"]),
    ("digits alone are one", ANY, ["7", "7"], ["7", "8"]),
    ("no id gets one", ANY, ["", "", "call_1"], ["call_0", "call_1", "call_2"]),
    ("what is not accepted is replaced", ANTHROPIC_IDS, ["ls:0", "ls_0"], ["ls_0", "ls_1"]),
    ("what is accepted is not", MISTRAL_IDS, ["aB3xK9mP2"], ["aB3xK9mP2"]),
    ("and counts on within the rule", MISTRAL_IDS, ["aB3xK9mP2"] * 2, ["aB3xK9mP2", "aB3xK9mP3"]),
]


@pytest.mark.parametrize(
    ("rule", "ids", "claimed"), [r[1:] for r in CLAIMED], ids=[r[0] for r in CLAIMED]
)
def test_an_id_goes_on_under_a_name_of_its_own(
    rule: IdRule, ids: list[str], *, claimed: list[str]
) -> None:
    conversation = Ids(rule)

    assert [conversation.claim(id) for id in ids] == claimed


# what holds, rule, id
DIGESTED: list[tuple[str, IdRule, str]] = [
    ("characters that have no substitute", MISTRAL_IDS, "call_abc123"),
    ("too long", FORTY, "x" * 41),
    (
        "too long for Anthropic's pattern with a limit",
        IdRule(ANTHROPIC_IDS.characters, 1, 64),
        "x:" * 40,
    ),
    ("too short", IdRule(shortest=40), "a"),
    ("half a character", ANTHROPIC_IDS, "\ud800"),
    ("a count that grows out of the rule", MISTRAL_IDS, "abcdefg99"),
]


@pytest.mark.parametrize(("rule", "id"), [r[1:] for r in DIGESTED], ids=[r[0] for r in DIGESTED])
def test_an_id_that_cannot_stay_is_replaced_by_the_same_each_time(rule: IdRule, id: str) -> None:
    first, second = Ids(rule), Ids(rule)
    claimed = [first.claim(id), first.claim(id)]

    assert claimed == [second.claim(id), second.claim(id)]
    assert claimed[0] != claimed[1]
    assert all(rule.accepts(one) for one in claimed)


def test_an_id_that_is_kept_for_another_is_not_given_away() -> None:
    ids = Ids(ANY)
    ids.reserve("a")

    assert ids.claim("a") == "a_2"


@given(
    ids=st.lists(st.text("a:0_1é", max_size=12), max_size=20),
    rule=st.sampled_from([ANY, FORTY, ANTHROPIC_IDS, MISTRAL_IDS]),
)
def test_ids_are_unique_and_accepted_and_stay_so(ids: list[str], rule: IdRule) -> None:
    once, twice = Ids(rule), Ids(rule)
    claimed = [once.claim(id) for id in ids]

    assert len(claimed) == len(set(claimed))
    assert all(rule.accepts(id) for id in claimed)
    assert [twice.claim(id) for id in claimed] == claimed


class CountingRule(IdRule):
    """Counts how often it is asked."""

    asked = 0

    def accepts(self, id: str) -> bool:
        CountingRule.asked += 1
        return super().accepts(id)


def test_each_number_is_tried_once() -> None:
    ids = Ids(CountingRule())
    claimed = [ids.claim("ls:0") for _ in range(2000)]

    assert claimed[-1] == "ls:1999"
    assert CountingRule.asked < 4 * 2000
