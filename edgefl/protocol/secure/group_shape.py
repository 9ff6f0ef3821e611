"""The number of neighbours of each client of a group, and the threshold of its shares.

Up to 100 clients, everybody is a neighbour of everybody, and the threshold is floor((n + colluders) / 2) + 1. Two sets
of clients of this size have an honest client in common, which answers for one set alone. So a lying server and its
colluders open at most one of a client's two seeds.

Beyond 100 clients, a client has `degree` neighbours in a sparse graph (mask_graph.py). Then a server that follows the
protocol learns the sum alone, except with a probability of 2^-40, and a round with the tolerated losses is opened,
except with a probability of 2^-30. A lying server is not covered. If no sparse graph has these probabilities, the graph
is complete. All probabilities are compared as integers, so that both sides agree to the last bit.
The rules follow section 6 of Bonawitz et al. 2017, and section 3 of Bell et al. 2020.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

MOST_COMPLETE = 100  # clients of a group whose graph is complete
SECURITY_BITS = 40
CORRECTNESS_BITS = 30


class GroupShape(NamedTuple):
    """The number of neighbours of each client, and the number of shares that give a secret."""

    degree: int
    threshold: int


def shape_for(clients: int, colluders: int, losses: int, least: int) -> GroupShape:
    """Return the shape of a group.

    clients    number of members
    colluders  members who may tell the server all that they know
    losses     members who may be lost in all, over all steps of a round
    least      least number of members whose sum may be opened
    """
    if clients > MOST_COMPLETE:
        for degree in range(2, clients - 1, 2):
            threshold = _lowest_safe_threshold(clients, colluders, losses, degree)
            if threshold is not None and _is_opened(clients, losses, degree, threshold):
                return GroupShape(degree, max(threshold, least))
    return complete_shape(clients, colluders, least)


def complete_shape(clients: int, colluders: int, least: int) -> GroupShape:
    """Return the shape in which everybody is a neighbour of everybody."""
    return GroupShape(clients - 1, max((clients + colluders) // 2 + 1, least))


@lru_cache
def is_safe(clients: int, colluders: int, losses: int, least: int, shape: GroupShape) -> bool:
    """Return whether a device may take part in a group of this shape."""
    if shape == complete_shape(clients, colluders, least):
        return True
    if clients <= MOST_COMPLETE or shape.degree % 2 or not 0 < shape.degree < clients - 1:
        return False
    lowest = _lowest_safe_threshold(clients, colluders, losses, shape.degree)
    return lowest is not None and max(lowest, least) <= shape.threshold <= shape.degree + 1


def _lowest_safe_threshold(clients: int, colluders: int, losses: int, degree: int) -> int | None:
    """Return the lowest threshold at which colluders open nothing, or None if honest clients may be cut apart.

    The losses before the graph is drawn leave fewer clients, among whom the colluders are more likely neighbours.
    """
    drawn, half = clients - losses, degree // 2
    if degree >= drawn or colluders >= drawn or clients * (colluders + losses) ** half << SECURITY_BITS > clients**half:
        return None
    others = drawn - 1
    most = comb(others, degree)
    tail = 0  # ways in which a client has at least `threshold` colluders as neighbours
    for threshold in range(min(degree, colluders), 0, -1):
        tail += comb(colluders, threshold) * comb(others - colluders, degree - threshold)
        if (clients * tail << SECURITY_BITS) > most:
            return threshold + 1
    return 1


def _is_opened(clients: int, losses: int, degree: int, threshold: int) -> bool:
    """Return whether enough neighbours of every client remain when `losses` are lost after the graph was drawn."""
    others = clients - 1
    stay = others - losses
    fewer = sum(comb(stay, left) * comb(losses, degree - left) for left in range(min(threshold, degree + 1)))
    return (clients * fewer << CORRECTNESS_BITS) <= comb(others, degree)
