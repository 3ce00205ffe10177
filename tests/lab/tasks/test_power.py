"""The power task, on a small file of the publisher's format and on the real one where it is."""

import numpy as np
import pytest
from sensor_checks import mirror, range_starts, runs_a_batch, shuffled_starts
from sensor_parts import check_sizes, in_place_of_data, rows_in_parts, same_parts, survives_damage

from chronode.lab.tasks import power
from chronode.training._task import find_task

ROWS = 600


def small_file(rows=ROWS):
    """Minutes, of which 100 to 169 and 300 are missing; the first feature holds the number of the row."""
    rng = np.random.default_rng(0)
    lines = ["Date;Time;" + ";".join((power.TARGET, *power.FEATURES))]
    for row in range(rows):
        numbers = [f"{row / 100}", str(row), *(f"{x:.3f}" for x in rng.normal(size=5))]
        gone = row in range(100, 170) or row == 300
        lines.append(f"16/12/2006;17:24:00;{'?;?;?;?;?;?;' if gone else ';'.join(numbers)}")
    return "\r\n".join(lines) + "\r\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return in_place_of_data(monkeypatch, power, tmp_path, {power.FILE: small_file()})


def test_power_in_blocks_of_time(folder):
    parts = find_task("power").load()
    batch = parts.train.batch()
    assert batch.observed is not None
    rows = rows_in_parts(parts)
    seen = batch.observed[..., 0].numpy()
    # Minutes 100 to 169 are missing: windows 128:160 are left out, the others start every 32 minutes.
    assert sorted(rows[0][:, 0][seen[:, 0]].tolist()) == [0, 32, 64, 96, 192, 224, 256, 288, 320, 352, 384, 416]
    assert rows[0][seen].max() < 450 <= rows[1].min() <= rows[1].max() < 510 <= rows[2].min()
    assert np.isnan(batch.target.numpy()[..., 0][~seen]).all()
    known = np.array([row for row in range(448) if row not in range(100, 170) and row != 300])
    np.testing.assert_allclose(parts.scaler.mean[0], known.mean(), rtol=1e-6)
    np.testing.assert_allclose(parts.scaler.target_std, [(known / 100).std()], rtol=1e-5)
    runs_a_batch(parts)


def test_power_of_the_paper(folder):
    memory, table = list(range(7)), []
    for line in (folder / power.FILE).read_text().split("\n")[1:]:
        cells = line.split(";")
        if len(cells) < 8:
            continue
        memory = [memory[i] if cell in ("?", "", "\r") else float(cell) for i, cell in enumerate(cells[2:])]
        table.append(memory)
    table = np.array(table)
    table = (table - table.mean(0)) / table.std(0)
    parts = find_task("power").load("paper")
    same_parts(parts, table[:, 1:], table[:, 0], shuffled_starts(range_starts(ROWS, 32, 32), 23489), 32)


def test_a_damaged_file_is_read_or_named(tmp_path):
    survives_damage(small_file(5), tmp_path / power.FILE, lambda: power.read(tmp_path))


@pytest.mark.slow
def test_real_power():
    minutes = power.read(mirror("power"))[0]
    assert len(minutes.values) == 2_075_259 and np.isnan(minutes.values).all(axis=1).sum() == 25979
    check_sizes("power")
