"""Arenas with published results: chronode with its defaults beside other methods in the same run.

    CHRONODE_DATA_MIRROR=... python benchmarks/arena.py ucr [SET ...]
    CHRONODE_DATA_MIRROR=... python benchmarks/arena.py p12 [1 2 ...]
    CHRONODE_DATA_MIRROR=... python benchmarks/arena.py physionet
    python benchmarks/arena.py memory [TASK ...]
    python benchmarks/arena.py page

Every figure is stored in benchmarks/arena.json as soon as it is known, and what is there is not computed again
(`--again COLUMN` does). `--only COLUMN` leaves out the other methods. `page` writes docs/arena.md and its pictures,
which every other command does at its end.

- `ucr`: 61 sets of the UCR archive, the default split, accuracy; the smallest sets first.
- `p12`: PhysioNet 2012, the five splits that Raindrop published, AUROC and AUPRC. All methods are fitted to the
  training and validation parts together; chronode holds out series of its own.
- `physionet`: set a for training, sets b and c for test.
- `memory`: generated series whose target depends on events far back; share of correct predictions.

CPU seconds are those of fitting and predicting in one thread. Functions that numba compiles are compiled before.
"""

import argparse
import csv
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from arena_memory import TASKS, correct
from arena_page import write_page

from chronode.data import concat
from chronode.estimators import SequenceClassifier, SequenceRegressor
from chronode.judge import summaries

HERE = Path(__file__).parent
RESULTS = HERE / "arena.json"
CHRONODE, NETWORKS = "chronode", "networks alone"
SPLITS = ("1", "2", "3", "4", "5")


def mirror(name):
    """Folder of a data set in the mirror."""
    return Path(os.environ["CHRONODE_DATA_MIRROR"]) / name


# ---- methods ------------------------------------------------------------------------------------------------


def features(s):
    """Summaries of all series, those with at least two values among them."""
    found = []
    for first in range(0, len(s), 256):
        batch = s[first : first + 256].batch()
        found.append(summaries(batch.x, batch.lengths, batch.dt, batch.observed).numpy())
    return np.concatenate(found)


def on_summaries(model, train, test):
    """Fits a model of scikit-learn to summaries; returns probabilities of the classes."""
    inputs, new = features(train), features(test)
    seen = np.array([len(np.unique(column[np.isfinite(column)])) > 1 for column in inputs.T])
    labels = np.array(train.classes)[train.target.values]
    fitted = model.fit(inputs[:, seen], labels)
    at = [list(fitted.classes_).index(name) for name in train.classes]
    return fitted.predict_proba(new[:, seen])[:, at], {}


def boosting(train, test):
    """Gradient boosting of scikit-learn with its defaults."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return on_summaries(HistGradientBoostingClassifier(random_state=0), train, test)


def logistic(train, test):
    """Logistic regression of scikit-learn; missing summaries are the mean."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = SimpleImputer(), StandardScaler(), LogisticRegression(C=0.01, max_iter=1000)
    return on_summaries(make_pipeline(*steps), train, test)


def minirocket(train, test):
    """MiniRocket of aeon, which needs series of one length."""
    from aeon.classification.convolution_based import MiniRocketClassifier

    inputs, new = (np.stack([s[i : i + 1].values.T for i in range(len(s))]).astype(float) for s in (train, test))
    fitted = MiniRocketClassifier(random_state=0).fit(inputs, np.array(train.classes)[train.target.values])
    at = [list(fitted.classes_).index(name) for name in train.classes]
    return fitted.predict_proba(new)[:, at], {}


def defaults(train, test, **options):
    """Fits chronode without any arguments; facts are the title of the model and why it was chosen."""
    classifier = SequenceClassifier(random_state=0, n_threads=1, **options).fit(train)
    title = classifier.model_.title
    facts = {"model": title, "network": not classifier.model_.is_linear}
    facts["reason"] = "" if classifier.race_ is None else classifier.race_.reason
    at = [list(map(str, classifier.classes_)).index(str(name)) for name in train.classes]
    return classifier.predict_proba(test)[:, at], facts


def networks(train, test):
    """Fits a network alone, without a linear model, summaries or trees."""
    return defaults(train, test, start="none")


# ---- arenas -------------------------------------------------------------------------------------------------


def ucr_sets():
    """Names of the sets, the smallest first."""
    files = sorted(mirror("ucr").glob("*/*_TRAIN.tsv"), key=lambda file: file.stat().st_size)
    return [file.parent.name for file in files]


def ucr(name):
    """Returns the training and test series of a set; values after the end of shorter series are missing there."""
    from chronode.data import from_list

    parts = []
    for part in ("TRAIN", "TEST"):
        table = np.genfromtxt(mirror("ucr") / name / f"{name}_{part}.tsv", delimiter="\t")
        series = [row[1 : 1 + np.flatnonzero(~np.isnan(row[1:])).max() + 1, None] for row in table]
        parts.append((series, [f"{label:g}" for label in table[:, 0]]))
    classes = sorted({label for _, labels in parts for label in labels})
    return [from_list(series, target=labels, classes=classes) for series, labels in parts]


def stays():
    """Returns all stays of PhysioNet 2012."""
    from chronode.lab.tasks import physionet2012

    return concat([physionet2012.read(mirror("physionet2012"), name) for name in "abc"])


def p12(split):
    """Returns the training and validation parts together, and the test part of a published split."""
    from chronode.lab.tasks import physionet2012

    with open(mirror("physionet2012") / "p12_splits.csv", newline="") as file:
        part = {int(row["RecordID"]): row[f"split{split}"] for row in csv.DictReader(file)}
    s = stays()
    parts = np.array([part.get(int(stay), "") for stay in s.ids])
    return physionet2012.bounded(s[np.isin(parts, ("train", "valid"))], s[parts == "test"])


def physionet(_):
    """Returns set a, and sets b and c."""
    from chronode.lab.tasks import physionet2012

    s = stays()
    return physionet2012.bounded(s[:4000], s[4000:])


def accuracy(chances, test):
    """Share of correct predictions."""
    return {"accuracy": float((chances.argmax(1) == test.target.values).mean())}


def ranking(chances, test):
    """Areas under the curves of the second class."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    truth, chance = test.target.values, chances[:, 1]
    return {"auroc": float(roc_auc_score(truth, chance)), "auprc": float(average_precision_score(truth, chance))}


PEERS = {CHRONODE: defaults, "boosting": boosting, "logistic": logistic}
ARENAS = {
    "ucr": (ucr_sets, ucr, {**PEERS, "MiniRocket": minirocket}, accuracy),
    "p12": (lambda: SPLITS, p12, {**PEERS, NETWORKS: networks}, ranking),
    "physionet": (lambda: ("a",), physionet, {**PEERS, NETWORKS: networks}, ranking),
}


def classified(train, test, method, score):
    """Returns the metrics, the CPU seconds and the facts of a method."""
    began = time.process_time()
    chances, facts = method(train, test)
    return {**score(chances, test), "cpu": round(time.process_time() - began, 2), **facts}


def remembered(task):
    """Returns the result of chronode with its defaults on a memory task."""
    train, test = TASKS[task]()
    began = time.process_time()
    estimator = (SequenceRegressor if train.target.classes is None else SequenceClassifier)(random_state=0, n_threads=1)
    estimator.fit(train)
    right = correct(task, estimator.predict(test), test)
    facts = {"model": estimator.model_.title, "network": not estimator.model_.is_linear}
    return {"accuracy": float(right.mean()), "cpu": round(time.process_time() - began, 2), **facts}


def measure(arena, names, only, stored, save):
    """Measures what is missing, of all methods or of one; `stored` has the results of the arena, by name and column."""
    if arena == "memory":
        for task in names or TASKS:
            save(task, CHRONODE, lambda task=task: remembered(task))
        return
    listed, load, methods, score = ARENAS[arena]
    names = names or listed()
    methods = {column: method for column, method in methods.items() if only in (None, column)}
    if "MiniRocket" in methods and any("MiniRocket" not in stored.get(name, {}) for name in names):
        _compile()
    for name in names:
        parts = None
        for column, method in methods.items():

            def result(method=method, name=name):
                nonlocal parts
                parts = parts or load(name)
                return classified(*parts, method, score)

            save(name, column, result)


def _compile():
    """Lets numba compile MiniRocket, which counts for no set."""
    from aeon.classification.convolution_based import MiniRocketClassifier

    X = np.random.default_rng(0).normal(size=(8, 1, 30))
    MiniRocketClassifier(random_state=0).fit(X, np.arange(8) % 2).predict(X)


def main():
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("arena", choices=[*ARENAS, "memory", "page"])
    options.add_argument("names", nargs="*")
    options.add_argument("--again", help="column to measure again")
    options.add_argument("--only", help="column to measure, without the others")
    asked = options.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}

    def save(name, column, result):
        row = found.setdefault(asked.arena, {}).setdefault(name, {})
        if column in row and column != asked.again:
            return
        try:
            row[column] = result()
        except ValueError as error:  # series of several lengths, for which a peer has no method
            row[column] = {"fault": str(error).splitlines()[0]}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(asked.arena, name, column, row[column], flush=True)

    if asked.arena != "page":
        measure(asked.arena, asked.names, asked.only, found.get(asked.arena, {}), save)
    write_page(found)


if __name__ == "__main__":
    main()
