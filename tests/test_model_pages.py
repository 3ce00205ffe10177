"""The pages of the models: pictures as the compiler sees the steps, equations in TeX, options that exist."""

import re
import sys
from pathlib import Path

import pytest
from commands import run

import chronode

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import equations  # noqa: E402
import model_pages  # noqa: E402

MODELS = sorted(re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "models.md").read_text(), re.MULTILINE))
DRAWN = [
    pytest.param(name, marks=[] if name in ("gru-d", "mmrnn", "unicornn", "linoss") else pytest.mark.slow)
    for name in MODELS
]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_that_of_the_step(name):
    stored = (model_pages.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert stored == model_pages.picture(model_pages.first_cell(name)), "run python docs/model_pages.py"


@pytest.mark.parametrize("name", MODELS)
def test_every_page_has_equations_without_leftovers(name):
    page = model_pages.page(name)
    displays = re.findall(r"\$\$\n(.*?)\n\$\$", page, re.DOTALL)
    assert displays
    assert all(ord(character) < 128 for display in displays for character in display)
    assert all(display.count("{") == display.count("}") for display in displays)
    assert chronode.nn.find_model(name).paper in page


def test_every_model_has_a_sentence_on_when_to_use_it():
    assert sorted(model_pages.WHEN) == MODELS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("h⁻ = h ⊙ exp(-δ dt)", r"h^{-}=h\odot \operatorname{exp}(-\delta \,dt)"),
        ("x̂ = W_γ ĥ_k", r"\hat{x}=W_{\gamma }\,\hat{h}_{k}"),
        ("gated:  y = e^{iθ} + Λ⁻¹", r"\text{gated:}\quad y=e^{i\theta}+\Lambda ^{-1}"),
        ("y = h   (the last state)", r"y=h\qquad\text{(the last state)}"),
    ],
)
def test_equations(text, wanted):
    assert equations.tex(text) == f"\\begin{{aligned}}\n& {wanted}\n\\end{{aligned}}"


def test_the_options_of_the_page_on_troubles_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page))
    known = set()
    for command in ("train", "stream"):
        known |= set(re.findall(r"--[a-z][a-z-]+", run(command, "--help", COLUMNS="300").stdout))
    assert len(options) > 8
    assert options <= known


def test_the_page_on_installing_lists_every_extra():
    declared = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = re.findall(r"^(\w+) = \[", declared, re.MULTILINE)
    table = (ROOT / "docs" / "install.md").read_text().partition("<!-- extras -->")[2].partition("<!-- /extras -->")[0]
    listed = [name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(extras)
