"""The way out to the network as the environment describes it: proxies and certificates."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from yarl import URL

from wholecall.errors import UpstreamError

# The first one that is set wins; the names are those of OpenSSL, requests and curl.
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR")


def find_proxy(url: URL, environ: Mapping[str, str]) -> URL | None:
    """The proxy for this address: `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, but `NO_PROXY`."""
    settings = _read_proxies(environ)
    proxy = settings.get(url.scheme) or settings.get("all")
    if not proxy or _is_exempt(url, settings.get("no", "")):
        return None
    address = URL(proxy if "://" in proxy else f"http://{proxy}")
    if address.scheme not in ("http", "https"):
        raise UpstreamError(
            f"the proxy for {url.scheme} is a {address.scheme} one; only http and https are spoken",
            code="connection",
        )
    return address


def _read_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    upper = {name.lower(): value for name, value in environ.items() if name.isupper()}
    if "REQUEST_METHOD" in environ:
        # In a CGI program `HTTP_PROXY` is the header `Proxy` of the request.
        upper.pop("http_proxy", None)
    lower = {name: value for name, value in environ.items() if name.islower()}
    return {
        name.removesuffix("_proxy"): value
        for name, value in (upper | lower).items()
        if name.endswith("_proxy")
    }


def _is_exempt(url: URL, exempt: str) -> bool:
    """Return True if a list of hosts and domains (`*` is all of them) names this address."""
    host = url.host or ""
    for entry in exempt.lower().split(","):
        name = entry.strip().lstrip(".")
        if name == "*" or name in (host, f"[{host}]", f"{host}:{url.port}"):
            return True
        if name and host.endswith(f".{name}"):
            return True
    return False


def find_certificates(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    """Whom to trust, if the environment says so; None: the system's certificates."""
    for name in _CERTIFICATES:
        place = environ.get(name)
        if place:
            return _load(name, Path(place))
    return None


def _load(name: str, path: Path) -> ssl.SSLContext:
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=str(path))
        return ssl.create_default_context(cafile=str(path))
    except OSError as error:  # `ssl.SSLError` is one
        raise UpstreamError(
            f"{name} names {str(path)!r}, which holds no certificates ({error.strerror or error})",
            code="certificate",
        ) from error
