"""Adds pages that are not in docs/: RESULTS.md with its pictures, a page for every model, and llms.txt."""

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs when it has listed the files of docs/."""
    files.append(File.generated(config, "results.md", content=results_page()))
    for picture in sorted((ROOT / "results" / "pictures").glob("*.png")):
        files.append(File.generated(config, f"results/pictures/{picture.name}", abs_src_path=str(picture)))
    sys.path.insert(0, str(ROOT / "docs"))
    from model_pages import pages

    for path, content in pages().items():
        files.append(File.generated(config, path, content=content))
    files.append(File.generated(config, "llms.txt", content=llms_text(files)))
    return files


def llms_text(files: Files) -> str:
    """Returns the index of the site for language models: each page with its title and its first sentence."""
    lines = ["# chronode", "", "> Recurrent networks that keep time, for PyTorch.", "", "## Pages", ""]
    for file in sorted(files.documentation_pages(), key=lambda file: file.src_uri):
        title, _, rest = file.content_string.partition("\n")
        first = next((text for text in rest.split("\n\n") if re.match(r"\s*[A-Za-z`]", text)), "")
        sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).split(". ")[0].rstrip(".:")
        lines.append(f"- [{title.lstrip('# ')}]({file.url}): {sentence}.")
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links the names in the table of models to their pages."""
    if page.file.src_uri != "models.md":
        return markdown
    return re.sub(r"^\| `([\w-]+)` \|", r"| [`\1`](models/\1.md) |", markdown, flags=re.MULTILINE)


SHIM = "https://unpkg.com/iframe-worker/shim"
LOCAL_SHIM = "assets/iframe-worker/shim.js"


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Takes the script that the search needs in pages opened from a folder from this site, not from the web."""
    return output.replace(SHIM, get_relative_url(LOCAL_SHIM, page.url))


def on_post_template(output: str, **_: object) -> str:
    """Does the same for 404.html, which a server shows at any address."""
    return output.replace(SHIM, f"/{LOCAL_SHIM}")


def results_page() -> str:
    """RESULTS.md, with its links as they are from inside docs/."""
    return re.sub(r"\]\(docs/", "](", (ROOT / "RESULTS.md").read_text(encoding="utf-8"))
