"""Listings answer for their entries, for a while, and never longer than they are true."""

from pathlib import Path

import pytest
from counting_store import CountingStore

from kdump.stores.cached_store import ENTRIES_SECONDS, LISTING_SECONDS, CachedStore


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    (tmp_path / "p").mkdir()
    for name in ("a", "b"):
        (tmp_path / "p" / name).write_bytes(name.encode())
    return CountingStore(tmp_path)


def test_one_listing_serves_many_questions(store: CountingStore, clock: Clock) -> None:
    listed = CachedStore(store, clock)
    assert [entry.path for entry in listed.entries("p", "s3://b/p/")] == [
        "s3://b/p/a",
        "s3://b/p/b",
    ]
    assert [listed.status(f"p/{name}") is not None for name in "abc"] == [True, True, False]
    assert store.requests.total() == 1
    clock.now = LISTING_SECONDS + 1
    listed.status("p/a")
    assert store.requests.total() == 1
    listed.entries("p", "s3://b/p")
    assert store.requests.total() == 2


def test_old_listing_is_refreshed(store: CountingStore, clock: Clock, tmp_path: Path) -> None:
    listed = CachedStore(store, clock)
    listed.entries("p", "s3://b/p")
    (tmp_path / "p" / "c").write_bytes(b"")
    assert listed.status("p/c") is None
    clock.now = ENTRIES_SECONDS + 1
    assert listed.status("p/c") is not None
    assert [entry.name for entry in listed.entries("p", "s3://b/p", fresh=True)] == ["a", "b", "c"]


def test_unopenable_entry_drops_the_listing(
    store: CountingStore, clock: Clock, tmp_path: Path
) -> None:
    listed = CachedStore(store, clock)
    listed.entries("p", "s3://b/p")
    (tmp_path / "p" / "a").unlink()
    with pytest.raises(FileNotFoundError):
        listed.open("p/a")
    assert listed.status("p/a") is None
    assert listed.status("p/b") is not None


def test_single_file_is_not_listed(store: CountingStore) -> None:
    assert CachedStore(store).status("p/a") is not None
    assert store.requests == {("status", "p/a"): 1}


def test_path_with_a_query_is_not_served_from_a_listing(
    store: CountingStore, clock: Clock, tmp_path: Path
) -> None:
    listed = CachedStore(store, clock)
    listed.entries("p", "https://h/p")
    (tmp_path / "p" / "c?sig=1").write_bytes(b"c")
    assert listed.status("p/c?sig=1") is not None
