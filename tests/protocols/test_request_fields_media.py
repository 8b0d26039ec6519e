import pytest

from wholecall.events import Text
from wholecall.messages import Media, Message, Native, Request, Result, Role
from wholecall.protocols.registry import decode_request, encode_request
from wholecall.protocols.request_fields import (
    find_foreign,
    media_in,
    omit,
    omit_foreign,
    read_address,
    read_format,
    speak,
    type_of,
    write_address,
    write_format,
)

PICTURE = Media(kind="image", media_type="image/png", data="AAAA")


@pytest.mark.parametrize(
    ("address", "media"),
    [
        ("data:image/png;base64,AAAA", PICTURE),
        ("DATA:image/PNG;name=a.png;base64,AAAA", PICTURE),
        ("data:;base64,AAAA", Media(kind="image", data="AAAA")),
        ("https://x.example/a", Media(kind="image", url="https://x.example/a")),
        ("data:text/plain,hello", Media(kind="image", url="data:text/plain,hello")),
    ],
)
def test_an_address_is_read(address: str, media: Media) -> None:
    assert read_address("image", address) == media


def test_a_name_stays_with_it() -> None:
    assert read_address("document", "data:a/b;base64,AA", name="n").name == "n"


def test_an_address_is_written() -> None:
    assert write_address(PICTURE) == "data:image/png;base64,AAAA"
    assert write_address(Media(kind="image", data="AA")) == "data:image/png;base64,AA"
    assert write_address(Media(kind="image", url="https://x")) == "https://x"


def test_an_unknown_type_is_the_likeliest() -> None:
    assert type_of(Media(kind="document")) == "application/pdf"


@pytest.mark.parametrize(
    ("media_type", "name"),
    [("audio/mpeg", "mp3"), ("audio/wav", "wav"), ("audio/flac", "flac"), ("audio/x-wav", "wav")],
)
def test_formats_of_sound_have_names(media_type: str, name: str) -> None:
    assert write_format(Media(kind="audio", media_type=media_type)) == name


def test_and_types() -> None:
    assert [read_format(name) for name in ("mp3", "wav", "flac")] == [
        "audio/mpeg",
        "audio/wav",
        "audio/flac",
    ]


def test_what_is_left_out_is_told() -> None:
    sound = Media(kind="audio", media_type="audio/wav", name="a.wav", url="https://x")
    assert omit(sound) == (
        "(Left out here, because this model cannot be given it: "
        "audio, a.wav, audio/wav, https://x.)"
    )
    assert "left out" in omit(Native("p", {}))


@pytest.mark.parametrize(
    ("fields", "text", "told"),
    [
        ({"media_type": "text/plain", "data": "aGk="}, "hi", "hi"),
        ({"media_type": "text/csv", "data": "aGk=", "name": "a.csv"}, "hi", "a.csv:\nhi"),
        ({"media_type": "text/plain", "data": "?"}, None, "(Left out"),
        ({"media_type": "text/plain", "url": "https://x"}, None, "(Left out"),
        ({"media_type": "application/pdf", "data": "aGk="}, None, "(Left out"),
    ],
)
def test_a_document_that_is_text_is_told_as_text(
    fields: dict[str, str], text: str | None, *, told: str
) -> None:
    document = Media(kind="document", **fields)
    assert document.plain_text == text
    assert omit(document).startswith(told)


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Media(kind="image", data="aGk="), ()),
        (Media(kind="image", url="https://x"), ("image_url",)),
        (Media(kind="audio", data="aGk="), ("audio",)),
        (Media(kind="audio", url="https://x"), ("audio",)),
        (Media(kind="document", data="aGk=", media_type="text/plain"), ()),
    ],
)
def test_media_without_a_form_are_named_and_omitted(part: Media, named: tuple[str, ...]) -> None:
    takes = {"image": False}
    messages = (Message(Role.USER, (Text("a"), part)), Message(Role.USER, (part,)))
    request = Request(model="m", messages=messages)
    assert find_foreign(request, "ollama", media=takes).said == named
    kept = omit_foreign(request, "ollama", media=takes).messages
    assert kept == ((Message(Role.USER, (Text("a"),)),) if named else messages)


def test_media_are_found_among_texts() -> None:
    assert media_in([Text("a"), PICTURE]) == [PICTURE]


@pytest.mark.parametrize(
    ("text", "failed", "spoken"),
    [
        ("fine", False, "fine"),
        ("no disk", True, "Error: no disk"),
        ("", True, "Error:"),
        (" ERROR 5", True, " ERROR 5"),
    ],
)
def test_a_failure_says_that_it_is_one(text: str, *, failed: bool, spoken: str) -> None:
    assert speak(Result((Text(text),), failed)) == spoken


@pytest.mark.parametrize(
    ("given", "to_chat", "to_responses"),
    [
        ({"detail": "low"}, {"detail": "low"}, {"detail": "low"}),
        ({"detail": "original"}, {"detail": "high"}, {"detail": "original"}),
        ({}, {}, {"detail": "auto"}),
    ],
)
def test_an_image_is_looked_at_as_closely_in_the_other_protocol(
    given: dict[str, str], *, to_chat: dict[str, str], to_responses: dict[str, str]
) -> None:
    address = write_address(PICTURE)
    images = {
        "openai-chat": ("messages", {"type": "image_url", "image_url": {"url": address, **given}}),
        "openai-responses": ("input", {"type": "input_image", "image_url": address, **given}),
    }
    for protocol, (field, part) in images.items():
        body = {"model": "m", field: [{"role": "user", "content": [part]}]}
        [read] = decode_request(protocol, body).messages[0].parts
        request = Request(model="m", messages=(Message(Role.USER, (read,)),))
        [chat] = encode_request("openai-chat", request)["messages"]
        assert chat["content"][0]["image_url"] == {"url": address, **to_chat}
        [responses] = encode_request("openai-responses", request)["input"]
        assert responses["content"][0].items() >= to_responses.items()
