"""Tables as text for other programs: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence

from ..settings import one_of

FORMATS = ("markdown", "latex", "csv")
_LATEX = {
    "±": r"$\pm$",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "Δ": r"$\Delta$",
}
_LATEX |= {"Δ": r"$\Delta$", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], format: str = "markdown", *, numeric: Collection[str] = ()
) -> str:
    r"""Returns a table as text.

    Args:
        headings: Names of the columns.
        rows: Cells of each row.
        format: "markdown", "latex" (booktabs) or "csv".
        numeric: Headings of the columns that are aligned at the right.

    Example:
        >>> print(text_table(["model", "mse"], [["a_b", "1 ± 2"]], "latex", numeric=["mse"]))
        \begin{tabular}{lr}
        \toprule
        model & mse \\
        \midrule
        a\_b & 1 $\pm$ 2 \\
        \bottomrule
        \end{tabular}
    """
    lines = [list(headings), *map(list, rows)]
    if one_of("format", format, FORMATS) == "csv":
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(lines)
        return stream.getvalue().rstrip("\n")
    if format == "markdown":
        lines.insert(1, ["---:" if heading in numeric else "---" for heading in headings])
        return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    signs = re.compile("|".join(map(re.escape, _LATEX)))
    first, *rest = (
        " & ".join(signs.sub(lambda sign: _LATEX[sign[0]], cell) for cell in line) + r" \\" for line in lines
    )
    sides = "".join("r" if heading in numeric else "l" for heading in headings)
    return "\n".join(
        [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", first, r"\midrule", *rest, r"\bottomrule", r"\end{tabular}"]
    )
