"""Old names keep working for a while and name their replacement at the caller's line."""

import pytest

from chronode._deprecation import deprecated, renamed_arguments


def test_a_deprecated_function_works_and_names_its_replacement_at_the_callers_line():
    @deprecated(since="0.2", use="chronode.create")
    def make(name: str) -> str:
        return name

    with pytest.warns(FutureWarning, match=r"make is deprecated since chronode 0.2: use chronode.create\.") as caught:
        assert make("ltc") == "ltc"
    assert caught[0].filename == __file__
    assert make.__name__ == "make"


def test_a_renamed_argument_is_translated():
    @renamed_arguments("0.2", hidden="hidden_size")
    def make(hidden_size: int = 1) -> int:
        return hidden_size

    assert make(hidden_size=3) == 3
    with pytest.warns(FutureWarning, match="hidden is deprecated since chronode 0.2: use hidden_size"):
        assert make(hidden=8) == 8  # pyrefly: ignore
    with pytest.raises(TypeError, match="got both hidden_size and hidden, its old name"):
        make(hidden=8, hidden_size=8)  # pyrefly: ignore
