"""Trained models as models of MLflow (`pip install 'chronode[mlflow]'`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .runs import load, pack, prediction_columns
from .training import Trained

__all__ = ["Scorer", "log_model", "save_model"]

FILE = "model.chronode"


class Scorer:
    """Model with the `predict` of MLflow's Python functions: a frame with the columns of training in, predictions out.

    Args:
        trained: The model.

    Example:
        >>> model = mlflow.pyfunc.load_model("models:/vitals/1")                          # doctest: +SKIP
        >>> model.predict(pandas.read_csv("new.csv"))                                     # doctest: +SKIP
    """

    def __init__(self, trained: Trained):
        self.trained = trained

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Returns a pandas frame of predictions, as `chronode predict` writes them.

        Args:
            model_input: Frame with the columns of training; it needs no target.
            params: Options of `chronode.score`: intervals, at, wide, last.
        """
        import pandas

        series = self.trained.series(model_input, labeled=False)
        return pandas.DataFrame(prediction_columns(self.trained, series, **(params or {})))


def save_model(run: str | Path, path: str | Path, **options: Any) -> None:
    """Writes a run, or a packed model, as a folder that `mlflow.pyfunc.load_model` loads.

    Args:
        run: Run folder, or a file written by `chronode pack`.
        path: Folder to write.
        options: Further arguments of `mlflow.pyfunc.save_model`.
    """
    _pyfunc("save_model", run, path=str(path), **options)


def log_model(run: str | Path, name: str = "model", **options: Any) -> Any:
    """Logs a run, or a packed model, to the active run of MLflow.

    Args:
        run: Run folder, or a file written by `chronode pack`.
        name: Name of the logged model.
        options: Further arguments of `mlflow.pyfunc.log_model`, such as `registered_model_name`.
    """
    return _pyfunc("log_model", run, name=name, **options)


def _pyfunc(function: str, run: str | Path, **options: Any) -> Any:
    import tempfile

    try:
        import mlflow.pyfunc as pyfunc  # pyrefly: ignore[missing-import]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mlflow":
            raise
        raise ImportError("models of MLflow need it: pip install 'chronode[mlflow]'") from error
    with tempfile.TemporaryDirectory() as folder:
        file = Path(run)
        if file.is_dir():
            file = Path(pack(run, Path(folder) / FILE))
        return getattr(pyfunc, function)(loader_module=__name__, data_path=str(file), **options)


def _load_pyfunc(path: str) -> Scorer:
    """Loads the model of a folder of MLflow, which calls this."""
    return Scorer(load(path))
