"""report.html of real runs: whole, self-contained, safe, and saying what the run's files say."""

import json
import re
import shutil

import numpy as np
import pytest
from html_checks import ATTACK, check_html

from chronode.report.run_page import draw_run, report_of
from chronode.runs import Config, Run, train_run
from chronode.training import TrainingStopped


def trained(folder, data, *, hidden=4, epochs=2, model="gru", **training):
    """A run with its page."""
    options = {"model": model, "hidden": hidden}
    config = {"data": data, "model": options, "training": {"epochs": epochs, "batch_size": 8, **training}}
    run = train_run(Config.from_dict(config), folder / "run", draw=draw_run).run
    return run, (run.path / "report.html").read_text(encoding="utf-8")


def write(path, columns, rows):
    """A CSV file, whatever is in the names."""
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return str(path)


def series_rows(series, steps, make, seed=0):
    rng = np.random.default_rng(seed)
    for one in range(series):
        time = 0.0
        for _ in range(steps):
            time += rng.exponential()
            yield [f"s{one}", f"{time:.4f}", *make(one, rng)]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A run on a file whose names are hostile."""
    folder = tmp_path_factory.mktemp("classes")
    names = ["id", "t", f"a{ATTACK}", "b</style>", f"y{ATTACK}"]

    def make(one, rng):
        return [rng.normal(one % 2), "" if rng.random() < 0.3 else rng.normal(), f"{ATTACK}{one % 2}"]

    file = write(folder / "odd <b>name.csv", names, series_rows(80, 5, make))
    return trained(folder, {"source": file, "id": "id", "time": "t", "target": [names[4]]})


def test_the_page_has_every_part(classes):
    run, text = classes
    seen = check_html(text)
    for part in ("Data", "Training", "Test", "Best and worst series", "Settings", "How to repeat"):
        assert f"<h2>{part}</h2>" in text
    for words in (
        *("Gaps", "Missing values", "2 classes", "Loss", "Validation accuracy", "Confusion matrix", "Calibration"),
        *("majority", "95% intervals", "Contributions to p(", "Worst", "All settings", "Versions and machine"),
    ):
        assert words in seen, words
    assert "chronode predict" in seen
    assert run.load_json("data.json")["source"]["sha256"] in seen
    assert run.environment["torch"] in seen


def test_hostile_names_are_text(classes):
    _, text = classes
    seen = check_html(text)
    assert "<script" not in text
    assert ATTACK in seen
    assert "odd <b>name.csv" in seen


def test_no_address_is_in_the_page(classes):
    assert "http://" not in classes[1]
    assert "https://" not in classes[1]


def test_its_numbers_are_those_of_the_summary(classes):
    run, text = classes
    summary = run.load_json("summary.json")
    row = re.search(r'<tr class="best">(.*?)</tr>', text).group(1)
    cells = re.findall(r'data-v="([^"]*)"', row)
    assert [float(cell) for cell in cells[:1]] == [summary["test"]["accuracy"]]
    low, high = (float(end) for end in re.search(r"\(([\d.]+) to ([\d.]+)\)", row).groups())
    assert low <= summary["test"]["accuracy"] <= high
    assert low < high


def test_the_same_page_comes_from_the_folder_alone(classes):
    run, text = classes
    (run.path / "report.html").unlink()
    assert report_of(run.path).read_text(encoding="utf-8") == text


def test_numbers_show_residuals_in_their_own_units(tmp_path):
    def make(one, rng):
        return [rng.normal(one), 1000.0 + one, -one if one % 3 else ""]

    file = write(tmp_path / "v.csv", ["id", "t", "x", "y", "z"], series_rows(40, 4, make))
    run, text = trained(tmp_path, {"source": file, "id": "id", "time": "t", "target": ["y", "z"], "kind": "value"})
    seen = check_html(text)
    assert "y: predicted and true" in seen
    assert "z: mean residual" in seen
    rmse = run.load_json("summary.json")["test"]["rmse"]
    assert f"{rmse:.4g}" in seen
    low, high = (float(end) for end in re.search(r"<small>([\d.]+) to ([\d.]+)</small>", text).groups())
    assert low <= rmse <= high


def test_forecasts_have_bands_and_errors_by_horizon(tmp_path):
    def make(one, rng):
        return [10 + rng.normal(), rng.normal()]

    file = write(tmp_path / "f.csv", ["shop", "t", "units", "price"], series_rows(12, 26, make))
    data = {"source": file, "id": "shop", "time": "t", "forecast": 4, "channels": ["units"]}
    seen = check_html(trained(tmp_path, data)[1])
    expected = (
        "80% interval",
        "RMSE by steps ahead",
        "units: s",
        ", window ",
        "last value",
        "Contributions to units+1",
    )
    for words in (*expected, "linear start alone"):
        assert words in seen, words
    assert "the contributions miss" not in seen  # they pass through the linear start too
    best = seen.partition("Best and worst series")[2]
    assert "units: s", ", window " in best  # the forecast beside the true values
    assert "predicted 1" not in best
    assert ", units+1: " not in seen  # the title of a series does not list the steps of its target
    seen = check_html(trained(tmp_path / "levels", {**data, "intervals": [50, 95]})[1])
    assert "50% interval" in seen and "95% interval" in seen and "80% interval" not in seen


def test_predictions_per_step_are_drawn(tmp_path):
    file = write(
        tmp_path / "s.csv", ["id", "t", "x", "y"], series_rows(20, 6, lambda one, rng: [rng.normal(), rng.normal()])
    )
    seen = check_html(trained(tmp_path, {"source": file, "id": "id", "time": "t", "target": ["y"]})[1])
    assert "y: predicted and true" in seen.partition("Best and worst series")[2]
    file = write(
        tmp_path / "c.csv",
        ["id", "t", "x", "y"],
        series_rows(20, 6, lambda one, rng: [rng.normal(), rng.choice(["a", "b"])]),
    )
    (tmp_path / "run").rename(tmp_path / "first")
    seen = check_html(trained(tmp_path, {"source": file, "id": "id", "time": "t", "target": ["y"]})[1])
    assert "y: probability of the true class" in seen.partition("Best and worst series")[2]


@pytest.mark.parametrize(
    "data",
    [
        {"source": "bitstream", "options": {"train": 24, "valid": 8, "test": 8}},
        {"source": "adding", "options": {"train": 24, "valid": 8, "test": 8, "length": 12}},
        {"source": "copy", "options": {"train": 16, "valid": 8, "test": 8, "length": 6}},
    ],
    ids=lambda data: data["source"],
)
def test_tasks_have_pages(tmp_path, data):
    _, text = trained(tmp_path, data)
    seen = check_html(text)
    assert "Best and worst series" in seen
    assert "chronode train --config" in seen


def test_one_long_series_split_by_time(tmp_path):
    file = write(tmp_path / "one.csv", ["x"], [[np.sin(n / 5)] for n in range(200)])
    seen = check_html(trained(tmp_path, {"source": file, "forecast": 1, "window": 10})[1])
    assert "RMSE" in seen


def test_a_training_that_failed_says_why(tmp_path):
    data = {"source": "bitstream", "options": {"train": 24, "valid": 8, "test": 8}}
    config = Config.from_dict(
        {
            "data": data,
            "model": {"model": "unicornn", "hidden": 4, "settings": {"delta_t": 1e30}},
            "training": {"epochs": 2},
        }
    )
    with pytest.raises(TrainingStopped):
        train_run(config, tmp_path / "run", draw=draw_run)
    seen = check_html((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    fault = Run.open(tmp_path / "run").summary().fault
    assert f"Training failed: {fault}" in seen
    assert "Confusion matrix" not in seen


def test_a_run_without_a_model_has_a_page(tmp_path):
    config = Config.from_dict({"data": {"source": "bitstream"}})
    run = Run.create(tmp_path / "run", config.as_dict())
    assert "No epoch was finished." in check_html(report_of(run.path).read_text(encoding="utf-8"))


def test_show_opens_the_page_and_writes_it_if_it_is_missing(classes, monkeypatch):
    from commands import chronode

    run, _ = classes
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    (run.path / "report.html").unlink(missing_ok=True)
    out = chronode("show", run.path, "--open").out
    assert out.strip() == str(run.path / "report.html")
    assert opened == [(run.path / "report.html").resolve().as_uri()]
    check_html((run.path / "report.html").read_text(encoding="utf-8"))
    assert "report.html" in json.loads(chronode("show", run.path, "--json").out)["files"]


MARK = "<script>x"


def injected(value, path=()):
    """Copies of JSON data, each with the mark in place of one text, or as the name of one more field."""
    if isinstance(value, str):
        yield path, MARK
    if isinstance(value, dict):
        yield (*path, "+"), {**value, MARK: next(iter(value.values()), 1)}
        for key, item in value.items():
            yield from ((at, {**value, key: changed}) for at, changed in injected(item, (*path, key)))
    if isinstance(value, list):
        for place, item in enumerate(value):
            for at, changed in injected(item, (*path, place)):
                yield at, [*value[:place], changed, *value[place + 1 :]]


@pytest.mark.parametrize("name", ["run.json", "config.json", "environment.json", "summary.json", "metrics.jsonl"])
def test_no_text_of_a_run_folder_becomes_html(classes, tmp_path, name):
    """Every text of every file in turn; a file that does not say what it must is refused."""
    shutil.copytree(classes[0].path, tmp_path / "run", ignore=shutil.ignore_patterns("*.safetensors", "report.html"))
    file = tmp_path / "run" / name
    lines = file.read_text().splitlines() if name.endswith("l") else [file.read_text()]
    drawn = set()
    for path, changed in injected(json.loads(lines[-1])):
        file.write_text("\n".join([*lines[:-1], json.dumps(changed)]) + "\n")
        try:
            run = Run.open(tmp_path / "run")
            text = report_of(run.path).read_text() + (run._repr_html_() or "")
        except ValueError:
            continue
        assert MARK not in text, path
        drawn |= {path} if "&lt;script&gt;x" in text else set()
    assert drawn or name == "run.json"
    if name == "environment.json":
        assert ("started",) in drawn


def test_a_panel_with_dates_has_them_on_its_axes_and_its_coming_forecast(tmp_path):
    days = np.arange("2023-03-01", "2023-05-01", dtype="M8[D]")
    rng = np.random.default_rng(0)
    rows = [[shop, day, 5 + np.sin(step / 3) + 0.1 * rng.normal()] for shop in "abcd" for step, day in enumerate(days)]
    file = write(tmp_path / "sales.csv", ["shop", "day", "sales"], rows)
    data = {"source": file, "id": "shop", "time": "day", "forecast": 3, "split": [0.5, 0, 0.5]}
    _, text = trained(tmp_path, data, epochs=1)
    seen = check_html(text)
    for part in ("Coming forecast", "Best and worst windows"):
        assert f"<h2>{part}</h2>" in text
    coming = text.partition("<h2>Coming forecast</h2>")[2].partition("<h2>")[0]
    for day in ("2023-05-01", "2023-05-02", "2023-05-03"):
        assert coming.count(f"<td>{day}") == 4, day  # a row per series
    assert "steps per window" in seen and "Each series: 2, the largest error first" in seen
    assert re.search(r"<text[^>]*>2023-0[34]-\d\d</text>", text) and "time (days)" not in seen


def test_classes_have_a_table_and_heat_maps_a_legend(classes):
    _, text = classes
    seen = check_html(text)
    assert "Each class" in seen and "100% of the true class" in seen
    assert text.count('<g class="legend">') >= 3  # the confusion matrix, and contributions


def test_a_channel_without_values_has_no_axes():
    from chronode.data import from_list
    from chronode.report._data_pictures import series_picture

    s = from_list([[[1.0, np.nan], [2.0, np.nan]], [[1.0, 3.0]]], channels=["hr", "lactate"])
    drawn = str(series_picture(s, 0))
    assert "(no values: lactate)" in drawn and drawn.count("<svg") == 1
    assert "All values are missing" in str(series_picture(from_list([[np.nan], [1.0]]), 0))


@pytest.mark.parametrize(
    ("first", "last", "label", "texts"),
    [
        ("2020-01-15", "2023-06-01", "date", ["2021", "2022", "2023"]),
        ("2020-01-15", "2020-06-01", "date", ["2020-02", "2020-03", "2020-04", "2020-05", "2020-06"]),
        ("2020-02-27", "2020-03-02", "date", ["2020-02-27", "2020-02-28", "2020-02-29", "2020-03-01", "2020-03-02"]),
        ("2020-02-27T08:30", "2020-02-27T10:00", "time on 2020-02-27", ["08:30", "09:00", "09:30", "10:00"]),
        (
            "2020-02-27T20:00",
            "2020-02-28T07:00",
            "date and time in 2020",
            ["02-27 21:00", "02-28 00:00", "02-28 03:00"],
        ),
    ],
)
def test_time_axes_have_round_dates(first, last, label, texts):
    from chronode.data import from_wide
    from chronode.report._time_axis import time_axis

    s = from_wide({"when": [first, last], "x": [1.0, 2.0]}, time="when")
    axis = time_axis(s, *s[0].times[[0, -1]])
    assert axis.label == label and [text for _, text in axis.marks][: len(texts)] == texts
    places = [place for place, _ in axis.marks]
    assert places == sorted(places) and s[0].times[0] <= places[0] and places[-1] <= s[0].times[-1]


def test_given_numbers_stay_on_the_axis():
    from chronode.data import from_wide
    from chronode.report._time_axis import time_axis

    s = from_wide({"day": [0, 2000, 5000], "x": [1.0, 2.0, 3.0]}, time="day")
    assert [text for _, text in time_axis(s, *s[0].times[[0, -1]]).marks] == [
        "0",
        "1000",
        "2000",
        "3000",
        "4000",
        "5000",
    ]
