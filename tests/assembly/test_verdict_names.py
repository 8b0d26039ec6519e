"""Tool names with a namespace, or with the remains of a header around them."""

import pytest

from wholecall.assembly.verdict import offered_name

FILES = ("edit", "edit_file", "edit_existing_file", "bash")

# what holds, the name, the offered names, the name that is meant
MEANT = [
    ("an offered name", " bash ", FILES, "bash"),
    ("a name in the namespace of functions", "functions.bash", FILES, "bash"),
    ("a name in the namespace of an API", "default_api:bash", FILES, "bash"),
    ("a namespace that is offered", "functions.rm", ("functions.rm", "rm"), "functions.rm"),
    ("a name that is not offered, in a namespace", "functions.rm", FILES, "functions.rm"),
    ("another namespace", "os.bash", FILES, "os.bash"),
    ("a token behind the name", "bash<|channel|>commentary", FILES, "bash"),
    ("a namespace and a token", "functions.bash<|constrain|>json", FILES, "bash"),
    ("a header around the name", "assistant<|channel|>commentary to=functions.bash", FILES, "bash"),
    ("a header on both sides", "commentary to=functions.bash <|constrain|>json", FILES, "bash"),
    ("a counter behind the name", "functions.bash:0", FILES, "bash"),
    ("a counter that is offered", "bash:0", ("bash", "bash:0"), "bash:0"),
    ("a counter behind an unknown name", "functions.rm:0", FILES, "functions.rm:0"),
    ("a tag behind the name", "bash</tool>", FILES, "bash</tool>"),
    ("words behind the name", "bash it", FILES, "bash it"),
    ("a token alone", "<|channel|>", FILES, "<|channel|>"),
    ("nobody knows, if nobody said which tools exist", "functions.bash", None, "functions.bash"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "offered", "meant"), [row[1:] for row in MEANT], ids=[row[0] for row in MEANT]
)
def test_a_namespace_of_the_model_s_training_is_no_part_of_a_name(
    name: str, offered: tuple[str, ...] | None, *, meant: str
) -> None:
    assert offered_name(name, offered) == meant
