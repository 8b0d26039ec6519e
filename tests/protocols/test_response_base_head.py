import pytest

from wholecall.protocols.registry import make_answer_id
from wholecall.protocols.response_base import ResponseHead


@pytest.mark.parametrize(
    ("protocol", "prefix"),
    [("openai-chat", "chatcmpl-"), ("openai-responses", "resp_"), ("anthropic", "msg_")],
)
def test_an_id_has_its_protocols_form_and_is_new(protocol: str, prefix: str) -> None:
    first, second = make_answer_id(protocol), make_answer_id(protocol)
    assert first.startswith(prefix)
    assert first != second


def test_other_fields_are_kept_and_never_replace_ours() -> None:
    head = ResponseHead(id="a", model="m", rest={"service_tier": "flex", "id": "theirs"})
    fields = head.complete({"id": "a", "model": "m"})
    assert list(fields.items()) == [("id", "a"), ("model", "m"), ("service_tier", "flex")]
