"""Approvals for the runs of a proxy.

The inspector shows the pending calls and takes the answers. Without it a call that needs approval
is denied at once: nothing may wait for an answer that cannot come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from wholecall.core.values import Call
from wholecall.files.database import StoreFailed
from wholecall.inspector.desk import Desk, Waiting
from wholecall.inspector.encoding import Plain, Quoting
from wholecall.runs.approvals import Approval, Approvals

_LOG = logging.getLogger(__name__)
_NOBODY = Approval(False, "nobody can be asked here")
_FAILED = Approval(False, "nobody could be asked")
_MARGIN = 15.0
"""Seconds after which a desk is given up. The end of the wait is its own business: it knows of
answers that came at the last moment."""


class Asker(NamedTuple):
    """A run that may have to ask."""

    key_id: str
    request_id: str
    model: str


class Approving:
    """Makes the approvals of each run."""

    def __init__(
        self,
        desk: Desk | None = None,
        *,
        quoting: Callable[[], Quoting] = lambda: Quoting(False, Plain()),
        seconds: float = 0.0,
    ) -> None:
        self._desk = desk
        self._quoting = quoting
        self.seconds = seconds
        """The longest wait for an answer."""

    def open(self, asker: Asker) -> Approvals:
        """The approvals of one run."""
        if self._desk is None:
            return Approvals(_deny)
        desk = self._desk

        async def ask(call: Call) -> Approval:
            try:
                return await desk.wait_for(self._describe(call, asker))
            except StoreFailed as error:
                _LOG.error("request %s: a call was denied: %s", asker.request_id, error.why)
                return _FAILED

        return Approvals(ask, seconds=self.seconds + _MARGIN)

    def _describe(self, call: Call, asker: Asker) -> Waiting:
        quoting = self._quoting()
        return Waiting(
            key=asker.key_id,
            request_id=asker.request_id,
            model=quoting.name(asker.model),
            call_id=quoting.clean(call.id),
            name=quoting.name(call.name),
            arguments=quoting.value(dict(call.arguments)),
            seconds=self.seconds,
        )


async def _deny(_call: Call) -> Approval:
    return _NOBODY
