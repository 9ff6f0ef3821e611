"""The lines of a run about replies that are not aggregated as they came: one for each reply, and no flood of them."""

from __future__ import annotations

from typing import Any

from edgefl.cli.refusal_log import MOST, Refusals


def log_record(*statuses: str, round: int = 3) -> dict[str, Any]:
    clients = [
        {"client": k, "status": status, **({"reason": f"why {k}"} if status in ("refused", "excluded") else {})}
        for k, status in enumerate(statuses)
    ]
    return {"round": round, "clients": clients}


def test_honest_rounds_say_nothing() -> None:
    said: list[str] = []
    Refusals(said.append).closed(log_record("on", "stopped", "absent", "late"))
    assert said == []


def test_a_refusal_is_said_when_it_is_judged_and_not_again() -> None:
    said: list[str] = []
    refusals = Refusals(said.append)
    refusals.judged(3, "accepted", "", 0)
    refusals.judged(3, "refused", "why 0", 0)
    assert said == ["round 3: refused: why 0"]
    refusals.closed(log_record("refused", "excluded"))
    assert said[1:] == ["round 3: excluded: why 1"]


def test_a_simulation_says_all_of_it_when_the_round_closes() -> None:
    said: list[str] = []
    clipped = log_record("refused", "on")
    clipped["clients"][1]["clipped"] = "too long"
    Refusals(said.append).closed(clipped)
    assert said == ["round 3: refused: why 0", "round 3: clipped: too long"]


def test_a_round_says_few_lines_and_how_many_more_there_were() -> None:
    said: list[str] = []
    refusals = Refusals(said.append)
    for k in range(MOST + 2):
        refusals.judged(3, "refused", f"why {k}", k)
    assert len(said) == MOST
    refusals.closed(log_record(*["refused"] * (MOST + 2), "excluded"))
    assert said[MOST:] == ["round 3: and 3 more like these"]
    refusals.closed(log_record("excluded", round=4))
    assert said[-1] == "round 4: excluded: why 0"
