"""Kill, stop and end the workers of a real proxy while official SDK clients resend; then audit.

    python fuzz/chaos.py --minutes 1.5 --store sqlite

With `--store postgres` the journal is in a PostgreSQL server of its own, which crashes now and then
and comes back after some seconds.

Each client asks with an `Idempotency-Key` and sends the request again until it has an answer:
chat completions, and background responses whose streams are read on with `starting_after`. The tool
writes down, with fsync, when it begins and ends. The audit is exact: no call may have begun twice,
no request may be without an answer, and no stream may differ from what the journal holds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import openai

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from local_postgres import LocalPostgres, explain_missing, start_postgres
from serve_processes import Serving, is_alive, read_effects, serve_processes

CLIENTS = 8
PAUSE = 0.6
"""Seconds between two faults."""
STOPPED_SECONDS = 17.0
"""Longer than the lease."""
GIVE_UP_SECONDS = 180.0
"""Seconds after which a request without an answer is lost."""
CRASH_PAUSE = 40.0
"""Seconds between the return of the database and its next crash."""
AWAY_SECONDS = 20.0
"""Seconds for which the database is away."""
_NUMBER = re.compile(rb'"sequence_number":(\d+)')
_ENDS = (b"response.completed", b"response.failed", b"response.incomplete")


@dataclass
class Report:
    """The figures of one trial."""

    answered: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0


class Client(threading.Thread):
    """Asks one question after the other until the trial is over."""

    def __init__(self, number: int, serving: Serving, *, report: Report, until: float) -> None:
        super().__init__(name=f"client {number}")
        self._number = number
        self._serving = serving
        self._report = report
        self._until = until
        self._sdk = openai.OpenAI(
            base_url=f"{serving.url}/v1", api_key="none", max_retries=2, timeout=30.0
        )

    def run(self) -> None:
        count = 0
        while time.monotonic() < self._until:
            count += 1
            name = f"{self._number}-{count}"
            ask = self._chat if (self._number + count) % 2 else self._background
            began = time.monotonic()
            while not self._try(ask, name):
                if time.monotonic() - began > GIVE_UP_SECONDS:
                    self._report.lost.append(name)
                    break
                time.sleep(0.1)
            self._report.slowest = max(self._report.slowest, time.monotonic() - began)

    def _try(self, ask: object, name: str) -> bool:
        with suppress(openai.APIError, OSError):
            return bool(callable(ask) and ask(name))
        return False

    def _chat(self, name: str) -> bool:
        answer = self._sdk.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": name}],
            extra_headers={"Idempotency-Key": name},
        )
        if answer.choices[0].finish_reason != "stop":
            return False
        self._report.answered["chat"] += 1
        return True

    def _background(self, name: str) -> bool:
        begun = self._sdk.responses.create(
            model="m", input=name, background=True, extra_headers={"Idempotency-Key": name}
        )
        seen = b""
        while not any(end in seen for end in _ENDS):
            seen += self._read_on(begun.id, seen)
        whole = b""
        while not any(end in whole for end in _ENDS):
            whole = self._read_on(begun.id, b"")
        if seen != whole:
            self._report.changed.append(begun.id)
        done = b"response.completed" in whole
        self._report.answered["background" if done else "background, failed"] += 1
        return True

    def _read_on(self, id: str, seen: bytes) -> bytes:
        """Read a stream after the last event that was seen; what was cut is dropped."""
        numbers = _NUMBER.findall(seen)
        after = f"&starting_after={numbers[-1].decode()}" if numbers else ""
        with suppress(OSError, HTTPException):
            _, body = self._serving.get(f"/v1/responses/{id}?stream=true{after}")
            events = body.split(b"\n\n")[:-1]
            kept = [event for event in events if event and not event.startswith(b":")]
            return b"".join(event + b"\n\n" for event in kept if b"stream_left" not in event)
        time.sleep(0.1)
        return b""


def do_harm(serving: Serving, report: Report, *, dice: random.Random, until: float) -> None:
    """Kill, end or stop one worker that this trial started; none is stopped beyond its end."""
    workers = serving.list_workers()
    if len(workers) <= 1:
        return  # its supervisor starts the others again, one after the other
    pid = dice.choice(workers)
    stops = time.monotonic() + STOPPED_SECONDS < until
    how = dice.choices(["kill", "term", "stop"], weights=[8, 3, int(stops)])[0]
    with suppress(ProcessLookupError):
        if how == "stop":
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(STOPPED_SECONDS, wake, (pid,)).start()
        else:
            os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGTERM)
        report.faults[how] += 1


class DatabaseCrashes(threading.Thread):
    """Crashes the database again and again (`-m immediate`), and starts it after some seconds."""

    def __init__(self, server: LocalPostgres, report: Report, *, until: float) -> None:
        super().__init__(name="database crashes")
        self._server = server
        self._report = report
        self._until = until

    def run(self) -> None:
        while time.monotonic() + CRASH_PAUSE + AWAY_SECONDS < self._until:
            time.sleep(CRASH_PAUSE)
            self._server.crash()
            self._report.faults["database crash"] += 1
            time.sleep(AWAY_SECONDS)
            self._server.start()


@contextmanager
def open_store(store: str) -> Iterator[LocalPostgres | None]:
    """Run the server of the journal; none for SQLite."""
    if store == "sqlite":
        yield None
        return
    missing = explain_missing()
    if missing:
        sys.exit(missing)
    with start_postgres() as server:
        yield server


def wake(pid: int) -> None:
    """Let a stopped worker continue."""
    with suppress(ProcessLookupError):
        if is_alive(pid):
            os.kill(pid, signal.SIGCONT)


def run_trial(folder: Path, given: argparse.Namespace, *, report: Report) -> None:
    """Let clients ask, and do harm, until the time is over and each request has its answer."""
    dice = random.Random(given.seed)
    with open_store(given.store) as server:
        journal = "" if server is None else server.make_url().replace(":secret-word", "")
        with serve_processes(folder, workers=3, seconds=0.3, journal=journal) as serving:
            until = time.monotonic() + given.minutes * 60
            threads: list[threading.Thread] = [
                Client(number, serving, report=report, until=until) for number in range(CLIENTS)
            ]
            if server is not None:
                threads.append(DatabaseCrashes(server, report, until=until))
            for thread in threads:
                thread.start()
            while time.monotonic() < until:
                time.sleep(dice.uniform(0.5, 1.5) * PAUSE)
                do_harm(serving, report, dice=dice, until=until)
            for thread in threads:
                thread.join()


def main() -> int:
    """Run a trial, print the figures, and return 1 if a law was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    given, report = parser.parse_args(), Report()
    folder = Path(tempfile.mkdtemp(prefix="wholecall-chaos-"))
    run_trial(folder, given, report=report)
    began, ended = read_effects(folder)
    twice = [key for key, times in began.items() if times > 1]
    print(f"seed {given.seed}, {given.minutes:g} minutes, {given.store}; files in {folder}")
    print(f"faults: {dict(report.faults)}; answers: {dict(report.answered)}")
    print(f"calls begun {len(began)}, ended {len(ended)}, begun twice {len(twice)}")
    print(f"requests lost {len(report.lost)}, streams changed {len(report.changed)}")
    print(f"slowest answer {report.slowest:.1f} s")
    return 1 if twice or report.lost or report.changed else 0


if __name__ == "__main__":
    sys.exit(main())
