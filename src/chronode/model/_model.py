"""SequenceModel: symbols or numbers, a recurrent layer, a linear head."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..data import id_keys
from ..nn import Layer, Plan, State, create, run_cell
from ..settings import SettingError, named, one_of
from ..storage import read_json, replacing, safetensors, write_json
from ._capabilities import check
from ._margins import Margins
from ._relative import Relative
from ._spec import POOLS, Budget, ModelSpec, count_symbols
from ._step import Pooling, RunningStart
from .start._own import OwnMaps
from .start._several import SeveralStart, build_start
from .start._stacked import StackedStart
from .start._start import LinearStart, Start

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..data import Sequences

# Building a model may create more than its weights: masks, tables, temporary tensors.
_MOST_TIMES_THE_WEIGHTS = 8
_FEW_NUMBERS = 2**22


def check_symbols(model: SequenceModel, data: Sequences) -> None:
    """Rejects symbols that the model has no vector for."""
    symbols = None if model.spec is None else model.spec.symbols
    if symbols is not None and count_symbols(data) > max(symbols, 2):
        highest = int(data.base_values.max())
        raise ValueError(f"the model has {symbols} symbols, 0 to {symbols - 1}; these data contain symbol {highest}.")


LINEAR = f"{LinearStart.name} alone"
"""Name of a model whose network adds nothing to the linear start."""
STACK = f"{StackedStart.name} alone"
"""Name of a model whose network adds nothing to the stack that it starts from."""
ALONE = (LINEAR, STACK)
"""Names of models without a network."""


class SequenceModel(nn.Module):
    """Layer with a linear head on its output: on the last step (`outputs="last"`), on every step, or on what `pool`
    makes of all of them.

    Args:
        layer: Layer made by `chronode.create`.
        num_outputs: Number of logits or values.
        embedding: Module that turns symbols `(B, T)` or `(B, T, 1)` into the input of the layer.
        start: Linear model, or stack of models, whose output is added to that of the head.
        relative: Module that brings windows to their own level and scale, and forecasts back.
        static: Number of static values s: the head sees `[y (1 + W s), s]` instead of the output y of the layer, so
            that they shift predictions and change what y means. Unknown ones (NaN) count as 0.
        pool: "mean", "sum" or "max": the head sees the mean, the sum divided by √n or the maximum of the outputs over
            all n valid steps of a series, which needs a layer with `outputs="all"`; "last": it sees what the layer
            returns.

    Attributes:
        spec: The spec passed to `build`; None for a model assembled by hand.
        others: Further networks of an ensemble, whose outputs are averaged with those of this one.
        members: Further models of an ensemble, with their starts, whose outputs are averaged with those of this one.
        margins: Quantiles of the forecast errors, for prediction intervals; None without `relative`.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("mmrnn", 1, 8, outputs="last")
        >>> SequenceModel(layer, 2)(torch.randn(4, 6, 1), dt=torch.rand(4, 6)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        layer: Layer,
        num_outputs: int,
        embedding: nn.Module | None = None,
        *,
        start: Start | None = None,
        relative: Relative | None = None,
        static: int = 0,
        pool: str = "last",
    ):
        super().__init__()
        self.pool = one_of("pool", pool, POOLS)
        if pool != "last" and layer.outputs != "all":
            raise ValueError(f'pool={pool!r} needs the outputs of all steps: create the layer with outputs="all".')
        self.pooling = None if pool == "last" else Pooling(layer.output_size, pool)
        self.embedding = embedding
        self.layer = layer
        self.head = nn.Linear(layer.output_size + static, num_outputs)
        self.modulation = nn.Linear(static, layer.output_size, bias=False) if static else None
        if self.modulation is not None:
            nn.init.zeros_(self.modulation.weight)
        self.start = start
        self.relative = relative
        self.margins = None if relative is None else Margins(num_outputs, len(relative.channels))
        self.others, self.members = nn.ModuleList(), nn.ModuleList()
        self.spec: ModelSpec | None = None

    @classmethod
    def build(cls, spec: ModelSpec, vectors: NDArray[Any] | None = None) -> SequenceModel:
        """Builds the model of a spec with new weights.

        Args:
            spec: Description of the model to build.
            vectors: Initial embedding `(symbols, embedding_size)`; rows of NaN are drawn at random, with the mean and
                standard deviation of the others.
        """
        embedding, features = None, spec.input_size
        if spec.symbols is not None:
            embedding, features = _embedding(spec, vectors), spec.embedding_size
        outputs = "all" if spec.per_step or spec.pool != "last" else "last"
        settings = {"missing": spec.missing, "outputs": outputs, **spec.settings}
        layer = create(spec.model, features, spec.hidden_size, spec.num_layers, **settings)
        start = None if spec.start is None else build_start(spec.start, spec.num_outputs)
        relative = None
        if spec.relative is not None:
            relative = Relative(spec.relative, spec.known, spec.num_outputs // len(spec.relative))
        parts: dict[str, Any] = {"start": start, "relative": relative, "static": spec.static, "pool": spec.pool}
        model = cls(layer, spec.num_outputs, embedding, **parts)
        if spec.head_init == "normal":
            nn.init.kaiming_normal_(model.head.weight)
            nn.init.zeros_(model.head.bias)
        single = replace(spec, ensemble=1, start=None, relative=None, known=(), members=())
        model.members.extend(cls.build(member, vectors) for member in spec.members)
        model.others.extend(cls.build(single, vectors) for _ in range(spec.ensemble - 1))
        if start is not None:  # before the first step of training, the linear model is all there is
            model.silence()
        model.spec = spec
        return model

    @property
    def networks(self) -> tuple[SequenceModel, ...]:
        """The networks of an ensemble, of which this model is the first."""
        return (self, *(other for other in self.others if isinstance(other, SequenceModel)))

    def part(self, target: int, outputs: slice) -> SequenceModel:
        """Returns the model of one of several targets: the same body with the head and the start of that target.

        Args:
            target: Number of the target.
            outputs: Its outputs.
        """
        one = copy.deepcopy(self)
        for network in one.networks:
            head = network.head
            network.head = nn.Linear(head.in_features, outputs.stop - outputs.start, device=head.weight.device)
            with torch.no_grad():
                network.head.weight.copy_(head.weight[outputs])
                network.head.bias.copy_(head.bias[outputs])
        if isinstance(one.start, SeveralStart):
            one.start = one.start.starts[target]
        one.members = nn.ModuleList(m.part(target, outputs) for m in self.members if isinstance(m, SequenceModel))
        if one.spec is not None:
            start = one.spec.start
            start = start["targets"][target] if start is not None and "targets" in start else start
            members = tuple(member.spec for member in one.members if isinstance(member, SequenceModel) and member.spec)
            count = outputs.stop - outputs.start
            one.spec = replace(one.spec, num_outputs=count, start=start, members=members)
        return one.train(self.training)

    def silence(self) -> None:
        """Sets the heads of all networks to 0, so that only the start counts."""
        for network in self.networks:
            nn.init.zeros_(network.head.weight)
            nn.init.zeros_(network.head.bias)

    def scale_heads(self, factor: float) -> None:
        """Multiplies the outputs of all networks, apart from those of the start."""
        with torch.no_grad():
            for network in self.networks:
                network.head.weight.mul_(factor)
                network.head.bias.mul_(factor)

    @property
    def own_maps(self) -> OwnMaps | None:
        """Maps of each series' own; None if all series share the linear start."""
        return self.start.own if isinstance(self.start, LinearStart) else None

    def of_series(self, id: str | int | None) -> SequenceModel:
        """Returns the model of one series of a panel, which needs no id; with None, that of series without maps of
        their own.

        Raises:
            SettingError: The series was not in training.
        """
        own, key = self.own_maps, None if id is None else int(id_keys([id])[0])
        if key is not None and (own is None or not bool(own.known(torch.tensor([key])))):
            problem = f"{named('series', id)} has no map of its own"
            raise SettingError(problem, argument="series", cure="use an id of the training data")
        alone = copy.deepcopy(self)
        if isinstance(self.start, LinearStart):
            alone.start = self.start.of_series(key)
        if self.spec is not None and self.spec.start is not None:
            start = {name: value for name, value in self.spec.start.items() if name != "own"}
            alone.spec = replace(self.spec, start=start)
        return alone

    @property
    def is_linear(self) -> bool:
        """Whether the model is its linear start alone: a network with a head of zeros adds nothing."""
        return self._is_silent and not self.members

    @property
    def _is_silent(self) -> bool:
        """Whether only the start of this model, without further members, counts."""
        heads = [part for network in self.networks for part in network.head.parameters()]
        return self.start is not None and not any(part.count_nonzero() for part in heads)

    @property
    def title(self) -> str:
        """Title of the model: the name of its network, the linear start with it, that start alone, or the baseline that
        takes its place.
        """
        if not self.members:
            return self._own_title
        return f"mean of {', '.join([self._own_title, *(str(member.title) for member in self.members)])}"

    @property
    def _own_title(self) -> str:
        network = self.layer.cell_class.__name__ if self.spec is None else self.spec.model
        network = f"{len(self.networks)} × {network}" if self.others else network
        if self.start is None:
            return network
        if self._is_silent and self.spec is not None and self.spec.baseline:
            return f"baseline: {self.spec.baseline}"
        return self.start.title_alone if self._is_silent else f"{self.start.name} + {network}"

    @property
    def num_weights(self) -> int:
        """The number of weights: all trained parameters, or those of the linear start alone."""
        members = sum(member.num_weights for member in self.members if isinstance(member, SequenceModel))
        if self.start is not None and self._is_silent:
            return self.start.num_weights + members
        own = (part.numel() for name, part in self.named_parameters() if not name.startswith("members."))
        return sum(own) + members

    @property
    def per_step(self) -> bool:
        """Whether there is an output at every step instead of one for each series."""
        return self.layer.outputs == "all" and self.pool == "last"

    def forward(self, x: Tensor, *, started: Tensor | None = None, **times: Tensor | None) -> Tensor:
        """Returns logits or values; `times` are the dt, t, lengths and observed of the layer.

        Args:
            x: Values `(B, T, D)`, or symbols.
            started: Outputs to add to those of the network, in place of the linear start's own.
            times: Times of x, and `static (B, S)` for a model with static values.
        """
        outputs = self.each(x, started=started, **times)
        output = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(0)
        if not self.members:
            return output
        return torch.stack([output, *(member(x, **times).to(output) for member in self.members)]).mean(0)

    def each(self, x: Tensor, *, started: Tensor | None = None, **times: Tensor | None) -> list[Tensor]:
        """Returns the outputs of each network of an ensemble; the arguments are those of `forward`."""
        if self.relative is None:
            return self._from(x, started, **times)
        view = self.relative.view(x, times.get("lengths"), times.get("observed"), times.get("static"))
        outputs = self._from(view.x, started, **self.relative.shown(**times))
        return [self.relative.back(output, view) for output in outputs]

    def unit(self, x: Tensor, **times: Tensor | None) -> Tensor | None:
        """Returns the scale of each window, `(B, K)`, in which errors of a forecast are measured; else None."""
        if self.relative is None:
            return None
        scale = self.relative.view(x, times.get("lengths"), times.get("observed")).scale
        return scale.repeat(1, self.head.out_features // scale.shape[1])

    def _from(self, x: Tensor, started: Tensor | None, **times: Any) -> list[Tensor]:
        """Computes what each network adds to the linear start, or to what takes its place."""
        series = times.pop("series", None)
        outputs = [network._network(x, None, **times)[0] for network in self.networks]
        if self.start is None:
            return outputs
        if series is not None:
            times["series"] = series
        before = (self.start(x, **times) if started is None else started).to(outputs[0])
        return [output + before for output in outputs]

    def initial_state(self, batch: int) -> State:
        """Returns the state before the first step: those of the layer, of the pooling and of the linear start."""
        start = self.start
        parts = () if self.pooling is None else self.pooling.initial_state(batch, self.layer.like().detach())
        if start is not None:
            assert isinstance(start, (LinearStart, SeveralStart))
            parts += RunningStart(start).initial_state(batch, torch.zeros((), dtype=torch.float64))
        return (*self.layer.initial_state(batch), *(part[None] for part in parts))

    @property
    def network_parts(self) -> int:
        """Number of parts of the state that belong to the layer and to the pooling."""
        return len(self.layer.initial_state(1)) + (0 if self.pooling is None else 2)

    def run(
        self, x: Tensor, state: State | None = None, *, started: Tensor | None = None, **times: Any
    ) -> tuple[Tensor, State]:
        """Runs from a given state and returns the final state too: for live data and for training in pieces.

        Of a linear start and of a pooling there is an output at every step. With `started`, its outputs, the state is
        that of the network alone.
        """
        check("step", self)
        state = self.initial_state(len(x)) if state is None and (self.start or self.pooling) else state
        count = self.network_parts
        if self.start is None or started is not None:
            output, after = self._network(x, None if state is None else state[:count], **times)
            return (output if started is None else output + started.to(output)), after
        assert state is not None
        output, after = self._network(x, state[:count], **times)
        started, summed = self.run_start(x, tuple(part[0] for part in state[count:]), last=output.dim() == 2, **times)
        return output + started.to(output), (*after, *(part[None] for part in summed))

    def run_start(
        self,
        x: Tensor,
        state: State,
        *,
        last: bool = False,
        dt: Tensor | None = None,
        lengths: Tensor | None = None,
        observed: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Returns the outputs of the linear start, `(B, T, K)` or those of the last steps, and its state."""
        assert isinstance(self.start, (LinearStart, SeveralStart))
        like = torch.zeros((), dtype=torch.float64, device=x.device)
        gaps = like.new_ones(x.shape[:2]) if dt is None else (dt.squeeze(-1) if dt.dim() == 3 else dt).to(like)
        is_observed = torch.ones_like(x, dtype=torch.bool) if observed is None else observed
        rows = torch.cat([torch.where(is_observed, x.to(like), 0.0), is_observed.to(like)], dim=-1).transpose(0, 1)
        cell, plan = RunningStart(self.start), Plan(lengths, last=last)
        y, state = run_cell(cell, rows, state, gaps.transpose(0, 1).unsqueeze(-1), plan)
        return (y if last else y.transpose(0, 1)), state

    def _network(
        self, x: Tensor, state: State | None, *, static: Tensor | None = None, **times: Any
    ) -> tuple[Tensor, State]:
        if self.embedding is not None:
            x = self.embedding(x.squeeze(-1) if x.dim() == 3 else x)
        elif x.dtype != self.head.weight.dtype:
            x = x.to(self.head.weight.dtype)
        if self.pooling is None or state is None:
            y, state = self.layer(x, state, **times)
            y = y if self.pooling is None else pooled(y, times.get("lengths"), self.pool)
        else:
            y, state = self._pooled_so_far(self.pooling, x, state, **times)
        return self.head(y if self.modulation is None else self._with_static(y, static)), state

    def _pooled_so_far(self, pooling: Pooling, x: Tensor, state: State, **times: Any) -> tuple[Tensor, State]:
        """Returns the pooled outputs at every step, and the state of the layer and of the pooling."""
        y, after = self.layer(x, state[:-2], **times)
        rows = y.transpose(0, 1)
        lengths = times.get("lengths")
        plan = Plan(None if lengths is None else torch.as_tensor(lengths))
        y, pooled_state = run_cell(pooling, rows, tuple(part[0] for part in state[-2:]), rows[..., :1], plan)
        return y.transpose(0, 1), (*after, *(part[None] for part in pooled_state))

    def _with_static(self, y: Tensor, static: Tensor | None) -> Tensor:
        """Returns `[y (1 + W s), s]`."""
        assert self.modulation is not None
        if static is None or static.shape != (len(y), self.modulation.in_features):
            shape = None if static is None else tuple(static.shape)
            raise ValueError(f"static must have shape ({len(y)}, {self.modulation.in_features}), got {shape}.")
        s = static.to(y).nan_to_num()
        s = s[:, None].expand(-1, y.shape[1], -1) if y.dim() == 3 else s
        return torch.cat([y * (1 + self.modulation(s)), s], dim=-1)

    def with_settings_of(self, tensors: dict[str, Tensor]) -> SequenceModel:
        """Returns this model, or a new one with those settings of the saved `tensors` that the spec does not hold.

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
        """Writes the weights (`.safetensors`) and the spec (`.json`) next to them; returns the path of the weights."""
        if self.spec is None:
            raise ValueError(
                "this model was assembled by hand; only models made by SequenceModel.build(spec) can be saved."
            )
        path = Path(path).with_suffix(".safetensors")
        with replacing(path) as draft:
            # Written by Python: an error from safetensors would not mention a full disk.
            weights = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
            draft.write_bytes(safetensors().torch.save(weights))
        write_json(path.with_suffix(".json"), self.spec.as_dict())
        return path

    @classmethod
    def load(cls, path: str | Path) -> SequenceModel:
        """Reads what `save` wrote and returns the model in evaluation mode."""
        load_file = safetensors().torch.load_file
        path = Path(path).with_suffix(".safetensors")
        spec: ModelSpec = read_json(path.with_suffix(".json"), ModelSpec)
        try:
            weights = load_file(path)
        except FileNotFoundError:
            raise
        except Exception as error:  # untrusted bytes
            raise ValueError(f"{path}: {_one_line(error)}") from error
        return cls.from_weights(spec, weights, str(path))

    @classmethod
    def from_weights(cls, spec: ModelSpec, weights: dict[str, Tensor], origin: str) -> SequenceModel:
        """Builds the model of a spec with the given weights, in evaluation mode.

        Args:
            spec: Description of the model to build.
            weights: Its `state_dict`, not trusted.
            origin: Beginning of error messages.
        """
        try:
            # A layer has at least one tensor, so this is checked before the layers are built one by one.
            if (layers := spec.num_layers * spec.ensemble) > len(weights):
                raise ValueError(f"the spec has {layers:,} layers, but there are only {len(weights):,} weight tensors.")
            most = max(_FEW_NUMBERS, _MOST_TIMES_THE_WEIGHTS * sum(tensor.numel() for tensor in weights.values()))
            # The initial weights are replaced below.
            with torch.random.fork_rng(devices=[]), Budget(most):
                model = cls.build(spec).with_settings_of(weights)
            _check_shapes(model, weights)
            model.load_state_dict(weights)
        except Exception as error:  # settings that a cell may reject with any error
            raise ValueError(f"{origin}: {_one_line(error)}") from error
        return model.eval()


def pooled(y: Tensor, lengths: Tensor | None, pool: str) -> Tensor:
    """Returns the mean, the sum divided by √n or the maximum of `y (B, T, H)` over the n valid steps.

    Example:
        >>> y = torch.tensor([[[1.0], [3.0], [0.0], [8.0]], [[-2.0], [-1.0], [-3.0], [0.0]]])
        >>> [pooled(y, torch.tensor([2, 4]), pool).flatten().tolist() for pool in ("mean", "max")]
        [[2.0, -1.5], [3.0, 0.0]]
        >>> pooled(y, None, "sum").flatten().tolist()
        [6.0, -3.0]
    """
    count = torch.full((len(y), 1), y.shape[1], device=y.device)
    if lengths is not None:
        count = torch.as_tensor(lengths, device=y.device)[:, None]
        outside = (torch.arange(y.shape[1], device=y.device) >= count)[..., None]
        y = y.masked_fill(outside, -torch.inf if pool == "max" else 0.0)
    if pool == "max":
        return y.amax(1)
    return y.sum(1) / (count.to(y) if pool == "mean" else count.to(y).sqrt())


class WordEmbedding(nn.Embedding):
    """Embedding of symbols; in training, a share `dropout` of the symbols has zero vectors throughout a batch.

    Example:
        >>> table = WordEmbedding(1000, 4, dropout=0.5)
        >>> words = torch.arange(1000).repeat(2, 1)
        >>> one, again = table(words).abs().sum(-1) > 0  # a word is dropped everywhere or nowhere
        >>> bool((one == again).all()), 400 < int(one.sum()) < 600, bool((table.eval()(words) != 0).all())
        (True, True, True)
    """

    def __init__(self, symbols: int, size: int, dropout: float):
        super().__init__(symbols, size)
        self.dropout = dropout

    def forward(self, input: Tensor) -> Tensor:
        """Returns the vectors `(..., size)` of `input (...)`."""
        vectors = super().forward(input)
        if not (self.training and self.dropout):
            return vectors
        kept = nn.functional.dropout(self.weight.new_ones(self.num_embeddings, 1), self.dropout)
        return vectors * nn.functional.embedding(input, kept)


def _check_shapes(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Raises an error that names one tensor that does not fit; torch's lists them all."""
    wanted, given = (
        {name: tuple(tensor.shape) for name, tensor in tensors.items() if not name.endswith("_extra_state")}
        for tensors in (model.state_dict(), weights)
    )
    wrong = [name for name in wanted | given if wanted.get(name) != given.get(name)]
    if wrong:
        first = wrong[0]
        raise ValueError(
            f"{len(wrong):,} of {len(wanted | given):,} weight tensors do not fit the spec, such as {first}: "
            f"{given.get(first, 'missing')} in the file, {wanted.get(first, 'none')} in the model."
        )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _embedding(spec: ModelSpec, vectors: NDArray[Any] | None) -> nn.Module:
    assert spec.symbols is not None
    table = WordEmbedding(spec.symbols, spec.embedding_size, spec.word_dropout)
    if vectors is not None:
        given = torch.as_tensor(vectors, dtype=table.weight.dtype)
        if given.shape != table.weight.shape:
            wanted = f"({spec.symbols}, {spec.embedding_size})"
            raise ValueError(
                f"vectors must have shape {wanted} for the symbols of this model, got {tuple(given.shape)}."
            )
        complete = given[~given.isnan().any(1)]
        with torch.no_grad():
            if len(complete) > 1:  # words without a vector get the scale of the others
                table.weight.mul_(complete.std(0)).add_(complete.mean(0))
            table.weight.copy_(torch.where(given.isnan(), table.weight, given))
    return nn.Sequential(table, nn.Dropout(spec.embedding_dropout)) if spec.embedding_dropout else table
