"""`export`: writes a trained model as files that do not require Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import Scaler
from ..model import SequenceModel
from ..runs import load
from ..settings import one_of, whole
from ..storage import check_new_folder
from ..training import Trained
from ._deployment import DEFAULT_NAME, LOWEST_OPSET, Deployment, Graph
from ._packages import PACKAGES, SOURCES, arrange

if TYPE_CHECKING:
    from ._verify import Runner, Verification

FORMATS = ("c", "onnx", "pt2")
WEIGHTS = ("float32", "int8")
MATH = ("library", "builtin")
_NEWEST_OPSET = 26  # that a released onnxruntime supports
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# A header of this name would hide the one of the C library; check.c is another file of the export.
_TAKEN = re.compile(
    "assert|check|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef|"
    "stdint|stdio|stdlib|string|tgmath|time|wchar|wctype"
)


@dataclass(frozen=True)
class Exported:
    """The result of `export`.

    Attributes:
        folder: The folder of the files.
        format: "c", "onnx" or "pt2".
        files: Names of the files.
        costs: Memory and operations of a step, by name; empty except for C.
        graph: The step that was exported.
        name: Beginning of the names in C.
        package: Tool for microcontrollers whose library the folder is; "" for plain files.
    """

    folder: Path
    format: str
    files: tuple[str, ...]
    costs: dict[str, str]
    graph: Graph
    name: str = DEFAULT_NAME
    package: str = ""

    def runner(self) -> Runner:
        """Returns an object that runs the written files."""
        if self.format == "c":
            from ._c import CRunner

            return CRunner(self.folder / SOURCES if self.package else self.folder, name=self.name)
        if self.format == "onnx":
            from ._onnx import OnnxRunner

            return OnnxRunner(self.folder)
        from ._pt2 import Pt2Runner

        return Pt2Runner(self.folder)

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
    force: bool = False,
) -> Exported:
    """Writes a trained model as files that do not require Python.

    The export covers the whole path of a raw observation: scaling, missing values, gaps, all layers, the head, and
    class probabilities or values in the target's own units.

    Args:
        model: A run folder, a packed file, `chronode.training.Trained`, or a model.
        folder: Output folder; must be empty unless `force` is set.
        format: "c" (C99), "onnx" (one step, and whole sequences of any length) or "pt2" (torch.export: whole sequences
            of any length).
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
        force: Whether files in the folder may be overwritten.

    Example:
        >>> import tempfile, chronode
        >>> spec = chronode.ModelSpec("gru", input_size=2, num_outputs=2, hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = export(chronode.SequenceModel.build(spec), folder, classes=["off", "on"])
        >>> done.files, done.costs["multiply-adds"]
        (('chronode_model.h', 'chronode_model.c', 'check.c', 'Makefile'), '88 per step')
    """
    check_options("", format=format, weights=weights, math=math, name=name, package=package, opset=opset)
    folder = check_new_folder(Path(folder), "folder", force=force)
    given = {"channels": channels, "classes": classes, "scaler": scaler, "window": window}
    deployment = _deployment(model, {name: value for name, value in given.items() if value is not None}, unit)
    graph = Graph.of(deployment)
    if format == "onnx":
        from ._onnx import write_onnx

        return Exported(folder, format, write_onnx(graph, folder, opset=opset), {}, graph)
    if format == "pt2":
        from ._pt2 import write_pt2

        return Exported(folder, format, write_pt2(graph, folder), {}, graph)
    from ._c import write_c

    written = write_c(graph, folder, int8=weights == "int8", math=math, name=name)
    costs = dict(written.table())
    if written.rounding is not None:
        costs["int8"] = written.rounding.text()
    files = arrange(folder, written.files, name, package, deployment) if package else written.files
    return Exported(folder, format, files, costs, graph, name, package)


def check_options(dashes: str, *, format: str, weights: str, math: str, name: str, package: str, opset: int) -> None:
    """Refuses options that are not known, or that the format does not have.

    Args:
        dashes: Prefix of their names in messages: "--" for options of the command, "" for arguments.
        format: As for `export`, like the others.
        weights: "float32" or "int8".
        math: "library" or "builtin".
        name: Beginning of the names in C.
        package: Tool for microcontrollers, or "".
        opset: Version of the operator set of ONNX.
    """
    one_of(f"{dashes}format", format, FORMATS)
    one_of(f"{dashes}weights", weights, WEIGHTS)
    one_of(f"{dashes}math", math, MATH)
    if package:
        one_of(f"{dashes}package", package, PACKAGES)
    _check_name(f"{dashes}name", name)
    whole(f"{dashes}opset", opset, at_least=LOWEST_OPSET)
    if opset > _NEWEST_OPSET:
        raise ValueError(f"{dashes}opset={opset} must be at most {_NEWEST_OPSET}, the newest that onnxruntime runs.")
    usual = {"weights": (weights, "float32"), "math": (math, "library"), "name": (name, DEFAULT_NAME)}
    usual["package"] = (package, "")
    own = {"c": usual, "onnx": {"opset": (opset, LOWEST_OPSET)}}
    for needed, options in own.items():
        for option, (value, default) in options.items():
            if needed != format and value != default:
                raise ValueError(f"{dashes}{option} requires {dashes}format {needed}.")


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
