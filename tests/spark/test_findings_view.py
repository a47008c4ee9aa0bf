"""The view `findings` says what `kdump verify` says; planned and read here as a task does it."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_shared
from damaged_catalogue import OTHERS, DamagedInput
from every_code import at_once, make_damages
from findings_rows import rows_of, verify_rows
from fleet import make_fleet
from tiered import plant_faults
from view_rows import view_rows

from kdump.engine.reading.options import DumpOptions

SAMPLES = Path(__file__).parents[2] / "sample-data"


def of_the_view(damaged: DamagedInput, pack_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    options = DumpOptions(
        deep=damaged.deep,
        server_properties=damaged.server_properties,
        decompress_limit=damaged.decompress_limit,
        tier=damaged.tier,
        tier_key=damaged.tier_key,
    )
    return view_rows("findings", damaged.paths, options, pack_bytes=pack_bytes)


def compare(*paths: Path) -> Counter[str]:
    """Compare whole rows; give the codes that there are."""
    return compared(DamagedInput(paths))


def compared(damaged: DamagedInput) -> Counter[str]:
    command, view = rows_of(verify_rows(damaged)), rows_of(of_the_view(damaged))
    assert view - command == command - view == Counter()
    return Counter(dict(row)["code"] for row in command.elements())


def test_each_code_of_the_catalogue(tmp_path: Path) -> None:
    """Ten at once of those that need no settings, and by itself each that is not found so.

    All of them have the same node, so that each is dated by all directories that it is given with.
    """
    made = make_damages(tmp_path)
    codes = sorted(made)
    found: Counter[str] = Counter()
    for few in (codes[start : start + 10] for start in range(0, len(codes), 10)):
        for deep in (False, True):
            found += compared(at_once({code: made[code] for code in few}, deep=deep))
    assert len(found) > 75
    for code in made.keys() - found.keys():
        assert code in compared(made[code])


def test_damage_of_sample_data() -> None:
    found: Counter[str] = Counter()
    for directory in sorted((SAMPLES / "damaged").iterdir()):
        has_more = directory.name == "4.1.1-tiered"  # remote storage, which is not searched
        found += compare(directory / "d1" if has_more else directory)
    found += compare(*sorted((SAMPLES / "damaged/4.4.0-three-nodes").iterdir()))
    assert {"torn-tail", "crc-mismatch", "offset-index-missing"} <= found.keys()


def test_findings_about_data_directories_and_replicas(tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        shutil.copytree(SAMPLES / "clean/4.1.1" / name, tmp_path / name)
    first, second = tmp_path / "d1", tmp_path / "d2"
    with (first / "recovery-point-offset-checkpoint").open("a") as file:
        file.write("no line\n")
    with (second / "replication-offset-checkpoint").open("r+") as file:
        lines = file.read().splitlines()
        topic, partition, _ = lines[2].rsplit(" ", 2)
        file.seek(0)
        file.write("\n".join([*lines[:2], f"{topic} {partition} 99999", *lines[3:]]) + "\n")
    (first / "meta.properties").write_text("version=1\nnode.id=x\n")
    gone = next(path for path in sorted(second.iterdir()) if path.name.startswith("orders"))
    shutil.move(gone, first / gone.name)
    shutil.copytree(first / gone.name, second / gone.name)
    shutil.rmtree(next(path for path in sorted(second.iterdir()) if path.name[:6] == "ledger"))
    found = compare(first, second)
    of_directories = ("checkpoint-malformed", "checkpoint-stale-entry", "log-end-lost")
    assert {*of_directories, "meta-properties-malformed"} <= found.keys(), found


def test_ten_brokers_at_once(tmp_path: Path) -> None:
    assert compare(*make_fleet(tmp_path)) == {
        "crc-mismatch": 1, "log-end-lost": 1, "checkpoint-malformed": 1,
    }  # fmt: skip


def test_remote_storage_alone(tmp_path: Path) -> None:
    """A manifest that cannot be believed; the row names no node."""
    place = tmp_path / "orders-nO5caqCwS4mJy1twxMkd4A/0"
    place.mkdir(parents=True)
    (place / f"{0:020}-_Y1Q7t4WT26IaezKIFxOjQ.rsm-manifest").write_text("{")
    damaged = DamagedInput((), tier=str(tmp_path))
    assert compared(damaged) == {"remote-manifest-invalid": 1}
    (row,) = of_the_view(damaged)
    assert row["data_directory"] is None


def test_faults_of_remote_storage(tmp_path: Path) -> None:
    """Those that were planted in a broker's, and damaged segments of Aiven's plugin."""
    found: Counter[str] = Counter()
    for faults in (("f01", "f05", "f09", "f12", "f18", "f19"), ("f13", "f15")):
        data, tier = plant_faults(faults[0], tmp_path / faults[0], *faults[1:])
        found += compared(DamagedInput([Path(data)], tier=tier))
    root = find_shared()
    assert root is not None
    key = str(root / "corpus/tiered/aiven/test-key-private.pem")
    for name, deep in (("d04", False), ("d11", False), ("d12", True)):
        tier = str(corpus("tiered/aiven/damaged") / name)
        found += compared(DamagedInput((), deep, tier=tier, tier_key=key if deep else None))
    told = {code for code, command in OTHERS.items() if command == "verify --tier"}
    assert not told - found.keys()


@pytest.mark.parametrize("name", ["newest/data/killed", "modern/data/killed"])
def test_directories_of_real_brokers(name: str) -> None:
    assert compare(*sorted(path for path in corpus(name).iterdir() if path.is_dir()))


def test_three_brokers_of_an_incident() -> None:
    assert compare(*(corpus(f"incident/data/node-{number}") for number in (1, 2, 3)))
