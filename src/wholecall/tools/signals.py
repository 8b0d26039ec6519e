"""What a tool raises to say what the model should do.

Any other exception means that the tool itself is at fault. The model is told so, and a
read-only or idempotent tool with `retries` is tried again first. These two are final.
"""

from __future__ import annotations


class Retry(Exception):
    """The call can be put right: the model is told how, and to send it again.

    `raise Retry("there is no city 'Olso'; the nearest is 'Oslo'")`
    """


class Failed(Exception):
    """No other call would help: the model is told why, and to go on without the result.

    `raise Failed("the archive is closed until Monday")`
    """
