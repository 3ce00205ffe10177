"""An exported model on an emulated Cortex-M4."""

import re
from pathlib import Path

import pytest
from export_cases import CLASSES, SCALER, built

from chronode.export import export

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def cortex_m4(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import cortex_m4

    if gone := cortex_m4.missing_tools():
        pytest.skip(f"not installed: {', '.join(gone)}")
    return cortex_m4


@pytest.mark.slow  # cross-compiles and emulates
@pytest.mark.parametrize(
    "options", [{}, {"weights": "int8"}, {"math": "builtin"}], ids=["float32", "int8", "built-in mathematics"]
)
def test_the_check_passes_on_the_device(cortex_m4, tmp_path, options):
    done = export(built("fastgrnn", 16), tmp_path / "c", classes=CLASSES, scaler=SCALER, **options)
    (tmp_path / "work").mkdir()
    cortex_m4.check(done.folder, tmp_path / "work")
    found = cortex_m4.measure(done.folder, tmp_path / "work")
    header = (done.folder / "chronode_model.h").read_text()
    flash, stack = (int(re.search(rf"_{name}_BYTES (\d+)", header)[1]) for name in ("FLASH", "STACK"))
    assert flash < found.flash < flash + 12_000
    assert stack < found.ram < stack + 3_000
    assert 1_000 < found.instructions < 100_000


@pytest.mark.slow  # cross-compiles and emulates
def test_the_check_fails_on_the_device_if_an_answer_is_wrong(cortex_m4, tmp_path):
    done = export(built("fastgrnn", 16), tmp_path / "c", classes=CLASSES, scaler=SCALER)
    source = done.folder / "chronode_model.c"
    source.write_text(source.read_text().replace("in[i] = seen ? x[i]", "in[i] = seen ? -x[i]"))
    (tmp_path / "work").mkdir()
    with pytest.raises(RuntimeError, match="qemu-system-arm ended with"):
        cortex_m4.check(done.folder, tmp_path / "work")
