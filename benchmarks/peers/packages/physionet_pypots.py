"""Trains one network of PyPOTS on hourly means of PhysioNet 2012.

python physionet_pypots.py MODEL EPOCHS SEED data.npz answer.json
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pypots.classification import BRITS, GRUD, SAITS

RECURRENT = {"rnn_hidden_size": 64}
ATTENTION = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 128, "dropout": 0.1}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "GRUD": (GRUD, RECURRENT),
    "BRITS": (BRITS, RECURRENT),
    "SAITS": (SAITS, ATTENTION),
}


def main() -> None:
    name, epochs, seed, data, out = sys.argv[1:6]
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    parts = np.load(data)
    build, options = MODELS[name]
    _, steps, channels = parts["train"].shape
    common = {"epochs": int(epochs), "batch_size": 64, "device": "cpu", "verbose": False}
    network = build(steps, channels, 2, **options, **common)
    begun = time.process_time()
    network.fit(
        {"X": parts["train"], "y": parts["train_labels"]}, val_set={"X": parts["valid"], "y": parts["valid_labels"]}
    )
    seconds = time.process_time() - begun
    answer = {
        "version": version("pypots"),
        "epochs": int(epochs),
        "seconds per epoch": round(seconds / int(epochs), 2),
        "test": network.predict({"X": parts["test"]})["classification_proba"][:, 1].astype(float).tolist(),
    }
    draft = Path(out).with_suffix(".draft")
    draft.write_text(json.dumps(answer))
    draft.replace(out)


if __name__ == "__main__":
    main()
