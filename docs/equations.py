"""Turns the equations of docstrings, plain text with Unicode symbols, into TeX."""

import re
import unicodedata

FUNCTIONS = {"tanh", "exp", "relu", "softmax", "softplus", "sign", "cos", "sin", "norm", "modrelu", "expm1", "gelu"}
FUNCTIONS |= {"ln", "log", "max", "min", "diag", "Re", "Im", "ODESolve", "GRU", "LSTM", "MLP", "Log", "concat", "mod"}
MARKS = {"\u0302": r"\hat", "\u0304": r"\bar", "\u0303": r"\tilde", "\u0307": r"\dot"}
GREEK = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi "
    "psi omega Gamma Delta Theta Lambda Xi Pi sum Phi Psi Omega"
)
OTHERS = "odot cdot pm in leftarrow to int surd partial times le ge approx infty ell langle rangle circ ne ldots"
SYMBOLS = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", GREEK.split(), strict=True))
SYMBOLS |= dict(zip("⊙·±∈←→∫√∂×≤≥≈∞ℓ⟨⟩∘≠…", OTHERS.split(), strict=True))
COMMANDS = {"<=": r"\le ", ">=": r"\ge ", "->": r"\to ", "~": r"\sim ", "𝒲": r"\mathcal{W}", "½": r"\tfrac12 "}
COMMANDS |= {"−": "-", "‖": r"\|", "{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&"}
RAISED = dict(zip("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ", [*"-+0123456789", r"\top"], strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ₖₙₜᵢⱼ", [*"0123456789", "k", "n", "t", "i", "j"], strict=True))
PRODUCTS = {"dt", "dh", "dx", "dX", "ds", "sG", "eA", "vv"}  # letters that stand side by side
TOKEN = re.compile(
    r"`[^`]+`|\"[^\"]+\"|(?!softmax|dX)[A-Za-z]{2,}_[A-Za-z]+|[A-Za-z]+|\d+(?:\.\d+)?(?:e-?\d+)?|[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ]+|[₀-₉ₖₙₜᵢⱼ]+|"
    r"<=|>=|->|\s{2,}|.",
    re.DOTALL,
)


def blocks(docstring: str) -> list[tuple[bool, str]]:
    """Splits the text of a docstring before its arguments into (is it a block of equations, text).

    Example:
        >>> blocks("A cell.\\n\\n    y = x\\n\\nMore.\\n\\nArgs:\\n    x: Input.")
        [(False, 'A cell.'), (True, 'y = x'), (False, 'More.')]
    """
    text = re.split(r"^(?:Args|Attributes|Example|Raises|Returns):", docstring, maxsplit=1, flags=re.MULTILINE)[0]
    parts: list[tuple[bool, list[str]]] = []
    for line in text.strip("\n").split("\n"):
        is_equation = line.startswith("    ") or (not line.strip() and bool(parts) and parts[-1][0])
        if not parts or parts[-1][0] != is_equation:
            parts.append((is_equation, []))
        parts[-1][1].append(line[4:] if line.startswith("    ") else line)
    joined = [(is_equation, "\n".join(lines).strip("\n")) for is_equation, lines in parts]
    return [(is_equation, text) for is_equation, text in joined if text.strip()]


def tex(block: str) -> str:
    """Returns equations, one per line, as one aligned display.

    Example:
        >>> tex("h' = σ(W_z x)")
        "\\\\begin{aligned}\\n& h'=\\\\sigma (W_{z}\\\\,x)\\n\\\\end{aligned}"
    """
    lines = [rf"& {_line(line)}" for line in block.split("\n") if line.strip()]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _line(line: str) -> str:
    """Converts one line: a label ("gated:"), equations, and a remark in parentheses at its end."""
    label = re.match(r"\s*((?:\"?[A-Za-z][\w\-]*\"?[\w\s\-(),]*?):)(?=\s)", line)
    start = "" if label is None else rf"\text{{{label[1]}}}\quad "
    line = line if label is None else line[label.end() :]
    start += r"\qquad " if line.startswith("      ") and label is None else ""
    line = re.sub(r"\s+=", " =", line)
    remark = re.search(r"\s{3,}(\([^=]*\))\s*$", line)
    end = "" if remark is None else rf"\qquad\text{{{_words(remark[1])}}}"
    return start + _converted((line if remark is None else line[: remark.start()]).strip()) + end


def _words(text: str) -> str:
    """Returns text for \\text{...}, in which symbols are in $...$."""
    symbol = r"\b[A-Za-z]_\w[^\x00-\x7f]*|\b\w?[^\x00-\x7f]+(?:_\w+)?"
    return re.sub(r"(?<!\w)_|(?<=\w\w)_", r"\_", re.sub(symbol, lambda found: f"${_converted(found[0])}$", text))


def _converted(text: str) -> str:
    pieces: list[str] = []
    tokens = TOKEN.findall(unicodedata.normalize("NFD", text))
    index = 0
    while index < len(tokens):
        piece, index = _piece(tokens, index)
        pieces.append(piece)
    together = re.sub(r" \}(?:\\,)?\\text\{ ", " ", "".join(pieces))
    return re.sub(r"(?<=\() (?=\w)| (?=\}[,;:.)])", "", together.replace(r"(\text{ ", r"(\text{")).strip()


def _piece(tokens: list[str], index: int) -> tuple[str, int]:
    """Returns the TeX of the token at `index`, with what belongs to it, and the index after it."""
    token, rest = tokens[index], tokens[index + 1 :]
    if token in ("_", "^"):
        inner, after = _attached(tokens, index + 1)
        return f"{token}{{{inner}}}", after
    if token == " " and rest and index and _is_letter(tokens[index - 1][-1]) and _is_letter(rest[0][0]):
        return r"\,", index + 1
    if rest and rest[0] in MARKS and token.strip():
        # The mark belongs to the last letter: "dh̄" is d times h̄.
        return f"{_plain(token[:-1])}{MARKS[rest[0]]}{{{_plain(token[-1])}}}", index + 2
    return _plain(token), index + 1


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in MARKS or character in RAISED or character == "'"


def _attached(tokens: list[str], index: int) -> tuple[str, int]:
    """Returns what an index or exponent consists of: a name, a number, or everything in parentheses."""
    if tokens[index] not in "({":
        sign, index = (tokens[index], index + 1) if tokens[index] in "-+" else ("", index)
        inner, after = _piece(tokens, index)
        if len(tokens[index]) > 1 and tokens[index].isalpha() and tokens[index] not in PRODUCTS:
            inner = rf"\mathrm{{{tokens[index]}}}"
        return sign + inner, after
    depth, after = 1, index + 1
    while depth and after < len(tokens):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(tokens[after], 0)
        after += 1
    inside = tokens[index:after] if tokens[index] == "(" else tokens[index + 1 : after - 1]
    return _converted("".join(inside)), after


def _plain(token: str) -> str:
    """Returns the TeX of a token that stands alone."""
    if token in SYMBOLS:
        return rf"\{SYMBOLS[token]} "
    if token[:1] in RAISED:
        return f"^{{{''.join(RAISED[one] for one in token)}}}"
    if token[:1] in LOWERED:
        return f"_{{{''.join(LOWERED[one] for one in token)}}}"
    if token in FUNCTIONS:
        return rf"\operatorname{{{token}}}"
    if token.isspace():
        return r"\quad " if len(token) > 1 else ""
    if len(token) > 1 and not token[0].isdigit() and token not in PRODUCTS | COMMANDS.keys():
        return rf"\text{{ {token.strip('`')} }}".replace("_", r"\_")
    return COMMANDS.get(token, token)
