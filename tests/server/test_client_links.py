"""The ids that devices get, and the provenances for which they are remembered."""

from __future__ import annotations

from edgefl.server.client_links import MOST_PROVENANCES, Clients


def test_who_asks_for_any_id_gets_the_lowest_that_nobody_has() -> None:
    clients = Clients(5, {0: 1.0, 3: 1.0})
    given = []
    while (found := clients.find(None)) is not None:
        assert clients.find(None) == found  # to ask is not to take
        assert clients.begin_enrolment(found, b"%d" % found)
        given.append(found)
        if found == 2:
            clients.end_enrolment(2, 0.5)
    assert given == [1, 2, 4]
    assert clients.find(None, b"2") == 2
    assert (clients.find(4), clients.find(5), clients.find(-1)) == (4, None, None)


def test_provenances_of_a_client_are_its_own() -> None:
    clients = Clients(3, {}, provenances=[(0, "kind 0"), (1, "kind 1")])
    assert not clients.add_provenance(0, "kind 0")
    assert clients.add_provenance(0, "kind 1")
    assert [clients.add_provenance(1, f"other {i}") for i in range(MOST_PROVENANCES)] == [True] * (
        MOST_PROVENANCES - 1
    ) + [False]
    assert clients.add_provenance(2, "kind 0")
