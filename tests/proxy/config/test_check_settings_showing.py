from pathlib import Path

from configs import load_text
from wholecall.proxy.config.check import show_config


def test_every_setting_is_shown_with_its_origin_and_no_secret_is(tmp_path: Path) -> None:
    text = """\
listen: {port: 99}
models:
  fast:
    upstream: openai/x
    api_key: ${THE_KEY}
    headers: {Authorization: "Bearer ${THE_KEY}"}
  slow: {upstream: openai/y}
tools: [{mcp: a, command: b, args: [c, d]}]
"""
    environ = {
        "THE_KEY": "sk-123",
        "WHOLECALL__LIMITS__BODY_BYTES": "5",
        "WHOLECALL__MODELS__SLOW__API_KEY": "sk-456",
    }
    loaded = load_text(tmp_path, text, environ=environ)
    lines = list(show_config(loaded.config, loaded.places))
    file = tmp_path / "wholecall.yaml"
    for line in [
        f"listen.port = 99  # {file}:1",
        'listen.host = "127.0.0.1"  # default',
        "limits.body_bytes = 5  # WHOLECALL__LIMITS__BODY_BYTES",
        f'models.fast.api_key = "${{THE_KEY}}"  # {file}:5',
        f'models.fast.headers.Authorization = "Bearer ${{THE_KEY}}"  # {file}:6',
        'models.slow.api_key = "***"  # WHOLECALL__MODELS__SLOW__API_KEY',
        f'tools.0.args = ["c", "d"]  # {file}:8',
    ]:
        assert line in lines
    assert "sk-" not in "".join(lines)
