"""The scripts of `docs/incidents-from-python.md` print what stands below each."""

import re

import pytest
from every_command import SAMPLES

ROOT = SAMPLES.parent
PAGE = (ROOT / "docs/incidents-from-python.md").read_text("utf-8")
SCRIPTS = re.findall(
    r"^## (.*?)\n.*?^```python\n(.*?)^```\n\n^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
)


def test_every_script_of_the_page_is_tested() -> None:
    assert len(SCRIPTS) == PAGE.count("\n## ") == PAGE.count("```python") == 5


@pytest.mark.parametrize(
    ("script", "printed"), [each[1:] for each in SCRIPTS], ids=[each[0] for each in SCRIPTS]
)
def test_script_prints_the_output_shown_below_it(
    script: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec(script, {"__name__": "incident"})
    assert capsys.readouterr().out == printed
