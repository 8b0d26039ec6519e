"""Find the upstream for the model that a command names."""

from __future__ import annotations

import typer

from wholecall.errors import WholecallError
from wholecall.upstreams.names import Route, check_base_url, demand_name, find_upstream


def find_route(model: str, base_url: str | None) -> Route:
    """Call `find_upstream` for a command; report a failure by the name of the command's option."""
    demand_name(model, base_url, option="--base-url")
    if base_url is not None:
        try:
            check_base_url(model, base_url)
        except ValueError as error:
            raise typer.BadParameter(f"--base-url: {error}") from None
    try:
        return find_upstream(model, base_url=base_url)
    except WholecallError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
