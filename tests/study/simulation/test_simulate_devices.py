"""Simulated rounds of modelled devices on the packaged digits. They do not depend on the workers or on a kill.

Late, absent and busy clients count as a run with these outcomes would have them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgefl.errors import StuckError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.device_models.device_assignment import Fleet, SimulatedDevice
from edgefl.experiment.device_models.device_profile import DAY_S, Profile
from edgefl.experiment.federation import Federation
from edgefl.methods import FedAvg, FedAvgFT, FedSPU, FedSPUCached
from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.task import State
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate
from tests.study.simulation.test_simulate import SMALL, BrokenOff, content, run

FAST = Profile(1e9, 1e6, 5e5, 1e-9, 1e-6, 2e-6, latency_s=0.5, joules_per_message=3.0)
SLOW = replace(FAST, macs_per_second=1e7)
FLEET = Fleet((SimulatedDevice("slow", SLOW, clients=(0, 3)), SimulatedDevice("fast", FAST)))
PLAIN = replace(SMALL, rounds=6).settings(workers=1)
OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2}
METHOD = FedSPU(keep=SMALL.keep, per_round=3, epochs=1)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(SMALL)


def of(fleet: Fleet | None, deadline_s: float = 0.0, **changes: Any) -> Any:
    return replace(PLAIN, fleet=fleet, deadline_s=deadline_s, **changes)


def states(log_records: list[Any], status: str) -> list[tuple[int, int]]:
    return [
        (log_record["round"], each["client"])
        for log_record in log_records
        for each in log_record["clients"]
        if each["status"] == status
    ]


def test_time_and_energy_follow_from_what_the_log_record_counts(federation: Federation, tmp_path: Path) -> None:
    _, log_records = run(tmp_path, METHOD, federation, of(FLEET))
    ended = 0.0
    for log_record in log_records:
        seconds, joules = [], 0.0
        for each in log_record["clients"]:
            macs, down, up = each["executed_flops"] / 2, each["down"], each["up"]
            assert each["device"] == ("slow" if each["client"] in (0, 3) else "fast")
            seconds.append(1 + down / 1e6 + up / 5e5 + macs / (1e7 if each["device"] == "slow" else 1e9))
            joules += 6 + down * 1e-6 + up * 2e-6 + macs * 1e-9
            assert each["virtual_seconds"] == pytest.approx(seconds[-1])
        assert log_record["virtual"]["began"] == ended
        assert log_record["virtual"]["joules"] == pytest.approx(joules)
        ended = log_record["virtual"]["ended"]
        assert ended == pytest.approx(log_record["virtual"]["began"] + max(seconds))
    assert len(log_records) == 6 and ended > 6


@pytest.mark.parametrize("method", [FedAvgFT(ft_epochs=2, **OPTIONS), FedAvg(ft=2, **OPTIONS)])
def test_fine_tuning_before_a_test_is_counted_apart(method: FedAvg, federation: Federation, tmp_path: Path) -> None:
    """Two passes take the work of a round of two passes over the same samples. The rounds are those without."""
    _, plain = run(tmp_path / "plain", FedAvg(**OPTIONS), federation, of(FLEET))
    _, found = run(tmp_path / "tuned", method, federation, of(FLEET))
    work = {each["client"]: each for log_record in plain for each in log_record["clients"]}
    for before, log_record in zip(plain, found, strict=True):
        assert "adaptation" not in before and ("adaptation" in log_record) == ("evaluation" in log_record)
        assert log_record["virtual"] == before["virtual"] and log_record["down"] == before["down"]
    spent = found[-1]["adaptation"]
    assert spent["payload_bytes"] == 0 and [each["client"] for each in spent["clients"]] == list(range(6))
    for each in spent["clients"]:
        trained, macs = work[each["client"]], each["executed_flops"] / 2
        assert (each["steps"], each["executed_flops"]) == (trained["steps"], trained["executed_flops"])
        assert each["virtual_seconds"] == pytest.approx(macs / (1e7 if each["device"] == "slow" else 1e9))
        assert each["virtual_joules"] == pytest.approx(macs * 1e-9)
        assert each["seconds"] > 0


def test_slow_devices_get_what_they_train_in_time(federation: Federation, tmp_path: Path) -> None:
    """The slow ones take 100 ns a multiply-add: what takes less than eight seconds there lies after the last cut."""
    free = Fleet(tuple(replace(each, profile=replace(each.profile, latency_s=0.0)) for each in FLEET.devices))
    method = FedSPUCached(keep=SMALL.keep, per_round=3, epochs=5, round_seconds=8.0)
    _, log_records = run(tmp_path, method, federation, of(free))
    trained = {each["client"]: each for log_record in log_records for each in log_record["clients"]}
    assert {each.get("cut", "") for each in trained.values() if each["device"] == "slow"} == {"flatten"}
    assert {each.get("cut", "") for each in trained.values() if each["device"] == "fast"} == {""}
    for each in trained.values():
        macs, link = each["executed_flops"] / 2, each["down"] / 1e6 + each["up"] / 5e5
        assert each["foretold_s"] <= 8
        assert each["foretold_s"] == pytest.approx(macs * (1e-7 if each["device"] == "slow" else 1e-9), rel=0.1)
        assert each["virtual_seconds"] == pytest.approx(each["foretold_s"] + link, rel=0.1)


def test_devices_that_are_always_there_change_no_bit(federation: Federation, tmp_path: Path) -> None:
    modelled, _ = run(tmp_path / "devices", METHOD, federation, of(FLEET))
    plain, log_records = run(tmp_path / "none", METHOD, federation, of(None))
    assert difference(modelled, plain) is None
    assert all("virtual" not in log_record and "device" not in str(log_record) for log_record in log_records)


HARD = Fleet(
    (
        SimulatedDevice("slow", replace(SLOW, drop_out=0.2), clients=(0, 3)),
        SimulatedDevice("fast", replace(FAST, available=((0.0, 4.0), (100.0, DAY_S)))),
    )
)


def late_run(federation: Federation, path: Path, **changes: Any) -> tuple[State, list[Any]]:
    return run(path, METHOD, federation, of(HARD, 2.5, **changes))


def test_nothing_depends_on_workers(federation: Federation, tmp_path: Path) -> None:
    late_run(federation, tmp_path / "one")
    late_run(federation, tmp_path / "three", workers=3)
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_a_run_that_was_broken_off_goes_on_at_the_same_time(federation: Federation, tmp_path: Path) -> None:
    _, log_records = late_run(federation, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="broken off"):
        method = BrokenOff(keep=SMALL.keep, per_round=3, epochs=1)
        run(tmp_path / "broken", method, federation, of(HARD, 2.5))
    late_run(federation, tmp_path / "broken")
    assert content(tmp_path / "broken") == content(tmp_path / "whole")
    times = [log_record["virtual"] for log_record in log_records]
    assert states(log_records, "late") and any(b["began"] > a["ended"] for a, b in pairwise(times))


def test_exactly_the_slow_ones_are_late_and_keep_what_they_trained(federation: Federation, tmp_path: Path) -> None:
    _, log_records = run(tmp_path, METHOD, federation, of(FLEET, 2.5))
    late, on = states(log_records, "late"), states(log_records, "on")
    assert late and {client for _, client in late} <= {0, 3} and not {0, 3} & {client for _, client in on}
    kept = Journal(tmp_path)
    assert all(kept.tag(client) == max(t for t, c in late if c == client) for _, client in late)
    kept.close()
    for log_record in log_records:
        is_waited_for = any(each["status"] == "late" for each in log_record["clients"])
        assert (log_record["virtual"]["ended"] - log_record["virtual"]["began"] == pytest.approx(2.5)) == is_waited_for


def test_a_run_with_the_same_outcomes_has_the_same_bits(federation: Federation, tmp_path: Path) -> None:
    """Busy clients are not candidates: their late replies come after the next rounds have begun."""
    state, log_records = run(tmp_path / "clock", METHOD, federation, of(FLEET, 2.5))
    busy, among, outcomes = dict[int, float](), {}, {}
    for log_record in log_records:
        began = log_record["virtual"]["began"]
        among[log_record["round"]] = frozenset(k for k in range(SMALL.clients) if busy.get(k, 0.0) <= began)
        for each in log_record["clients"]:
            outcomes[log_record["round"], each["client"]] = "late" if each["status"] == "late" else "accepted"
            busy[each["client"]] = began + each["virtual_seconds"]
    assert any(len(there) < SMALL.clients for there in among.values())
    journal = Journal(tmp_path / "logged")
    again = simulate(METHOD, federation, of(None), journal, participation=RecordedParticipation({}, outcomes, among))
    journal.close()
    assert difference(state, again) is None


def test_a_run_in_which_every_reply_is_late_says_so(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(StuckError, match="every reply came after the deadline"):
        run(tmp_path, METHOD, federation, of(Fleet((SimulatedDevice("slow", SLOW),)), 0.5, max_empty_rounds=2))
    assert len(list(read_metrics(tmp_path))) == 2


def test_a_day_is_waited_for(federation: Federation, tmp_path: Path) -> None:
    """Everybody is there for a second from 01:00: a round a day."""
    hour = Fleet((SimulatedDevice("hour", replace(FAST, available=((3600.0, 3601.0),))),))
    _, log_records = run(tmp_path, FedAvg(per_round=3, epochs=1), federation, of(hour))
    assert [log_record["virtual"]["began"] for log_record in log_records] == [3600 + DAY_S * day for day in range(6)]
