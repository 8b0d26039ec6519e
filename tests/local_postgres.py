"""A PostgreSQL server for tests, in a folder of its own, started and stopped by its process id."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wholecall.journal.postgres_server import connect

USER = "wholecall"
SECONDS = 60
_ACCOUNT = "postgres", "nobody"
"""Root may not start a server: one of these does."""


def find_program(name: str) -> str | None:
    """Return the path of one of the server's programs; Debian does not have them on the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


def explain_missing() -> str:
    """Return why there can be no server here; nothing if there can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'wholecall[fleet]'"
    if find_program("postgres") is None:
        return "PostgreSQL is not on this machine: make test-fleet installs it"
    return ""


class LocalPostgres:
    """A server on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _find_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._databases = 0
        account = _find_account()
        self._user: dict[str, Any] = {} if account is None else {"user": account.pw_uid}
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        options = ("-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync")
        self._run("initdb", "-D", str(folder / "data"), *options)

    def start(self) -> None:
        """Start, and return when it can be asked."""
        places = ("-D", str(self.folder / "data"), "-k", str(self.folder), "-h", "127.0.0.1")
        # A crash of the server loses nothing without fsync; a crash of the machine would.
        settings = ("-c", "fsync=off", "-c", "max_connections=60")
        program = find_program("postgres")
        assert program is not None
        log = (self.folder / "log").open("ab")
        with log:
            self._server = subprocess.Popen(
                [program, *places, "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        self._wait()

    def stop(self, how: int = signal.SIGINT) -> None:
        """End it: SIGINT is `-m fast`, SIGQUIT `-m immediate`."""
        assert self._server is not None
        self._server.send_signal(how)
        self._server.wait(SECONDS)
        self._server = None

    def crash(self) -> None:
        """End it as `pg_ctl stop -m immediate` does: the next start recovers."""
        self.stop(signal.SIGQUIT)

    def make_url(self, database: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://{USER}:secret-word@127.0.0.1:{port or self.port}/{database}"

    def make_database(self, *, like: str = "template1") -> str:
        """Make a database, empty or a copy of another one; return its address."""
        self._databases += 1
        name = f"test_{self._databases}"
        with connect(self.make_url()) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like.rpartition('/')[2]}")
        return self.make_url(name)

    def _wait(self) -> None:
        ready = ("-h", "127.0.0.1", "-p", str(self.port), "-t", str(SECONDS))
        program = find_program("pg_isready")
        assert program is not None
        while subprocess.run([program, *ready], capture_output=True, check=False).returncode != 0:
            assert self._server is not None
            assert self._server.poll() is None, (self.folder / "log").read_text()

    def _run(self, name: str, *arguments: str) -> None:
        program = find_program(name)
        assert program is not None
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            cwd=self.folder,
            **self._user,
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def start_postgres() -> Iterator[LocalPostgres]:
    """Run a server; skip the test where there can be none."""
    missing = explain_missing()
    if missing:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="wholecall-pg-", ignore_cleanup_errors=True) as folder:
        server = LocalPostgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _find_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {account.pw_name: account for account in pwd.getpwall()}
    return next(known[name] for name in _ACCOUNT if name in known)


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
