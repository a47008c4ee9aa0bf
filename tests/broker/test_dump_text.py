"""`--format kafka` against the recorded text of the tool, file by file."""

import re
from pathlib import Path

import pytest
from commands import run
from corpus import corpus, files, find_expected

MODES = {"deep": (), "shallow": ("--batches",), "plain": ("--entries",)}


@pytest.mark.parametrize("copy", ["clean", "live", "killed", "recovered"])
def test_text_equals_the_output_of_the_tool(copy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus(f"modern/data/{copy}").resolve()
    texts = find_expected(f"modern/{copy}/dumplogsegments")
    monkeypatch.chdir(data)
    compared = 0
    for text in files(texts, "*.txt"):
        match = re.fullmatch(r"(.*)\.(deep|shallow|plain)", text.stem)
        if match is None:
            continue  # the tool's decoders and sanity checks have no counterpart
        path = f"./{text.parent.relative_to(texts) / match[1]}"
        result = run("dump", "--format", "kafka", *MODES[match[2]], path)
        wanted = text.read_bytes()
        told, died, _ = wanted.partition(b"EXCEPTION ")
        assert result.exit_code == 0, (path, result.stderr)
        if died:
            assert result.stdout_bytes == told, path
            assert "kafka-dump-log fails here" in result.stderr, path
        else:
            # Reports name the file by its absolute path; the recording cut that off.
            reports = result.stderr_bytes.replace(f"{data}/".encode(), b"./")
            assert result.stdout_bytes + reports == wanted, path
        compared += 1
    assert compared > 500


def test_directory_is_dumped_file_by_file_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus("modern/data/clean")
    monkeypatch.chdir(data / "d1")
    result = run("dump", "--format", "kafka", "--batches", "headers_all-0")
    dumped = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("Dumping")]
    logs = sorted(str(path) for path in Path("headers_all-0").glob("*.log"))
    assert dumped == logs
