"""Values of cluster metadata in tables."""

from each import each

from kdump.output.tables.cluster import _text


@each(
    ("value", "text"),
    [
        *((nothing, "-") for nothing in (None, "", [], (), {})),
        *(
            (True, "yes"),
            (False, "no"),
            (0, "0"),
            ([1, "b"], "1,b"),
            ({"a": [], "b": 2}, "a=- b=2"),
        ),
    ],
)
def test_values_are_written_for_people(value: object, text: str) -> None:
    assert _text(value) == text
