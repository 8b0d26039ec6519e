"""What a docstring says of parameters, in the three styles of the field."""

import pytest

from wholecall.tools.function_tool import Docstring, read_docstring

# what holds, the docstring, the summary, the parameters
ROWS = [
    ("no docstring says nothing", None, "", {}),
    ("the first paragraph is the summary", "One\n    two.\n\n    Three.", "One two.", {}),
    (
        "Google's",
        """Weather.

        Args:
            city: Where.
            unit (str, optional): Which unit,
                C or F.

                Nothing else.
            days (dict[str, int]) : How many.
            *rest: And so on.
            bare:

        Returns:
            text: Never a parameter.
        """,
        "Weather.",
        {
            "city": "Where.",
            "unit": "Which unit, C or F. Nothing else.",
            "days": "How many.",
            "rest": "And so on.",
            "bare": "",
        },
    ),
    (
        "NumPy's",
        """Weather.

        Parameters
        ----------
        city : str
            Where.
        first, second : int
            Two at once.
            With two lines.
        bare

        Returns
        -------
        text : str
            Never a parameter.
        """,
        "Weather.",
        {
            "city": "Where.",
            "first": "Two at once. With two lines.",
            "second": "Two at once. With two lines.",
            "bare": "",
        },
    ),
    (
        "Sphinx'",
        """Weather.

        :param city: Where,
            exactly.
        :param str unit: Which unit.
        :type city: str
        :returns: text
        """,
        "Weather.",
        {"city": "Where, exactly.", "unit": "Which unit."},
    ),
    (
        "a summary ends where a section begins",
        "Weather.\nArgs:\n    a: A.",
        "Weather.",
        {"a": "A."},
    ),
    ("a colon does not make a section", "Knows these:\na: A.", "Knows these: a: A.", {}),
    ("… or a field", "Weather.\n:param a: A.", "Weather.", {"a": "A."}),
    ("a section alone has no summary", "Parameters\n----------\na : int\n    A.", "", {"a": "A."}),
    (
        "what looks like an entry outside of a section is none",
        "Weather.\n\nNote:\n    a: A.\n\nb : B",
        "Weather.",
        {},
    ),
    (
        "a line that is not indented ends Google's section",
        "W.\n\nArgs:\n    a: A.\nBut then:\n    b: B.",
        "W.",
        {"a": "A."},
    ),
    (
        "a line without a name is no entry",
        "W.\n\nArgs:\n    see the manual\n    a: A.",
        "W.",
        {"a": "A."},
    ),
]


@pytest.mark.parametrize(
    ("docstring", "summary", "parameters"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_a_docstring_is_read(
    *, docstring: str | None, summary: str, parameters: dict[str, str]
) -> None:
    assert read_docstring(docstring) == Docstring(summary, parameters)
