"""Exceptions by which a tool says what the model should do.

Any other exception means that the tool itself is at fault. The model learns so, and a read-only or
idempotent tool with `retries` is tried again first. These two are final.
"""

from __future__ import annotations


class Retry(Exception):
    """The call can be corrected: the model learns how, and is asked to send it again.

    `raise Retry("there is no city 'Olso'; the nearest is 'Oslo'")`
    """


class Failed(Exception):
    """No other call would help: the model learns why, and continues without the result.

    `raise Failed("the archive is closed until Monday")`
    """
