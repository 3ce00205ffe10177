"""Adds pages that live elsewhere in the repository to the site: RESULTS.md with its pictures."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs when it has listed the files of docs/."""
    files.append(File.generated(config, "results.md", content=results_page()))
    for picture in sorted((ROOT / "results" / "pictures").glob("*.png")):
        files.append(File.generated(config, f"results/pictures/{picture.name}", abs_src_path=str(picture)))
    return files


def results_page() -> str:
    """RESULTS.md, with its links as they are from inside docs/."""
    return re.sub(r"\]\(docs/", "](", (ROOT / "RESULTS.md").read_text(encoding="utf-8"))
