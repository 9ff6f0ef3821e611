"""The first 20 lines of a kind are shown, then one a minute with a count. A line keeps its level."""

from __future__ import annotations

from edgefl.system.log_lines import AGAIN_S, FIRST, Alert, LimitedLog, level_of


def test_a_line_has_a_level() -> None:
    assert (level_of("listening"), level_of(Alert("refused"))) == ("INFO", "WARNING")
    assert Alert("refused") == "refused"


def test_the_first_lines_of_a_kind_are_shown_and_then_one_a_minute_with_a_count() -> None:
    shown: list[str] = []
    now = 0.0
    log = LimitedLog(shown.append, lambda: now)
    for number in range(500):
        log.say(Alert(f"client {number}"), "declares")
    log.say("listening", "server")
    assert shown == [*(f"client {number}" for number in range(int(FIRST))), "listening"]
    now = AGAIN_S
    log.say(Alert("client 500"), "declares")
    log.say(Alert("client 501"), "declares")
    assert shown[-1] == "client 500 (and 480 more like it before)"
    assert level_of(shown[-1]) == "WARNING"
    log.end()
    assert shown[-1] == "declares: 1 more that were not shown"
