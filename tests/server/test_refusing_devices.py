"""A device that refuses for good is absent from this round and the following ones, until it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.cli.status import describe, examine
from edgefl.errors import RunError
from edgefl.methods import FedAvg
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import BatchNorm1d, Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.server import run_history
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Close,
    DeviceJoined,
    DeviceRefusal,
    DeviceRefused,
    MessageReceived,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    Say,
    Tick,
)
from edgefl.server.run_progress import Progress
from tests.server.played import RULES, Sum, asks, begun, coordinator, play, saved, scores, train, trained
from tests.server.processes import lines, start, until
from tests.server.served import METHOD, World
from tests.server.served import RULES as SERVED_RULES

LIMIT = "model of 20570 bytes; the limit is --max-model 100"
SMALL = Graph(
    (3,),
    (Node("fc", Linear(3, 4), ("input",)), Node("norm", BatchNorm1d(4), ("fc",)), Node("out", Linear(4, 2), ("norm",))),
)


def closed(actions: list[Any]) -> list[int]:
    return [record.round for record in saved(actions) if isinstance(record, RoundClosed)]


def test_a_round_does_not_wait_for_a_device_that_refused() -> None:
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    actions = play(under_test, DeviceRefused(11, LIMIT))
    assert DeviceRefusal(1, LIMIT) in saved(actions)
    assert Say(f"client 1 does not take part until its device comes back: {LIMIT}") in actions
    assert closed(actions) == [1]
    assert under_test.state.values["total"] == 5


def test_the_following_rounds_do_not_choose_it() -> None:
    """The method asks clients 0 and 1 whoever may be chosen, and it has to ask the clients that there are."""

    class Asking(Sum):
        def plan(self, task: Any, state: Any, round: int) -> Any:
            return [plan for plan in super().plan(task, state, round) if plan.client in (task.candidates or {0, 1})]

    under_test = begun(replace(RULES, rounds=3, eval_every=3), Asking())
    play(under_test, DeviceRefused(11, LIMIT))
    actions = play(under_test, MessageReceived(10, trained(1)))
    (opened,) = [record for record in saved(actions) if isinstance(record, RoundOpened)]
    assert (opened.clients, opened.candidates) == ((0,), frozenset({0, 2}))


def test_a_device_that_comes_back_is_asked_again() -> None:
    under_test = begun()
    play(under_test, DeviceRefused(11, LIMIT))
    actions = play(under_test, DeviceJoined(12, 1, 1.0, 0))
    assert DeviceRefusal(1, "") in saved(actions)
    assert asks(12, train(1)) in actions
    assert closed(play(under_test, MessageReceived(10, trained(1)))) == []
    assert closed(play(under_test, MessageReceived(12, trained(1)))) == [1]


def test_an_evaluation_does_not_wait_for_it() -> None:
    under_test = begun(replace(RULES, rounds=1, eval_every=1))
    play(under_test, MessageReceived(10, trained(1)), MessageReceived(11, trained(1)))
    assert under_test.phase == "scoring"
    play(under_test, MessageReceived(10, scores(1)))
    actions = play(under_test, DeviceRefused(11, "the evaluation after round 1 takes longer than --max-seconds 1"))
    assert [record.round for record in saved(actions) if isinstance(record, RoundEvaluated)] == [1]
    assert under_test.phase == "over"


def test_where_all_refuse_the_run_ends_at_once() -> None:
    under_test = begun()
    play(under_test, DeviceRefused(10, LIMIT))
    with pytest.raises(RunError, match="no device takes part: 2 refused; client 0: model of 20570 bytes; the limit is"):
        play(under_test, DeviceRefused(11, "another reason"))


def test_while_others_may_still_enrol_the_run_goes_on() -> None:
    """Two of three clients have come, and round 1 waits for three."""
    under_test = coordinator(replace(RULES, wait_for=3), Sum(3))
    under_test.start(0.0)
    play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(11, 1, 1.0, 0))
    play(under_test, DeviceRefused(10, LIMIT), DeviceRefused(11, LIMIT))
    assert under_test.phase == "waiting"
    with pytest.raises(RunError, match="3 refused"):
        play(under_test, DeviceJoined(12, 2, 1.0, 0), DeviceRefused(12, LIMIT))


def test_a_stranger_refuses_for_nobody() -> None:
    under_test = begun()
    assert play(under_test, DeviceRefused(99, LIMIT)) == []


def test_after_a_restart_the_refusal_still_holds_and_the_run_does_not_end_by_itself() -> None:
    progress = Progress(
        {0: 1.0, 1: 1.0}, opened=(0, 1), refusals={0: LIMIT, 1: LIMIT}, rulings={(1, 0): None, (1, 1): None}
    )
    under_test = coordinator(progress=progress)
    assert under_test.start(0.0) == []
    assert under_test.phase == "waiting"
    assert (
        under_test.awaited(0.0) == "round 1 waits for a device that takes part; clients that refuse or have left: 0, 1"
    )
    actions = play(under_test, DeviceJoined(10, 0, 1.0, 0))
    assert asks(10, train(1)) in actions
    assert closed(play(under_test, MessageReceived(10, trained(1)))) == [1]


def small_coordinator(wait_for: int = 3) -> Coordinator:
    """Return a coordinator of three clients with a model that normalises over single values."""
    task = Task(ModelSpec.of(SMALL), 3, seed=1, graph=SMALL)
    rules = replace(RULES, wait_for=wait_for, among_enrolled=True)
    initial = SMALL.init(rng.stream(1, rng.INIT))
    return Coordinator(task, FedAvg(per_round=3, epochs=1), rules, initial, Progress())


@pytest.mark.parametrize(("examples", "is_refused"), [(0, True), (1, True), (2, False), (None, False)])
def test_a_device_with_too_few_samples_is_refused_at_its_enrolment(examples: int | None, is_refused: bool) -> None:
    under_test = small_coordinator()
    under_test.start(0.0)
    actions = play(under_test, DeviceJoined(10, 2, 1.0, 0, examples=examples))
    reasons = [action.reason for action in actions if isinstance(action, Close)]
    assert bool(reasons) == is_refused
    assert (2 in under_test.enrolled) == (not is_refused)
    if is_refused:
        assert reasons[0].startswith(f"client 2 declares {examples} training sample")
        assert "BatchNorm 'norm' sees 1 value per channel in a sample and needs 2 samples in a batch" in reasons[0]


def test_round_1_waits_no_longer_for_a_client_that_was_refused() -> None:
    under_test = small_coordinator()
    under_test.start(0.0)
    play(under_test, DeviceJoined(10, 0, 1.0, 0, examples=9), DeviceJoined(12, 2, 1.0, 0, examples=1))
    assert under_test.phase == "waiting"
    actions = play(under_test, DeviceJoined(11, 1, 1.0, 0, examples=9))
    (opened,) = [record for record in saved(actions) if isinstance(record, RoundOpened)]
    assert opened.clients == (0, 1)


def test_round_1_chooses_among_the_enrolled() -> None:
    """Two of three clients have enrolled, and round 1 waits for no more. The third may be chosen once it has come."""
    under_test = small_coordinator(wait_for=2)
    under_test.start(0.0)
    actions = play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(12, 2, 1.0, 0))
    (opened,) = [record for record in saved(actions) if isinstance(record, RoundOpened)]
    assert (opened.clients, opened.candidates) == ((0, 2), frozenset({0, 2}))


def test_a_round_names_those_that_it_is_closed_without() -> None:
    under_test = coordinator(replace(RULES, deadline_s=10.0), Sum(3))
    under_test.start(0.0)
    play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(11, 1, 1.0, 0))
    play(under_test, MessageReceived(10, trained(1)), now=1.0)
    said = [action.line for action in play(under_test, Tick(), now=10.0) if isinstance(action, Say)]
    assert said == ["round 1 is closed without the replies of clients 1, 2"]


def test_a_refusal_is_durable_and_in_the_status(tmp_path: Path) -> None:
    world = World(tmp_path / "run", METHOD, SERVED_RULES)
    for client in range(4):
        world.connect(client)
    world.save()
    world.happen(DeviceRefused(world.link_of[2], "data \x1b[31mdo not fit"))
    world.disconnect(2)
    world.dead = {2}
    world.save()
    assert run_history.progress(world.path).refusals == {2: "data \x1b[31mdo not fit"}
    world.finish()
    assert world.done
    world.store.close()


# Real processes.


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture
def shares(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    sizes = [40, 40, 2]
    count = sum(sizes)
    group = np.repeat(np.arange(3), sizes)
    np.savez(tmp_path / "d.npz", x=chance.normal(size=(count, 8)), y=chance.integers(0, 3, count), group=group)
    asked = ["--data", str(tmp_path / "d.npz"), "--group", "group", "--out", str(tmp_path / "shares")]
    assert main(["partition", *asked]) == 0
    return tmp_path


def serving(stack: ExitStack, root: Path) -> tuple[Any, Iterator[str], str]:
    """A server of three clients, its lines, and the address that it listens on."""
    asked = ("--data", str(root / "d.npz"), "--group", "group", "--method", "fedavg", "--rounds", "2", "--port", "0")
    server = start(stack, "serve", *asked, "--epochs", "1", "--linger", "1", "--run-dir", str(root / "run"))
    found = lines(server)
    until(found, "client 2 has 1 training sample; BatchNorm 'norm'")
    return server, found, until(found, "listening on ").split()[-1]


def device(stack: ExitStack, root: Path, address: str, client: int, *more: str) -> Any:
    data = root / "shares" / f"device-000{client}.npz"
    state = ("--state", str(root / f"state{client}"), "--id", str(client), "--give-up", "20")
    return start(stack, "client", "--server", address, "--data", str(data), *state, *more)


def test_a_run_goes_on_without_a_device_that_is_too_small(stack: ExitStack, shares: Path) -> None:
    server, _, address = serving(stack, shares)
    devices = [device(stack, shares, address, client) for client in range(3)]
    assert [each.wait(60) for each in devices] == [0, 0, 1]
    assert server.wait(60) == 0
    found = examine(shares / "run")
    assert (found["closed"], found["outcomes"]) == (2, {"accepted": 4})
    assert [refusal["client"] for refusal in found["refusals"]] == [2]
    assert "refused       client 2, absent until its device comes back: it declares 1 training sample" in describe(
        found
    )


def test_a_run_that_all_devices_refuse_ends_with_a_sentence(stack: ExitStack, shares: Path) -> None:
    server, found, address = serving(stack, shares)
    devices = [device(stack, shares, address, client, "--max-model", "100") for client in range(3)]
    until(found, "no device takes part: 3 refused; client 0: model of ")
    assert server.wait(60) == 1
    for each in devices:
        each.kill()
