"""What an upstream accepts: rules for ids, and the presets."""

import string

import pytest

from wholecall.protocols.anthropic.history import ANTHROPIC_IDS
from wholecall.protocols.history import IdRule, ReasoningRule, System, Target
from wholecall.protocols.openai_chat.history import MISTRAL_IDS, OPENAI_CHAT
from wholecall.protocols.openai_responses.history import OPENAI_RESPONSES

# what holds, rule, id, accepted
IDS: list[tuple[str, IdRule, str, bool]] = [
    ("any id will do", IdRule(), "list_dir:0", True),
    ("but an empty one", IdRule(), "", False),
    ("Anthropic's pattern", ANTHROPIC_IDS, "toolu_01-Ab", True),
    ("a colon is not in it", ANTHROPIC_IDS, "list_dir:0", False),
    ("Mistral's nine characters", MISTRAL_IDS, "aB3xK9mP2", True),
    ("eight are too few", MISTRAL_IDS, "aB3xK9mP", False),
    ("ten are too many", MISTRAL_IDS, "aB3xK9mP2x", False),
    ("an underscore is none of them", MISTRAL_IDS, "call_1234", False),
    ("a letter of another alphabet is none either", MISTRAL_IDS, "aB3xK9mPé", False),
    ("OpenAI's forty", OPENAI_CHAT.ids, "x" * 40, True),
    ("and not one more", OPENAI_CHAT.ids, "x" * 41, False),
    ("sixty-four in Responses", OPENAI_RESPONSES.ids, "x" * 64, True),
    ("and not one more in Responses", OPENAI_RESPONSES.ids, "x" * 65, False),
]


@pytest.mark.parametrize(("rule", "id", "accepted"), [r[1:] for r in IDS], ids=[r[0] for r in IDS])
def test_an_id_is_accepted_or_not(rule: IdRule, id: str, *, accepted: bool) -> None:
    assert rule.accepts(id) is accepted


# what holds, characters, shortest, longest
IMPOSSIBLE: list[tuple[str, str | None, int, int | None]] = [
    ("the longest is shorter than the shortest", None, 12, 9),
    ("too short to tell ids apart", None, 1, 7),
    ("longer than a digest", None, 65, None),
    ("longer than a digest, with an end", None, 65, 80),
    ("digests cannot be written", string.ascii_letters, 1, None),
]


@pytest.mark.parametrize(
    ("characters", "shortest", "longest"),
    [r[1:] for r in IMPOSSIBLE],
    ids=[r[0] for r in IMPOSSIBLE],
)
def test_a_rule_that_cannot_be_kept_is_refused(
    characters: str | None, shortest: int, *, longest: int | None
) -> None:
    allowed = None if characters is None else frozenset(characters)
    with pytest.raises(ValueError, match=r"digest|digits"):
        IdRule(allowed, shortest, longest)


def test_the_plain_target_keeps_everything() -> None:
    plain = Target()

    assert plain.reasoning is ReasoningRule.ALL
    assert plain.signatures
    assert plain.system is System.ANYWHERE
    assert not plain.reasoning_required
    assert not plain.bridge
