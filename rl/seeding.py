"""Seeds derived from names: a draw depends on what it is for, never on the order of arrival."""

import hashlib
import random


def derive_seed(*parts: int | str) -> int:
    """Return a 63-bit seed that is a pure function of ``parts``.

    Typical parts are ``(run seed, episode id, turn, candidate)``. Parts are length-prefixed
    before hashing, so ``("ab", "c")`` and ``("a", "bc")`` give different seeds.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = f"{type(part).__name__}:{part}".encode()
        digest.update(len(encoded).to_bytes(4, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "big") >> 1


def derived_random(*parts: int | str) -> random.Random:
    """Return a random generator seeded by :func:`derive_seed`."""
    return random.Random(derive_seed(*parts))
