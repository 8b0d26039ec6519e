"""What the reader of a history accepts: its rules for ids, reasoning and system messages.

The plain `Target()` keeps everything that a protocol allows. The presets say what is known
of the upstreams that allow less; an upstream that is none of them is described by its own
`Target`.
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
    """Which ids of calls are accepted."""

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
    """How much of the model's earlier reasoning goes back to it."""

    ALL = "all"
    SIGNED = "signed"
    """Only what carries the upstream's signature: it refuses reasoning that is not its own."""
    NONE = "none"


class System(enum.Enum):
    """Where system messages may stand."""

    ANYWHERE = "anywhere"
    LEADING = "leading"
    """Before all other messages."""
    APART = "apart"
    """Not among the messages at all: they are handed back in `Mended.system`."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an upstream accepts in a history."""

    ids: IdRule = IdRule()
    reasoning: Reasoning = Reasoning.ALL
    reasoning_required: bool = False
    """Whether a message with calls is refused without `reasoning_content`, even an empty one."""
    signatures: bool = True
    """Whether calls keep what another provider wants back with them (`extra_content`)."""
    system: System = System.ANYWHERE
    bridge: str = ""
    """What the assistant says between results and the user, where the user may not follow them."""


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
# Gemini behind its OpenAI layer wants `extra_content.google.thought_signature` back unchanged.
GEMINI = Target(reasoning=Reasoning.NONE)
