"""No argument, however wrong, makes a native kernel read or write out of bounds, even if it is called directly.

Every C function is called with each of its arguments spoilt in turn. A check that is missing may crash the process, so
this happens in children; under AddressSanitizer it may not even read too far.
"""

import pytest
import torch
from children import in_child
from helpers import batch
from kernel_cases import CASES, make, native_calls

import chronode
from chronode.kernels import _library as library
from chronode.kernels import ops

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

HUGE = 2**62
STEPS = 5


def small_calls(name):
    """Every call into the library of a forward and a backward pass of that case."""
    layer = make(name, 3, 6, torch.float32, dropout=0.3)
    x, dt, _, state = batch(layer, 4, STEPS, torch.float32)
    return native_calls(layer, x, dt, torch.tensor([3, STEPS, 1, 4]), state)


def spoilt(argument):
    """Other values for an argument, none of which fits the rest of the call unless it is a choice."""
    if isinstance(argument, torch.Tensor):
        flat = argument.flatten()
        other = torch.float64 if argument.dtype == torch.float32 else torch.float32
        yield flat[:-1].clone()
        yield torch.cat([flat, flat[:1]])
        yield argument.new_empty(0)
        yield argument.to(other)
        yield argument.to(torch.int32)
        yield unaligned(argument)
        if argument.dim() > 1 and argument.numel() > max(argument.shape):
            yield argument.transpose(0, -1).contiguous().transpose(0, -1)
        if argument.dtype == torch.int64:
            for place in (0, -1):
                for length in (0, -1, STEPS + 1, HUGE, -HUGE):
                    yield flat.clone().index_fill_(0, torch.tensor(place % len(flat)), length)
    elif isinstance(argument, int) and not isinstance(argument, bool):
        yield from (argument - 1, argument + 1, 0, -1, HUGE, -HUGE, 3 * argument + 100)


def unaligned(tensor):
    raw = torch.empty(tensor.nbytes + 1, dtype=torch.uint8).numpy()
    return torch.frombuffer(raw, dtype=tensor.dtype, count=tensor.numel(), offset=1)


def survivors(name):
    """Calls with a spoilt argument that no check refused, as texts; run this in a process of its own."""
    for kernel, dtype, *arguments in small_calls(name):
        for place, argument in enumerate(arguments):
            for other in spoilt(argument):
                changed = [*arguments[:place], other, *arguments[place + 1 :]]
                try:
                    ops.call(kernel, dtype, *changed)
                except (ValueError, MemoryError):
                    continue
                yield kernel, place, "array" if isinstance(other, torch.Tensor) and len(other) else "choice"


def test_every_invalid_argument_is_refused():
    code = """
from test_bounds import CASES, survivors
for name in CASES:
    for found in survivors(name): print(name, *found)
    print(name, "end", flush=True)
"""
    lines = in_child(code).splitlines()
    assert [line.removesuffix(" end") for line in lines if line.endswith(" end")] == list(CASES)
    # A number, such as an activation's, or an array that is left out may be a choice.
    assert not [line for line in lines if not line.endswith((" choice", " end"))]


def lengths_message(call):
    with pytest.raises(ValueError, match="lengths") as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("length", [0, -1, STEPS + 1, HUGE])
def test_a_wrong_length_is_named(name, length):
    named = []
    for kernel, dtype, *arguments in small_calls(name):
        for place, argument in enumerate(arguments):
            if isinstance(argument, torch.Tensor) and argument.dtype == torch.int64:
                arguments[place] = torch.tensor([1, 2, length, 3])
                message = lengths_message(lambda call=(kernel, dtype, *arguments): ops.call(*call))
                assert message == f"{kernel}: lengths[2] is {length}; it must be from 1 to {STEPS}, the time steps."
                named.append(kernel)
    assert len(named) == 2, "a forward and a backward pass"


COMPILED = ("unicornn", "ltc", "sru", "indrnn")


def check_compiled(name, export):
    """A compiled or exported layer refuses wrong lengths in the kernel: its checks no longer look at values."""
    layer = chronode.create(name, 3, 6)
    x, dt = torch.randn(4, STEPS, 3), torch.rand(4, STEPS)
    right = torch.tensor([3, STEPS, 1, 4])
    if export:
        run = torch.export.export(layer, (x,), {"dt": dt, "lengths": right}).module()
    else:
        run = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(x, dt=dt, lengths=right)[0], layer(x, dt=dt, lengths=right)[0])
    for length in (0, -1, STEPS + 1, HUGE):
        wrong = right.clone().index_fill_(0, torch.tensor(1), length)
        message = lengths_message(lambda wrong=wrong: run(x, dt=dt, lengths=wrong))
        assert f"lengths[1] is {length};" in message, message
    torch.testing.assert_close(run(x, dt=dt, lengths=right)[0], layer(x, dt=dt, lengths=right)[0])


@pytest.mark.parametrize("export", [pytest.param(False, marks=pytest.mark.slow), True], ids=["compile", "export"])
def test_compiled_and_exported_layers_refuse_wrong_lengths(export):
    code = f"""
from test_bounds import COMPILED, check_compiled
for name in COMPILED:
    check_compiled(name, {export})
    print(name, flush=True)
"""
    assert in_child(code).split() == list(COMPILED)


def test_wrong_dimensions_are_named():
    case = CASES["indrnn"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case.module.ops, "call", lambda *_: pytest.fail("the kernel was called"))
        with pytest.raises(ValueError, match=r"a must have 3 dimensions, got shape \(2, 3\)"):
            operator = getattr(case.module, case.operator)
            operator(torch.zeros(2, 3), torch.zeros(2, 5), torch.ones(5), None, None, "indrnn", False, True)
