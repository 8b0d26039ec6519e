"""The requirements of an upstream for a history: ids, reasoning and system messages.

The plain `Target()` keeps everything that a protocol allows. The presets describe known upstreams
that allow less; any other upstream gets a `Target` of its own.
"""

from __future__ import annotations

import enum
import string
from dataclasses import dataclass

# A shorter digest would not tell the ids of a long conversation apart; SHA-256 ends at 64.
_SHORTEST_DIGEST = 8
_LONGEST_DIGEST = 64
_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)


@dataclass(frozen=True, slots=True)
class IdRule:
    """The ids of calls that are accepted."""

    characters: frozenset[str] | None = None
    """The only characters that may stand in an id; None: any. An id that is not accepted is
    replaced by a digest, so the hexadecimal digits must be among them."""
    shortest: int = 1
    longest: int | None = None

    def __post_init__(self) -> None:
        longest = _LONGEST_DIGEST if self.longest is None else self.longest
        if not (self.shortest <= min(longest, _LONGEST_DIGEST) and longest >= _SHORTEST_DIGEST):
            raise ValueError(f"no digest has from {self.shortest} to {self.longest} characters")
        if self.characters is not None and not self.characters.issuperset(string.hexdigits.lower()):
            raise ValueError("the hexadecimal digits must be among the characters of an id")

    def accepts(self, id: str) -> bool:
        """Tell whether an id may stay as it is."""
        fits = self.shortest <= len(id) <= (self.longest or len(id))
        return fits and (self.characters is None or self.characters.issuperset(id))


class Reasoning(enum.Enum):
    """The amount of earlier reasoning that is sent back to the model."""

    ALL = "all"
    SIGNED = "signed"
    """Only what carries the upstream's signature: it refuses reasoning that is not its own."""
    NONE = "none"


class System(enum.Enum):
    """The allowed places of system messages."""

    ANYWHERE = "anywhere"
    LEADING = "leading"
    """Before all other messages."""
    APART = "apart"
    """Not among the messages at all: they are handed back in `Mended.system`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The requirements of an upstream for a history."""

    ids: IdRule = IdRule()
    reasoning: Reasoning = Reasoning.ALL
    reasoning_required: bool = False
    """True if a message with calls is refused without `reasoning_content`, even an empty one."""
    signatures: bool = True
    """True if calls keep fields that another provider wants back (`extra_content`)."""
    system: System = System.ANYWHERE
    bridge: str = ""
    """The assistant's words between results and the user, if the user may not follow them
    directly."""


ANTHROPIC_IDS = IdRule(_LETTERS_AND_DIGITS | {"_", "-"})
MISTRAL_IDS = IdRule(_LETTERS_AND_DIGITS, shortest=9, longest=9)

# OpenAI's chat endpoint takes ids of up to 40 characters, Responses of up to 64.
OPENAI_CHAT = Target(IdRule(longest=40), reasoning=Reasoning.NONE, signatures=False)
OPENAI_RESPONSES = Target(IdRule(longest=64))
# Models before Opus 4.8 take no system messages at all, later ones take them after a user's.
ANTHROPIC = Target(ANTHROPIC_IDS, reasoning=Reasoning.SIGNED, system=System.APART)
# Mistral answers "Unexpected role 'user' after role 'tool'", and 422 to fields it does not know.
MISTRAL = Target(
    MISTRAL_IDS,
    reasoning=Reasoning.NONE,
    signatures=False,
    system=System.LEADING,
    bridge="I have the results.",
)
# A message with calls keeps its `reasoning_content` in all later requests; an empty one is
# accepted, a missing one is a 400.
DEEPSEEK = Target(reasoning_required=True)
# Gemini's OpenAI-compatible layer wants `extra_content.google.thought_signature` back unchanged.
GEMINI = Target(reasoning=Reasoning.NONE)
