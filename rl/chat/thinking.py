"""Finds where a sampled reply's thinking ends, in token ids."""

from collections.abc import Callable

from rl.chat.template import THINK_CLOSE, THINK_OPEN

Ids = tuple[int, ...]


def thinking_length(ids: Ids, decode: Callable[[Ids], str], opened: bool = False) -> int:
    """Return how many ids at the start of a reply are thinking, with the newlines that follow it.

    The thinking ends with the last closing mark, as Qwen 3's template has it. 0: there is none.
    All of ``ids``: it is never closed, whether the reply opened it or the prompt did (``opened``).
    A token is never cut: one that begins inside the mark and goes on after it counts as thinking.
    """
    text = decode(ids)
    marks = text.count(THINK_CLOSE)
    if not marks:
        unclosed = opened or text.lstrip().startswith(THINK_OPEN)
        return len(ids) if unclosed else 0
    low, high = 1, len(ids)  # the fewest ids whose text holds all the marks
    while low < high:
        middle = (low + high) // 2
        if decode(ids[:middle]).count(THINK_CLOSE) < marks:
            low = middle + 1
        else:
            high = middle
    while low < len(ids) and set(decode(ids[low : low + 1])) == {"\n"}:
        low += 1
    return low
