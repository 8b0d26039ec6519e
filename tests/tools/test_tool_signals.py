"""`Retry` and `Failed` carry the words of the tool's author."""

import pytest

from wholecall.tools.tool import Failed, Retry


@pytest.mark.parametrize("signal", [Retry, Failed])
def test_a_signal_says_what_its_author_wrote(signal: type[Exception]) -> None:
    with pytest.raises(signal, match="no city 'Olso'"):
        raise signal("no city 'Olso'")
