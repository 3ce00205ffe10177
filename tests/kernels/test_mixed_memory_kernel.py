"""Properties of the mmRNN kernel only: the flows and solvers that it knows."""

import chronode


def test_where_there_is_a_kernel():
    def has(**chosen):
        return chronode.create("mmrnn", 3, 5, **chosen).cells[0].kernel() is not None

    assert has() and has(variant="driven") and has(flow="ctrnn", solver="heun")
    assert not has(flow="gru") and not has(flow="ltc") and not has(solver="dopri5")
