"""From a model's name to who answers for it: `openai/gpt-x`, `ollama/qwen3`, `local/…`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from wholecall.arguments.describe import suggest
from wholecall.errors import UnknownModel
from wholecall.upstreams.base import PREFIX, Upstream
from wholecall.upstreams.endpoint import check_header, parse_address
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.litellm import LiteLLMUpstream
from wholecall.upstreams.local_upstream import LocalUpstream, find_file
from wholecall.upstreams.model_files import SUFFIX

_LITELLM = "litellm"
_LOCAL = PREFIX.rstrip("/")
_OLLAMA_PORT = 11434
_KEY_HEADER = "Authorization"
# A listening address is not one to connect to.
_ANYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound here


class Route(NamedTuple):
    """The upstream, and its name for the model."""

    upstream: Upstream
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A model under a name of your own."""

    model: str
    """With its prefix: `openai/gpt-x`."""
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Service:
    """The meaning of a prefix."""

    protocol: str
    base_url: str
    url_variable: str
    key_variables: tuple[str, ...]
    read_url: Callable[[str], str] = str.strip
    """Converts the variable, or the user's value."""


def read_ollama_host(host: str) -> str:
    """The URL of what `OLLAMA_HOST` says: `myhost`, `:11434`, `0.0.0.0`, `https://myhost`."""
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        given = parts.port
    except ValueError as error:
        raise ValueError(f"{host!r} is not the address of an Ollama server: {error}") from None
    name = parts.hostname or ""
    name = "127.0.0.1" if name in _ANYWHERE else name
    name = f"[{name}]" if ":" in name else name
    # With a scheme, its own port is meant; without one, Ollama's.
    port = given or (None if "://" in host else _OLLAMA_PORT)
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


_SERVICES: dict[str, _Service] = {
    "openai": _Service(
        "openai-chat", "https://api.openai.com/v1", "OPENAI_BASE_URL", ("OPENAI_API_KEY",)
    ),
    "responses": _Service(
        "openai-responses", "https://api.openai.com/v1", "OPENAI_BASE_URL", ("OPENAI_API_KEY",)
    ),
    "anthropic": _Service(
        "anthropic", "https://api.anthropic.com", "ANTHROPIC_BASE_URL", ("ANTHROPIC_API_KEY",)
    ),
    "ollama": _Service(
        "ollama",
        f"http://127.0.0.1:{_OLLAMA_PORT}",
        "OLLAMA_HOST",
        ("OLLAMA_API_KEY",),
        read_ollama_host,
    ),
    "gemini": _Service(
        "gemini",
        "https://generativelanguage.googleapis.com",
        "GEMINI_BASE_URL",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "interactions": _Service(
        "gemini-interactions",
        "https://generativelanguage.googleapis.com",
        "GEMINI_BASE_URL",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "bedrock": _Service(
        "bedrock-invoke",
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        ("AWS_BEARER_TOKEN_BEDROCK",),
    ),
    "cohere": _Service(
        "cohere", "https://api.cohere.com", "CO_API_URL", ("CO_API_KEY", "COHERE_API_KEY")
    ),
}
PREFIXES = (*_SERVICES, _LITELLM, _LOCAL)
_PACKAGES = {_LITELLM: "litellm", _LOCAL: "xllamacpp"}
"""The package that the extra of the prefix's name installs."""


def find_upstream(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    settings: HttpSettings | None = None,
    named: Mapping[str, NamedModel] | None = None,
) -> Route:
    """Find who answers for a model; close the upstream when you are done with it.

    A name in `named` comes first. Else the prefix decides; what is not given is taken from
    the environment (`settings.environ`). A name without a prefix needs a `base_url` and is
    taken to speak OpenAI's chat completions.
    """
    asked = NamedModel(model=model, base_url=base_url, api_key=api_key)
    return _connect((named or {}).get(model, asked), settings or HttpSettings())


def check_base_url(model: str, base_url: str) -> None:
    """`ValueError` says why a model cannot be asked there."""
    service = _SERVICES.get(model.partition("/")[0], _SERVICES["openai"])
    parse_address(service.read_url(base_url))


def demand_name(model: str, base_url: str | None, *, option: str = "base_url=") -> None:
    """`UnknownModel` if a name does not say who answers; `option` is what would say it."""
    prefix, slash, name = model.partition("/")
    near = suggest(prefix, PREFIXES) if slash else None
    # Only models on this machine are files.
    possible = (_LOCAL,) if model.endswith(SUFFIX) else PREFIXES
    written = ", ".join(f"{each}/{model or '…'}" for each in possible)
    if not model:
        raise UnknownModel(f"the name of the model is empty: write {written}")
    if prefix in PREFIXES and not name and (slash or base_url is None):
        raise UnknownModel(f"the name of a model is missing: write {prefix}/…")
    if prefix in PREFIXES or base_url is not None:
        return
    if near is not None:
        raise UnknownModel(f"no provider is called {prefix!r}: did you mean '{near}/{name}'?")
    raise UnknownModel(
        f"the name {model!r} does not say who answers for it: write {written}; "
        f"or give {option} of an endpoint that speaks OpenAI's chat completions"
    )


def demand_key(
    model: str,
    base_url: str | None,
    *,
    environ: Mapping[str, str],
    option: str = ", or give api_key=",
) -> None:
    """`UnknownModel` if a provider's own address would be asked without a key: it would refuse.

    `option` says how else to give one."""
    service = _SERVICES.get(model.partition("/")[0])
    if service is None or service.base_url.startswith("http:"):
        return  # a server on this machine needs none
    asked = NamedModel(model=model, base_url=base_url)
    own = _find_url(service, asked, environ=environ) == service.base_url
    if own and not _find_key(service, asked, environ=environ):
        names = " or ".join(service.key_variables)
        raise UnknownModel(f"{model!r} needs a key: set {names}{option}")


def check_environment(asked: NamedModel, environ: Mapping[str, str]) -> None:
    """`ValueError` names the variable that a model needs and that cannot be used."""
    prefix = asked.model.partition("/")[0]
    if prefix not in (_LITELLM, _LOCAL):
        service = _SERVICES.get(prefix, _SERVICES["openai"])
        _find_url(service, asked, environ=environ)
        _find_key(service, asked, environ=environ)


def find_lack(model: str, environ: Mapping[str, str]) -> str:
    """Return what is missing to ask a model: a package, a file. Empty: nothing."""
    prefix, _, name = model.partition("/")
    package = _PACKAGES.get(prefix)
    if package is not None and find_spec(package) is None:
        return f"{prefix}/… models need {package}: pip install 'wholecall[{prefix}]'"
    if prefix == _LOCAL:
        try:
            find_file(name, environ)
        except UnknownModel as error:
            return str(error)
    return ""


def _connect(asked: NamedModel, settings: HttpSettings) -> Route:
    demand_name(asked.model, asked.base_url)
    prefix, slash, model = asked.model.partition("/")
    if prefix not in PREFIXES or not slash:
        prefix, model = "openai", asked.model
    if prefix == _LITELLM:
        upstream = LiteLLMUpstream(
            base_url=asked.base_url,
            api_key=asked.api_key,
            headers=asked.headers,
            retry=settings.retry,
        )
        return Route(upstream, model)
    if prefix == _LOCAL:
        # The prefix stays: by it a run knows the traits of who answers.
        return Route(LocalUpstream(find_file(model, settings.environ)), asked.model)
    return Route(_over_http(_SERVICES[prefix], asked, settings=settings), model)


def _over_http(service: _Service, asked: NamedModel, *, settings: HttpSettings) -> HttpUpstream:
    environ = settings.environ
    return HttpUpstream(
        service.protocol,
        _find_url(service, asked, environ=environ),
        api_key=_find_key(service, asked, environ=environ),
        headers=asked.headers,
        settings=settings,
    )


def _find_url(service: _Service, asked: NamedModel, *, environ: Mapping[str, str]) -> str:
    if asked.base_url:
        return service.read_url(asked.base_url)
    named = environ.get(service.url_variable)
    if not named:
        return service.base_url
    try:
        url = service.read_url(named)
        parse_address(url)
    except ValueError as error:
        raise ValueError(f"{service.url_variable}: {error}") from None
    return url


def _find_key(service: _Service, asked: NamedModel, *, environ: Mapping[str, str]) -> str:
    if asked.api_key is not None:
        return asked.api_key
    variable = next(filter(environ.get, service.key_variables), None)
    if variable is None:
        return ""
    try:
        check_header(_KEY_HEADER, environ[variable])
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from None
    return environ[variable]
