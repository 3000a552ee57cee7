"""A least-recently-used cache that computes what it misses in one call."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """Values by string key; beyond ``size`` the least recently used go. Size 0 keeps none."""

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"cache size must be at least 0, got {size}")
        self.size = size
        self._values: OrderedDict[str, Value] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def get_all(
        self,
        keys: Sequence[str],
        compute: Callable[[list[str]], Sequence[Value]],
        keep: Callable[[Value], bool] = lambda value: True,
    ) -> list[Value]:
        """Return one value for each key, in order.

        ``compute`` is called once with the distinct keys that are missing, in order of first
        appearance, if there are any; its values are stored where ``keep`` allows it.
        """
        known = {key: self._values[key] for key in keys if key in self._values}
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            known.update(zip(missing, compute(missing), strict=True))
        for key in keys:
            if keep(known[key]):
                self._values[key] = known[key]
                self._values.move_to_end(key)
        while len(self._values) > self.size:
            self._values.popitem(last=False)
        return [known[key] for key in keys]
