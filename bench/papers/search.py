"""The search of a method's options: a number of trials that is equal for all methods, one trial after the other.

First come the rates of the place, with the method's own constants as they are. While the best rate is the lowest or
the highest that was tried, the next rate beyond that edge follows. Then come the method's other constants at the best
rate. The trials that are left try rates between the best rate and its neighbours. So a method without constants of its
own has more rates, and no method has more trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Values = dict[str, Any]
BEYOND = 3.0  # factor from the rate at an edge to the next rate


class Tried(NamedTuple):
    """A trial: its values, and its accuracy and loss, or None for both if a run of the trial has diverged."""

    values: Values
    accuracy: float | None
    loss: float | None

    @property
    def order(self) -> tuple[float, float]:
        """Return what the better of two trials has more of: the accuracy, and at equal accuracy the lower loss."""
        return (-1.0, 0.0) if self.accuracy is None or self.loss is None else (self.accuracy, -self.loss)


def best_of(tried: Sequence[Tried]) -> Tried:
    """Return the best trial, which is the first of equal trials."""
    return max(tried, key=lambda each: each.order)


def next_trial(
    name: str, rates: Sequence[float], own: Sequence[Mapping[str, Any]], tried: Sequence[Tried], trials: int
) -> Values | None:
    """Return the values of the next trial, or None after the last trial.

    name    name of the option that is the rate
    rates   the rates that come first
    own     other values of the method's constants, which are tried at the best rate
    trials  number of trials of every method. It is at least the number of `rates` and `own` together
    """
    if len(tried) >= trials:
        return None
    if len(tried) < len(rates):
        return {name: rates[len(tried)]}
    plain = [each for each in tried if set(each.values) == {name}]
    if len(tried) == len(plain) < trials - len(own) and (rate := _beyond(name, plain)) is not None:
        return {name: rate}
    if others := [each for each in own if not any(dict(each).items() <= done.values.items() for done in tried)]:
        return {name: best_of(plain).values[name], **others[0]}
    return _between(name, best_of(tried).values, plain)


def _beyond(name: str, plain: Sequence[Tried]) -> float | None:
    """Return the rate beyond the edge, or None where the best rate is not at an edge."""
    rates, best = [each.values[name] for each in plain], best_of(plain).values[name]
    factor = {max(rates): BEYOND, min(rates): 1 / BEYOND}.get(best)
    return None if factor is None else _rounded(best * factor)


def _between(name: str, best: Values, plain: Sequence[Tried]) -> Values:
    """Return the best values at a rate between the best rate and its better neighbour, or beyond an edge."""
    by_rate = {each.values[name]: each.order for each in plain}
    rate = best[name]
    lower = max((each for each in by_rate if each < rate), default=_rounded(rate / BEYOND**2))
    upper = min((each for each in by_rate if each > rate), default=_rounded(rate * BEYOND**2))
    better = max(lower, upper, key=lambda each: by_rate.get(each, (-1.0, 0.0)))
    return {**best, name: _rounded(math.sqrt(rate * better))}


def _rounded(rate: float) -> float:
    return float(f"{rate:.2g}")
