"""Figures of data larger than memory, each beside the plain alternative; writes benchmarks/scale.json.

    python benchmarks/scale.py --rows 20000000 --folder /tmp/scale

    python benchmarks/scale.py --rows 20000000 --folder /tmp/scale --figures pack,predict

Every measurement is a process of its own: CPU seconds are those of its threads and of its workers, memory is the
largest resident set of one of them, which includes the pages of files that it has mapped. Alternatives take turns; the
median counts.
"""

from __future__ import annotations

import argparse
import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

ROLES = {"id": "patient", "time": "minute", "target": "ill"}
FILES = 20
STEPS = 200
IDS = 10_000


def tables(folder: Path, rows: int) -> None:
    """Writes 20 Parquet files of unsorted rows with 6 columns, about 200 rows per series."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "readings").mkdir(parents=True, exist_ok=True)
    rng, count = np.random.default_rng(0), rows // FILES
    for number in range(FILES):
        path = folder / "readings" / f"{number:02}.parquet"
        if path.exists():
            continue
        patient = rng.integers(0, rows // STEPS, count)
        columns = {"patient": patient, "minute": rng.integers(0, 10**7, count)}
        columns |= {name: rng.normal(size=count).astype(np.float32) for name in ("pulse", "pressure", "oxygen")}
        columns["ill"] = (patient % 3 == 0).astype(np.int8)
        pq.write_table(pa.table(columns), path)


# ---- one process each --------------------------------------------------------------------------------------


def pack(folder: Path) -> dict:
    from chronode.data import pack, read_header

    pack(folder / "readings", folder / "readings.series", **ROLES)
    return {"rows": read_header(folder / "readings.series").rows}


def copy(folder: Path) -> dict:
    import duckdb

    with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": str(folder / "spill")}) as database:
        source = f"read_parquet('{folder}/readings/*.parquet')"
        database.sql(f"COPY (SELECT * FROM {source} ORDER BY patient, minute) TO '{folder}/sorted.parquet'")
    (folder / "sorted.parquet").unlink()
    return {}


def _config(source: Path, **training: int) -> dict:
    return {
        "data": {"source": str(source)},
        "model": {"model": "gru", "hidden_size": 32, "start": "none"},
        "training": {"epochs": 1, "batch_size": 64, **training},
    }


def train(folder: Path) -> dict:
    from chronode.runs import Config, train_run

    shutil.rmtree(folder / "run", ignore_errors=True)
    train_run(Config.from_dict(_config(folder / "readings.series", steps=100)), folder / "run")
    return {}


def _epoch(folder: Path, *, loaded: bool) -> dict:
    """Seconds of the optimizer steps of up to 100 batches, from the store or from memory."""
    from dataclasses import replace

    from chronode.data import Parts
    from chronode.runs import Config, assemble_run, choose, prepare

    config = Config.from_dict(_config(folder / "readings.series"))
    prepared = prepare(config)
    parts = prepared.parts
    few = Parts(parts.train[: 64 * 100], parts.valid[:64], parts.test[:64], parts.scaler)
    if loaded:
        few = Parts(*(part.loaded() for part in (few.train, few.valid, few.test)), few.scaler)
    prepared = replace(prepared, parts=few)
    config, _ = choose(config, prepared)
    assembly = assemble_run(config, prepared)
    wall, cpu = time.perf_counter(), time.process_time()
    assembly.fit()
    return {"work_seconds": time.perf_counter() - wall, "work_cpu": time.process_time() - cpu}


def epoch_store(folder: Path) -> dict:
    return _epoch(folder, loaded=False)


def epoch_memory(folder: Path) -> dict:
    return _epoch(folder, loaded=True)


def _predict(folder: Path, workers: int) -> dict:
    from chronode.search import Engine, score_in_chunks

    shutil.rmtree(folder / "scores", ignore_errors=True)
    options = {"engine": Engine(workers=workers), "rows": 500_000}
    score_in_chunks(folder / "run", folder / "readings.series", folder / "scores", **options)
    return {}


def predict_1(folder: Path) -> dict:
    return _predict(folder, 1)


def predict_2(folder: Path) -> dict:
    return _predict(folder, 2)


def _text(folder: Path, suffix: str) -> Path:
    import polars

    path = folder / f"read.{suffix}"
    if not path.exists():
        frame = polars.read_parquet(sorted((folder / "readings").glob("*.parquet"))[: FILES // 2])
        frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    return path


def _read(path: Path) -> dict:
    """CPU seconds of reading alone, after the imports, as for polars."""
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    from chronode.data import read

    wall, cpu = time.perf_counter(), time.process_time()
    rows = read(path, **ROLES).rows
    return {"rows": rows, "work_seconds": time.perf_counter() - wall, "work_cpu": time.process_time() - cpu}


def _read_by_polars(path: Path) -> dict:
    import polars

    wall, cpu = time.perf_counter(), time.process_time()
    (polars.read_csv(path) if path.suffix == ".csv" else polars.read_parquet(path)).sort("patient", "minute")
    return {"work_seconds": time.perf_counter() - wall, "work_cpu": time.process_time() - cpu}


def read_csv(folder: Path) -> dict:
    return _read(_text(folder, "csv"))


def polars_csv(folder: Path) -> dict:
    return _read_by_polars(_text(folder, "csv"))


def read_parquet(folder: Path) -> dict:
    return _read(_text(folder, "parquet"))


def polars_parquet(folder: Path) -> dict:
    return _read_by_polars(_text(folder, "parquet"))


def observe(folder: Path) -> dict:
    """Observations per second of `chronode serve` on one core: 10,000 ids, one connection that waits for answers."""
    program = "import os; os.sched_setaffinity(0, {0}); from chronode.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(folder / "run"), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = next(found[1] for line in process.stderr if (found := re.search(r"listening on http://(\S+)", line)))
    os.sched_setaffinity(0, {1})
    result, connection = {}, http.client.HTTPConnection(address.rstrip("/"), timeout=60)
    try:
        minute = 0
        for size in (200, 50, 1):
            rounds, waits = max(200, min(IDS * 2 // size, 1000)), []
            begun, used = time.perf_counter(), _cpu(process.pid)
            for number in range(rounds):
                ids = [(number * size + i) % IDS for i in range(size)]
                minute += 1
                rows = [{"patient": id, "minute": minute, "pulse": 0.5, "pressure": -0.1, "oxygen": 0.2} for id in ids]
                sent = time.perf_counter()
                connection.request("POST", "/observe", json.dumps(rows), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                content = answer.read()
                assert answer.status == 200, content
                waits.append(time.perf_counter() - sent)
            seconds, cpu, count = time.perf_counter() - begun, _cpu(process.pid) - used, rounds * size
            result[f"{size} per request"] = {
                "per second": count / seconds,
                "per CPU second": count / cpu,
                "p99 ms": 1000 * sorted(waits)[int(0.99 * rounds)],
            }
    finally:
        process.terminate()
        process.wait()
    return result


def _cpu(process: int) -> float:
    """Returns the CPU seconds of a process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


FIGURES = ["pack", "train", "epoch", "read", "predict", "observe"]
PAIRS = {
    "pack / COPY ORDER BY of DuckDB": ("pack", "copy", 2),
    "epoch from the store / from memory": ("epoch_store", "epoch_memory", 2),
    "read CSV / polars with sort": ("read_csv", "polars_csv", 2),
    "read Parquet / polars with sort": ("read_parquet", "polars_parquet", 2),
    "predict, 2 processes / 1": ("predict_2", "predict_1", 2),
}


# ---- the whole ---------------------------------------------------------------------------------------------


def measured(name: str, folder: Path) -> dict:
    """Runs one function of this file in a process of its own."""
    begun = time.perf_counter()
    command = [sys.executable, __file__, "--only", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    found = {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - begun}
    for used in _orphans():
        found["cpu"] += used.ru_utime + used.ru_stime
        found["peak_mib"] = max(found["peak_mib"], used.ru_maxrss / 1024)
    return found


def _orphans() -> list[resource.struct_rusage]:
    """Waits for processes whose parent has ended, such as the server that workers are forked from."""
    used = []
    with suppress(ChildProcessError):
        while True:
            used.append(os.wait3(0)[2])
    return used


def _adopt_orphans() -> None:
    """Makes this process the parent of the processes that its children leave behind (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _median(runs: list[dict]) -> dict:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    """Measures, or runs one function."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--only", default="")
    parser.add_argument("--figures", type=lambda names: names.split(","), default=FIGURES)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    if given.only:
        found = globals()[given.only](given.folder)
        used = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        found["cpu"] = used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime
        found["peak_mib"] = max(used.ru_maxrss, children.ru_maxrss) / 1024
        print(json.dumps(found))
        return
    _adopt_orphans()
    tables(given.folder, given.rows)
    result = {"rows": given.rows, "cores": os.cpu_count(), "load": os.getloadavg()[0], "figures": {}}
    if given.output.is_file():  # figures of the same table are added
        before = json.loads(given.output.read_text())
        result["figures"] = before["figures"] if before["rows"] == given.rows else {}
        result |= {
            name: before[name] for name in ("train", "observe") if before["rows"] == given.rows and name in before
        }
    if not (given.folder / "readings.series").is_dir():
        measured("pack", given.folder)  # for those that read the store
    if "train" in given.figures or not (given.folder / "run").is_dir():
        result["train"] = measured("train", given.folder)
    if "observe" in given.figures:
        result["observe"] = measured("observe", given.folder)
        print(json.dumps(result["observe"]), flush=True)
    for title, (one, other, times) in PAIRS.items():
        if not any(title.startswith(name) or one.startswith(name) for name in given.figures):
            continue
        runs: dict[str, list[dict]] = {one: [], other: []}
        for _ in range(times):
            for name in (one, other):
                runs[name].append(measured(name, given.folder))
        found = {name: _median(own) for name, own in runs.items()}
        seconds, cpu = ("work_seconds", "work_cpu") if "work_cpu" in found[one] else ("seconds", "cpu")
        ratios = {kind: found[one][key] / found[other][key] for kind, key in (("time", seconds), ("CPU", cpu))}
        result["figures"][title] = {"ratio": ratios, **found}
        print(
            f"| {title} | {ratios['time']:.2f} | {ratios['CPU']:.2f} | {found[one]['peak_mib']:,.0f} MiB |", flush=True
        )
        given.output.write_text(json.dumps(result, indent=1) + "\n")
    result["load_after"] = os.getloadavg()[0]
    given.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
