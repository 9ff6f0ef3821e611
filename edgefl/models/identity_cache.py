"""A cache of values of objects by identity: objects need no hash, and the cache does not keep them alive."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """Values that belong to objects, or to tuples of objects. Nobody may change the objects.

    most  number of values after which the cache begins anew
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[int, ...], tuple[tuple[ref[Any], ...], Value]] = {}

    def get(self, *objects: Any) -> Value | None:
        """Return the value of these objects, or None if it is not known.

        A tuple of a list takes memory that CPython reuses. A tuple of a map would take new memory in each call.
        """
        found = self._known.get(tuple([id(each) for each in objects]))
        if found is None:
            return None
        for of, each in zip(found[0], objects):  # equally many, by the key
            if of() is not each:
                return None
        return found[1]

    def put(self, value: Value, *objects: Any) -> Value:
        """Remember the value of these objects, and return the value."""
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[tuple([id(each) for each in objects])] = tuple([ref(each) for each in objects]), value
        return value
