"""The public door: what `wholecall` shows is what `__all__` says, and each name explains itself."""

import inspect
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

import wholecall


def public_names(module: ModuleType) -> list[str]:
    """Return the names a reader of `module` may use; its submodules have doors of their own."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    )


def explains_itself(name: str, value: object) -> bool:
    """Tell whether a class or function has a docstring of its own, written by a person.

    Aliases and constants cannot carry one: theirs is the docstring of their type.
    """
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return True
    written = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    # Dataclasses and named tuples without a docstring get their signature as one.
    return bool(written) and not str(written).startswith(f"{name}(")


def test_all_is_sorted_and_short() -> None:
    assert list(wholecall.__all__) == sorted(wholecall.__all__)
    assert len(wholecall.__all__) <= 60


def test_all_names_exactly_the_public_names() -> None:
    for name in wholecall.__all__:
        getattr(wholecall, name)  # some are imported when they are first used
    assert sorted(wholecall.__all__) == sorted(
        set(public_names(wholecall)) - {"TYPE_CHECKING", "import_module"}
    )


def loaded_by(program: str) -> set[str]:
    """Return the modules that a program has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


READ_A_STREAM = "import wholecall; wholecall.assemble('openai-chat', [{'choices': []}], tools=[])"


@pytest.mark.parametrize("program", ["import wholecall", READ_A_STREAM])
def test_reading_streams_loads_little(program: str) -> None:
    loaded = loaded_by(program)
    ours = {module for module in loaded if module.split(".")[0] == "wholecall"}
    assert len(ours) < 60, sorted(ours)
    assert not loaded & {"asyncio", "httptools", "pydantic", "wholecall.dialects"}


def test_a_function_is_not_hidden_by_the_module_of_its_name() -> None:
    import wholecall.events  # noqa: PLC0415 - what would hide it

    assert inspect.isfunction(wholecall.events)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wholecall.nothing  # type: ignore[attr-defined]  # the checker sees it, too
    assert set(wholecall.__all__) <= set(dir(wholecall))


@pytest.mark.parametrize("name", sorted(wholecall.__all__))
def test_every_public_name_explains_itself(name: str) -> None:
    assert explains_itself(name, getattr(wholecall, name)), f"{name!r} has no docstring"


def test_a_name_without_a_docstring_is_caught() -> None:
    @dataclass
    class Silent:
        field: int

    class Heir(ValueError):
        pass

    def silent() -> None: ...

    assert not explains_itself("Silent", Silent)
    assert not explains_itself("Heir", Heir)
    assert not explains_itself("silent", silent)
    assert explains_itself("public_names", public_names)


def test_submodules_and_private_names_are_not_public() -> None:
    module = ModuleType("sample")
    vars(module).update(Shown=1, _hidden=2, part=ModuleType("sample.part"))
    assert public_names(module) == ["Shown"]
