"""The registry finds every module of decoders, and the first that takes a topic."""

import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import kdump
from kdump.messages.records import TOPICS
from kdump.values import decoder, decoders
from kdump.values.decoder import Decoder


def test_every_module_decodes_some_topics() -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(decoders.__path__))
    modules = decoder._modules()
    assert [module.__name__.rpartition(".")[2] for module in modules] == names
    for module in modules:
        assert isinstance(module.TOPICS, tuple)
        assert callable(module.decoder)


def test_each_internal_topic_has_a_decoder_and_few_others() -> None:
    assert all(isinstance(decoder.decoder_of(topic), Decoder) for topic in TOPICS)
    assert decoder.decoder_of("orders") is decoder.decoder_of("__other") is None


def test_first_matching_module_decodes_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(*topics: str, taken: str) -> SimpleNamespace:
        made = Decoder(bytes, lambda _, data: data, lambda found, _: found)
        return SimpleNamespace(
            TOPICS=topics, decoder=lambda topic: made if topic.endswith(taken) else None
        )

    modules = [module("mm2-*", "a", taken="x"), module("mm2-*", taken=""), module("*", taken="b")]
    monkeypatch.setattr(decoder, "_modules", lambda: modules)
    expected = {"mm2-x": 0, "mm2-y": 1, "a": None, "ab": 2, "MM2-x": None}
    for topic, number in expected.items():
        found = decoder.decoder_of.__wrapped__(topic)
        assert found == (None if number is None else modules[number].decoder(topic))


def test_decoders_are_found_in_a_zip(tmp_path: Path) -> None:
    root = Path(kdump.__file__).parent
    with zipfile.ZipFile(tmp_path / "kdump.zip", "w") as file:
        for path in sorted((*root.rglob("*.py"), *root.rglob("*.json"))):
            file.write(path, path.relative_to(root.parent))
    code = (
        "from kdump.values.decoder import decoder_of; import kdump; "
        "print('.zip' in kdump.__file__, decoder_of('__consumer_offsets') is not None)"
    )
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path / 'kdump.zip')!r}); {code}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
