"""`export`: writes a trained model as files that do not require Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..data import Scaler
from ..model import SequenceModel
from ..runs import load
from ..settings import one_of, whole
from ..storage import check_new_folder
from ..system import load_installed
from ..training import Trained
from ._deployment import DEFAULT_NAME, LOWEST_OPSET, Deployment, Graph
from ._packages import PACKAGES, SOURCES, arrange

if TYPE_CHECKING:
    from ._verify import Runner, Verification

WEIGHTS = ("float32", "int8")
MATH = ("library", "builtin")
_NEWEST_OPSET = 26  # that a released onnxruntime supports
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# A header of this name would hide the one of the C library; check.c is another file of the export.
_TAKEN = re.compile(
    "assert|check|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef|"
    "stdint|stdio|stdlib|string|tgmath|time|wchar|wctype"
)

Kind = TypeVar("Kind", bound="type[Exporter]")


class Exporter:
    """Base class for formats of `export`; `register_exporter` adds one.

    An exporter writes one step of a model, from a raw observation to a prediction, as files of its format, and runs
    them again. `chronode.testing.check_exporter` checks the contract:

    - All files are in the folder, and `write` returns their names.
    - `runner` computes the predictions of the model from the files alone, to within float32 rounding: for any gaps,
      missing values, classes and values, and for forecasts from windows.
    - A model that the format cannot express is a ValueError that says why, and nothing is written.

    Attributes:
        format: Short name of the format.
        options: Default values of the options of `export` that the format has.

    Example:
        >>> import json
        >>> class Facts(Exporter):
        ...     format = "facts"
        ...
        ...     def write(self, graph, folder):
        ...         (folder / "facts.json").write_text(json.dumps(graph.facts()))
        ...         return ("facts.json",), {}
        >>> Facts().format
        'facts'
    """

    format: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}

    def write(self, graph: Graph, folder: Path, **options: Any) -> tuple[tuple[str, ...], dict[str, str]]:
        """Writes the files of a model; returns their names, and memory and operations of a step by name, if known.

        Args:
            graph: One step of the model: its parts as traced cells, names, units, and the initial state.
            folder: An existing folder.
            options: The options of the format.
        """
        raise NotImplementedError

    def runner(self, folder: Path, **options: Any) -> Runner:
        """Returns an object whose `run(graph, series)` runs the written files; the arguments are those of `write`."""
        raise NotImplementedError


class _C(Exporter):
    format = "c"
    options: ClassVar[Mapping[str, Any]] = {
        "weights": "float32",
        "math": "library",
        "name": DEFAULT_NAME,
        "package": "",
    }

    def write(self, graph: Graph, folder: Path, **options: Any) -> tuple[tuple[str, ...], dict[str, str]]:
        from ._c import write_c

        name, package = options["name"], options["package"]
        model = write_c(graph, folder, int8=options["weights"] == "int8", math=options["math"], name=name)
        rounding = {} if model.rounding is None else {"int8": model.rounding.text()}
        files = arrange(folder, model.files, name, package, graph.deployment) if package else model.files
        return files, {**dict(model.table()), **rounding}

    def runner(self, folder: Path, **options: Any) -> Runner:
        from ._c import CRunner

        return CRunner(folder / SOURCES if options["package"] else folder, name=options["name"])


class _Onnx(Exporter):
    format = "onnx"
    options: ClassVar[Mapping[str, Any]] = {"opset": LOWEST_OPSET}

    def write(self, graph: Graph, folder: Path, **options: Any) -> tuple[tuple[str, ...], dict[str, str]]:
        from ._onnx import write_onnx

        return write_onnx(graph, folder, **options), {}

    def runner(self, folder: Path, **options: Any) -> Runner:
        from ._onnx import OnnxRunner

        return OnnxRunner(folder)


class _Pt2(Exporter):
    format = "pt2"

    def write(self, graph: Graph, folder: Path, **options: Any) -> tuple[tuple[str, ...], dict[str, str]]:
        from ._pt2 import write_pt2

        return write_pt2(graph, folder), {}

    def runner(self, folder: Path, **options: Any) -> Runner:
        from ._pt2 import Pt2Runner

        return Pt2Runner(folder)


_exporters: dict[str, Exporter] = {exporter.format: exporter for exporter in (_C(), _Onnx(), _Pt2())}


def register_exporter(kind: Kind) -> Kind:
    """Makes `export`, and with it the command, know a format; a decorator for subclasses of `Exporter`."""
    before = _exporters.get(kind.format)
    if not kind.format or (before is not None and type(before).__qualname__ != kind.__qualname__):
        raise ValueError(f"{kind.__name__}.format={kind.format!r} must be a new name.")
    _exporters[kind.format] = kind()
    return kind


@dataclass(frozen=True)
class Exported:
    """The result of `export`.

    Attributes:
        folder: The folder of the files.
        format: "c", "onnx" or "pt2", or the name of a registered format.
        files: Names of the files.
        costs: Memory and operations of a step, by name; empty except for C.
        graph: The step that was exported.
        options: Options of the format.
    """

    folder: Path
    format: str
    files: tuple[str, ...]
    costs: dict[str, str]
    graph: Graph
    options: dict[str, Any]

    def runner(self) -> Runner:
        """Returns an object that runs the written files."""
        return _exporters[self.format].runner(self.folder, **self.options)

    def difference(self, batch: int = 3, steps: int = 30, seed: int = 0) -> float:
        """Runs the written files on random irregular series, and returns the largest difference from the model.

        Args:
            batch: Number of series.
            steps: Observations of each.
            seed: Random seed of the series.

        Returns:
            The difference as a multiple of what rounding may cause: 1e-5, for values times the target's deviation.
        """
        from ._verify import irregular, predictions, tolerances

        deployment = self.graph.deployment
        series = irregular(deployment, batch, steps, seed)
        apart = np.abs(self.runner().run(self.graph, series) - predictions(deployment, series)) / tolerances(deployment)
        return float(apart.max())

    def verify(self, trained: Trained, source: str | Path) -> Verification:
        """Compares the written files with the model, on a file of the user.

        Args:
            trained: The model that was exported.
            source: A file that `chronode predict` accepts.
        """
        from ._verify import verify

        return verify(self.graph, self.runner(), trained, str(source))


def export(
    model: SequenceModel | Trained | str | Path,
    folder: str | Path,
    *,
    format: str = "c",
    weights: str = "float32",
    math: str = "library",
    name: str = DEFAULT_NAME,
    package: str = "",
    opset: int = LOWEST_OPSET,
    channels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    scaler: Scaler | None = None,
    unit: str = "step",
    window: int | None = None,
    series: str | int | None = None,
    force: bool = False,
) -> Exported:
    """Writes a trained model as files that do not require Python.

    The export covers the whole path of a raw observation: scaling, missing values, gaps, all layers, the head, and
    class probabilities or values in the target's own units.

    Args:
        model: A run folder, a packed file, `chronode.training.Trained`, or a model.
        folder: Output folder; must be empty unless `force` is set.
        format: "c" (C99), "onnx" (one step, and whole sequences of any length) or "pt2" (torch.export: whole sequences
            of any length), or the name of a registered format.
        weights: "float32", or for C also "int8": 8 bits and a scale per row.
        math: For C: "library" calls math.h, "builtin" needs no library.
        name: For C: beginning of all symbols, macros and file names, so that models can be linked into one program.
        package: For C: "arduino", "esp-idf", "platformio" or "zephyr" writes a library of that tool with an example.
        opset: For ONNX: version of the operator set.
        channels: Names of the inputs. This and the next four arguments are only for models without a run folder.
        classes: Names of the classes, if the outputs are logits.
        scaler: Scaling of inputs, dt and numeric targets.
        unit: Unit of dt; "step" for series without times.
        window: Number of steps that a forecast from windows uses, such as `SequenceForecaster.window_`.
        series: Id of the series whose model is exported, for a forecast with maps of each series' own.
        force: Whether files in the folder may be overwritten.

    Example:
        >>> import tempfile, chronode
        >>> spec = chronode.ModelSpec("gru", input_size=2, num_outputs=2, hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = export(chronode.SequenceModel.build(spec), folder, classes=["off", "on"])
        >>> done.files, done.costs["multiply-adds"]
        (('chronode_model.h', 'chronode_model.c', 'check.c', 'Makefile'), '88 per step')
    """
    settings = {"weights": weights, "math": math, "name": name, "package": package, "opset": opset}
    options = check_options("", format=format, **settings)
    folder = check_new_folder(Path(folder), "folder", force=force)
    given = {"channels": channels, "classes": classes, "scaler": scaler, "window": window}
    if series is not None:
        model = (load(model) if isinstance(model, (str, Path)) else model).of_series(series)
    deployment = _deployment(model, {name: value for name, value in given.items() if value is not None}, unit)
    graph = Graph.of(deployment)
    folder.mkdir(parents=True, exist_ok=True)
    files, costs = _exporters[format].write(graph, folder, **options)
    return Exported(folder, format, files, costs, graph, options)


def check_options(dashes: str, *, format: str, **options: Any) -> dict[str, Any]:
    """Refuses options that are not known, or that the format does not have; returns those of the format.

    Args:
        dashes: Prefix of their names in messages: "--" for options of the command, "" for arguments.
        format: As for `export`.
        options: The other options of `export` that belong to formats.
    """
    if format not in _exporters:
        load_installed()
    one_of(f"{dashes}format", format, _exporters)
    one_of(f"{dashes}weights", options["weights"], WEIGHTS)
    one_of(f"{dashes}math", options["math"], MATH)
    if options["package"]:
        one_of(f"{dashes}package", options["package"], PACKAGES)
    _check_name(f"{dashes}name", options["name"])
    opset = whole(f"{dashes}opset", options["opset"], at_least=LOWEST_OPSET)
    if opset > _NEWEST_OPSET:
        raise ValueError(f"{dashes}opset={opset} must be at most {_NEWEST_OPSET}, the newest that onnxruntime runs.")
    for needed, exporter in _exporters.items():
        for option, default in exporter.options.items():
            if needed != format and option not in _exporters[format].options and options[option] != default:
                raise ValueError(f"{dashes}{option} requires {dashes}format {needed}.")
    return {option: options[option] for option in _exporters[format].options}


def _check_name(option: str, name: str) -> None:
    """Refuses names that a model in C cannot have, as all its symbols, macros and files begin with it.

    Example:
        >>> _check_name("--name", "2nd")
        Traceback (most recent call last):
            ...
        ValueError: --name='2nd' must be lower-case letters, digits and _, beginning with a letter: pulse_model
    """
    if not _NAME.fullmatch(name):
        rule = "must be lower-case letters, digits and _, beginning with a letter: pulse_model"
        raise ValueError(f"{option}={name!r} {rule}")
    if _TAKEN.fullmatch(name):
        raise ValueError(f"{option}={name!r}: {name}.h or {name}.c is the name of another file: use {name}_model.")


def _deployment(model: SequenceModel | Trained | str | Path, given: dict[str, Any], unit: str) -> Deployment:
    if isinstance(model, SequenceModel):
        return Deployment.of_model(model, **given, unit=unit)
    if given or unit != "step":
        raise ValueError(f"{', '.join(given) or 'unit'}: not allowed with a run, which has its own.")
    return Deployment.of_run(model if isinstance(model, Trained) else load(model))
