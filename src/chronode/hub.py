"""Trained models on the Hugging Face Hub (`pip install 'chronode[hub]'`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .runs import load, pack, read_card

try:
    from huggingface_hub import ModelHubMixin, hf_hub_download
except ModuleNotFoundError as error:
    if error.name != "huggingface_hub":
        raise
    raise ImportError("chronode.hub needs huggingface_hub: pip install 'chronode[hub]'") from error

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HubModel"]

FILE = "model.chronode"


class HubModel(ModelHubMixin, library_name="chronode"):
    """A trained model with `save_pretrained`, `push_to_hub` and `from_pretrained`.

    A repository holds two files: the packed model, and its model card as README.md. Nothing in them is executed.

    Args:
        path: A run folder, or a file written by `chronode pack`.

    Attributes:
        trained: The model, as `chronode.load` returns it.

    Example:
        >>> HubModel("runs/vitals-1").push_to_hub("me/vitals")                             # doctest: +SKIP
        >>> model = HubModel.from_pretrained("me/vitals").trained                          # doctest: +SKIP
        >>> model.predict(model.series("new.csv", labeled=False))                         # doctest: +SKIP
    """

    def __init__(self, path: str | Path):
        self.trained = load(path)
        self._hub_mixin_config = None  # everything is in the packed file, and the local path must not be published

    def _save_pretrained(self, save_directory: Path) -> None:
        path, file = self.trained.path, save_directory / FILE
        assert path is not None
        if path.is_dir():
            pack(self.trained, file)
        elif path.resolve() != file.resolve():
            shutil.copyfile(path, file)
        (save_directory / "README.md").write_text(read_card(file), encoding="utf-8")

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **others: Any,
    ) -> Self:
        if Path(model_id).is_dir():
            return cls(Path(model_id) / FILE)
        options = {"revision": revision, "cache_dir": cache_dir, "force_download": force_download}
        options |= {"local_files_only": local_files_only, "token": token}
        return cls(hf_hub_download(model_id, FILE, **options))  # pyrefly: ignore
