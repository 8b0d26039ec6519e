"""From a client's request to the bytes of its answer: the way that all protocols share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from wholecall.core.conversation import Request
from wholecall.errors import UnreadableRequest, UpstreamError, WholecallError
from wholecall.protocols.answers import Failure, read_failure
from wholecall.protocols.requests import decode_request
from wholecall.proxy.answering import Answering, StreamedAnswer, WholeAnswer, make_error
from wholecall.proxy.client import Asked, ClientProtocol
from wholecall.proxy.departing import ClientGone, until_gone
from wholecall.proxy.gating import Gating, Question
from wholecall.proxy.originals import PeekingUpstream
from wholecall.proxy.serving import Mode, Served, Service
from wholecall.proxy.sinks import ClientSink, Sink
from wholecall.runs.sending import sender_for
