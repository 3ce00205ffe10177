"""Pages of comparisons and searches: whole and safe for results of every kind, with the numbers they were made of."""

import re

import pytest
from html_checks import ATTACK, check_html

from chronode.report.many_pages import write_comparison, write_search
from chronode.search import Comparison, RunResult, Trial


def results(model, scores, curve=(0.2, 0.3)):
    found = [{"accuracy": score, "loss": 1 - score} for score in scores]
    return [RunResult(model, seed, f"runs/{model}", "accuracy", test, curve) for seed, test in enumerate(found)]


def test_a_comparison_with_runs_of_different_length_gaps_and_many_models(tmp_path):
    found = [one for n in range(10) for one in results(f"model {n}", [0.1 * n, 0.5], curve=(None, 0.2, 0.3))]
    found += [RunResult("short", 0, "", "accuracy", {"accuracy": 0.3}, (0.2,), baselines={"mean": {"accuracy": 0.1}})]
    found += results("no curve", [0.4], curve=(None, None))
    found += results(ATTACK, [0.4])
    found += [RunResult("bad", 0, "", fault=f"the loss is not finite {ATTACK}")]
    comparison = Comparison.of(found)
    text = write_comparison(comparison, tmp_path / "c.html", title=ATTACK, command="chronode compare").read_text()
    seen = check_html(text)
    assert text.count("<script") == 1  # the one that sorts
    for row in comparison.rows:
        assert row.model in seen
    assert "baseline: mean" in seen
    assert "the loss is not finite" in seen
    first = re.search(r'<tr class="best">(.*?)</tr>', text).group(1)
    assert comparison.rows[0].model in first
    assert f'data-v="{comparison.rows[0].score("accuracy")[0]!r}"' in first
    check_html(comparison._repr_html_())


def test_a_comparison_without_any_result(tmp_path):
    comparison = Comparison.of([RunResult("a", 0, "", fault="no memory")])
    assert "no memory" in check_html(write_comparison(comparison, tmp_path / "c.html", title="none").read_text())


@pytest.mark.parametrize("importances", [{}, {"alpha": 0.3, "learning_rate": 0.7}])
def test_a_search_with_trials_of_every_state(tmp_path, importances):
    states = [("complete", 0.5), ("pruned", None), ("fail", None), ("complete", 0.7), ("running", None)]
    trials = [
        Trial(n, state, value, {"learning_rate": 10.0**-n, "cell": ATTACK, "on": n > 2}, 1, None if n == 4 else 1.0)
        for n, (state, value) in enumerate(states)
    ]
    path = write_search(
        *(trials, "accuracy", importances, tmp_path / "s.html"),
        title="five",
        lower_is_better=False,
        best="model:\n  hidden: 4\n",
        test={"accuracy": 0.65, "loss": None},
        command="chronode sweep",
    )
    text = path.read_text()
    seen = check_html(text)
    for words in ("best so far", "pruned", "accuracy over learning_rate", "0.65", "hidden: 4"):
        assert words in seen, words
    assert ("Importance of the settings" in seen) == bool(importances)
    best = re.search(r'<tr class="best">(.*?)</tr>', text).group(1)
    assert 'data-v="3"' in best
    assert 'data-v="0.7"' in best


def test_a_search_without_a_complete_trial(tmp_path):
    trials = [Trial(0, "pruned", None, {"alpha": 1.0}, 1, 1.0)]
    path = write_search(trials, "rmse", {}, tmp_path / "s.html", title="none", lower_is_better=True)
    assert "pruned" in check_html(path.read_text())
