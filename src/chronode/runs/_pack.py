"""One file that holds a trained model: safetensors with everything else as text in its header."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from .._version import __version__
from ..model import ModelSpec, SequenceModel
from ..storage import JSON_BYTES, parse_json, replacing, safetensors
from ._card import model_card
from ._config import Config
from ._folder import Run
from ._prepare import DataFacts, SavedObjective
from ._summary import Summary

SUFFIX = ".chronode"
FORMAT, VERSION = "chronode-model", "1"
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header


@dataclass(frozen=True)
class Contents:
    """Content of a packed model besides its weights.

    Attributes:
        spec: Spec of the model.
        config: Configuration of the run; of the path of the data, only the file name is kept.
        objective: Contents of objective.json: objective and scaling of the target.
        data: Contents of data.json: how files are read and what the training data were.
        summary: Contents of summary.json: metrics and baselines.
        card: Model card in Markdown.
    """

    spec: ModelSpec
    config: Config
    objective: SavedObjective
    data: DataFacts
    summary: Summary
    card: str


def pack(folder: str | Path, output: str | Path) -> Path:
    """Writes the model of a run folder into one file that `Trained.load` and `chronode.load` read.

    Args:
        folder: The run folder.
        output: The file to write, usually named `*.chronode`.
    """
    from ._trained import Trained  # which reads what is packed here

    output = Path(output)
    if output.is_dir():
        raise ValueError(f"{output} is a folder; give a file name such as model{SUFFIX}.")
    trained = Trained.load(folder)
    run = Run.open(folder)
    summary = run.summary()
    if summary is None:
        raise ValueError(f"{run.path} is not finished ({run.status}): `chronode train --resume {run.path}`.")
    data = run.load_json("data.json", dict[str, Any])
    if "file" in data["source"]:
        data["source"] |= {"file": Path(data["source"]["file"]).name}
    config = replace(trained.config, data=replace(trained.config.data, source=Path(trained.config.data.source).name))
    facts, environment = DataFacts.load(run.path), run.load_json("environment.json", dict[str, Any])
    assert trained.model.spec is not None
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "chronode": __version__,
        "spec": _json(trained.model.spec.as_dict()),
        "config": _json(config.as_dict()),
        "objective": _json(run.load_json("objective.json")),
        "data": _json(data),
        "summary": _json(asdict(summary)),
        "card": model_card(config, trained.model, facts, summary, trained.objective.classes, environment),
    }
    weights = {name: tensor.contiguous() for name, tensor in trained.model.state_dict().items()}
    with replacing(output) as draft:
        draft.write_bytes(safetensors().torch.save(weights, metadata=metadata))
    return output


def unpack(path: Path) -> tuple[Contents, SequenceModel]:
    """Reads what `pack` wrote. Nothing in the file is executed.

    Raises:
        ValueError: The file is damaged or is not a packed model; the message names the file and the field.
    """
    weights, header = read_safetensors(path)
    if header.get("format") != FORMAT:
        raise ValueError(f"{path}: this is not a packed model: its metadata has no format {FORMAT!r}.")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {header.get('version')!r}, but chronode {__version__} reads version {VERSION}."
        )
    kinds: dict[str, Any] = {
        "spec": ModelSpec,
        "config": dict[str, Any],
        "objective": SavedObjective,
        "data": DataFacts,
    }
    kinds |= {"summary": Summary}
    found = {name: parse_json(_text(path, header, name), kind, f"{path}: {name}") for name, kind in kinds.items()}
    try:
        found["config"] = Config.from_dict(found["config"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: config: {error}") from error
    contents = Contents(**found, card=_text(path, header, "card"))
    return contents, SequenceModel.from_weights(contents.spec, weights, str(path))


def read_card(path: str | Path) -> str:
    """Returns the model card of a packed model."""
    return unpack(Path(path))[0].card


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
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


def _json(value: Any) -> str:
    return json.dumps(value)
