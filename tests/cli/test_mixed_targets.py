"""Several targets with classes among them: one body, a head for each, each with its own loss, metrics and columns."""

import csv
import io
import json

import numpy as np
import pytest
import torch
from commands import chronode
from sklearn import metrics as sk

from chronode.data import Scaler, from_list, from_long
from chronode.runs import load, prepared_of
from chronode.settings import SettingError
from chronode.stream import Stream
from chronode.training import Objective, Settings, fit

TARGETS = ("--target", "sick,days,ward", "--id", "patient", "--time", "hour")
SMALL = ("--model", "gru", "--hidden", 4, "--epochs", 8, "--batch-size", 16, "--seed", 0, "--threads", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Stays whose level decides a yes or no, a number and a ward; some labels are missing."""
    folder, rng = tmp_path_factory.mktemp("mixed"), np.random.default_rng(0)
    lines = ["patient,hour,pulse,temp,sick,days,ward"]
    for stay in range(120):
        level = rng.normal()
        sick = "" if stay % 9 == 0 else "yes" if level > 0.3 else "no"
        days = "" if stay % 7 == 0 else f"{30 + 20 * level:.2f}"
        ward = "ABC"[int(np.digitize(level, [-0.5, 0.5]))]
        for hour in range(rng.integers(4, 8)):
            pulse, temp = level + 0.3 * rng.normal(), rng.normal()
            lines.append(f"p{stay},{hour},{pulse:.3f},{temp:.3f},{sick},{days},{ward}")
    (folder / "stays.csv").write_text("\n".join(lines) + "\n")
    options = (*TARGETS, *SMALL, "--start", "summaries", "-o", folder / "run")
    (folder / "printed").write_text(chronode("train", folder / "stays.csv", *options, plots=True).out)
    return folder


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_kind_of_each_target_follows_from_its_column():
    columns = {"id": [1, 1, 2, 2], "x": [1.0, 2.0, 3.0, 4.0], "sick": ["no", "no", None, None], "dead": [0, 0, 1, 1]}
    columns |= {"days": [1.5, 1.5, 2.5, 2.5], "sick2": ["a", "a", "b", "b"]}
    s = from_long(columns, id="id", columns=["x"], target=["sick2", "days", "dead"])
    assert s.target.levels == (("a", "b"), None, ("0", "1")) and s.target.kind == "several"
    assert [part.kind for part in s.target.parts] == ["class", "value", "class"]
    numbers = from_long(columns, id="id", columns=["x"], target=["days", "dead"], kind="dead=value")
    assert numbers.target.kind == "value" and numbers.target.values.tolist() == [[1.5, 0.0], [2.5, 1.0]]
    with pytest.raises(SettingError, match="'dying' is not a target"):
        from_long(columns, id="id", columns=["x"], target=["days", "dead"], kind="dying=value")
    with pytest.raises(SettingError, match="only one class"):
        from_long(columns, id="id", columns=["x"], target=["sick", "days"])


def test_other_series_get_the_numbers_of_the_classes_of_training():
    one = from_list([[1.0], [2.0], [3.0]], target={"ward": ["A", "B", "C"], "days": [1.0, 2.0, 3.0]})
    other = from_list([[1.0], [2.0], [3.0]], target={"ward": ["C", "B", None], "days": [float("nan"), 2.0, 3.0]})
    assert other.target.values[:2, 0].tolist() == [1, 0]
    same = other.with_classes(one.class_names)
    assert same.target.levels == one.target.levels and same.target.values[:2, 0].tolist() == [2, 1]
    assert np.isnan(same.target.values[2, 0]) and np.isnan(same.target.values[0, 1])
    strange = from_list([[1.0], [2.0]], target={"ward": ["D", "B"], "days": [1.0, 2.0]})
    with pytest.raises(ValueError, match="did not occur in training: 'D'"):
        strange.with_classes(one.class_names)


def test_the_loss_is_the_sum_of_shares_of_the_losses_of_a_constant():
    sick, days = ["no", "yes", "yes", None], [1.0, 3.0, float("nan"), 8.0]
    s = from_list([[1.0], [2.0], [3.0], [4.0]], target={"sick": sick, "days": days})
    goal, output = Objective.for_data(s), torch.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    target = s.batch().target
    chances = np.exp(output[:3, :2].numpy())
    chances /= chances.sum(1, keepdims=True)
    entropy = -(np.log(1 / 3) / 3 + 2 * np.log(2 / 3) / 3)
    crossed = -np.log(chances[[0, 1, 2], [0, 1, 1]])
    squared = (output[[0, 1, 3], 2].numpy() - np.array([1.0, 3.0, 8.0])) ** 2
    variance = np.var([1.0, 3.0, 8.0])
    expected = crossed.mean() / entropy + squared.mean() / variance
    assert float(goal.loss_of(output, target).mean) == pytest.approx(expected)
    rows = goal.row_losses(output, target)
    assert rows[2].item() == pytest.approx(2 * crossed[2] / entropy)
    assert rows[3].item() == pytest.approx(2 * squared[2] / variance)
    assert goal.finished(output)[:, :2].sum(1).tolist() == pytest.approx([1.0] * 4)


def test_unknown_targets_have_no_gradient():
    s = from_list([[1.0], [2.0]], target={"sick": ["no", "yes"], "days": [1.0, 2.0]})
    goal, output = Objective.for_data(s), torch.zeros(2, 3, requires_grad=True)
    target = torch.tensor([[float("nan"), 1.0], [1.0, float("nan")]])
    goal.loss_of(output, target).sum.backward()
    assert output.grad[0, :2].tolist() == [0.0, 0.0] and output.grad[1, 2] == 0
    assert output.grad[0, 2] != 0 and output.grad[1, :2].abs().sum() > 0


def test_metrics_of_each_target_are_those_of_scikit_learn(home):
    found = json.loads((home / "run" / "summary.json").read_text())
    rows = table((home / "run" / "predictions.csv").read_text())
    known = {name: [row for row in rows if row[f"true_{name}"]] for name in ("sick", "days", "ward")}
    assert len(known["sick"]) < len(rows) > len(known["days"]) and len(known["ward"]) == len(rows)
    tests = {name: scores["test"] for name, scores in found["targets"].items()}
    true, own = ([row[name] for row in known["sick"]] for name in ("true_sick", "sick"))
    assert tests["sick"]["accuracy"] == pytest.approx(sk.accuracy_score(true, own))
    chances = [float(row["p_sick_yes"]) for row in known["sick"]]
    assert tests["sick"]["auroc"] == pytest.approx(sk.roc_auc_score(np.array(true) == "yes", chances))
    numbers = np.array([[float(row["true_days"]), float(row["days"])] for row in known["days"]])
    assert tests["days"]["rmse"] == pytest.approx(np.sqrt(np.mean((numbers[:, 0] - numbers[:, 1]) ** 2)), rel=1e-4)
    three = np.array([[float(row[f"p_ward_{name}"]) for name in "ABC"] for row in known["ward"]])
    assert three.sum(1) == pytest.approx(1.0, abs=1e-5)
    assert [row["ward"] for row in known["ward"]] == ["ABC"[k] for k in three.argmax(1)]
    assert found["test"]["days rmse"] == tests["days"]["rmse"]
    for name, scores in found["targets"].items():
        assert "constant" in scores["baselines"] and len(scores["baselines"]) == 2, name
    assert found["test"]["loss"] < found["baselines"]["constant"]["loss"]
    printed = (home / "printed").read_text()
    assert "sick accuracy" in printed and "sensitivity (yes)" in printed and "days rmse" in printed
    page = (home / "run" / "report.html").read_text()
    assert all(f"<summary>{name}</summary>" in page for name in ("sick", "days", "ward"))


def test_evaluate_and_predict_read_a_file_without_some_targets(home, tmp_path):
    run, data = home / "run", home / "stays.csv"
    said = json.loads(chronode("evaluate", run, "--json").out)
    found = json.loads((run / "summary.json").read_text())
    assert said["metrics"] == pytest.approx(found["test"])
    assert said["targets"]["sick"]["metrics"] == pytest.approx(found["targets"]["sick"]["test"])
    lines = [line.split(",") for line in data.read_text().splitlines()[:20]]
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(",".join(line[:4]) for line in lines) + "\n")
    rows = table(chronode("predict", run, bare).out)
    again = load(run).predict(bare)
    assert [row["sick"] for row in rows] == again.by_target[0].labels
    assert [float(row["days"]) for row in rows] == pytest.approx([v[0] for v in again.by_target[1].values])


def test_one_target_alone_is_a_model_of_its_own(home):
    trained = load(home / "run")
    test = prepared_of(trained).parts.test
    whole, parts = trained.predict(test).by_target, trained.by_target
    assert list(parts) == ["sick", "days", "ward"]
    for expected, part in zip(whole, parts.values(), strict=True):
        alone = part.predict(test)
        assert alone.classes == expected.classes
        assert np.allclose(np.stack(alone.values), np.stack(expected.values), atol=1e-5)
    assert parts["days"].can("stream") is None and parts["sick"].model.spec.num_outputs == 2


def test_streams_give_the_predictions_of_predict(home):
    trained = load(home / "run")
    rows = table(chronode("predict", home / "run", home / "stays.csv").out)
    stream, said = Stream(trained), {}
    for row in table((home / "stays.csv").read_text()):
        if row["patient"] == "p3":
            values = {name: float(row[name]) for name in ("pulse", "temp")}
            said = stream.observe("p3", float(row["hour"]), values)
    expected = next(row for row in rows if row["patient"] == "p3")
    assert list(said) == list(expected)[1:]
    for name, value in said.items():
        assert (
            value == expected[name]
            if isinstance(value, str)
            else value == pytest.approx(float(expected[name]), abs=1e-4)
        )


def test_exports_finish_each_head_in_its_own_way(home, tmp_path):
    done = chronode("export", home / "run", "--format", "onnx", "-o", tmp_path / "onnx", "--verify", home / "stays.csv")
    difference = float(done.out.partition("largest difference ")[2].split()[0])
    assert difference < 1e-3
    chronode("pack", home / "run", "-o", tmp_path / "model.chronode")
    packed, trained = load(tmp_path / "model.chronode"), load(home / "run")
    test = prepared_of(trained).parts.test
    assert np.allclose(np.stack(packed.predict(test).values), np.stack(trained.predict(test).values))


def test_the_threshold_of_the_only_target_with_two_classes(home):
    run = home / "run"
    before = load(run).predict(prepared_of(load(run)).parts.test)
    said = json.loads(chronode("threshold", run, "--value", 0.9, "--json").out)
    assert said["positive"] == "yes" and said["threshold"] == 0.9
    after = load(run).predict(prepared_of(load(run)).parts.test)
    assert np.array_equal(np.stack(before.values), np.stack(after.values))
    labels = ["yes" if values[1] >= 0.9 else "no" for values in after.by_target[0].values]
    assert after.by_target[0].labels == labels
    refused = chronode("threshold", run, "--target", "ward", "--value", 0.5, code=2).err
    assert "a threshold decides between two classes" in refused
    chronode("threshold", run, "--reset")


def test_uses_of_one_target_ask_for_it(home):
    refused = chronode("explain", home / "run", home / "stays.csv", code=2).err
    assert "one target of 3" in refused and "--target sick" in refused
    chronode("explain", home / "run", home / "stays.csv", "--target", "days", "-o", home / "why.csv")
    assert {row["output"] for row in table((home / "why.csv").read_text())} == {"days"}
    refused = chronode("train", home / "stays.csv", *TARGETS, "--metric", "accuracy", code=2).err
    assert "--metric accuracy cannot select the best epoch of several targets" in refused


def test_check_looks_at_every_target(home):
    found = json.loads(chronode("check", home / "run", home / "stays.csv", "--json", code=None).out)
    assert [change["metric"] for change in found["metrics"]] == ["sick accuracy", "days rmse", "ward accuracy"]
    assert "p(yes) of sick" in json.dumps(found["predictions"]) and "days" in json.dumps(found["predictions"])


def test_a_network_per_step_with_class_weights():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(6, 1)) for _ in range(12)]
    target = {"up": [np.where(one[:, 0] > 0, "yes", "no") for one in series], "next": [one[:, 0] * 2 for one in series]}
    s = from_list(series, target=target)
    assert s.target.per_step and s.target.levels == (("no", "yes"), None)
    scaler = Scaler.fit(s)
    settings = Settings(epochs=2, class_weights="balanced")
    fitted = fit(scaler.transform(s), "gru", settings, scaler=scaler)
    predicted = fitted.predict(scaler.transform(s))
    assert predicted.values[0].shape == (6, 3) and set(np.ravel(predicted.by_target[0].labels)) <= {"no", "yes"}
