"""Whom the server lets in: caps on strangers, who has to go, and the throughput of newcomers."""

from __future__ import annotations

import pytest

from edgefl.server.admission import LIFE_S, Admission, Caps, network

HERE, THERE = "192.0.2.1", "198.51.100.7"


def admission(strangers: int = 4, per_address: int = 2, room: int = 100) -> Admission:
    return Admission(Caps(strangers, per_address), room, 0.0)


def test_an_address_that_has_enough_strangers_loses_its_oldest() -> None:
    under_test = admission()
    assert [under_test.arrive(link, HERE) for link in (1, 2)] == [None, None]
    assert under_test.arrive(3, HERE) == 1
    under_test.leave(1)
    assert under_test.arrive(4, THERE) is None
    assert under_test.arrive(5, HERE) == 2


def test_when_there_are_enough_the_address_with_most_loses_its_oldest() -> None:
    under_test = admission(strangers=3)
    arrived = [(1, THERE), (2, HERE), (3, HERE)]
    assert [under_test.arrive(*each) for each in arrived] == [None, None, None]
    assert under_test.arrive(4, "203.0.113.9") == 2


def test_a_device_that_has_enrolled_is_no_stranger() -> None:
    """A thousand devices behind one address, each known before the next two come: nobody has to go."""
    under_test = admission(room=1000)
    for link in range(1000):
        assert under_test.wait_s(0.0) == 0
        assert under_test.arrive(link, HERE) is None
        under_test.know(link)
    assert under_test.strangers == 0


def test_without_room_strangers_go_before_devices() -> None:
    under_test = admission(room=3)
    for link in (1, 2):
        under_test.arrive(link, HERE)
        under_test.know(link)
    assert under_test.arrive(3, THERE) is None
    assert under_test.arrive(4, HERE) == 3
    under_test.leave(3)
    under_test.know(4)
    assert under_test.wait_s(0.0) == LIFE_S
    under_test.leave(1)
    assert under_test.wait_s(0.0) == 0


def test_a_crowd_comes_in_at_a_pace_that_leaves_each_stranger_its_time() -> None:
    """Two at once, then one a second: a stranger that comes in is the oldest of its two after two seconds."""
    under_test, now, since, shortest = admission(), 0.0, {}, LIFE_S
    for link in range(20):
        now += under_test.wait_s(now)
        assert under_test.wait_s(now) == 0
        goes = under_test.arrive(link, HERE)
        since[link] = now
        if goes is not None:
            shortest = min(shortest, now - since[goes])
            under_test.leave(goes)
    assert now == pytest.approx(18.0)
    assert shortest == pytest.approx(1.0)  # of a connection that came at once


def test_devices_give_their_turn_back() -> None:
    under_test = admission()
    under_test.arrive(1, HERE)
    under_test.arrive(2, HERE)
    assert under_test.wait_s(0.0) == pytest.approx(1.0)
    under_test.know(1)
    assert under_test.wait_s(0.0) == 0


def test_who_leaves_as_a_stranger_does_not() -> None:
    under_test = admission()
    for link in (1, 2):
        under_test.arrive(link, HERE)
        under_test.leave(link)
    assert under_test.wait_s(0.0) > 0


@pytest.mark.parametrize(
    ("strangers", "expected"), [(600, Caps(512, 256)), (184, Caps(184, 92)), (16, Caps(16, 8)), (1, Caps(1, 1))]
)
def test_caps_shrink_with_the_descriptors(strangers: int, expected: Caps) -> None:
    assert Caps(512, 256).within(strangers) == expected


def test_caps_are_checked() -> None:
    with pytest.raises(ValueError, match="per_address=0; expected per_address >= 1"):
        Caps(5, 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_is_one_address(host: str, expected: str) -> None:
    assert network(host) == expected
