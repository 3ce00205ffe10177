import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from chronode.report.run_plots import plot_confusion, plot_history, plot_residuals


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved, to be asked what is in them."""
    figures, real = [], Figure.savefig

    def savefig(figure, *args, **settings):
        figures.append(figure)
        real(figure, *args, **settings)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return figures


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines}


def assert_png_with_content(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert imread(path)[..., :3].std() > 0.01


ROWS = [
    {"epoch": e, "loss": 1 / e, "valid_loss": None if e == 3 else 2 / e, "accuracy": 1 - 1 / e} for e in range(1, 7)
]


def test_history_shows_both_losses_the_metric_and_the_best_epoch(tmp_path, drawn):
    path = plot_history(ROWS, tmp_path / "a" / "curves.png", metric="accuracy", best_epoch=5, title="mmrnn")
    assert_png_with_content(path)
    loss, score = drawn[0].axes
    assert set(lines_of(loss)) == {"training", "validation", "best epoch (5)"}
    assert set(lines_of(score)) == {"validation", "best epoch (5)"}
    np.testing.assert_allclose(lines_of(loss)["training"].get_ydata(), [row["loss"] for row in ROWS])
    np.testing.assert_allclose(lines_of(loss)["validation"].get_ydata(), [2, 1, math.nan, 0.5, 0.4, 1 / 3])
    np.testing.assert_allclose(lines_of(score)["validation"].get_ydata(), [row["accuracy"] for row in ROWS])
    assert list(lines_of(score)["best epoch (5)"].get_xdata()) == [5, 5]
    assert [axes.get_ylabel() for axes in (loss, score)] == ["loss", "accuracy"]
    assert drawn[0].get_suptitle() == "mmrnn"


@pytest.mark.parametrize("metric", [None, "loss"])
def test_history_without_another_metric_is_one_panel(tmp_path, drawn, metric):
    assert_png_with_content(plot_history(ROWS, tmp_path / "c.png", metric=metric))
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["loss"]


@pytest.mark.parametrize("rows", [[], ROWS[:1], [{"epoch": 1, "loss": math.nan}]])
def test_history_of_little_or_nothing_is_a_picture_too(tmp_path, rows):
    assert_png_with_content(plot_history(rows, tmp_path / "c.png"))


def test_confusion_shows_counts_in_their_cells_and_shares_in_colour(tmp_path, drawn):
    counts = np.array([[3, 1, 0], [0, 0, 0], [2, 0, 2]])
    assert_png_with_content(plot_confusion(counts, ["a", "b", "c"], tmp_path / "m.png"))
    axes = drawn[0].axes[0]
    written = {tuple(text.get_position()): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "3", (1, 0): "1", (0, 2): "2", (2, 2): "2"}
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25, 0], [0, 0, 0], [0.5, 0, 0.5]])
    assert drawn[0].get_suptitle() == "Confusion matrix: 62.5% of 8 right"


def test_confusion_of_many_long_names_keeps_them_apart_and_inside(tmp_path, drawn):
    names = [f"a class with quite a long name number {i}" for i in range(30)]
    plot_confusion(np.eye(30, dtype=int) * 1234, names, tmp_path / "m.png")
    axes = drawn[0].axes[0]
    labels = axes.get_yticklabels() + axes.get_xticklabels()
    assert len({label.get_text() for label in labels}) == 30
    whole = drawn[0].bbox
    for label in labels:
        box = label.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= whole.x1 and box.y1 <= whole.y1
    cell = axes.transData.transform([[0, 0], [1, 0]])
    assert max(text.get_window_extent().width for text in axes.texts) < cell[1, 0] - cell[0, 0]


def test_a_matrix_of_another_size_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"matrix has the shape \(2, 2\), but there are 3 classes"):
        plot_confusion(np.eye(2), ["a", "b", "c"], tmp_path / "m.png")


def test_residuals_show_every_pair_and_their_differences(tmp_path, drawn):
    true = np.arange(40.0).reshape(10, 2, 2)
    predicted = true + np.array([1.0, -2.0])
    predicted[0, 0, 0] = math.nan
    assert_png_with_content(plot_residuals(predicted, true, ["load", "wind"], tmp_path / "r.png", "kW"))
    load, load_rest, wind, wind_rest = drawn[0].axes
    np.testing.assert_allclose(load.collections[0].get_offsets()[:, 0], np.arange(2.0, 40, 2))
    np.testing.assert_allclose(wind.collections[0].get_offsets()[:, 1], np.arange(1.0, 40, 2) - 2)
    assert load_rest.get_title() == "mean 1, RMSE 1, n = 19" and wind_rest.get_title() == "mean -2, RMSE 2, n = 20"
    assert sum(bar.get_height() for bar in wind_rest.patches) == 20
    assert load.get_xlabel() == "true load (kW)" and wind_rest.get_xlabel() == "predicted − true wind (kW)"


@pytest.mark.parametrize("shift", [0.0, 0.1, 1e-6])
def test_residuals_that_are_all_the_same_are_a_bar_one_can_see(tmp_path, drawn, shift):
    true = np.linspace(0, 10, 30)
    plot_residuals(true + shift, true, ["y"], tmp_path / "r.png")
    axes = drawn[0].axes[1]
    bars = [bar for bar in axes.patches if bar.get_height()]
    low, high = axes.get_xlim()
    assert sum(bar.get_height() for bar in bars) == 30
    assert bars[0].get_width() > (high - low) / 30


def test_no_predictions_at_all_are_a_picture_too(tmp_path):
    assert_png_with_content(plot_residuals([math.nan], [1.0], ["y"], tmp_path / "r.png"))


def test_shapes_that_do_not_match_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"predicted has the shape \(3,\), true \(4,\)"):
        plot_residuals(np.ones(3), np.ones(4), ["y"], tmp_path / "r.png")
    with pytest.raises(ValueError, match="names has 3 targets, but the last axis of predicted is 2"):
        plot_residuals(np.ones((6, 2)), np.ones((6, 2)), ["a", "b", "c"], tmp_path / "r.png")
