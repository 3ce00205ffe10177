"""SequenceModel: symbols or numbers in, a layer over time, logits or values out; and the spec that builds it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ._budget import Budget
from ._checks import flag, number, one_of, whole
from ._documents import read_json
from ._files import replacing
from ._limits import LAYERS
from ._schema import parse
from .nn._cell import State
from .nn._layer import Layer
from .nn._registry import create, find

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .data import Sequences


# What is made on the way to a model may be more than its weights: masks, tables, scratch.
_MOST_TIMES_THE_WEIGHTS = 8
_FEW_NUMBERS = 2**22


@dataclass(frozen=True)
class ModelSpec:
    """All that is needed to build a SequenceModel anew, as plain data.

    Attributes:
        model: the name of a registered model.
        input_size: channels of the data; with `symbols`, 1.
        num_outputs: logits (one per class) or values.
        hidden_size: units of each layer.
        num_layers: cells stacked on each other.
        per_step: an answer at every step; otherwise one after the last.
        missing: values may be missing.
        symbols: how many there are, if the data are symbols: each gets a learnt vector. None for numbers.
        embedding_size: of these vectors.
        embedding_dropout: of their entries, in training.
        word_dropout: share of the symbols whose vectors are 0 in a batch of training, wherever they occur in it.
        head_init: "uniform" (torch's own for a linear map) or "normal" (He et al. 2015, with biases of 0).
        settings: the layer's (dropout, bidirectional, residual, memory) and the model's own.

    Example:
        >>> spec = ModelSpec("ltc", input_size=3, num_outputs=2, hidden_size=8)
        >>> ModelSpec.from_dict(spec.as_dict()) == spec
        True
        >>> SequenceModel.build(spec)(torch.randn(4, 6, 3)).shape
        torch.Size([4, 2])
    """

    model: str
    input_size: int
    num_outputs: int
    hidden_size: int = 64
    num_layers: int = 1
    per_step: bool = False
    missing: bool = False
    symbols: int | None = None
    embedding_size: int = 64
    embedding_dropout: float = 0.0
    word_dropout: float = 0.0
    head_init: str = "uniform"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        find(self.model)
        for name in ("input_size", "num_outputs", "hidden_size", "num_layers", "embedding_size"):
            # Plain ints: NumPy's would not go into JSON.
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=1))
        if self.num_layers > LAYERS.value:
            raise ValueError(f"num_layers={self.num_layers:,} is more than {LAYERS.value:,}. {LAYERS.cure}")
        flag("per_step", self.per_step)
        flag("missing", self.missing)
        number("embedding_dropout", self.embedding_dropout, at_least=0, below=1)
        number("word_dropout", self.word_dropout, at_least=0, below=1)
        one_of("head_init", self.head_init, ("uniform", "normal"))
        if self.symbols is not None:
            whole("symbols", self.symbols, at_least=2)
            if self.input_size != 1:
                raise ValueError(f"symbols come in one channel, these data have {self.input_size}.")
        taken = {"outputs": "per_step", "missing": "missing"}
        for name in taken.keys() & self.settings.keys():
            raise ValueError(f"{name!r} is no setting of a model here: it follows from {taken[name]}.")

    @classmethod
    def for_data(
        cls, data: Sequences, model: str = "mmrnn", hidden_size: int = 64, num_layers: int = 1, **settings: Any
    ) -> ModelSpec:
        """The spec of a model that reads `data` and answers its target.

        Args:
            data: with a target; training, validation and test series together if some of them miss values.
            model: the name of a registered model.
            hidden_size: units of each layer.
            num_layers: cells stacked on each other.
            settings: any other field of ModelSpec; all else goes to the layer and the model.

        Example:
            >>> from chronode.data import from_list
            >>> s = from_list([[1.0, 2.0], [3.0]], target=["a", "b"])
            >>> spec = ModelSpec.for_data(s, "gru", hidden_size=4)
            >>> spec.input_size, spec.num_outputs, spec.per_step, spec.missing
            (1, 2, False, False)
        """
        target = data.target
        if target is None:
            raise ValueError("these series have no target: say what is to be learnt when you read them (target=...).")
        own = {name: settings.pop(name) for name in _names() & settings.keys() - {"settings"}}
        told: dict[str, Any] = {
            "input_size": data.num_channels,
            "num_outputs": target.values.shape[1] if target.classes is None else len(target.classes),
            "per_step": target.per_step,
            "missing": data.has_missing,
            "symbols": None if data.base_values.dtype.kind == "f" else count_symbols(data),
        }
        settings |= own.pop("settings", {})
        return cls(model, hidden_size=hidden_size, num_layers=num_layers, **{**told, **own}, settings=settings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> ModelSpec:
        """The spec that `as_dict` told."""
        return parse(cls, told)


def _names() -> set[str]:
    return {field.name for field in fields(ModelSpec)}


def count_symbols(data: Sequences) -> int:
    """How many symbols there are: those that the data name, else up to the largest that occurs."""
    named = data.categories.get(data.channels[0], ())
    return max(len(named), int(data.base_values.max()) + 1, 2)


def check_symbols(model: SequenceModel, data: Sequences) -> None:
    """Refuses symbols that the model has no vector for."""
    known = None if model.spec is None else model.spec.symbols
    if known is not None and count_symbols(data) > max(known, 2):
        highest = int(data.base_values.max())
        raise ValueError(f"the model knows {known} symbols, 0 to {known - 1}; these data have symbol {highest}.")


class SequenceModel(nn.Module):
    """A layer with a linear readout of its output: of the last step (`outputs="last"`) or of every step.

    Args:
        layer: made by `chronode.create`.
        num_outputs: logits or values.
        embedding: for symbols `(B, T)` or `(B, T, 1)`: gives the layer's input.

    Attributes:
        spec: what `build` made it from; None if it was put together by hand.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("mmrnn", 1, 8, outputs="last")
        >>> SequenceModel(layer, 2)(torch.randn(4, 6, 1), dt=torch.rand(4, 6)).shape
        torch.Size([4, 2])
    """

    def __init__(self, layer: Layer, num_outputs: int, embedding: nn.Module | None = None):
        super().__init__()
        self.embedding = embedding
        self.layer = layer
        self.head = nn.Linear(layer.output_size, num_outputs)
        self.spec: ModelSpec | None = None

    @classmethod
    def build(cls, spec: ModelSpec, vectors: NDArray[Any] | None = None) -> SequenceModel:
        """The model of a spec, with new weights.

        Args:
            spec: what to build.
            vectors: `(symbols, embedding_size)` to begin with; rows of NaN are drawn at random, with the mean and
                spread of the others.
        """
        embedding, features = None, spec.input_size
        if spec.symbols is not None:
            embedding, features = _embedding(spec, vectors), spec.embedding_size
        outputs = "all" if spec.per_step else "last"
        told = {"missing": spec.missing, "outputs": outputs, **spec.settings}
        layer = create(spec.model, features, spec.hidden_size, spec.num_layers, **told)
        model = cls(layer, spec.num_outputs, embedding)
        if spec.head_init == "normal":
            nn.init.kaiming_normal_(model.head.weight)
            nn.init.zeros_(model.head.bias)
        model.spec = spec
        return model

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Logits or values; `times` are the layer's dt, t, lengths and observed."""
        return self.run(x, None, **times)[0]

    def run(self, x: Tensor, state: State | None = None, **times: Any) -> tuple[Tensor, State]:
        """The same from a carried state, and the state after it: for live data and for training in pieces."""
        if self.embedding is not None:
            x = self.embedding(x.squeeze(-1) if x.dim() == 3 else x)
        elif x.dtype != self.head.weight.dtype:
            x = x.to(self.head.weight.dtype)
        y, state = self.layer(x, state, **times)
        return self.head(y), state

    def with_settings_of(self, tensors: dict[str, Tensor]) -> SequenceModel:
        """This model, or one with new weights and the settings of the saved `tensors` where they are not in the spec.

        The default of a setting may have changed since the weights were saved.
        """
        extra = tensors.get("layer._extra_state")
        if self.spec is None or extra is None:
            return self
        others = self.layer.other_settings(extra)
        if not others or others.keys() & {"cell", "num_layers", "residual", *self.spec.settings}:
            return self
        return self.build(replace(self.spec, settings=self.spec.settings | others))

    def save(self, path: str | Path) -> Path:
        """Writes the weights (`.safetensors`) and, beside them, the spec (`.json`); returns the former's path."""
        from safetensors.torch import save

        if self.spec is None:
            raise ValueError("this model was put together by hand; one made by SequenceModel.build(spec) can be saved.")
        path = Path(path).with_suffix(".safetensors")
        with replacing(path) as draft:
            # By Python's own write: an error of safetensors' would not say that the disk is full.
            draft.write_bytes(save({name: tensor.contiguous() for name, tensor in self.state_dict().items()}))
        with replacing(path.with_suffix(".json")) as draft:
            draft.write_text(json.dumps(self.spec.as_dict(), indent=1))
        return path

    @classmethod
    def load(cls, path: str | Path) -> SequenceModel:
        """Reads what `save` wrote; the model is ready to answer (evaluation mode)."""
        from safetensors.torch import load_file

        path = Path(path).with_suffix(".safetensors")
        spec: ModelSpec = read_json(path.with_suffix(".json"), ModelSpec)
        try:
            weights = load_file(path)
            # A layer has at least one tensor: this is known before the layers are built one by one.
            if spec.num_layers > len(weights):
                raise ValueError(
                    f"model.json has {spec.num_layers:,} layers, the weights are {len(weights):,} tensors."
                )
            most = max(_FEW_NUMBERS, _MOST_TIMES_THE_WEIGHTS * sum(tensor.numel() for tensor in weights.values()))
            # Weights are drawn only to be replaced.
            with torch.random.fork_rng(devices=[]), Budget(most):
                model = cls.build(spec).with_settings_of(weights)
            model.load_state_dict(weights)
        except FileNotFoundError:
            raise
        except Exception as error:  # foreign bytes, and settings that a cell may refuse in any way
            raise ValueError(f"{path}: {_one_line(error)}") from error
        return model.eval()


class WordEmbedding(nn.Embedding):
    """A vector for each symbol; in training, `dropout` of the symbols have vectors of 0 throughout a batch.

    Example:
        >>> table = WordEmbedding(1000, 4, dropout=0.5)
        >>> words = torch.arange(1000).repeat(2, 1)
        >>> one, again = table(words).abs().sum(-1) > 0  # a word is there, or is not, wherever it occurs
        >>> bool((one == again).all()), 400 < int(one.sum()) < 600, bool((table.eval()(words) != 0).all())
        (True, True, True)
    """

    def __init__(self, symbols: int, size: int, dropout: float):
        super().__init__(symbols, size)
        self.dropout = dropout

    def forward(self, input: Tensor) -> Tensor:
        """`(..., size)` the vectors of `input (...)`."""
        vectors = super().forward(input)
        if not (self.training and self.dropout):
            return vectors
        kept = nn.functional.dropout(self.weight.new_ones(self.num_embeddings, 1), self.dropout)
        return vectors * nn.functional.embedding(input, kept)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _embedding(spec: ModelSpec, vectors: NDArray[Any] | None) -> nn.Module:
    assert spec.symbols is not None
    table = WordEmbedding(spec.symbols, spec.embedding_size, spec.word_dropout)
    if vectors is not None:
        given = torch.as_tensor(vectors, dtype=table.weight.dtype)
        if given.shape != table.weight.shape:
            wanted = f"({spec.symbols}, {spec.embedding_size})"
            raise ValueError(f"the vectors have shape {tuple(given.shape)}, the model's symbols need {wanted}.")
        known = given[~given.isnan().any(1)]
        with torch.no_grad():
            if len(known) > 1:  # words without a vector are of the others' size
                table.weight.mul_(known.std(0)).add_(known.mean(0))
            table.weight.copy_(torch.where(given.isnan(), table.weight, given))
    return nn.Sequential(table, nn.Dropout(spec.embedding_dropout)) if spec.embedding_dropout else table
