"""A run of any length: old rounds keep their totals and who took part, and lose their metrics client by client."""

from __future__ import annotations

from pathlib import Path

from served import METHOD, RULES, World, open_store
from test_participation import check_replay

from edgefl.commands.progress import news
from edgefl.server import history
from edgefl.server.store import Store


def finished(path: Path, keep_rounds: int | None = None) -> World:
    world = World(path, METHOD, RULES)
    if keep_rounds is not None:
        world.store.close()
        world.store = Store(path, keep_rounds)
    world.finish()
    assert world.done
    return world


def test_old_rounds_lose_what_is_by_client_and_nothing_else(tmp_path: Path) -> None:
    whole, pruned = (history.metrics(finished(tmp_path / str(keep), keep).path) for keep in (None, 2))
    assert ["clients" in line for line in pruned] == [False, False, True, True]
    for old, new in zip(whole[:2], pruned[:2], strict=True):
        kept = {name: old[name] for name in new if name not in ("evaluation", "seconds")}
        assert {name: new[name] for name in kept} == kept
        assert old.keys() - new.keys() == {"clients"}
    scores = pruned[1]["evaluation"]["personal"]
    assert scores.keys() == {"accuracy", "accuracy_weighted", "loss"}
    assert scores["accuracy"] == whole[1]["evaluation"]["personal"]["accuracy"]
    assert [each["evaluation"] for each in pruned[3:]] == [each["evaluation"] for each in whole[3:]]
    assert news(pruned[1]).startswith("accuracy ")


def test_a_pruned_run_is_replayed_and_goes_on(tmp_path: Path) -> None:
    world = finished(tmp_path / "run", keep_rounds=1)
    check_replay(world, tmp_path / "replay")
    assert len(history.progress(world.path).rulings) == RULES.rounds * METHOD.per_round
    world.store.close()
    reopened = open_store(world.path)
    assert reopened.load().done
    reopened.close()
