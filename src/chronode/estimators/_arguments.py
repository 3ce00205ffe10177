"""Arguments of the estimators: those that are settings of a run are declared there, and have the same defaults."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import VALIDATION
from ..runs import SECTIONS
from ..settings import help_texts
from ..training import Event


@dataclass(frozen=True)
class Argument:
    """Argument of an estimator.

    Attributes:
        kind: Type of its values.
        default: Default value.
        text: Description.
    """

    kind: Any
    default: Any
    text: str


def setting(name: str, **changes: Any) -> Argument:
    """Returns the argument for a declared setting of data, model or training.

    Args:
        name: Name of the setting.
        changes: Fields of the argument that differ.

    Example:
        >>> setting("epochs").default, setting("horizon", default=1).default
        (50, 1)
    """
    section = next(section for section in SECTIONS.values() if name in section.__dataclass_fields__)
    field = section.__dataclass_fields__[name]
    left_open = field.default in (None, (), 0) and field.default is not False
    kind = {"t": Sequence[str], "i": int, "f": float, "b": bool, "s": str}[str(field.type)[0]]
    default = None if left_open else field.default
    return replace(Argument(kind | None if left_open else kind, default, help_texts(section)[name]), **changes)


def settings_named(names: str) -> dict[str, Argument]:
    """Returns the arguments for declared settings, by name."""
    return {name: setting(name) for name in names.split()}


_ORDER = (
    'Order of the axes of 3-D arrays: "NDT" (series, channels, time, as in aeon and sktime) or "NTD"; in a list, of '
    "each 2-D array without the N."
)
_VALIDATION = (
    "Share of the groups that is held out; by default 15 of 85, as in `chronode train` after the test part. 0: nothing "
    "is held out, and the training series choose the best epoch."
)
COMMON: dict[str, Argument] = {
    "model": setting("model", kind=str | None, default=None),
    **settings_named("hidden_size num_layers epochs batch_size learning_rate"),
    "validation": Argument(float, VALIDATION, _VALIDATION),
    "early_stop": setting("early_stop"),
    "order": Argument(str, "NDT", _ORDER),
    "missing": setting("missing"),
    "settings": Argument(
        dict[str, Any] | None,
        None,
        'Settings of the layer and the model (`{"dropout": 0.1, "bidirectional": True}`) and of `ModelSpec`.',
    ),
    "training": Argument(
        dict[str, Any] | None,
        None,
        'Other `chronode.training.Settings` (`{"optimizer": "adamw", "weight_decay": 0.01}`).',
    ),
    "start": setting("start"),
    "budget": setting("budget", kind=str | float),
    "refit": setting("refit"),
    **settings_named("categorical ignore static"),
    "log": setting("log", kind=Sequence[str] | str | None),
    **settings_named("clip_values gaps"),
    "verbose": Argument(bool | int, False, "Whether to show a progress bar during training."),
    "callbacks": Argument(
        Sequence[Callable[[Event], None]] | None,
        None,
        "Functions that are called with each `BatchDone`, `EpochDone` and `Note` of `chronode.training`; not saved.",
    ),
    "n_threads": setting("threads"),
    "device": Argument(str, "cpu", 'Device for training and prediction: "cpu" or "cuda".'),
    "random_state": Argument(
        int | np.random.RandomState | None, None, "Random seed; an integer makes training reproducible."
    ),
}
"""Arguments of all estimators."""


def constructor(arguments: Mapping[str, Argument]) -> Callable[..., None]:
    """Returns an `__init__` that keeps its arguments as attributes; only the first may be given by position."""
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD, *[inspect.Parameter.KEYWORD_ONLY] * (len(arguments) - 1)]
    parameters = [
        inspect.Parameter(name, kind, default=argument.default, annotation=argument.kind)
        for kind, (name, argument) in zip(kinds, arguments.items(), strict=True)
    ]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters])

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        for name in arguments:
            setattr(self, name, bound.arguments[name])

    __init__.__annotations__ = {name: argument.kind for name, argument in arguments.items()}
    __init__.__signature__ = signature  # pyrefly: ignore[missing-attribute]
    return __init__


def with_arguments(doc: str, arguments: Mapping[str, Argument]) -> str:
    """Returns a docstring with a section for the arguments before that of the attributes."""
    lines = [textwrap.fill(f"{name}: {argument.text}", 110) for name, argument in arguments.items()]
    block = "Args:\n" + "\n".join(textwrap.indent(line.replace("\n", "\n    "), "    ") for line in lines)
    return doc.replace("    Attributes:\n", f"{textwrap.indent(block, '    ')}\n\n    Attributes:\n", 1)


def table(arguments: Mapping[str, Argument]) -> str:
    """Returns the arguments as a table in Markdown, for docs/estimators.md."""
    rows = [f"| `{name}` | {argument.default!r} | {argument.text} |" for name, argument in arguments.items()]
    return "\n".join(["| argument | default | meaning |", "| --- | --- | --- |", *rows])
