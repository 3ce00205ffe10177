"""Random calls of every kernel, with weights up to 50 times their usual size and states up to 1e30.

In float32 a kernel may be as far from the float64 result as the torch path in float32, times a small factor, and it is
finite wherever the torch path is; in outputs, final states and all gradients. In float64, both paths agree to 1e-9.
Some calls have missing values.
"""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import CASES
from stress import FACTOR, FLOORS, errors, stressed, stressful_calls

from chronode.kernels import _library as library

pytestmark = [
    pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built"),
    pytest.mark.filterwarnings("ignore:the outputs of:RuntimeWarning"),
]

every_case = pytest.mark.parametrize("name", CASES)
quiet = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],  # a smaller call would fail for another reason, and finding it takes minutes
}


def assert_as_exact_as_torch(name, drawn):
    # The spread of torch's own error is estimated from a few runs, and from many if these do not explain the kernel's.
    if too_far(name, drawn, nudges=2):
        assert not (wrong := too_far(name, drawn, nudges=64)), "; ".join(wrong)


def too_far(name, drawn, nudges):
    """The results whose error is larger than allowed, in words."""
    found = errors(*stressed(name, drawn), nudges=nudges)
    floor = FLOORS[drawn[0]["dtype"]]
    return [
        f"{part}: error {native:.3g}, of torch {plain:.3g}"
        for part, (native, plain, largest) in found.items()
        if not native <= FACTOR * plain + floor(largest)
    ]


@every_case
@settings(max_examples=6, **quiet)
@given(data=st.data())
def test_kernels_are_as_exact_as_torch(name, data):
    assert_as_exact_as_torch(name, data.draw(stressful_calls(name)))


@pytest.mark.slow  # minutes a kernel: 5,040 calls in all
@every_case
@settings(max_examples=420, **quiet)
@given(data=st.data())
def test_kernels_are_as_exact_as_torch_in_many_calls(name, data):
    assert_as_exact_as_torch(name, data.draw(stressful_calls(name)))
