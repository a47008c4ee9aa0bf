"""Where a log starts, by its first segment and the data directory's checkpoint."""

from pathlib import Path

from each import each

from kdump.broker.visibility import log_start
from kdump.storage.log_dir import LogDir


@each(
    ("text", "start"),
    [
        ("0\n1\nt 0 25\n", 25),
        ("0\n1\nt 0 5\n", 10),
        ("0\n1\nt 1 25\n", 10),
        ("no checkpoint", 10),
        (None, 10),
    ],
)
def test_log_start(tmp_path: Path, text: str | None, start: int) -> None:
    if text is not None:
        (tmp_path / "log-start-offset-checkpoint").write_text(text)
    (tmp_path / "t-0").mkdir()
    assert log_start(10, LogDir.open(str(tmp_path)), "t", 0) == start


def test_log_start_is_the_first_base_without_a_data_directory() -> None:
    assert log_start(10, None, "t", 0) == 10
    assert log_start(10, None, None, None) == 10
