from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from onelayer.seeds import derive_seed


def test_by_hand() -> None:
    first_bytes = hashlib.sha256(b"0/full-s1/step/3").digest()[:4]
    assert derive_seed(0, "full-s1", "step", 3) == int.from_bytes(first_bytes, "big") // 2


@given(st.integers(), st.text(), st.integers())
def test_in_range_and_repeatable(seed: int, run: str, step: int) -> None:
    assert 0 <= derive_seed(seed, run, step) < 2**31
    assert derive_seed(seed, run, step) == derive_seed(seed, run, step)


def test_neighbours_differ() -> None:
    seeds = {derive_seed(0, run, step) for run in ("full-s0", "full-s1", "layer-00-s0") for step in range(1000)}
    assert len(seeds) == 3000
