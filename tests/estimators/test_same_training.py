"""The command line, a YAML file and an estimator train the same weights from the same data, settings and seed."""

import numpy as np
import pytest
import yaml
from commands import chronode

from chronode.data import read
from chronode.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
from chronode.runs import load

KINDS = {"label": SequenceClassifier, "level": SequenceRegressor, "": SequenceForecaster}
SECTIONS = {"data": ("log", "gaps", "clip_values"), "model": ("model", "hidden_size", "num_layers", "start", "budget")}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file of 24 series with one class and one number each."""
    rng, lines = np.random.default_rng(0), ["id,t,x,z,label,level"]
    for series in range(24):
        level = rng.normal()
        for t in np.cumsum(rng.integers(1, 4, size=rng.integers(9, 13))):
            x, z = level + np.sin(t + series) + 0.1 * rng.normal(), np.exp(rng.normal())
            lines.append(f"s{series:02d},{t},{x:.4f},{z:.4f},{'up' if level > 0 else 'down'},{level:.4f}")
    path = tmp_path_factory.mktemp("data") / "series.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def drawn(case):
    """Returns a random configuration: (target, settings, other training settings, validation, seed)."""
    rng = np.random.default_rng(case)
    target = ("label", "level", "")[case % 3]

    def maybe(value):
        return value if rng.random() < 0.5 else None

    model = None if case in (3, 4) else str(rng.choice(["gru", "mmrnn", "lstm-dt", "gru-d"]))
    settings = {
        "model": model,
        "hidden_size": int(rng.integers(2, 6)),
        "num_layers": maybe(2),
        "start": maybe(str(rng.choice(["none", "linear"]))),
        "budget": "1s" if target and not model else None,
        "log": maybe("z"),
        "gaps": maybe(str(rng.choice(["cap", "log"]))),
        "clip_values": maybe("on"),
        "epochs": int(rng.integers(1, 3)),
        "batch_size": maybe(int(rng.integers(3, 9))),
        "learning_rate": maybe(0.02),
        "early_stop": maybe(1),
        "refit": maybe(True) if target else None,
    }
    more = {"optimizer": maybe("adamw"), "weight_decay": maybe(0.01), "average": maybe("ema"), "metric": maybe("loss")}
    return target, settings, more, float(rng.choice([0.0, 0.25])), int(rng.integers(100))


def by_estimator(file, target, settings, more, validation, seed):
    kind = {} if target else {"horizon": 2}
    arguments = {name: value for name, value in {**settings, **kind}.items() if value is not None}
    training = {name: value for name, value in more.items() if value is not None}
    estimator = KINDS[target](**arguments, training=training, validation=validation, random_state=seed)
    columns = {"columns": ["x", "z"], **({"target": target} if target else {})}
    return estimator.fit(read(file, id="id", time="t", **columns)).trained_.model


def by_options(file, target, settings, more, validation, seed, folder):
    words = ["--target", target] if target else ["--forecast", 2]
    for name, value in {**settings, **more}.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, value]
    words += ["--split", f"{1 - validation},{validation},0", "--seed", seed, "--id", "id", "--time", "t"]
    chronode("train", file, *words, "--columns", "x,z", "-o", folder)
    return load(folder).model


def by_yaml(file, target, settings, more, validation, seed, folder):
    data = {
        "source": str(file),
        "id": "id",
        "time": "t",
        "columns": ["x", "z"],
        "split": [1 - validation, validation, 0],
    }
    sections = {
        "data": data | ({"target": target} if target else {"horizon": 2}),
        "model": {},
        "training": {"seed": seed},
    }
    for name, value in {**settings, **more}.items():
        if value is not None:
            sections[next((part for part in SECTIONS if name in SECTIONS[part]), "training")][name] = value
    (folder.parent / "config.yaml").write_text(yaml.safe_dump(sections))
    chronode("train", "--config", folder.parent / "config.yaml", "-o", folder)
    return load(folder).model


@pytest.mark.parametrize("case", range(20))
def test_all_front_ends_train_the_same_weights(file, tmp_path, case):
    asked = drawn(case)
    wanted = by_estimator(file, *asked).state_dict()
    for model in (by_options(file, *asked, tmp_path / "options"), by_yaml(file, *asked, tmp_path / "yaml")):
        weights = model.state_dict()
        assert weights.keys() == wanted.keys()
        differing = [name for name in wanted if not np.array_equal(weights[name], wanted[name], equal_nan=True)]
        assert not differing, (asked, differing)
