"""Tool names that arrive in pieces, again, late, or as a whole that grows."""

import pytest

from wholecall.assembly.routing import is_settled, join_name

FILES = ("edit", "edit_file", "edit_existing_file", "bash")
OTHER_CALL = None

# what holds, the name so far, the piece, the offered names, the name then
JOINS = [
    ("the first piece is the name so far", "", "ba", FILES, "ba"),
    ("a repeated name stays as it is", "bash", "bash", FILES, "bash"),
    ("an empty piece changes nothing", "bash", "", FILES, "bash"),
    ("pieces are joined towards an offered name", "edit_ex", "isting", FILES, "edit_existing"),
    ("an offered name may be the beginning of another", "edit", "_file", FILES, "edit_file"),
    ("a name that grows as a whole is replaced", "edit_e", "edit_existing", FILES, "edit_existing"),
    ("two offered names are two calls", "bash", "edit", FILES, OTHER_CALL),
    ("a wrong beginning gives way to an offered name", "bas_", "bash", FILES, "bash"),
    ("what fits no offered name is told as unknown", "hello", "_you", FILES, "hello_you"),
    ("never `bashbash`, even if nobody said which tools exist", "bash", "bash", None, "bash"),
    ("pieces are joined, if nobody said so", "edit_ex", "isting", None, "edit_existing"),
    ("a longer spelling replaces the name", "edit", "edit_file", None, "edit_file"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("current", "piece", "offered", "name"),
    [row[1:] for row in JOINS],
    ids=[row[0] for row in JOINS],
)
def test_a_name_is_joined_only_towards_an_offered_one(
    current: str, piece: str, *, offered: tuple[str, ...] | None, name: str | None
) -> None:
    assert join_name(current, piece, offered=offered) == name


@pytest.mark.parametrize("cut", range(1, len("edit_existing_file")))
def test_a_name_may_be_cut_anywhere(cut: int) -> None:
    name = "edit_existing_file"
    assert join_name(name[:cut], name[cut:], offered=FILES) == name


# what holds, the name, the offered names, whether it is settled
SETTLED = [
    ("an offered name that begins no other", "bash", FILES, True),
    ("an offered name that begins another may still grow", "edit", FILES, False),
    ("a beginning is not settled", "ba", FILES, False),
    ("no name is settled before it has come", "", FILES, False),
    ("nobody knows, if nobody said which tools exist", "bash", None, False),
    ("a name that is not offered", "rm", FILES, False),
]


@pytest.mark.parametrize(
    ("name", "offered", "settled"), [row[1:] for row in SETTLED], ids=[row[0] for row in SETTLED]
)
def test_a_name_is_settled_when_no_piece_can_change_it(
    name: str, offered: tuple[str, ...] | None, *, settled: bool
) -> None:
    assert is_settled(name, offered) is settled
