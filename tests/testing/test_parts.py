"""`check_flow`, `check_solver`, `check_metric` and `check_exporter`: sound parts pass, and each fault is found."""

import pytest
import torch

from chronode.data import from_list
from chronode.export import Exporter, Graph, register_exporter
from chronode.export._export import _exporters, _Onnx
from chronode.nn import Approach, Flow, register_flow, register_solver
from chronode.nn._flows import FLOWS
from chronode.nn._solvers import FIXED, FLOW_NAMES, NAMES
from chronode.testing import check_exporter, check_flow, check_metric, check_solver
from chronode.training import LOWER_IS_BETTER, OWN_METRICS, Metric, Objective, Settings, fit, register_metric
from chronode.training._metrics import CLASS_METRICS, VALUE_METRICS


@pytest.fixture(autouse=True)
def registries():
    """Registries are restored after each test."""
    metrics = (OWN_METRICS, LOWER_IS_BETTER, CLASS_METRICS, VALUE_METRICS)
    before = [(held, held.copy()) for held in (FLOWS, FIXED, NAMES, FLOW_NAMES, *metrics, _exporters)]
    yield
    for held, old in before:
        held.clear()
        (held.extend if isinstance(held, list) else held.update)(old)


def failed(check, part):
    """The checks that a part fails."""
    with pytest.raises(AssertionError) as raised:
        check(part)
    return {line.split(":")[0].strip() for line in str(raised.value).splitlines()[1:]}


# ---- flows and solvers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOWS)
def test_built_in_flows_keep_the_contract(name):
    check_flow(name)


@pytest.mark.parametrize("name", FIXED)
def test_built_in_solvers_keep_the_contract(name):
    check_solver(name)


class Mixing(Flow):
    def forward(self, h, drive=None):
        return h.mean(0, keepdim=True) - h if drive is None else h.mean(0, keepdim=True) - h + drive


class Writing(Flow):
    def forward(self, h, drive=None):
        h += 1
        return -h


class Narrow(Flow):
    def forward(self, h, drive=None):
        return -h[:, :1]


class Jumping(Flow):
    def forward(self, h, drive=None):
        return -h if drive is None else drive - h

    def advance(self, h, step, drive=None):
        return h + 2 * step * self(h, drive)


class Growing(Approach):
    def approach(self, h, drive=None):
        return torch.zeros_like(h), -torch.ones_like(h)


class Detached(Flow):
    def forward(self, h, drive=None):
        return -h.detach() * h if drive is None else drive - h.detach() * h


@pytest.mark.parametrize(
    ("flow", "fault"),
    [
        (Mixing, "flow_rows"),
        (Writing, "flow_shapes"),
        (Narrow, "flow_shapes"),
        (Jumping, "flow_short_steps"),
        (Growing, "flow_long_steps"),
        (Detached, "flow_gradients"),
    ],
)
def test_the_faults_of_a_flow_are_found(flow, fault):
    register_flow("faulty")(flow)
    assert fault in failed(check_flow, "faulty")


@pytest.mark.parametrize(
    ("advance", "fault"),
    [
        (lambda f, h, step: h + 0.9 * step * f(h), "converges"),
        (lambda f, h, step: h + (step + 1e-3) * f(h), "keeps_the_state"),
        (lambda f, h, step: h + step.mean() * f(h), "has_own_times"),
        (lambda f, h, step: h + step.detach() * f(h), "solver_gradients"),
    ],
)
def test_the_faults_of_a_solver_are_found(advance, fault):
    register_solver("faulty")(advance)
    assert fault in failed(check_solver, "faulty")


def test_names_are_given_once():
    with pytest.raises(ValueError, match="gru"):
        register_flow("gru")(Mixing)
    with pytest.raises(ValueError, match="exponential"):
        register_solver("exponential")(lambda f, h, step: h)


# ---- metrics -----------------------------------------------------------------------------------------------


class Rate(Metric):
    """Share of correct classes: sound; its subclasses have one fault each."""

    name = "rate"

    def __init__(self, num_outputs, positive=1):
        super().__init__(num_outputs, positive)
        self.right, self.count = 0.0, 0

    def update(self, output, target):
        self.right += int((output.argmax(-1) == target).sum())
        self.count += len(target)

    def compute(self):
        return self.right / self.count


class MeanOfBatches(Rate):
    def update(self, output, target):
        self.right += float((output.argmax(-1) == target).double().mean())
        self.count += 1


class FirstHalf(Rate):
    def update(self, output, target):
        super().update(output[: len(output) // 2 + 1], target[: len(output) // 2 + 1])


class Reversed(Rate):
    lower_is_better = True


class Percent(Rate):
    def compute(self):
        return 100 * super().compute()


class Overwriting(Rate):
    def update(self, output, target):
        super().update(output, target)
        output.zero_()


class CountsUnknown(Metric):
    name, kind, lower_is_better = "counts_unknown", "value", True

    def __init__(self, num_outputs, positive=1):
        super().__init__(num_outputs, positive)
        self.total, self.count = 0.0, 0

    def update(self, output, target):
        self.total += float((output - target).abs().nansum())
        self.count += target.numel()

    def compute(self):
        return self.total / self.count


def test_a_sound_metric_passes_and_training_takes_it():
    check_metric(register_metric(Rate))
    s = from_list([[float(i % 2)] * 3 for i in range(20)], target=["ab"[i % 2] for i in range(20)])
    trained = fit(s, "gru", Settings(epochs=1, metric="rate"))
    scores = trained.evaluate(s)
    assert scores["rate"] == pytest.approx(scores["accuracy"])
    assert trained.objective.metric == "rate"
    with pytest.raises(ValueError, match="rate"):  # of classes, not of numbers
        Objective("value", 1, False, "mse", ("mse", "rate"), "squared")


@pytest.mark.parametrize(
    ("metric", "fault"),
    [
        (MeanOfBatches, "no_batches"),
        (FirstHalf, "no_batches"),
        (Reversed, "knows_perfection"),
        (Percent, "knows_perfection"),
        (Overwriting, "leaves_tensors"),
        (CountsUnknown, "ignores_unknown"),
    ],
)
def test_the_faults_of_a_metric_are_found(metric, fault):
    register_metric(metric)
    assert fault in failed(check_metric, metric)


def test_a_metric_that_is_not_registered_is_found():
    assert "is_known" in failed(check_metric, Rate)


def test_built_in_metrics_keep_their_names():
    with pytest.raises(ValueError, match="accuracy"):
        register_metric(type("Other", (Rate,), {"name": "accuracy"}))


# ---- formats of export -------------------------------------------------------------------------------------


def test_a_format_of_export_is_checked_by_running_it():
    @register_exporter
    class Copy(_Onnx):
        format = "copy"

    check_exporter(Copy)

    @register_exporter
    class Wrong(_Onnx):
        format = "wrong"

        def write(self, graph: Graph, folder, **options):
            (folder / "more.txt").write_text("not listed")
            return super().write(graph, folder, **options)

        def runner(self, folder, **options):
            inner = super().runner(folder, **options)
            return type("Doubled", (), {"run": lambda self, graph, series: 2 * inner.run(graph, series)})()

    assert failed(check_exporter, Wrong) == {"names_its_files", "same_numbers"}


def test_a_format_needs_a_new_name():
    with pytest.raises(ValueError, match="onnx"):
        register_exporter(type("Other", (Exporter,), {"format": "onnx"}))
