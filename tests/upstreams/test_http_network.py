"""Proxies and certificates as the environment names them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from yarl import URL

from wholecall.errors import UpstreamError
from wholecall.upstreams.http import find_certificates, find_proxy

PLAIN = URL("http://api.example:8000/v1")
SAFE = URL("https://api.example/v1")


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        (PLAIN, {}, None),
        (PLAIN, {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        (PLAIN, {"HTTP_PROXY": "p:1"}, "http://p:1"),
        (PLAIN, {"HTTPS_PROXY": "http://p:1"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://q:2"}, "http://p:1"),
        (SAFE, {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        (SAFE, {"ALL_PROXY": "http://p:1", "https_proxy": "http://q:2"}, "http://q:2"),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:2"}, "http://q:2"),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "https_proxy": ""}, None),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other.example,.example"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "no_proxy": "other.example"}, "http://p:1"),
        (PLAIN, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "api.example:8000"}, None),
        (PLAIN, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "api.example:9000"}, "http://p:1"),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": " API.EXAMPLE , "}, None),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "pi.example"}, "http://p:1"),
        (SAFE, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": " , "}, "http://p:1"),
        (URL("http://[::1]:8000"), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "[::1]"}, None),
        (PLAIN, {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        (PLAIN, {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, "http://p:1"),
    ],
)
def test_the_proxy_is_found(*, url: URL, environ: dict[str, str], proxy: str | None) -> None:
    assert find_proxy(url, environ) == (None if proxy is None else URL(proxy))


def test_a_proxy_that_cannot_be_spoken_to_is_named() -> None:
    with pytest.raises(UpstreamError, match="is a socks5 one"):
        find_proxy(SAFE, {"ALL_PROXY": "socks5://p:1"})


def test_without_a_word_the_systems_certificates_hold() -> None:
    assert find_certificates({"SSL_CERT_FILE": ""}) is None


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_file_of_certificates_is_trusted(name: str, authority: Path) -> None:
    context = find_certificates({name: str(authority)})
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_so_is_a_folder(authority: Path) -> None:
    context = find_certificates({"SSL_CERT_DIR": str(authority.parent)})
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_what_holds_no_certificates_is_named(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UpstreamError, match="SSL_CERT_FILE names") as caught:
        find_certificates({"SSL_CERT_FILE": str(file)})
    assert caught.value.code == "certificate"
