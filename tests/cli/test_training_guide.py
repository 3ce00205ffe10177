"""The commands of docs/training.md run, in their order, and say what the page says."""

import contextlib
import io
import re
from pathlib import Path

from commands import chronode

GUIDE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, text in re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, str(GUIDE), "exec"), {"__name__": "guide"})
        elif language == "yaml":
            (tmp_path / text.split("\n")[0].lstrip("# ")).write_text(text)
        else:
            for command in re.split(r"^\$ chronode ", text, flags=re.MULTILINE)[1:]:
                words, _, promised = command.partition("\n")
                done = chronode(*words.split(), plots=".png" in promised)
                for line in promised.splitlines():
                    assert line == "..." or line in done.out + done.err, (words, line, done)
