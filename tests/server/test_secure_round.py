"""The server's half of a secure round without sockets: who is ready, who is lost, what is kept, and what is told."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import RemoteProtocolError
from edgefl.methods import FedAvg
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.plan import Reply
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.reply_claim import ReplyClaim
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.rounds.summed_reply import bits_for, summand, weighted
from edgefl.methods.task import MODEL
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_terms import OwnView, read_terms
from edgefl.protocol.secure.handed_identities import read_handed
from edgefl.protocol.secure.identity import SigningIdentity
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.wire.messages import GroupReady, GroupReply, GroupRequest, Trained
from edgefl.server.events import GroupEvent
from edgefl.server.secure_round import SecureRound
from edgefl.server.secure_settings import SecureSettings, read
from tests.server.served import INITIAL, SPEC, TASK

CLIENTS, NEVER = 5, 10**9
ALGORITHM = FedAvg(per_round=CLIENTS, epochs=1, batch=4, lr=0.1)
TASK_OF_FIVE = replace(TASK, clients=CLIENTS)
STATE = ALGORITHM.start(TASK_OF_FIVE, INITIAL)
IDENTITIES = [SigningIdentity.make(random.Random(client).randbytes) for client in range(CLIENTS)]
ROSTER = Roster("home", 3, {client: each.public for client, each in enumerate(IDENTITIES)})
SETTINGS = SecureSettings(signed_roster(ROSTER, IDENTITIES[0]), step_s=10.0, run="run")
EXACT = AggregationSettings(AggregationRule("exact"), UpdateNormBound("off"))


def claim(client: int) -> ReplyClaim:
    return ReplyClaim(7 + client, 2)


class Play:
    """A round, its plans, and a device for each client that answers what it is asked. All events are kept."""

    def __init__(self, settings: SecureSettings = SETTINGS) -> None:
        self.settings = settings
        self.plans = ALGORITHM.plan(TASK_OF_FIVE, STATE, 1)
        self.round = self.opened()
        self.replies = {plan.client: self.reply(plan.client) for plan in self.plans}
        self.members: dict[int, GroupMember] = {}
        self.events: list[GroupEvent] = []
        self.away: set[int] = set()
        self.restart_at = NEVER

    def opened(self) -> SecureRound:
        return SecureRound(TASK_OF_FIVE, ALGORITHM, STATE, self.plans, 1, "float32", self.settings, EXACT)

    def reply(self, client: int) -> Reply:
        draw, blocks = np.random.default_rng(client), {}
        for name, block in self.plans[client].payload[MODEL].blocks.items():
            moved = block.values + draw.normal(0, 0.05, block.values.shape).astype(np.float32)
            blocks[name] = Block(block.shape, block.index, np.ascontiguousarray(moved))
        return Reply(1, client, {MODEL: Update(blocks)}, examples=7 + client, steps=2, metrics={"loss": 0.5})

    def ready(self, *clients: int) -> None:
        for client in clients:
            identity = IDENTITIES[client].public if self.settings.is_handed else b""
            word = GroupReady(1, b"", 7 + client, 2, 1.0, identity)
            assert self.round.judge(client, word, claim(client)) is None

    def save(self, events: list[GroupEvent], now: float = 0.0) -> None:
        self.events += events
        for event in events:
            self.round.saved(event, now)

    def go(self, until: int = 6, now: float = 0.0) -> None:
        """Answer requests up to this step, until nobody is asked any more."""
        while asked := [(k, m) for k in range(CLIENTS) if (m := self.round.message_for(k, True, None)) is not None]:
            told = [(k, m) for k, m in asked if isinstance(m, GroupRequest) and m.step < until and k not in self.away]
            for client, message in told:
                event = self.round.take(client, GroupReply(1, message.step, self.answer(client, message), ""))
                self.save([] if event is None else [event])
            closed = self.round.close_steps(now)
            self.save(closed, now)
            if len(self.events) >= self.restart_at:
                self.restart()
            if not (told or closed):
                return

    def restart(self) -> None:
        """Go on with another server, which has the saved events."""
        self.restart_at = NEVER
        self.round = self.opened()
        self.round.restore([], self.events, claim)
        self.round.go_on(0.0)
        self.save(self.round.close_steps(0.0))

    def answer(self, client: int, message: GroupRequest) -> bytes:
        part = summand(self.plans[client], self.replies[client], SPEC, TASK.seed, (), 0.5)
        if message.step == 1:
            handed = self.settings.is_handed
            data, roster = read_handed(message.data) if handed else (message.data, ROSTER)
            terms, draw = read_terms(data), random.Random(100 + client).randbytes
            bits = bits_for(sum(terms.weights), len(part.numbers), len(terms.members))
            view = OwnView(client, "run", 1, part.layout.draw, len(part.numbers), bits, 0, 7 + client)
            self.members[client] = GroupMember.begin(data, view, IDENTITIES[client], roster, draw, handed)
            return self.members[client].round_keys()
        member = self.members[client]
        if message.step == 3:
            member.receive(message.data)
            vector = weighted(part.numbers, member.state.terms.weight(client), member.state.terms.bits)
            member.mask(vector)
            return vector.tobytes()
        return {2: member.share, 4: member.consent, 5: member.open}[message.step](message.data)

    def openly(self, clients: list[int]) -> dict[str, bytes]:
        pairs = [(self.plans[client], self.replies[client]) for client in clients]
        return bits(close(TASK_OF_FIVE, ALGORITHM, STATE, pairs, 1, EXACT).state.arrays[MODEL])


def bits(params: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in params.items()}


def formed(settings: SecureSettings = SETTINGS) -> Play:
    play = Play(settings)
    play.ready(*range(CLIENTS))
    assert play.round.is_complete(None)
    play.save(play.round.form())
    return play


def outcomes(play: Play) -> dict[int, str]:
    return {each.client: each.outcome for each in play.round.rulings()}


def test_a_round_gives_the_state_of_open_replies() -> None:
    play = formed()
    play.go()
    assert play.round.is_over
    assert outcomes(play) == dict.fromkeys(range(CLIENTS), "masked")
    state, record = play.round.close(1.0, EXACT)
    assert bits(state.arrays[MODEL]) == play.openly([*range(CLIENTS)])
    assert record["groups"] == [{"clients": 5, "loss": 0.5, "accuracy": 0.5}]
    assert all("loss" not in each for each in record["clients"])  # no figure of a single client


@pytest.mark.parametrize("step", [1, 2, 3])
def test_two_clients_may_be_lost_at_a_step(step: int) -> None:
    play = formed()
    play.go(until=step)
    play.away = {1, 3}
    play.go()
    play.go(now=11.0)  # the deadline of the step has come
    assert outcomes(play) == {0: "masked", 1: "not-opened", 2: "masked", 3: "not-opened", 4: "masked"}
    state, _ = play.round.close(1.0, EXACT)
    assert bits(state.arrays[MODEL]) == play.openly([0, 2, 4])


def test_a_round_that_waits_for_a_step_names_who_owes_it() -> None:
    play = formed()
    assert not play.round.replied  # every client owes its round keys
    play.away = {3}
    play.go()
    assert play.round.replied == {0, 1, 2, 4}


def test_one_loss_more_leaves_the_group_out_by_name() -> None:
    play = formed()
    play.away = {0, 1, 3}
    play.go()
    play.go(now=11.0)
    assert set(outcomes(play).values()) == {"not-opened"}
    reasons = {each.reason for each in play.round.rulings()}
    assert len(reasons) == 1 and "2 of 5 clients sent round keys; expected at least 3" in reasons.pop()
    state, record = play.round.close(1.0, EXACT)
    assert bits(state.arrays[MODEL]) == bits(STATE.arrays[MODEL])
    assert record["left_out"]


@pytest.mark.parametrize("at", range(1, 32, 3))
def test_a_round_goes_on_from_its_saved_events(at: int) -> None:
    """A server that is killed after a number of events ends with the bits of a server that lives."""
    play = formed()
    play.restart_at = at
    play.go()
    assert play.restart_at == NEVER
    assert outcomes(play) == dict.fromkeys(range(CLIENTS), "masked")
    assert bits(play.round.close(1.0, EXACT)[0].arrays[MODEL]) == play.openly([*range(CLIENTS)])


def test_a_round_without_a_roster_hands_on_identities_and_goes_on_from_its_saved_events() -> None:
    play = formed(replace(SETTINGS, signed=b""))
    play.restart_at = 9
    play.go()
    assert play.restart_at == NEVER
    assert outcomes(play) == dict.fromkeys(range(CLIENTS), "masked")
    assert bits(play.round.close(1.0, EXACT)[0].arrays[MODEL]) == play.openly([*range(CLIENTS)])


def test_a_client_without_identity_is_refused_in_a_run_without_a_roster() -> None:
    play = Play(replace(SETTINGS, signed=b""))
    judged = play.round.judge(0, GroupReady(1, b"", 7, 2, 1.0, b""), claim(0))
    assert judged is not None and "an identity of 0 bytes of client 0; expected 32, as the run" in judged.reason


def test_nobody_is_asked_before_a_step_is_durable() -> None:
    play = Play()
    play.ready(*range(CLIENTS))
    events = play.round.form()
    assert play.round.message_for(0, True, None) is None
    play.save(events)
    message = play.round.message_for(0, True, None)
    assert isinstance(message, GroupRequest) and message.step == 1


def test_a_client_that_comes_after_the_groups_is_late() -> None:
    play = Play()
    play.ready(0, 1, 2)
    play.save(play.round.form())
    judged = play.round.judge(4, GroupReady(1, b"", 11, 2, 1.0, b""), claim(4))
    assert judged is not None and (judged.outcome, judged.reason) == ("late", "the groups of the round were formed")


def test_a_reply_with_values_or_wrong_claims_is_refused() -> None:
    play = Play()
    open_reply = Trained(1, {"model": b"values"}, b"", 7, 2, "on", {"loss": 0.1}, 1.0)
    judged = play.round.judge(0, open_reply, claim(0))
    assert judged is not None and judged.outcome == "refused" and "with values; expected secure" in judged.reason
    assert not judged.message.payload and not judged.message.metrics  # they are not kept
    judged = play.round.judge(1, GroupReady(1, b"", 700, 2, 1.0, b""), claim(1))
    assert judged is not None and "claims 700 examples; expected 8, as declared" in judged.reason


def test_a_device_that_has_lost_its_state_is_not_ready_any_more() -> None:
    play = Play()
    play.ready(0, 1)
    before = play.round._layout(0)
    assert play.round.may_plan_again(0)
    play.round.plan_again(0)
    assert play.round._layout(0) is not before
    assert 0 not in play.round.answers
    play.save(play.round.form())
    assert not play.round.may_plan_again(1)


def test_a_vector_of_another_size_is_refused() -> None:
    play = formed()
    play.go(until=3)
    with pytest.raises(RemoteProtocolError, match="a vector of 3 bytes; expected"):
        play.round.take(0, GroupReply(1, 3, b"abc", ""))


def test_a_refusal_of_a_device_is_named_where_the_group_fails() -> None:
    play = formed()
    for client in (0, 1, 2):
        assert play.round.take(client, GroupReply(1, 1, b"", "an older roster")) is None
    play.away = {3, 4}
    play.go(now=11.0)
    assert "3 clients refused, client 0: an older roster" in play.round.rulings()[0].reason


def test_settings_are_kept_with_the_run_and_take_a_newer_roster_alone(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    SETTINGS.write(tmp_path)
    assert read(tmp_path) == replace(SETTINGS, run="")
    newer = signed_roster(Roster("home", 4, dict(ROSTER.keys)), IDENTITIES[0])
    found = read(tmp_path, newer)
    assert found is not None and found.roster.version == 4
    with pytest.raises(Exception, match="version 2 of the roster of 'home'; expected version 3"):
        read(tmp_path, signed_roster(Roster("home", 2, dict(ROSTER.keys)), IDENTITIES[0]))
