"""LinOSS, LRU and S5 against the programs of the authors of LinOSS: `authors.json` has their weights and outputs.

The file was written by running their layers (JAX, float32) on random weights; no program of theirs is part of this.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import chronode

RECORDED = json.loads((Path(__file__).parent / "authors.json").read_text())


def pairs(values):
    """(..., 2): real and imaginary parts in the last axis, as the authors keep them."""
    values = np.array(values)
    return values[..., 0] + 1j * values[..., 1]


def weights(layer):
    """Their weights under our names; C acts on (Re h, Im h), and holds the 2 of conjugate pairs."""
    w = {name: np.array(value) for name, value in layer["weights"].items()}
    if layer["model"] == "lru":
        B, C = w["B_re"] + 1j * w["B_im"], w["C_re"] + 1j * w["C_im"]
        ours = {"nu": w["nu_log"], "theta": w["theta_log"], "log_gamma": w["gamma_log"]}
    elif layer["model"] == "s5":
        B, C = pairs(w["B"]), 2 * pairs(w["C"])
        ours = {"log_decay": np.log(-w["Lambda_re"]), "frequency": w["Lambda_im"], "log_step": w["log_step"][:, 0]}
    else:
        B, C = pairs(w["B"]), pairs(w["C"])
        ours = {"stiffness": w["A_diag"], "rate": w["steps"]}
    return ours | {"B": np.concatenate([B.real, B.imag]), "C": np.concatenate([C.real, -C.imag], axis=1), "D": w["D"]}


@pytest.mark.parametrize("layer", RECORDED["layers"], ids=lambda one: f"{one['model']}-{one['settings']}")
def test_outputs_are_those_of_the_authors_programs(layer):
    x = torch.tensor([RECORDED["x"]])
    ours = chronode.create(layer["model"], x.shape[-1], x.shape[-1], **layer["settings"])
    state = {name: torch.tensor(value, dtype=torch.float32) for name, value in weights(layer).items()}
    ours.cells[0].load_state_dict(state)
    y, _ = ours(x)
    np.testing.assert_allclose(y[0].detach().numpy(), layer["y"], rtol=1e-5, atol=1e-5)
