"""Small files that would take much memory or time are refused, and how to raise the limit is reported."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from remote_files import member, tarred, zipped

from chronode.data import from_list, load, read
from chronode.lab.datasets import _unpack as unpack
from chronode.storage._schema import ARCHIVE_BYTES, COLUMNS, UNPACKED_BYTES

PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of 1 MB, so that the bombs of these tests need not be large."""
    monkeypatch.setenv(UNPACKED_BYTES.variable, "1000000")


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_tables_that_are_bombs_are_refused(tmp_path, small_limit, monkeypatch, suffix):
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACKERS[suffix](b"t,x\n" + b"1,2\n" * 300_000))
    message = r"a\.csv.* \([\d,]+ bytes\) unpacked would take more than 1,000,000 bytes. Set CHRONODE_MAX_UNPACKED"
    with pytest.raises(ValueError, match=message):
        read(path)
    monkeypatch.setenv(UNPACKED_BYTES.variable, "2000000")
    assert len(read(path).base_values) == 300_000


def test_files_that_are_large_by_themselves_are_read(tmp_path):
    """The usual limit grows with the file: 100 times its size, and 256 MiB in any case."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"t,x\n" + b"1,2\n" * 1_000_000))
    assert len(read(path).base_values) == 1_000_000


def test_arrays_that_are_bombs_are_refused(tmp_path, small_limit):
    np.savez_compressed(tmp_path / "a.npz", values=np.zeros((1000, 1000)))
    assert (tmp_path / "a.npz").stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"a\.npz .* would take more than 1,000,000 bytes"):
        read(tmp_path / "a.npz", order="NT")


@pytest.mark.parametrize("shape", [(2**31, 1), (2**62, 2**62), (5, 3), (0,), (6,)])
def test_an_array_whose_header_lies_is_refused_before_memory_is_taken(tmp_path, shape):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    (tmp_path / "a.npz").write_bytes(zipped({"values.npy": head.getvalue() + b"\0" * 56}))
    with pytest.raises(ValueError, match=r"not a valid \.npz file: values\.npy has 56 bytes instead of"):
        read(tmp_path / "a.npz", order="NT")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressed", [True, False])
def test_arrays_are_those_that_numpy_reads(tmp_path, order, compressed):
    arrays = {"a": np.asarray(np.arange(6.0).reshape(2, 3), order=order), "b": np.array(["x", "yy"]), "c": np.array(5)}
    arrays["d"] = np.zeros((0, 3), dtype=np.int32)
    (np.savez_compressed if compressed else np.savez)(tmp_path / "a.npz", **arrays)
    from chronode.data._npz import read_arrays

    found = read_arrays(tmp_path / "a.npz")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].shape == array.shape


def rewritten(path, **changes):
    """The file of sequences with other arrays, or another field of its JSON."""
    arrays = dict(np.load(path))
    if "json" in changes:
        content = {**json.loads(bytes(arrays["json"])), **changes.pop("json")}
        arrays["json"] = np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)
    np.savez(path, **{**arrays, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": np.array([3.0, 2.0])}, "lengths must hold whole numbers in 1 axes, got float64"),
        ({"lengths": np.array(["3", "2"])}, "lengths must hold whole numbers"),
        ({"lengths": np.array([2**62, 2**62])}, "lengths must be from 0 to 5"),
        ({"starts": np.array([-1, 3])}, "starts must be from 0 to 5"),
        ({"starts": np.array([4, 3])}, "do not match"),
        ({"lengths": np.array([3, 0])}, "has no observation"),
        ({"values": np.zeros((5, 1), complex)}, "values must hold numbers or whole numbers in 2 axes, got complex128"),
        ({"values": np.zeros((5, 1), "f4,f4")}, "not a valid .npz file: values.npy holds"),
        ({"values": np.zeros((4, 1))}, "lengths|starts|do not match"),
        ({"times": np.array([0, 1, np.nan, 0, 2])}, "times must be finite"),
        ({"target": np.array([0, 7], np.int32)}, "target must be from 0 to 1"),
        ({"target": np.zeros((2, 1))}, "target must hold whole numbers in 1 axes"),
        ({"ids": np.array([1.5, 2.5])}, "ids must hold whole numbers or text"),
        ({"json": {"channels": "x0"}}, "json.channels must be a list"),
        ({"json": {"clock": {"unit": 3}}}, "json.clock.unit must be text"),
        ({"json": {"target": {"per_step": False}}}, "json.target.classes is missing"),
    ],
)
def test_saved_sequences_whose_arrays_do_not_fit_are_refused(tmp_path, changes, message):
    times = [[0.0, 1.0, 4.0], [0.0, 2.0]]
    path = from_list([[1.0, 2.0, 3.0], [4.0, 5.0]], times=times, target=["a", "b"]).save(tmp_path / "a.npz")
    rewritten(path, **changes)
    with pytest.raises(ValueError, match=rf"a\.npz: .*({message})"):
        load(path)


def test_series_that_overlap_beyond_measure_are_refused(tmp_path, small_limit):
    """A thousand windows of a thousand rows: 20 kB in the file, 4 MB one after the other."""
    path = from_list([np.arange(1000.0)]).save(tmp_path / "a.npz")
    many = {"starts": np.zeros(1000, np.int64), "lengths": np.full(1000, 1000), "ids": np.arange(1000)}
    rewritten(path, **many, groups=many["ids"])
    with pytest.raises(ValueError, match="would take more than 1,000,000 bytes"):
        load(path)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (pa.array([{"a": 1}, {"a": 2}]), "struct"),
        (pa.array([[1], [2]]), "list"),
        (pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())), "map"),
    ],
)
@pytest.mark.parametrize("role", ["id", "time", "group", "target"])
def test_nested_columns_have_no_use(tmp_path, column, name, role):
    columns = {"id": pa.array([1, 2]), "time": pa.array([0, 1]), "group": pa.array([1, 2]), "target": pa.array([0, 1])}
    table = pa.table({**columns, role: column, "x": pa.array([1.0, 2.0])})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    roles = {other: other for other in columns}
    with pytest.raises(ValueError, match=rf"a\.parquet: .*{role}.*{name}"):
        read(tmp_path / "a.parquet", **roles)


def test_parquet_of_equal_values_is_not_a_bomb(tmp_path, small_limit):
    pyarrow.parquet.write_table(pa.table({"x": np.zeros(10**6)}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"a\.parquet .*would take more than 1,000,000 bytes"):
        read(tmp_path / "a.parquet")


def test_readings_that_share_nothing_are_not_a_bomb(tmp_path, small_limit):
    """A row per time and channel becomes a table of times by channels: 2,000 rows would be 4 million cells."""
    lines = "".join(f"{i},c{i},1\n" for i in range(2000))
    (tmp_path / "a.csv").write_text(f"t,what,value\n{lines}")
    with pytest.raises(ValueError, match="2,000 steps of 2,000 channels would take more than"):
        read(tmp_path / "a.csv", time="t", channel="what", value="value")


def test_very_wide_tables_are_refused_unless_allowed(tmp_path, monkeypatch):
    count = 100_000
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{i}" for i in range(count)) + "\n" + ",".join(["1.5"] * count) + "\n")
    begun = time.monotonic()
    with pytest.raises(ValueError, match=r"a\.csv: more than 20,000 columns. Set CHRONODE_MAX_COLUMNS"):
        read(path)
    assert time.monotonic() - begun < 10
    pyarrow.parquet.write_table(pa.table({f"c{i}": [1.0] for i in range(101)}), tmp_path / "a.parquet")
    monkeypatch.setenv(COLUMNS.variable, "100")
    with pytest.raises(ValueError, match=r"a\.parquet: more than 100 columns"):
        read(tmp_path / "a.parquet")
    monkeypatch.setenv(COLUMNS.variable, "101")
    assert read(tmp_path / "a.parquet").num_channels == 101


def test_columns_that_change_their_kind_are_not_read_again_for_each(tmp_path):
    """Numbers in the first block, one text far behind: 60 columns of them."""
    count = 60
    names, row = [f"c{i}" for i in range(count)], ",".join(["1"] * count)
    texts = [",".join("x" if i == k else "1" for i in range(count)) for k in range(count)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *[row] * 20_000, *texts]) + "\n")
    begun = time.monotonic()
    series = read(tmp_path / "a.csv", categorical="codes")
    assert series.num_channels == count and time.monotonic() - begun < 30


MEMORY = """
import json, os, sys
from pathlib import Path
import pyarrow.csv, pyarrow.parquet
from chronode.data import read

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

for small, large, options in json.loads(sys.argv[1]):
    if os.fork():  # a process for each: memory that an earlier one gave back would be used again
        os.wait()
        continue
    read(small, **options)  # so that modules and pools are there
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    before = memory("VmRSS")
    rows = len(read(large, **options).base_values)
    print(memory("VmHWM") - before, rows, flush=True)
    os._exit(0)
"""


def _csv(path, rows):
    rng = np.random.default_rng(0)
    np.savetxt(path, rng.random((rows, 10)), delimiter=",", fmt="%.5f", header=",".join("abcdefghij"), comments="")
    return path.stat().st_size


def _csv_gz(path, rows):
    size = _csv(path.with_name("plain.csv"), rows)
    path.write_bytes(gzip.compress(path.with_name("plain.csv").read_bytes(), compresslevel=1))
    return size


def _npz(path, rows):
    np.savez_compressed(path, values=np.random.default_rng(0).random((rows // 100, 100, 10)).astype(np.float32))
    return 40 * rows


def _parquet(path, rows):
    rng = np.random.default_rng(0)
    pyarrow.parquet.write_table(pa.table({name: rng.random(rows) for name in "abcdefghij"}), path)
    return 80 * rows


def _csv_of_digits(path, rows):
    path.write_text(",".join("abcdefghij") + "\n" + (",".join("0123456789") + "\n") * 5 * rows)
    return path.stat().st_size


def _csv_of_patients(path, rows):
    """Ids, dates and labels as text, beside two numbers."""
    rng, minutes = np.random.default_rng(0), np.datetime64("2024-01-01T00:00") + np.arange(2 * rows)
    pulse, warmth = rng.normal(70, 9, 2 * rows), rng.normal(37, 0.4, 2 * rows)
    with path.open("w") as file:
        file.write("patient,charted_at,hr,temp,outcome\n")
        for row, minute in enumerate(minutes.astype(str).tolist()):
            ill = "ill" if row // 50 % 3 else "well"
            file.write(f"p{row // 50:05d},{minute},{pulse[row]:.1f},{warmth[row]:.2f},{ill}\n")
    return path.stat().st_size


def _csv_of_readings(path, rows):
    """A reading per row: a short line becomes an id, a time, a channel and a number."""
    values = np.random.default_rng(0).normal(size=3 * rows)
    with path.open("w") as file:
        file.write("id,t,what,v\n")
        for row, value in enumerate(values.tolist()):
            file.write(f"p{row // 50},{row // 2},{'pulse' if row % 2 else 'oxygen'},{value:.3f}\n")
    return path.stat().st_size


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a part of a program"
)
def test_reading_takes_at_most_four_times_the_unpacked_file(tmp_path):
    # Arrow keeps the pages of a Parquet file until its table is whole; a digit of 2 bytes becomes 8, and then 4.
    rows, most = 200_000, {"a.csv": 4, "b.csv.gz": 4, "c.npz": 4, "d.parquet": 4.5, "e.csv": 10}
    most |= {"f.csv": 5, "g.csv": 6}
    makers = (_csv, _csv_gz, _npz, _parquet, _csv_of_digits, _csv_of_patients, _csv_of_readings)
    makers = dict(zip(most, makers, strict=True))
    sizes = {name: make(tmp_path / name, rows) for name, make in makers.items()}
    for name, make in makers.items():
        make(tmp_path / f"small-{name}", 1000)
    options = {"c.npz": {"order": "NTD"}, "f.csv": {"id": "patient", "time": "charted_at", "target": "outcome"}}
    options["g.csv"] = {"id": "id", "time": "t", "channel": "what", "value": "v"}
    work = [(str(tmp_path / f"small-{name}"), str(tmp_path / name), options.get(name, {})) for name in most]
    least = dict.fromkeys(most, float("inf"))
    for _ in range(8):  # on a busy machine, threads of Arrow that wait add to the peak: the least counts
        done = subprocess.run([sys.executable, "-c", MEMORY, json.dumps(work)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for name, line in zip(most, done.stdout.splitlines(), strict=True):
            taken, found = map(int, line.split())
            assert found in (rows, 2 * rows, 3 * rows // 2, 5 * rows)
            least[name] = min(least[name], taken / sizes[name])
        if all(least[name] < most[name] for name in most):
            return
    pytest.fail(str(least))


# ---- archives ------------------------------------------------------------------------------------------------


@pytest.fixture
def into(tmp_path):
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def test_members_that_are_skipped_count(tmp_path, into):
    content = tarred([(member("not wanted"), b"\0" * 2_000_000), (member("x.txt"), b"1")])
    (tmp_path / "a.tar.gz").write_bytes(content)
    assert len(content) < 10_000
    with pytest.raises(unpack.UnsafeArchive, match="unpacks to more than 1,000,000 bytes. Set CHRONODE_MAX_ARCHIVE"):
        unpack.unpack(tmp_path / "a.tar.gz", into, lambda path: path == "x.txt", largest=1_000_000)
    assert unpack.unpack(tmp_path / "a.tar.gz", into, lambda path: path == "x.txt", largest=3_000_000) == ["x.txt"]


def test_the_limit_of_archives_comes_from_the_environment(tmp_path, into, monkeypatch):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"\0" * 5000))
    monkeypatch.setenv(ARCHIVE_BYTES.variable, "4000")
    with pytest.raises(unpack.UnsafeArchive, match="more than 4,000 bytes"):
        unpack.unpack(tmp_path / "a.txt.gz", into, lambda path: True)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_would_fill_the_memory_are_refused(tmp_path, into, kind):
    (tmp_path / "a.tar.gz").write_bytes(tarred([(member("head", kind), b"9" * 2_000_000), (member("x.txt"), b"1")]))
    with pytest.raises(unpack.UnsafeArchive, match="headers of more than"):
        unpack.unpack(tmp_path / "a.tar.gz", into, lambda path: path == "x.txt")


def test_long_names_and_their_headers_are_read(tmp_path, into):
    name = "/".join(["folder"] * 60) + "/x.txt"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        one = member(name)
        one.size = 3
        archive.addfile(one, io.BytesIO(b"abc"))
    (tmp_path / "a.tar.xz").write_bytes(buffer.getvalue())
    assert unpack.unpack(tmp_path / "a.tar.xz", into, lambda path: path == "x.txt") == ["x.txt"]
    assert (into / "x.txt").read_bytes() == b"abc"


def test_a_member_without_a_name_is_refused(tmp_path, into):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("y", b"1")
    content = (tmp_path / "a.zip").read_bytes()
    head, tail = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    nameless = bytearray(content[: head + 30] + content[head + 31 : tail + 46] + content[tail + 47 :])
    nameless[head + 26 : head + 28] = nameless[tail - 1 + 28 : tail - 1 + 30] = b"\0\0"
    end = nameless.index(b"PK\x05\x06")
    nameless[end + 12 : end + 20] = (46).to_bytes(4, "little") + (tail - 1).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(nameless)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == [""]
    with pytest.raises(unpack.UnsafeArchive, match=r"a\.zip contains a file without a name"):
        unpack.unpack(tmp_path / "a.zip", into, lambda path: True)
