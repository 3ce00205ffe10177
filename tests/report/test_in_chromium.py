"""Pages in a real browser without network: no script error, nothing loaded, nothing wider than a phone, printable."""

import shutil
import subprocess

import matplotlib.image
import numpy as np
import pytest

from chronode.report import pages
from chronode.report.run_page import draw_run
from chronode.runs import Config, train_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (the Debian package chromium)")


def browse(page, folder, *options):
    """Opens a file; gives (what is printed, what the console says)."""
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"),
        *("--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"),
        # No name is found and no proxy answers: whatever the page asked for would be an error in the console.
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--disable-extensions"),
        *options,
        page.as_uri(),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, [line for line in ended.stderr.splitlines() if "CONSOLE" in line]


def with_script(page, script, folder):
    """A copy of a page that runs a script at its end and shows what it gives in place of the page."""
    copy = folder / "with_script.html"
    end = f"<script>document.body.innerText = 'found:' + JSON.stringify((() => {{{script}}})())</script></body>"
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", end), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chromium")
    options = {"train": 48, "valid": 16, "test": 16}
    config = {
        "data": {"source": "bitstream", "options": options},
        "model": {"model": "mmrnn", "hidden": 4},
        "training": {"epochs": 2},
    }
    return train_run(Config.from_dict(config), folder / "run", draw=draw_run).run.path / "report.html"


def test_the_check_itself_sees_errors_and_requests(tmp_path):
    wrong = tmp_path / "wrong.html"
    wrong.write_text("<body><img src='https://example.org/x.png'><script>nothing.here()</script></body>")
    _, console = browse(wrong, tmp_path, "--dump-dom")
    assert any("nothing is not defined" in line for line in console)


def test_a_report_loads_without_a_word_and_is_drawn(report, tmp_path):
    dom, console = browse(report, tmp_path, "--dump-dom")
    assert not console
    assert "Best and worst series" in dom
    picture = tmp_path / "desktop.png"
    _, console = browse(report, tmp_path, f"--screenshot={picture}", "--window-size=1100,1400")
    assert not console
    pixels = matplotlib.image.imread(picture)[..., :3]
    assert pixels.shape == (1400, 1100, 3)
    assert 0.5 < pixels.mean() < 0.99  # light, and not blank
    assert len(np.unique((pixels * 255).astype(int).reshape(-1, 3), axis=0)) > 50


def test_nothing_is_wider_than_a_phone(report, tmp_path):
    narrow = """
    document.documentElement.style.width = "360px";
    const wide = [...document.querySelectorAll("main *")].filter(
      one => !one.closest(".wide, pre, svg") && one.getBoundingClientRect().right > 361);
    return wide.map(one => one.tagName + " " + one.className);
    """
    dom, console = browse(with_script(report, narrow, tmp_path), tmp_path, "--dump-dom", "--window-size=500,900")
    assert not console
    assert "found:[]" in dom


def test_nothing_is_wider_than_a_printed_page(report, tmp_path):
    """The rules for printing, applied to a window as wide as A4 paper between its margins, with five baselines."""
    printed = """
    const scores = [...document.querySelectorAll("table")].find(one => one.querySelector("th").innerText === "metric");
    for (const row of scores.querySelectorAll("tr")) {
      while (row.children.length < 7) row.append(row.children[1].cloneNode(true));
      for (const cell of row.querySelectorAll("td.n")) cell.innerText = "0.8226 (0.6745 to 0.9445)";
    }
    const sheet = document.styleSheets[0];
    const rules = [...sheet.cssRules].filter(one => one.media && one.media.mediaText === "print");
    for (const rule of rules[0].cssRules) if (rule.selectorText) sheet.insertRule(rule.cssText, sheet.cssRules.length);
    document.documentElement.style.width = "688px";
    document.body.style.margin = 0;
    const wide = [...document.querySelectorAll("main *")].filter(
      one => !one.closest("svg") && one.getBoundingClientRect().right > 689);
    return wide.map(one => one.tagName + " " + one.className);
    """
    dom, console = browse(with_script(report, printed, tmp_path), tmp_path, "--dump-dom", "--window-size=700,900")
    assert not console
    assert "found:[]" in dom


def test_it_prints(report, tmp_path):
    paper = tmp_path / "report.pdf"
    _, console = browse(report, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    assert not console
    assert paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 20_000


def test_a_click_on_a_heading_sorts_numbers_by_value_and_text_by_name(tmp_path):
    rows = [["b", 10.0], ["c", 9.0], ["a", None], ["d", 1e-7]]
    made = pages.page("t", "", {"All": [pages.table(["name", "x"], rows, sortable=True)]}, script=True)
    page = pages.write_page(tmp_path / "sorted.html", made)
    clicks = """
    const heads = document.querySelectorAll("th");
    const names = () => [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent).join("");
    return [1, 1, 0, 0].map(column => {heads[column].click(); return names() + heads[column].ariaSort});
    """
    dom, console = browse(with_script(page, clicks, tmp_path), tmp_path, "--dump-dom")
    assert not console
    wanted = '["dcbaascending","bcdadescending","abcdascending","dcbadescending"]'
    assert f"found:{wanted}" in dom
