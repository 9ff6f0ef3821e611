"""A run of any length: old rounds keep their totals and who took part, and lose their metrics client by client."""

from __future__ import annotations

from pathlib import Path

from edgefl.cli.status import not_aggregated
from edgefl.methods.task import State
from edgefl.protocol.wire.messages import Trained
from edgefl.server import run_history
from edgefl.server.events import ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.run_progress import Ruling
from edgefl.server.store import RECENT, Store
from edgefl.server.verdict_log import Rulings
from edgefl.study.progress_display import news
from tests.server.served import METHOD, RULES, World, open_store
from tests.server.test_participation import check_replay


def finished(path: Path, keep_rounds: int | None = None) -> World:
    world = World(path, METHOD, RULES)
    if keep_rounds is not None:
        world.store.close()
        world.store = Store(path, keep_rounds)
    world.finish()
    assert world.done
    return world


def test_old_rounds_lose_what_is_by_client_and_nothing_else(tmp_path: Path) -> None:
    whole, pruned = (run_history.metrics(finished(tmp_path / str(keep), keep).path) for keep in (None, 2))
    assert ["clients" in log_record for log_record in pruned] == [False, False, True, True]
    for old, new in zip(whole[:2], pruned[:2], strict=True):
        kept = {name: old[name] for name in new if name not in ("evaluation", "seconds")}
        assert {name: new[name] for name in kept} == kept
        assert old.keys() - new.keys() == {"clients"}
    scores = pruned[1]["evaluation"]["personal"]
    assert scores.keys() == {"accuracy", "accuracy_weighted", "loss"}
    assert scores["accuracy"] == whole[1]["evaluation"]["personal"]["accuracy"]
    assert [each["evaluation"] for each in pruned[3:]] == [each["evaluation"] for each in whole[3:]]
    assert news(pruned[1]).startswith("accuracy ")
    assert not_aggregated(pruned) == not_aggregated(whole) == {"excluded": 0, "clipped": 0}


def test_a_pruned_run_is_replayed_and_goes_on(tmp_path: Path) -> None:
    world = finished(tmp_path / "run", keep_rounds=2)
    check_replay(world, tmp_path / "replay")
    assert len(run_history.progress(world.path).rulings) == RULES.rounds * METHOD.per_round
    world.store.close()
    reopened = open_store(world.path)
    assert reopened.load().done
    reopened.close()


def test_a_server_loads_what_devices_may_still_ask_for(tmp_path: Path) -> None:
    """These clients answered in rounds 1 and 3, or in no round."""
    store = open_store(tmp_path)
    reply = Trained(1, {}, b"", 1, 1, "on", {}, 0.1)
    records = [RoundOpened(round, (0, 1)) for round in (1, 2, 3, 4)]
    store.save([*records, ReplyJudged(1, 0, "late", "", reply), ReplyJudged(3, 0, "late", "", reply)])
    everything = {(round, client) for round in (1, 2, 3, 4) for client in (0, 1)}
    assert store.load().rulings.keys() == everything
    assert store.load(RECENT).rulings.keys() == everything - {(1, 0), (2, 0)}
    loaded = store.load(RECENT)
    rulings = Rulings(loaded.rulings, loaded.trained)
    assert rulings.of(3, 0) == Ruling("late", "")
    assert [rulings.has_trained(round, 0) for round in (1, 2, 3, 4)] == [True, False, True, False]
    store.close()


def test_the_pages_of_old_rounds_are_used_again(tmp_path: Path) -> None:
    """A line of 20 kB a round, of which five are kept: a hundred rounds take what a few do."""
    store = Store(tmp_path, 5)
    store._database.execute("PRAGMA synchronous = OFF")
    clients = [{"client": client, "status": "on"} for client in range(500)]
    for round in range(1, 101):
        log_record = {"round": round, "clients": clients}
        store.save([RoundOpened(round, (0,)), RoundClosed(round, State({}), log_record, False)])
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    (size,) = store._database.execute("PRAGMA page_size").fetchone()
    assert pages * size < 12 * len(str(clients))
    store.close()
