from __future__ import annotations

import io
import json

import pytest

from wholecall.proxy.config.schema import LogConfig
from wholecall.proxy.observe.access_log import LogWriter
from wholecall.proxy.observe.redaction import Redactor

KEY = "Zq81hHw0pLx5RkT2"


def make(**settings: object) -> tuple[LogWriter, io.StringIO]:
    stream = io.StringIO()
    return LogWriter(LogConfig(**settings), stream, redactor=Redactor([KEY])), stream  # type: ignore[arg-type]


def test_a_line_begins_with_time_level_and_event() -> None:
    writer, stream = make()
    writer.log.info("started", port=8787)
    line = json.loads(stream.getvalue())
    assert list(line) == ["timestamp", "level", "event", "port"]
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["event"], line["port"]) == ("info", "started", 8787)


def test_less_than_the_level_is_not_written() -> None:
    writer, stream = make(level="warning")
    writer.log.info("quiet")
    writer.log.error("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


def test_level_and_bodies_can_change() -> None:
    writer, stream = make(level="error")
    writer.log.debug("before")
    bodies = [writer.bodies]
    writer.reload(LogConfig(level="debug", bodies=True))
    bodies.append(writer.bodies)
    writer.log.debug("after")
    assert bodies == [False, True]
    assert json.loads(stream.getvalue())["event"] == "after"


def test_lines_for_people() -> None:
    writer, stream = make(format="text")
    writer.log.warning("call rejected", reason="truncated", key=KEY)
    line = stream.getvalue()
    assert "call rejected" in line
    assert "reason=truncated" in line
    assert KEY not in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    "value",
    [
        KEY,
        [KEY],
        {"a": {"b": [KEY, 1, None, True, 0.5]}},
        (KEY,),
        ValueError(KEY),
        [[[[[[[[KEY]]]]]]]],
    ],
)
def test_secrets_are_found_at_any_depth(value: object) -> None:
    writer, stream = make()
    writer.log.info("look", value=value)
    assert KEY not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_what_is_no_secret_keeps_its_type() -> None:
    writer, stream = make()
    writer.log.info("look", value={"a": [1, None, True, 0.5, "x"]})
    assert json.loads(stream.getvalue())["value"] == {"a": [1, None, True, 0.5, "x"]}


def test_a_log_that_nobody_reads_stops_nobody() -> None:
    writer, stream = make()
    stream.close()
    writer.log.info("is anybody there?")


def test_half_a_character_is_written_as_an_escape() -> None:
    writer, stream = make()
    writer.log.info("look", text="half \ud83d", key=KEY)
    line = json.loads(stream.getvalue())
    assert (line["text"], line["key"]) == ("half \ud83d", "***")


def test_what_json_does_not_know_is_written_as_text() -> None:
    writer, stream = make()
    writer.log.info("look", error=ValueError("no"))
    assert json.loads(stream.getvalue())["error"] == "no"


def test_a_line_of_fields_is_the_same_as_one_by_the_logger() -> None:
    writer, stream = make()
    fields = {"port": 1, "status": 200, "key": KEY, "model": KEY, "calls": [KEY], "path": "/v1"}
    writer.write("info", "look", fields=fields)
    writer.log.info("look", **fields)
    written, logged = map(json.loads, stream.getvalue().splitlines())
    assert list(written) == ["timestamp", "level", "event", *fields]
    assert list(written.values())[1:] == ["info", "look", 1, 200, "***", "***", ["***"], "/v1"]
    assert list(logged.values())[1:] == list(written.values())[1:]


def test_a_line_of_fields_below_the_level_is_not_written() -> None:
    writer, stream = make()
    writer.write("debug", "look", fields={})
    assert not stream.getvalue()


def test_a_failure_is_told_without_secrets() -> None:
    writer, stream = make()
    writer.log.error("failed", port=1, exc_info=ValueError(KEY))
    line = json.loads(stream.getvalue())
    assert list(line) == ["timestamp", "level", "event", "port", "exception"]
    assert line["exception"] == "ValueError: ***"
