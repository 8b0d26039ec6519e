"""Send requests again in every way that clients do, to a proxy of two workers; count the tools.

    python fuzz/resends.py --rounds 200

A round has six cases, each with words and a key of its own:

- four times at once with one `Idempotency-Key`;
- again with the key before the tool begins, while it runs, and after the answer;
- the same words without a header while the first request is open;
- again with the key after the worker was killed in the midst of the tool: 130 seconds later in one
  round, ten minutes later in the next. The rows of the journal are made that much older.

The tool writes down, with fsync, when it begins. In each case it must have begun once, and each
request must have its answer.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from serve_processes import Serving, is_alive, serve_processes

TOOL_SECONDS = 0.15
LATER = (130.0, 600.0)
WAIT_SECONDS = 60.0
_OK = 200
_AGE = """
UPDATE runs SET created = created - :by, touched = touched - :by, due = max(due - :by, 0.0);
UPDATE rows SET at = at - :by; UPDATE handles SET until = max(until - :by, 0.0)
"""


class Rounds:
    """Plays the cases, and notes what went wrong."""

    def __init__(self, serving: Serving, pool: ThreadPoolExecutor) -> None:
        self._serving = serving
        self._pool = pool
        self.wrong: list[str] = []
        self.right: Counter[str] = Counter()

    def play(self, number: int) -> None:
        """Play all cases once."""
        self._check("four at once", number, play=self._send_four)
        self._check("before the tool", number, play=self._send_before)
        self._check("during the tool", number, play=self._send_during)
        self._check("after the answer", number, play=self._send_after)
        self._check("without a header", number, play=self._send_bare)
        later = LATER[number % len(LATER)]
        self._check(
            f"{later:.0f} s after a kill", number, play=lambda key: self._send_late(key, later)
        )

    def _check(self, case: str, number: int, *, play: Callable[[str], list[bool]]) -> None:
        self._await(lambda: len(self._serving.list_workers()) > 1, "two workers")
        before = len(self._list_begun())
        answered = play(f"round {number}, {case}")
        begun = len(self._list_begun()) - before
        if begun == 1 and all(answered):
            self.right[case] += 1
        else:
            self.wrong.append(f"round {number}, {case}: {begun} began, answers: {answered}")
            print(self.wrong[-1], flush=True)

    # ── The cases ───────────────────────────────────────────────────────────────────

    def _send_four(self, key: str) -> list[bool]:
        sent = [self._send(key) for _ in range(4)]
        return [each.result() for each in sent]

    def _send_before(self, key: str) -> list[bool]:
        sent = [self._send(key), self._send(key)]
        return [each.result() for each in sent]

    def _send_during(self, key: str) -> list[bool]:
        begun = len(self._list_begun())
        first = self._send(key)
        self._await(lambda: len(self._list_begun()) > begun, "the tool")
        again = self._send(key)
        return [first.result(), again.result()]

    def _send_after(self, key: str) -> list[bool]:
        return [self._send(key).result(), self._send(key).result()]

    def _send_bare(self, key: str) -> list[bool]:
        begun = len(self._list_begun())
        first = self._send(key, named=False)
        self._await(lambda: len(self._list_begun()) > begun, "the tool")
        again = self._send(key, named=False)
        return [first.result(), again.result()]

    def _send_late(self, key: str, later: float) -> list[bool]:
        begun = len(self._list_begun())
        first = self._send(key)
        self._await(lambda: len(self._list_begun()) > begun, "the tool")
        owner = int(self._list_begun()[-1].split()[2])
        os.kill(owner, signal.SIGKILL)
        self._await(lambda: not is_alive(owner), "the end of the worker")
        first.result()  # it was cut, unless the tool had just ended
        with sqlite3.connect(self._serving.folder / "wholecall-runs.sqlite", timeout=30) as journal:
            for statement in _AGE.split(";"):
                journal.execute(statement, {"by": later})
        journal.close()
        return [self._send_until_answered(key)]

    # ── Requests ────────────────────────────────────────────────────────────────────

    def _send(self, words: str, *, named: bool = True) -> Future[bool]:
        return self._pool.submit(self._ask, words, named=named)

    def _ask(self, words: str, *, named: bool) -> bool:
        body = {"model": "m", "messages": [{"role": "user", "content": words}]}
        headers = {"idempotency_key": words} if named else {}
        try:
            status, answer = self._serving.post("/v1/chat/completions", body, **headers)
        except (OSError, HTTPException):
            return False
        return status == _OK and b"All done." in answer

    def _send_until_answered(self, key: str) -> bool:
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._ask(key, named=True):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _list_begun(self) -> list[str]:
        path = self._serving.folder / "effects.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith("began ")]

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not come"
            time.sleep(0.005)


def main() -> int:
    """Play the rounds, print the figures, and return 1 if a tool began twice or not at all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wholecall-resends-"))
    with (
        serve_processes(folder, workers=2, seconds=TOOL_SECONDS) as serving,
        ThreadPoolExecutor(4) as pool,
    ):
        rounds = Rounds(serving, pool)
        for number in range(given.rounds):
            rounds.play(number)
    print(f"{given.rounds} rounds; files in {folder}")
    print("the tool began once:", ", ".join(f"{case} {n}" for case, n in rounds.right.items()))
    print(f"wrong: {len(rounds.wrong)}")
    return 1 if rounds.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
