"""Check the types of the examples in the pages about Python, as strictly as the checkers can.

A user's editor checks by Pyright or mypy: both have to take what the pages show as it stands.
"""

import doctest
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("docs/library.md", "docs/incidents-from-python.md")
_SCRIPT = re.compile(r"^```python\n(?!>>>)(.*?)^```", re.DOTALL | re.MULTILINE)
#: An example of a session shows a value by naming it.
_SETTINGS = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportUnusedExpression": False,
    "extraPaths": [str(ROOT)],
}


def scripts(page: str) -> list[str]:
    """Return the scripts of a page: its session as one, and each block that is a script."""
    text = (ROOT / page).read_text("utf-8")
    session = "".join(one.source for one in doctest.DocTestParser().get_examples(text))
    return [*filter(None, [session]), *_SCRIPT.findall(text)]


def main() -> int:
    """Write the scripts and have both checkers look; return the worse of their answers."""
    with tempfile.TemporaryDirectory() as folder:
        for page in PAGES:
            name = Path(page).stem.replace("-", "_")
            for number, text in enumerate(scripts(page)):
                Path(folder, f"{name}_{number}.py").write_text(text, "utf-8")
        Path(folder, "pyrightconfig.json").write_text(json.dumps(_SETTINGS), "utf-8")
        files = sorted(map(str, Path(folder).glob("*.py")))
        mypy = ["mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), *files]
        pyright = ["basedpyright", "--project", folder]
        return max(
            subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=False).returncode
            for words in (pyright, mypy)
        )


if __name__ == "__main__":
    sys.exit(main())
