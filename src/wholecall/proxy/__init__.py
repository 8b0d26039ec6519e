"""The proxy: one address for OpenAI's and Anthropic's clients, in front of any upstream."""

from wholecall.errors import require_extra

require_extra("wholecall.proxy", "proxy")
