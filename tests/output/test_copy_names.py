"""Copies have letters, and their paths are written once."""

from kdump.output.copy_names import CopyNames


def test_directories_get_letters_in_order() -> None:
    names = CopyNames()
    assert [*names.introduce(["/b/orders-0", "/a/orders-0"])] == ["A = /b", "B = /a"]
    assert [*names.introduce(["/a/orders-1", "/c\x1b/orders-1"])] == ["C = /c\\x1b"]
    assert names.of("/a/orders-1", "orders-1") == "B"
    assert names.of("/a/orders-1.0123-delete", "orders-1") == "B/orders-1.0123-delete"
    assert names.of("/never/orders-1", "orders-1") == "/never/orders-1"


def test_more_copies_than_letters() -> None:
    names = CopyNames()
    legend = [*names.introduce(f"/{number}/t-0" for number in range(30))]
    assert (legend[25], legend[26]) == ("Z = /25", "A1 = /26")


def test_sentences_refer_to_copies_by_letter() -> None:
    names = CopyNames()
    paths = ["/a/t-1", "/a/t-1.x-delete"]
    assert [*names.introduce(paths)] == ["A = /a"]
    text = "Only /a/t-1.x-delete differs, not /a/t-1."
    assert names.replace_paths(text, paths, "t-1") == "Only A/t-1.x-delete differs, not A."
