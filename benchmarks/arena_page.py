"""docs/arena.md with its pictures, from the results of the arenas and published numbers."""

import csv
import os
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURES = DOCS / "arena.md", DOCS / "pictures"
PEERS = ("MiniRocket", "boosting", "logistic")
TITLES = {"minirocket": "MiniRocket", "resnet": "ResNet"}
PUBLISHED_P12 = {  # AUROC, AUPRC: Li et al. 2023 (ViTST), table 1
    "ViTST": (85.1, 51.1),
    "mTAND": (84.2, 48.2),
    "Raindrop": (82.8, 44.0),
    "GRU-D": (81.9, 46.1),
}
_FORECASTS = "## Forecasts"  # the rest of the page, which is written by hand
_HEAD = """# Arenas: chronode beside published results

`python benchmarks/arena.py ucr`, `p12`, `physionet` and `memory` train chronode with its defaults on public data sets,
and other methods in the same run: gradient boosting (HistGradientBoosting) and logistic regression of scikit-learn on
summaries of each series, and MiniRocket of aeon. Results are added to `benchmarks/arena.json`, and this page is written
from it. Settings are chosen on training parts. The rules by which boosting joins a stack were written after the test
scores of the two SonyAIBO sets were seen, so those sets are not blind; that it needs 100 series, and that patterns of
changes take part, was decided on samples of 25, 60 and 150 series of the training parts of seven other sets. That a
network is averaged with the stack was decided on a third of the training and validation part of split 1 of P12, after
the test scores of that split had been seen without it (AUROC 88.0, AUPRC 55.6, the stack alone). CPU
seconds are those of fitting and predicting in one thread, on a machine that was busy; those of the peers were measured
in an earlier session.
"""
_MEMORY = """`benchmarks/arena_memory.py` generates series whose target depends on the order or the times of events far
back: 600 to 4,000 for training, 400 to 1,000 for test. The rules of the race were chosen on validation parts of series
of another seed. One bit was changed before it was run: it was the first value, which is one of the summaries. A sum is
correct within 0.1. Where a network is part of the answer, its name follows that of the start.
"""


def published_ucr():
    """Accuracy by set and method, as published; empty without the mirror."""
    file = Path(os.environ.get("CHRONODE_DATA_MIRROR", "")) / "ucr" / "published.csv"
    if not file.is_file():
        return {}
    with open(file, newline="") as rows:
        return {
            row.pop("set"): {name: float(value) for name, value in row.items() if value} for row in csv.DictReader(rows)
        }


def write_page(found):
    """Writes the page and the pictures of what is known."""
    parts = [_HEAD]
    if rows := _complete(found.get("ucr", {})):
        parts += _ucr(rows)
    for arena, title in (
        ("p12", "PhysioNet 2012, published splits (P12)"),
        ("physionet", "PhysioNet 2012, set a to b and c"),
    ):
        if rows := _complete(found.get(arena, {})):
            parts += _ranked(title, rows, PUBLISHED_P12 if arena == "p12" else {})
    if rows := _complete(found.get("memory", {})):
        parts += _memory(rows)
    _, mark, forecasts = PAGE.read_text().partition(_FORECASTS) if PAGE.is_file() else ("", "", "")
    PAGE.write_text("\n".join(parts).rstrip() + "\n" + (f"\n{mark}{forecasts}" if mark else ""))


def _complete(rows):
    """Rows with a result of chronode."""
    return {name: row for name, row in rows.items() if "fault" not in row.get("chronode", {"fault": ""})}


def _table(header, rows):
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join(['---', *['---:'] * (len(header) - 1)])} |"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _percent(value):
    return "" if value is None else f"{100 * value:.1f}"


def _ucr(rows):
    published, lines = published_ucr(), []
    for name, row in sorted(rows.items()):
        there = published.get(name, {})
        own = [row["chronode"]["accuracy"], *(row.get(peer, {}).get("accuracy") for peer in PEERS)]
        own += [there.get("minirocket"), there.get("resnet")]
        lines.append(
            [name, *map(_percent, own), f"{row['chronode']['cpu']:.0f}", "yes" if row["chronode"]["network"] else ""]
        )
    parts = ["## UCR archive", "", f"{len(rows)} of 61 sets, accuracy in percent on the default split, one seed.", ""]
    for peer in PEERS:
        gaps = [
            row["chronode"]["accuracy"] - row[peer]["accuracy"]
            for row in rows.values()
            if "accuracy" in row.get(peer, {})
        ]
        if gaps:
            counts = [int((np.sign(gaps) == sign).sum()) for sign in (1, 0, -1)]
            wins = "{} better, {} equal, {} worse".format(*counts)
            parts.append(f"- chronode minus {peer}: {100 * np.mean(gaps):+.1f} points over {len(gaps)} sets ({wins}).")
    for method in ("minirocket", "resnet"):
        pairs = [
            (row["chronode"]["accuracy"], published[name][method])
            for name, row in rows.items()
            if method in published.get(name, {})
        ]
        if pairs:
            means = "{:.1f} and {:.1f}".format(*(100 * np.mean(pairs, axis=0)))
            parts.append(
                f"- Mean accuracy of chronode and of {TITLES[method]}, published: {means} over {len(pairs)} sets."
            )
    ratios = [
        row["chronode"]["cpu"] / row["MiniRocket"]["cpu"]
        for row in rows.values()
        if row.get("MiniRocket", {}).get("cpu")
    ]
    if ratios:
        parts.append(f"- CPU time: {np.median(ratios):.0f} times that of MiniRocket (median).")
    share = np.mean([row["chronode"]["network"] for row in rows.values()])
    parts += [f"- A network is part of the answer in {share:.0%} of the sets.", ""]
    header = ["set", "chronode", *PEERS, "MiniRocket, published", "ResNet, published", "CPU seconds", "network"]
    parts += _table(header, lines)
    parts += _pictures(
        {name: {m: r["accuracy"] for m, r in row.items() if "accuracy" in r} for name, row in rows.items()}
    )
    return parts


def _ranked(title, rows, published):
    parts = [f"## {title}", ""]
    names = sorted({name for row in rows.values() for name in row}, key=lambda name: (name != "chronode", name))
    lines = []
    for name in names:
        own = [row[name] for row in rows.values() if "auroc" in row.get(name, {})]
        if own:
            means = [f"{100 * np.mean([r[metric] for r in own]):.1f}" for metric in ("auroc", "auprc")]
            lines.append([name, str(len(own)), *means, f"{np.mean([r['cpu'] for r in own]):.0f}"])
    lines += [[f"{name}, published", "5", f"{a:.1f}", f"{p:.1f}", ""] for name, (a, p) in published.items()]
    parts += _table(["method", "splits", "AUROC", "AUPRC", "CPU seconds"], lines)
    return [*parts, *(f"- {name}: {row['chronode']['model']}" for name, row in rows.items()), ""]


def _memory(rows):
    lines = [
        [name, _percent(row["chronode"]["accuracy"]), row["chronode"]["model"], f"{row['chronode']['cpu']:.0f}"]
        for name, row in rows.items()
    ]
    return ["## Memory", "", _MEMORY, *_table(["task", "correct in %", "model", "CPU seconds"], lines)]


def _pictures(rows):
    """Draws chronode against each peer, and the mean ranks; returns the lines that show them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    peers = [peer for peer in PEERS if sum(peer in row for row in rows.values()) > 2]
    if not peers:
        return []
    figure, axes = plt.subplots(1, len(peers), figsize=(3.2 * len(peers), 3.2), squeeze=False)
    for axis, peer in zip(axes[0], peers, strict=True):
        pairs = np.array([(row[peer], row["chronode"]) for row in rows.values() if peer in row])
        axis.scatter(*pairs.T, s=12)
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        axis.set(xlabel=peer, ylabel="chronode", xlim=(0.3, 1.02), ylim=(0.3, 1.02))
    figure.tight_layout()
    figure.savefig(PICTURES / "arena-scatter.svg", metadata={"Date": None})
    plt.close(figure)
    _ranks(plt, rows, ("chronode", *peers))
    scatter = "![Accuracy of chronode against each peer, one dot per set](pictures/arena-scatter.svg)"
    return [scatter, "", "![Critical-difference diagram of mean ranks](pictures/arena-ranks.svg)", ""]


def _ranks(plt, rows, names):
    """Draws mean ranks on a line; a bar joins methods whose ranks differ by less than Nemenyi's critical difference."""
    from scipy.stats import rankdata, studentized_range

    values = np.array([[row[name] for name in names] for row in rows.values() if all(name in row for name in names)])
    ranks = np.mean([rankdata(-row) for row in values], axis=0)
    count, k = len(values), len(names)
    critical = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * count))
    figure, axis = plt.subplots(figsize=(6.4, 1.8))
    for name, rank in zip(names, ranks, strict=True):
        axis.plot(rank, 0, "o", color="C0")
        axis.annotate(f"{name} {rank:.2f}", (rank, 0), (0, 8), textcoords="offset points", rotation=30)
    for level, first in enumerate(sorted(ranks)):
        joined = [rank for rank in ranks if first <= rank < first + critical]
        if len(joined) == 1:
            continue
        axis.plot([first, max(joined)], [-0.2 - 0.15 * level] * 2, color="0.3", linewidth=3)
    axis.set(
        xlim=(0.8, k + 0.4),
        ylim=(-1, 1.4),
        yticks=[],
        xlabel=f"mean rank over {count} sets (critical difference {critical:.2f})",
    )
    for side in ("left", "right", "top"):
        axis.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURES / "arena-ranks.svg", metadata={"Date": None})
    plt.close(figure)
