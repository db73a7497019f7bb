"""Every random draw's seed, derived by hashing, so that no draw depends on what was drawn before it."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: object) -> int:
    """Derive a seed in [0, 2**31) from the study seed, the run, the step, or whatever names the draw.

    The parts are joined by ``/``; equal parts give equal seeds on every machine and Python version.
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
