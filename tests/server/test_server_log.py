"""Few lines, whatever happens, and none that can do anything to a terminal."""

from __future__ import annotations

from edgefl.server.server_log import Log
from edgefl.system.log_lines import AGAIN_S, FIRST


def test_of_a_kind_the_first_lines_are_shown_and_then_one_a_minute_with_a_count() -> None:
    shown: list[str] = []
    log = Log(shown.append)
    for number in range(1000):
        log.say(f"refused {number}", "refused", 0.0)
    assert shown == [f"refused {number}" for number in range(int(FIRST))]
    log.say("another", "another kind", 0.0)
    log.say("refused again", "refused", AGAIN_S)
    log.say("refused again", "refused", AGAIN_S + 1)
    assert shown[int(FIRST) :] == ["another", f"refused again (and {1000 - int(FIRST)} more like it before)"]
    log.end()
    assert shown[-1] == "refused: 1 more that were not shown"


def test_after_a_quiet_time_all_are_shown_again() -> None:
    shown: list[str] = []
    log = Log(shown.append)
    for _ in range(100):
        log.say("refused", "refused", 0.0)
    for _ in range(int(FIRST)):
        log.say("refused", "refused", FIRST * AGAIN_S)
    assert len(shown) == 2 * FIRST


def test_what_a_peer_wrote_cannot_act() -> None:
    shown: list[str] = []
    Log(shown.append).say("refused: \x1b[2J\nforged line\u202e", "refused", 0.0)
    assert shown == [r"refused: \x1b[2J\nforged line\u202e"]
