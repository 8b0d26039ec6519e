"""The program `wholecall`: the command line, or one line that names the missing extra."""

import sys

from wholecall.errors import MissingExtra, require_extra

_PROXY_COMMANDS = frozenset({"config", "demo", "keys", "serve"})


def main() -> None:
    """Run the command line."""
    try:
        for command in _PROXY_COMMANDS.intersection(sys.argv[1:2]):
            require_extra(f"wholecall {command}", "proxy")
        require_extra("the command line", "cli")
    except MissingExtra as missing:
        sys.exit(f"wholecall: {missing}")
    from wholecall.cli.main import main as run  # noqa: PLC0415 - an extra

    run()


if __name__ == "__main__":
    main()
