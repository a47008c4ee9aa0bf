"""The page docs/spark.md shows what its examples print."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).parents[2]


def test_page_shows_what_its_examples_print(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    page = (ROOT / "docs/spark.md").read_text("utf-8")
    examples = "\n".join(re.findall(r"```pycon\n(.*?)```", page, re.DOTALL))
    assert examples
    test = doctest.DocTestParser().get_doctest(examples, {"spark": spark}, "spark.md", None, 0)
    said: list[str] = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    doctest.DocTestRunner(optionflags=options).run(test, out=said.append)
    assert not said, "".join(said)
