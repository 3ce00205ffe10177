"""Trained models on disk: a folder, or one packed file, with the same sections; nothing in them is executed.

Beside the weights and the spec, the sections are `objective`, `data` (how files are read), and the facts that are
known: `config`, `summary` and `environment` of a run, `estimator`. In a folder, each is a JSON file beside
model.safetensors; in a packed file, all are texts in the header of a safetensors file. The scaler is stored once: in
the reading of `data`, or in `objective` if there is no reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from .._version import __version__
from ..data import Reading, Scaler, Sequences, is_there
from ..judge import MeasuredBaselines, measured_baselines
from ..model import ModelSpec, SequenceModel
from ..settings import SettingError, error_at, named
from ..storage import JSON_BYTES, parse, parse_json, read_json, replacing, safetensors
from ..training import Objective, Record, Trained
from ._again import check_unchanged, prepare_again
from ._card import model_card
from ._config import Config
from ._folder import Run
from ._prepare import SECOND_FILES, DataFacts, Prepared, prepare
from ._results import objective_section
from ._summary import check_registered, config_from, config_of, read_summary

SUFFIX = ".chronode"
FORMAT, VERSION = "chronode-model", "2"
_READS = ("1", VERSION)  # in version 1, the scaler was stored in the objective and beside it
_NEEDED = ("objective", "data")
_FACTS = ("config", "summary", "environment", "estimator")
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header


@dataclass(frozen=True)
class _SavedObjective:
    """The section `objective`; runs of earlier versions have the scaler beside the objective."""

    objective: dict[str, Any]
    scaler: Scaler | None = None


def load(path: str | Path, *, anyway: bool = False) -> Trained:
    """Loads a trained model from a run folder, or from a folder or file that `save` of an estimator or `pack` wrote.

    Nothing in them is executed. The result predicts files and frames: `model.predict("new.csv")`.

    Args:
        path: The folder or file.
        anyway: Whether to load the model of a failed run: its best weights before the failure.

    Raises:
        ValueError: The folder or file is damaged; the message names the file and the field.
    """
    path = Path(path)
    if path.is_file():
        model, sections = _read_file(path)
        return _from_sections(model, sections, {name: f"{path}: {name}" for name in sections}, path)
    if (path / "run.json").is_file() or not (path / "estimator.json").is_file():
        _check_run(Run.open(path), anyway)
    elif not (path / "objective.json").is_file():
        raise ValueError(f"{path} was saved by an earlier version, without its objective: fit again and save.")
    model, files = SequenceModel.load(path / "model"), {name: path / f"{name}.json" for name in (*_NEEDED, *_FACTS)}
    kept = {name: file for name, file in files.items() if name in _NEEDED or file.is_file()}
    sections = {name: read_json(file, dict[str, Any]) for name, file in kept.items()}
    return _from_sections(model, sections, {name: str(file) for name, file in kept.items()}, path)


def _check_run(run: Run, anyway: bool) -> None:
    """Refuses a run without a usable model."""
    check_registered(run, config_of(run).model.model)
    if run.status == "failed" and not anyway:
        summary = run.summary()
        fault = f" ({summary.fault.rstrip('.')})" if summary is not None and summary.fault else ""
        raise SettingError(
            f"{run.path} failed{fault}. Train again; {named('anyway', True)} uses the best weights before the failure.",
            argument="anyway",
        )
    if not (run.path / "model.safetensors").is_file() or not (run.path / "objective.json").is_file():
        raise ValueError(f"{run.path} has no model yet ({run.status}): `chronode train --resume {run.path}`.")


def _from_sections(model: SequenceModel, sections: Mapping[str, Any], places: Mapping[str, str], path: Path) -> Trained:
    """Returns the model with its sections as parsed JSON; `places` names them in messages."""
    data: DataFacts = _parsed(DataFacts, sections["data"], places["data"])
    saved: _SavedObjective = _parsed(_SavedObjective, sections["objective"], places["objective"])
    objective = _parsed(Objective, _objective_fields(saved, sections["objective"]), f"{places['objective']}: objective")
    if objective.scaler is None:
        objective = replace(objective, scaler=saved.scaler if data.reading is None else data.reading.scaler)
    _check_sizes(places, model, objective, data.reading)
    facts = {name: sections[name] for name in _FACTS if name in sections}
    facts["data"] = {name: value for name, value in sections["data"].items() if name != "reading"}
    if "config" in facts:
        facts["config"] = config_from(facts["config"], places["config"]).as_dict()
    record = Record()
    if "summary" in facts:
        summary = read_summary(facts["summary"], places["summary"])
        ending = {"best_epoch": summary.best_epoch or 0, "stopped": summary.stopped, "seconds": summary.seconds or 0.0}
        record = Record(**ending, notes=tuple(summary.notes), baseline=summary.baseline)
    return Trained(model, objective, data.reading, record, facts, path)


def _parsed(kind: Any, value: Any, place: str) -> Any:
    try:
        return parse(kind, value)
    except (ValueError, TypeError) as error:
        raise error_at(place, error) from error


def _objective_fields(saved: _SavedObjective, section: Mapping[str, Any]) -> dict[str, Any]:
    if "scaler" not in section:
        return saved.objective
    return {**saved.objective, "own_units": saved.objective.get("scaler") is not None, "scaler": None}  # version 1


def sections_of(trained: Trained) -> dict[str, Any]:
    """Returns everything but the spec and the weights as plain data by section."""
    trained.check("pack")
    data = {"source": {}, "facts": {}, "series": {}, "notes": list(trained.notes), **trained.facts.get("data", {})}
    facts = {name: trained.facts[name] for name in _FACTS if name in trained.facts}
    data["reading"] = None if trained.reading is None else trained.reading.as_dict()
    return {"objective": objective_section(trained), "data": data, **facts}


def save(trained: Trained, path: str | Path) -> Path:
    """Writes a trained model: one file if the name ends with .chronode, otherwise a folder.

    Example:
        >>> import tempfile
        >>> from chronode.data import from_list
        >>> from chronode.training import Settings, fit
        >>> trained = fit(from_list([[1.0, 2.0], [3.0]] * 8, target=[0.0, 1.0] * 8), "gru", Settings(epochs=1))
        >>> load(save(trained, Path(tempfile.mkdtemp()) / "model.chronode")).objective.metric
        'rmse'
    """
    path = Path(path)
    if path.suffix == SUFFIX:
        return pack(trained, path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file, not a folder.")
    texts = {name: json.dumps(section, indent=1) for name, section in sections_of(trained).items()}
    for name, text in texts.items():
        with replacing(path / f"{name}.json") as draft:
            draft.write_text(text, encoding="utf-8")
    trained.model.save(path / "model")
    return path


def pack(source: Trained | str | Path, output: str | Path) -> Path:
    """Writes a trained model into one file that `chronode.load` reads.

    Args:
        source: The model, or its folder.
        output: The file to write, usually named `*.chronode`.
    """
    output = Path(output)
    if output.is_dir():
        raise ValueError(f"{output} is a folder; give a file name such as model{SUFFIX}.")
    trained = source if isinstance(source, Trained) else load(source)
    if trained.path is not None and (trained.path / "run.json").is_file() and "summary" not in trained.facts:
        run = Run.open(trained.path)
        raise ValueError(f"{run.path} is not finished ({run.status}): `chronode train --resume {run.path}`.")
    public = replace(trained, facts=_without_folders(trained.facts))
    spec, sections = trained.model.spec, sections_of(public)
    assert spec is not None
    metadata = {"format": FORMAT, "version": VERSION, "chronode": __version__, "spec": json.dumps(spec.as_dict())}
    metadata |= {name: json.dumps(section) for name, section in sections.items()}
    metadata["card"] = model_card(public)
    weights = {name: tensor.contiguous() for name, tensor in trained.model.state_dict().items()}
    with replacing(output) as draft:
        draft.write_bytes(safetensors().torch.save(weights, metadata=metadata))
    return output


def _without_folders(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facts in which only the names of files are left of their paths."""
    shared = dict(facts)
    if "config" in facts:
        data = facts["config"]["data"]
        names = {name: Path(data[name]).name for name in ("source", *SECOND_FILES) if data.get(name)}
        shared["config"] = {**facts["config"], "data": {**data, **names}}
    if "file" in (source := facts.get("data", {}).get("source", {})):
        shared["data"] = {**facts["data"], "source": {**source, "file": Path(source["file"]).name}}
    return shared


def read_card(path: str | Path) -> str:
    """Returns the model card of a packed model."""
    return _text(Path(path), _weights_and_header(Path(path))[1], "card")


def _read_file(path: Path) -> tuple[SequenceModel, dict[str, Any]]:
    """Reads what `pack` wrote: the model, and its sections as parsed JSON."""
    weights, header = _weights_and_header(path)
    if header.get("format") != FORMAT:
        raise ValueError(f"{path}: this is not a packed model: its metadata has no format {FORMAT!r}.")
    if header.get("version") not in _READS:
        raise ValueError(
            f"{path} has version {header.get('version')!r}, but chronode {__version__} reads versions "
            f"{' and '.join(_READS)}: pack the run again, or use the chronode that wrote it."
        )
    _text(path, header, "card")
    spec = parse_json(_text(path, header, "spec"), ModelSpec, f"{path}: spec")
    names = (*_NEEDED, *(name for name in _FACTS if name in header))
    sections = {name: parse_json(_text(path, header, name), dict[str, Any], f"{path}: {name}") for name in names}
    return SequenceModel.from_weights(spec, weights, str(path)), sections


def _weights_and_header(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Returns (tensors, metadata) of a safetensors file."""
    library = safetensors()
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if JSON_BYTES.value < length <= path.stat().st_size:
        raise ValueError(f"{path}: its header has more than {JSON_BYTES.value:,} bytes. {JSON_BYTES.cure}")
    try:
        with library.safe_open(path, "pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata() or {}  # noqa: SIM118
    except (library.SafetensorError, ValueError, RuntimeError, OSError) as error:
        raise ValueError(
            f"{path}: this is neither a run folder nor a packed model (not a safetensors file: "
            f"{' '.join(str(error).split())})."
        ) from error


def _text(path: Path, header: dict[str, str], name: str) -> str:
    if name not in header:
        raise ValueError(f"{path}: {name} is missing from its metadata.")
    return header[name]


def _check_sizes(
    places: Mapping[str, str], model: SequenceModel, objective: Objective, reading: Reading | None
) -> None:
    """Rejects parts that are valid individually but do not belong together; `places` names them in messages."""
    spec, scaler = model.spec, objective.scaler
    assert spec is not None
    pairs = [("objective", "num_outputs", objective.num_outputs, spec.num_outputs)]
    pairs.append(("objective", "per_step", objective.per_step, spec.per_step))
    if reading is not None:
        pairs.append(("data", "reading.channels", len(reading.channels), spec.input_size))
        if reading.horizon:
            outputs = reading.horizon * len(reading.forecast_channels)
            pairs.append(("data", "reading.horizon times reading.forecast_channels", outputs, spec.num_outputs))
        pairs.append(("data", "reading.static", len(reading.static), spec.static))
        pairs.append(("data", "reading.per_step", reading.per_step, spec.per_step))
    for name, field, stored, wanted in pairs:
        if stored != wanted:
            raise ValueError(f"{places[name]}: {field} is {stored}, but in the model it is {wanted}.")
    count = len(objective.heads) or spec.num_outputs
    if scaler is not None and scaler.targets and len(scaler.targets) != count:
        where = places["objective" if reading is None else "data"]
        raise ValueError(f"{where}: scaler.targets has {len(scaler.targets)} names for {count} outputs.")


# ---- the data of a run -------------------------------------------------------------------------------------


def _config(trained: Trained) -> Config:
    return Config.from_dict(trained.facts.get("config", {}))


def prepared_of(trained: Trained) -> Prepared:
    """Returns the series of training, divided as they were then.

    Raises:
        ValueError: The data have changed, or the run is of a version that divided them in another way.
    """
    config, path = _config(trained), trained.path
    if path is None or not path.is_dir():  # a packed model of a task
        return prepare(config)
    check_unchanged(config.data, DataFacts.load(path).source, path)
    return prepare_again(config, path)


def series_of(
    trained: Trained, source: Any = None, *, labeled: bool, anyway: bool = False, labels: Any = None
) -> Sequences:
    """Reads and scales the series of a file or a frame as in training; None: the test part of the run.

    Args:
        trained: The model.
        source: A file, or a frame of pandas or polars; for a run on a task, the name of that task.
        labeled: Whether to read the targets.
        anyway: Whether to accept times or values that seem to be in other units.
        labels: Second file or frame, with the target of each id.
    """
    task = None if trained.reading is not None else _config(trained).data.source
    if source is None and trained.reading is not None and not (trained.path is not None and trained.path.is_dir()):
        raise ValueError(f"{trained.path} is a packed model without data: pass a file.")
    if source is None or (isinstance(source, str) and source == task):
        test = prepared_of(trained).parts.test
        if not len(test):
            raise ValueError(f"{trained.path} has no test part: pass a file.")
        return test
    if trained.reading is None:
        raise ValueError(f"{trained.path} was trained on the task {task} and cannot be used on other data.")
    return trained.series(source, labeled=labeled, anyway=anyway, labels=labels)


def baselines_of(trained: Trained, data: Sequences | None = None) -> MeasuredBaselines:
    """Returns the metrics of simple baselines, fitted to the training part; empty without the training data.

    Args:
        trained: The model of a run.
        data: Series with targets; None: the test part of the run, whose baselines training has measured.
    """
    is_run = trained.path is not None and trained.path.is_dir()
    if data is None and is_run:
        if "summary" not in trained.facts:
            return MeasuredBaselines({}, {})
        summary = read_summary(trained.facts["summary"], str(trained.path))
        targets = {name: _all_numbers(target.baselines) for name, target in summary.targets.items()}
        return MeasuredBaselines(_all_numbers(summary.baselines), targets)
    if not is_run or (trained.reading is not None and not is_there(_config(trained).data.source)):
        return MeasuredBaselines({}, {})
    parts = prepared_of(trained).sampled.parts
    channels = () if trained.reading is None else trained.reading.forecast_channels
    parts = parts if data is None else replace(parts, test=data.sample)
    return measured_baselines(trained.objective, parts, channels=channels, model=trained.model)


def _all_numbers(scores: dict[str, dict[str, float | None]]) -> dict[str, dict[str, float]]:
    return {
        row: {name: float("nan") if value is None else value for name, value in metrics.items()}
        for row, metrics in scores.items()
    }
