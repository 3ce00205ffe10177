import numpy as np
from event_decoding import decode
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chronode.lab.tasks._events import Events, encode
from chronode.lab.tasks.bitstream import BLOCK, bitstream

rows = st.tuples(st.integers(1, 6), st.integers(1, 20))


@given(rows.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(0, 2))), st.randoms())
def test_decoding_undoes_encoding(symbols, random):
    lengths = np.array([random.randint(1, symbols.shape[1]) for _ in symbols])
    symbols[np.arange(symbols.shape[1]) >= lengths[:, None]] = 0
    decoded, decoded_lengths = decode(encode(symbols, lengths))
    assert (decoded_lengths == lengths).all()
    assert (decoded == symbols[:, : decoded.shape[1]]).all()


def test_events_are_the_first_symbol_every_change_and_the_end():
    events = encode(np.array([[0, 0, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]]), np.array([7, 2]))
    assert events.lengths.tolist() == [4, 2]
    assert events.values[0].tolist() == [0, 1, 0, 0]
    assert events.gaps[0].tolist() == [1, 2, 3, 1]
    assert events.values[1, :2].tolist() == [1, 0]
    assert events.gaps[1].tolist() == [1, 1, 0, 0]


def test_a_change_at_the_last_place_needs_no_closing_event():
    events = encode(np.array([[1, 1, 0]]))
    assert events.values.tolist() == [[1, 0]]


def test_bitstream_target_is_the_parity_of_the_bits_that_were_coded():
    streams = bitstream(500, seed=3).batch()
    values = streams.x[..., 0].long().numpy()
    gaps = (streams.dt * BLOCK).round().long().numpy()
    bits, lengths = decode(Events(values, gaps, streams.lengths.numpy()))
    assert (bits.sum(1) % 2 == streams.target.numpy()).all()
    assert lengths.min() >= 2
    assert lengths.max() <= BLOCK - 1


def test_dense_bitstream_tells_every_bit_one_place_apart():
    streams = bitstream(50, seed=0, event=False, shortest=BLOCK, longest=BLOCK).batch()
    assert streams.x.shape == (50, BLOCK, 1)
    assert (streams.dt * BLOCK == 1).all()
    assert (streams.x.sum((1, 2)) % 2 == streams.target).all()


def test_the_same_seed_gives_the_same_streams_and_another_seed_others():
    one, same, other = bitstream(20, 1).batch(), bitstream(20, 1).batch(), bitstream(20, 2).batch()
    assert (one.target == same.target).all()
    assert one.x.equal(same.x)
    assert not (one.target == other.target).all()
