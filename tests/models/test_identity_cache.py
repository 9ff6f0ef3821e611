"""A cache by identity tells equal objects apart, forgets objects that are gone, and keeps nothing alive."""

from __future__ import annotations

import gc
import weakref

from edgefl.models.identity_cache import IdentityCache


class Thing:
    """All things are equal, and have no hash."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_values_belong_to_objects_and_not_to_equal_objects() -> None:
    cache, one, other = IdentityCache[str](8), Thing(), Thing()
    assert cache.put("one", one) == "one"
    assert (cache.get(one), cache.get(other)) == ("one", None)
    cache.put("both", one, other)
    assert (cache.get(one, other), cache.get(other, one), cache.get(one)) == ("both", None, "one")


def test_an_object_in_the_place_of_one_that_is_gone_has_no_value() -> None:
    cache, thing = IdentityCache[int](8), Thing()
    cache.put(1, thing)
    (key,) = cache._known
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None
    late = Thing()
    cache._known[(id(late),)] = cache._known.pop(key)  # the address of the object that is gone
    assert cache.get(late) is None


def test_a_full_cache_begins_anew() -> None:
    cache, things = IdentityCache[int](2), [Thing() for _ in range(3)]
    for number, thing in enumerate(things):
        cache.put(number, thing)
    assert [cache.get(thing) for thing in things] == [None, None, 2]
