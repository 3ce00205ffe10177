"""A service gives the numbers of predict, refuses what it cannot use without a trace, and keeps its states."""

import io
import json
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from servers import served
from streams import events, table, train_vitals

import chronode as package


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = train_vitals(tmp_path_factory.mktemp("vitals"))
    package.runs.pack(home / "run", home / "ward.chronode")
    return home


@pytest.fixture(scope="module")
def server(home):
    with served(home / "ward.chronode", "--alarm", "p_ill>=0", "--max-body", 100_000, "--max-ids", 1000) as server:
        yield server


@pytest.fixture(scope="module")
def rows(home):
    """Observations in the order of their times, with numbers as numbers."""
    plain = [{name: cell for name, cell in row.items() if cell} for row in events(home / "new.csv")]
    return [{name: _number(name, cell) for name, cell in row.items()} for row in plain]


def _number(name, cell):
    return float(cell) if name in ("hr", "temp") else cell


@pytest.fixture(scope="module")
def wanted(home):
    """Rows that `chronode predict` writes, by patient."""
    rows = table(chronode("predict", home / "run", home / "new.csv").out)
    return {row["patient"]: row for row in rows}


def close(answer, wanted):
    assert answer["outcome"] == wanted["outcome"]
    for name in ("p_ill", "p_well"):
        assert float(answer[name]) == pytest.approx(float(wanted[name]), abs=1e-6)


def renamed(rows, suffix):
    return [{**row, "patient": f"{row['patient']}-{suffix}"} for row in rows]


# ---- the numbers of predict ----------------------------------------------------------------------------------------


def test_observations_of_concurrent_requests_give_the_numbers_of_predict(server, rows, wanted):
    patients = {row["patient"]: [] for row in rows}
    for row in renamed(rows, "live"):
        patients[row["patient"].removesuffix("-live")].append(row)
    with ThreadPoolExecutor(len(patients)) as pool:

        def send(own):
            return [server.ask("/observe", row) for row in own]

        answers = dict(zip(patients, pool.map(send, patients.values()), strict=True))
    for patient, own in answers.items():
        assert {status for status, _ in own} == {200}
        close(own[-1][1], wanted[patient])
        assert own[-1][1]["patient"] == f"{patient}-live"
        status, again = server.ask(f"/state/{patient}-live")
        close(again, wanted[patient])
        assert status == 200 and again["alarms"] == ["p_ill>=0"]


def test_a_list_of_observations_is_answered_in_order(server, rows, wanted):
    status, answers = server.ask("/observe", renamed(rows, "list"))
    assert status == 200 and len(answers) == len(rows)
    for answer in {answer["patient"]: answer for answer in answers}.values():
        close(answer, wanted[answer["patient"].removesuffix("-list")])
    lines = "\n".join(json.dumps(row) for row in renamed(rows, "lines")).encode()
    status, again = server.ask("/observe", lines, kind="application/x-ndjson")
    assert status == 200 and [row["p_ill"] for row in again] == [row["p_ill"] for row in answers]


@pytest.mark.parametrize("form", ["rows", "columns", "csv", "arrow"])
def test_whole_series_give_the_numbers_of_predict(server, home, rows, wanted, form):
    names = ["patient", "charted_at", "hr", "temp"]
    columns = {name: [row.get(name) for row in rows] for name in names}
    kind, body = "application/json", None
    if form == "rows":
        body = [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    elif form == "columns":
        body = columns
    elif form == "csv":
        kind, body = "text/csv", (home / "new.csv").read_bytes()
    else:
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns))
        kind, body = "application/vnd.apache.arrow.stream", stream.getvalue()
    status, answers = server.ask("/predict", body, kind=kind)
    assert status == 200 and len(answers) == len(wanted), answers
    for answer in answers:
        close(answer, wanted[answer["patient"]])
    _, text = server.ask("/predict", body, kind=kind, accept="text/csv")
    assert {row["patient"] for row in table(text.decode())} == set(wanted)
    _, stream = server.ask("/predict", body, kind=kind, accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(stream).read_all().num_rows == len(wanted)


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "about"),
    [
        ("/observe", b"{", "application/json", 400, "JSON"),
        ("/observe", b'{"patient": "x", "charted_at": "2024-01-31 12:00", "hr": NaN}', "application/json", 400, "NaN"),
        ("/observe", b"3", "application/json", 400, "object"),
        ("/observe", b"a,b", "text/csv", 415, "content type"),
        ("/observe", {"charted_at": "2024-01-31 12:00", "hr": 80}, "application/json", 422, "patient"),
        ("/observe", {"patient": "x", "charted_at": "2024-01-31", "pulse": 1}, "application/json", 422, "pulse"),
        ("/observe", {"patient": "x", "hr": 80}, "application/json", 422, "charted_at"),
        ("/observe", {"patient": "x", "charted_at": "soon", "hr": 80}, "application/json", 422, "charted_at"),
        ("/observe", {"patient": "x", "charted_at": "2024-01-31", "hr": "high"}, "application/json", 422, "hr"),
        ("/observe", b" " * 200_000, "application/json", 413, "bytes"),
        ("/predict", b"[1, 2]", "application/json", 400, "rows"),
        ("/predict", [{"patient": "x", "charted_at": "2024-01-31", "pulse": 1}], "application/json", 422, "hr"),
        ("/predict", b"abc", "application/vnd.apache.arrow.stream", 400, "Arrow"),
        ("/predict", b"abc", "image/png", 415, "content type"),
    ],
)
def test_bad_requests_are_refused_with_the_reason(server, path, body, kind, status, about):
    before = server.ask("/state")
    code, answer = server.ask(path, body, kind=kind)
    assert code == status, answer
    assert about in answer["error"] and "Traceback" not in answer["error"]
    assert server.ask("/state") == before


def test_one_bad_observation_refuses_its_request_alone(server, rows):
    first, second, third = renamed(rows[:3], "bad")
    status, answer = server.ask("/observe", [first, {**second, "hr": "high"}, third])
    assert status == 422 and "observation 2" in answer["error"]
    assert server.ask(f"/state/{first['patient']}")[0] == 404
    assert server.ask("/observe", first)[0] == 200
    status, answer = server.ask("/observe", first)  # the time does not go forward
    assert status == 422 and "not later" in answer["error"]


def test_more_ids_than_allowed_are_refused(home, rows):
    with served(home / "ward.chronode", "--max-ids", 2) as server:
        many = [{**rows[0], "patient": f"p{number}"} for number in range(3)]
        assert server.ask("/observe", many)[0] == 429
        assert server.ask("/observe", many[:2])[0] == 200
        assert server.ask("/observe", many[2])[0] == 429
        assert server.ask("/state/p0", method="DELETE")[0] == 200
        assert server.ask("/observe", many[2])[0] == 200
        assert server.ask("/state/p0", method="DELETE")[0] == 404


def test_a_token_is_required_if_it_is_set(home):
    with served(home / "ward.chronode", token="secret") as server:
        assert server.ask("/state", token="wrong") == (401, {"error": "the bearer token is missing or wrong."})
        assert server.ask("/state")[0] == 200
        server.token = ""
        assert server.ask("/state")[0] == 401 and server.ask("/health") == (200, {"status": "ok"})


# ---- what describes it ---------------------------------------------------------------------------------------------


def test_figures_and_description(server, rows):
    server.ask("/observe", renamed(rows, "figures"))
    figures = dict(line.rsplit(" ", 1) for line in server.ask("/metrics")[1].decode().splitlines() if line[0] != "#")
    assert float(figures["chronode_ids"]) == server.ask("/state")[1]["count"]
    assert float(figures["chronode_observations"]) == server.ask("/state")[1]["observations"]
    assert float(figures["chronode_alarms_total"]) >= len(rows)
    _, document = server.ask("/openapi.json")
    assert {"/observe", "/predict", "/state/{id}"} <= set(document["paths"])
    observation = document["components"]["schemas"]["Observation"]
    assert set(observation["properties"]) == {"patient", "charted_at", "hr", "temp"}
    assert b"/observe" in server.ask("/docs")[1]
    assert b"chronode" in server.ask("/")[1]


# ---- states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_restart_gives_the_numbers_of_an_uninterrupted_run(home, rows, wanted, tmp_path, number):
    state = tmp_path / "ward.state"
    with served(home / "ward.chronode", "--state", state) as server:
        assert server.ask("/observe", rows[:20])[0] == 200
        server.stop(number)
    with served(home / "ward.chronode", "--state", state) as server:
        assert server.ask("/observe", rows[20:])[0] == 200
        for patient in wanted:
            close(server.ask(f"/state/{patient}")[1], wanted[patient])
        assert server.ask("/state/save", b"", method="POST")[0] == 200


def test_states_are_saved_at_intervals_and_survive_a_kill(home, rows, wanted, tmp_path):
    state = tmp_path / "ward.state"
    with served(home / "ward.chronode", "--state", state, "--save-every", "0.05s") as server:
        server.ask("/observe", rows[:20])
        before = server.ask("/state")[1]["observations"]
        for _ in range(200):
            stream = package.Stream(home / "ward.chronode")
            if state.exists():
                stream.load(state)
            if stream.counts.observations == before:
                break
        server.stop(signal.SIGKILL)
    with served(home / "ward.chronode", "--state", state) as server:
        server.ask("/observe", rows[20:])
        for patient in wanted:
            close(server.ask(f"/state/{patient}")[1], wanted[patient])


@pytest.mark.slow
def test_nine_kills_lose_and_double_no_observation(home, rows, wanted, tmp_path):
    """A client that sends again what may be lost, and a service that ignores what it has, end with the numbers of one
    that was never killed.
    """
    options = ("--state", tmp_path / "ward.state", "--save-every", "0.05s", "--late", "ignore")
    for number in range(1, 10):
        with served(home / "ward.chronode", *options) as server:
            status, answer = server.ask("/observe", rows[: len(rows) * number // 10])
            assert status == 200, answer
            time.sleep(0.02 * number)
            server.stop(signal.SIGKILL)
    with served(home / "ward.chronode", *options) as server:
        assert server.ask("/observe", rows)[0] == 200
        for patient in wanted:
            close(server.ask(f"/state/{patient}")[1], wanted[patient])


def test_another_model_is_swapped_in_without_losing_ids(home, rows, tmp_path):
    pack = shutil.copy(home / "ward.chronode", tmp_path / "live.chronode")
    with served(pack) as server:
        server.ask("/observe", rows[:20])
        count = server.ask("/state")[1]["count"]
        assert server.ask("/model", b"", method="POST")[1]["carried_over"] == count
        flags = (*VITALS, *QUICK, "--epochs", 1, "--model", "gru", "--hidden", 5, "--output", tmp_path / "gru")
        chronode("train", home / "vitals.csv", *flags)
        package.runs.pack(tmp_path / "gru", pack)
        status, outcome = server.ask("/model", b"", method="POST")
        assert status == 200 and outcome["rebuilt"] == count and outcome["without_beginning"] == 0
        server.ask("/observe", rows[20:])
        other = table(chronode("predict", tmp_path / "gru", home / "new.csv").out)
        for row in other:
            close(server.ask(f"/state/{row['patient']}")[1], row)
        (tmp_path / "live.chronode").write_bytes(b"damaged")
        status, answer = server.ask("/model", b"", method="POST")
        assert status == 409 and "live.chronode" in answer["error"]
        assert server.ask("/state")[1]["count"] == len(other)


def test_figures_of_drift(home, tmp_path):
    warm = {"hr": lambda row: row["hr"] and f"{float(row['hr']) + 25:.1f}"}
    write_vitals(tmp_path / "other.csv", patients=40, seed=7, outcome=None, **warm)
    plain = [{name: cell for name, cell in row.items() if cell} for row in events(tmp_path / "other.csv")]
    with served(home / "run") as server:
        assert server.ask("/model")[1]["drift"] is None
        assert b"drift_p{" not in server.ask("/metrics")[1]
        assert server.ask("/observe", plain)[0] == 200
        assert server.ask("/model")[1]["drift"]["changed"][0] == "hr: level"
        text = server.ask("/metrics")[1].decode()
    assert 'chronode_drift_distance{feature="hr: level"}' in text and 'chronode_drift_p{feature="hr: level"}' in text
