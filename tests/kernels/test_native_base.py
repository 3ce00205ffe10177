"""The foundation of the native kernels: vector functions, matrix products, threads; on every instruction set here."""

import ctypes
import os
import threading

import numpy as np
import pytest
import torch  # noqa: F401  (loads the OpenMP runtime whose threads the kernels share)

from chronode.kernels import _library as kernels

ISAS = kernels.available_isas()
pytestmark = pytest.mark.skipif(not ISAS, reason="no native kernels are built")

TYPES = {"f32": np.float32, "f64": np.float64}
STORE, ADD, TANH, TRANSPOSED, GRADIENT = range(5)  # `product` in selftest.cpp
OUT_OF_MEMORY = 2  # a `Status` of entry.h


@pytest.fixture(params=ISAS)
def lib(request):
    return kernels.load(request.param)


@pytest.fixture(params=TYPES)
def suffix(request):
    return request.param


def pointer(array):
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


def apply(lib, name, x, variant=""):
    out = np.empty_like(x)
    function = getattr(lib, f"chronode_test_{name}{variant}_{'f32' if x.dtype == np.float32 else 'f64'}")
    function(pointer(x), pointer(out), ctypes.c_int64(x.size))
    return out


def exact(name, x):
    """In the widest float of the machine (80 bits on x86)."""
    x = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            small = np.exp(-np.abs(x))
            return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
        return getattr(np, name)(x)


def grid(dtype):
    reach = 120 if dtype == np.float32 else 800
    tiny = np.logspace(np.log10(np.finfo(dtype).tiny) - 3, 2, 20011)
    parts = [np.linspace(-20, 20, 400_001), np.linspace(-reach, reach, 200_003), tiny, -tiny]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_absolute_error_and_range(lib, suffix, name):
    x = grid(TYPES[suffix])
    y = apply(lib, name, x)
    assert np.max(np.abs(y - exact(name, x))) <= {"f32": 2e-7, "f64": 1e-15}[suffix]
    assert y.max() <= 1 and y.min() >= (-1 if name == "tanh" else 0)


def test_tanh_is_odd_and_exact_near_zero(lib, suffix):
    x = grid(TYPES[suffix])
    y = apply(lib, "tanh", x)
    assert np.array_equal(apply(lib, "tanh", -x), -y)
    near = (np.abs(x) < 1) & (np.abs(x) > np.finfo(x.dtype).tiny)
    assert np.max(np.abs(y[near] / exact("tanh", x[near]) - 1)) <= 4 * np.finfo(x.dtype).eps


def test_exp_relative_error(lib, suffix):
    x = grid(TYPES[suffix])
    y, true = apply(lib, "exp", x), exact("exp", x)
    limits = np.finfo(x.dtype)
    normal = (true >= limits.tiny) & (true <= limits.max)
    assert np.max(np.abs(y[normal] / true[normal] - 1)) <= {"f32": 3e-7, "f64": 2e-15}[suffix]
    assert np.all(np.isinf(y[true > np.longdouble(limits.max) * 1.001]))
    below = true < limits.tiny  # gradual underflow, to within the spacing of denormals
    assert np.max(np.abs(y[below] - true[below])) <= 2 * limits.smallest_subnormal


@pytest.mark.parametrize(("name", "limits"), [("tanh", (-1, 1)), ("sigmoid", (0, 1)), ("exp", (0, np.inf))])
def test_special_values(lib, suffix, name, limits):
    dtype = TYPES[suffix]
    odd_nan = np.full(1, np.nan, dtype)
    odd_nan.view(np.uint32 if suffix == "f32" else np.uint64)[0] |= 0x1FF  # a NaN with a payload
    x = np.concatenate([np.array([np.nan, -np.inf, np.inf, -1e30, 1e30, 0.0, -0.0], dtype), odd_nan])
    y = apply(lib, name, x)
    assert np.isnan(y[0]) and np.isnan(y[7])
    assert tuple(y[1:5]) == (*limits, *limits)
    at_zero = {"tanh": 0, "sigmoid": 0.5, "exp": 1}[name]
    assert y[5] == at_zero and y[6] == at_zero
    if name == "tanh":
        assert np.signbit(y[6]) and not np.signbit(y[5])


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp"])
def test_remainder_lanes_and_scalars_give_the_bits_of_full_lanes(lib, suffix, name):
    x = np.random.default_rng(0).normal(size=67).astype(TYPES[suffix]) * 4
    whole = apply(lib, name, x)
    for n in range(1, 35):
        assert np.array_equal(apply(lib, name, x[:n]), whole[:n])
    assert np.array_equal(apply(lib, name, x, "_scalar"), whole)


def run_gemm(lib, product, a, weights, bias, c, n, rows=None):
    """Calls the product on the arrays as they are: rows may be strided, what lies between them stays untouched."""
    m, k = a.shape
    suffix = "f32" if a.dtype == np.float32 else "f64"
    stride = [ctypes.c_int64(x.strides[0] // x.itemsize) for x in (a, weights, c)]
    sizes = [ctypes.c_int64(size) for size in (m, k, n, rows or max(m, 1))]
    function = getattr(lib, f"chronode_test_gemm_{suffix}")
    status = function(
        product, pointer(a), stride[0], pointer(weights), stride[1], pointer(bias), pointer(c), stride[2], *sizes
    )
    assert status == 0


def strided(rng, rows, columns, dtype):
    return rng.normal(size=(rows, columns + 3)).astype(dtype)[:, :columns]


SHAPES = [
    *((m, k, n) for m in (1, 5, 17) for k in (1, 5, 17, 130) for n in (1, 5, 17, 130)),
    *((m, 64, 64) for m in (2, 3, 4, 6, 7, 8, 12, 13, 16, 25, 64, 130)),
    *((300, 33, 40), (257, 260, 70), (0, 5, 5), (5, 0, 5), (5, 5, 0)),
]


@pytest.mark.parametrize("product", [STORE, ADD, TANH, TRANSPOSED, GRADIENT])
def test_products_match_numpy(lib, suffix, product):
    dtype = TYPES[suffix]
    rng = np.random.default_rng(1)
    for m, k, n in SHAPES:
        a = strided(rng, m, k, dtype)
        weights = strided(rng, *{TRANSPOSED: (n, k), GRADIENT: (m, n)}.get(product, (k, n)), dtype)
        bias = rng.normal(size=n).astype(dtype) if (m + n) % 2 else None
        c = strided(rng, *((k, n) if product == GRADIENT else (m, n)), dtype)
        before = c.base.copy()
        wide_a, wide_w = a.astype(np.float64), weights.astype(np.float64)
        if product == GRADIENT:
            expected = c.astype(np.float64) + wide_a.T @ wide_w
        else:
            expected = wide_a @ (wide_w.T if product == TRANSPOSED else wide_w) + (0 if bias is None else bias)
        if product == ADD:
            expected = expected + c
        if product == TANH:
            expected = np.tanh(expected)
        run_gemm(lib, product, a, weights, bias, c, n)
        tolerance = 8 * np.finfo(dtype).eps * (10 + max(m, k))
        np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance, err_msg=f"{m} x {k} x {n}")
        assert np.array_equal(c.base[:, n:], before[:, n:]), "written beyond the row"


def test_a_row_does_not_depend_on_its_block(lib, suffix):
    rng = np.random.default_rng(2)
    a, weights = rng.normal(size=(40, 70)).astype(TYPES[suffix]), rng.normal(size=(70, 90)).astype(TYPES[suffix])
    whole = np.zeros((40, 90), a.dtype)
    run_gemm(lib, STORE, a, weights, None, whole, 90)
    for rows in range(1, 30):
        pieces = np.zeros_like(whole)
        run_gemm(lib, STORE, a, weights, None, pieces, 90, rows)
        assert np.array_equal(pieces, whole)


def test_nan_stays_in_its_row(lib, suffix):
    a, weights = np.ones((7, 5), TYPES[suffix]), np.ones((5, 19), TYPES[suffix])
    a[3, 2] = np.nan
    c = np.zeros((7, 19), a.dtype)
    run_gemm(lib, STORE, a, weights, None, c, 19)
    assert np.all(np.isnan(c[3])) and np.all(c[[0, 1, 2, 4, 5, 6]] == 5)


def run_pool(lib, data, block_rows, threads, own_pool=False, fail_block=-1):
    m, n = data.shape
    sums, visits = np.zeros(n, data.dtype), np.zeros(m, np.int32)
    function = getattr(lib, f"chronode_test_pool_{'f32' if data.dtype == np.float32 else 'f64'}")
    sizes = [ctypes.c_int64(size) for size in (m, n, block_rows)]
    status = function(
        pointer(data), *sizes, threads, int(own_pool), ctypes.c_int64(fail_block), pointer(sums), pointer(visits)
    )
    return status, sums, visits


@pytest.mark.parametrize("own_pool", [False, True])
def test_same_bits_for_any_number_of_threads(lib, suffix, own_pool):
    data = np.random.default_rng(3).normal(size=(501, 9001)).astype(TYPES[suffix])
    _, once, _ = run_pool(lib, data, 16, 1)
    np.testing.assert_allclose(once, data.sum(0, dtype=np.float64), rtol=1e-3, atol=1e-3)
    for threads in (1, 2, 3, 8):
        for _ in range(5):
            status, sums, visits = run_pool(lib, data, 16, threads, own_pool)
            assert status == 0 and np.all(visits == 1)
            assert np.array_equal(sums, once)


@pytest.mark.parametrize("own_pool", [False, True])
def test_a_failing_block_is_reported_and_the_next_call_works(lib, own_pool):
    data = np.ones((64, 5), np.float32)
    assert run_pool(lib, data, 4, 2, own_pool, fail_block=7)[0] == OUT_OF_MEMORY
    status, sums, _ = run_pool(lib, data, 4, 2, own_pool)
    assert status == 0 and np.all(sums == 64)


@pytest.mark.parametrize("own_pool", [False, True])
def test_python_threads_at_once(lib, own_pool):
    data = np.random.default_rng(4).normal(size=(256, 500)).astype(np.float32)
    _, once, _ = run_pool(lib, data, 8, 1)
    wrong = []

    def call():
        for _ in range(50):
            status, sums, visits = run_pool(lib, data, 8, 2, own_pool)
            if status or not np.array_equal(sums, once) or not np.all(visits == 1):
                wrong.append(status)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("own_pool", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_can_call(lib, own_pool):
    data = np.ones((64, 5), np.float32)
    run_pool(lib, data, 4, 2, own_pool)
    child = os.fork()
    if child == 0:
        status, sums, _ = run_pool(lib, data, 4, 2, own_pool)
        os._exit(0 if status == 0 and np.all(sums == 64) else 1)
    assert os.waitpid(child, 0)[1] == 0
