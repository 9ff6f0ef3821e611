"""One open round with secure aggregation: clients train and say that they are ready, then their groups are opened.

The clients of a group have one layout of values, which follows from one draw of neurons. A group that is too small, or
loses too many clients, is left out of the round as a whole. Every event of a group is saved before anything follows
from it, and a round that is made again takes the same events in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.rounds.answer import Answer
from edgefl.methods.rounds.exchange import NOT_DECLARED, ReplyClaim, sizes
from edgefl.methods.rounds.reply_layout import ReplyLayout
from edgefl.methods.rounds.round_closing import AggregationSettings, close, counted, values_before
from edgefl.methods.rounds.round_metrics import NOTHING, ClientRound, round_metrics
from edgefl.methods.rounds.summed_reply import GroupTotal, bits_for, stand_in, weight_of
from edgefl.methods.task import State, Task
from edgefl.protocol.codec import Sizes
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms, read_terms
from edgefl.protocol.secure.handed_identities import read_handed
from edgefl.protocol.secure.identity import IDENTITY_BYTES
from edgefl.protocol.secure.roster import Roster
from edgefl.protocol.wire.messages import LONGEST_TEXT, GroupReady, GroupReply, Message, Trained, without_values
from edgefl.server.events import GroupEvent, ReplyJudged
from edgefl.server.group_metrics import of_groups
from edgefl.server.open_round import OpenRound, as_trained
from edgefl.server.round_group import RoundGroup
from edgefl.server.secure_settings import SecureSettings

LATE = "the groups of the round were formed"


class SecureRound(OpenRound):
    """A round between its plans and the sums of its groups.

    groups     groups by draw, once they are formed
    is_formed  whether the clients of the groups are settled
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        state: State,
        plans: list[Plan],
        number: int,
        values: str,
        settings: SecureSettings,
        aggregation: AggregationSettings,
    ) -> None:
        super().__init__(task, algorithm, state, plans, number, values)
        self._settings, self._rule = settings, aggregation
        self._old = values_before(algorithm, state)
        self.groups: dict[str, RoundGroup] = {}
        self.is_formed = False
        self._layouts: dict[int, ReplyLayout] = {}
        self._group_of: dict[int, RoundGroup] = {}
        self._identities: dict[int, bytes] = {}  # of ready clients, in a run without an operator
        self._too_few: dict[int, str] = {}  # reasons of ready clients that are in no group
        self._bytes: dict[int, int] = {}  # that a client has sent in the steps of its group
        self._events = 0

    # The beginning of the groups.

    def judge(
        self, client: int, message: Trained | GroupReady, declared: ReplyClaim = NOT_DECLARED
    ) -> ReplyJudged | None:
        """Take a planned client's word that it has trained, unless the groups are formed or the word is wrong."""
        plan, trained = self._plans[client], as_trained(message)
        if isinstance(message, Trained):
            return self._refused(client, trained, f"reply of client {client} with values; expected secure aggregation")
        if self._settings.is_handed and not self.is_formed:
            if len(message.identity) != IDENTITY_BYTES:
                why = f"an identity of {len(message.identity)} bytes of client {client}; expected {IDENTITY_BYTES}"
                return self._refused(client, trained, f"{why}, as the run has no roster")
            self._identities[client] = message.identity
        if client in self.answers and self.answers[client][1].refusal is None:
            return None  # the device has connected again
        if self.is_formed:
            return ReplyJudged(self.number, client, "late", LATE, trained)
        reply = self._stand_in(plan, declared)
        refusal = _wrong(plan, replace(reply, examples=message.examples, steps=message.steps), message, declared)
        if refusal is not None:
            return self._refused(client, trained, refusal)
        self.answers[client] = trained, Answer(reply, None, NOTHING)
        return None

    def _refused(self, client: int, trained: Trained, reason: str) -> ReplyJudged:
        trained = without_values(trained)
        self.answers[client] = trained, Answer(None, reason, NOTHING)
        return ReplyJudged(self.number, client, "refused", reason[:LONGEST_TEXT], trained)

    def form(self) -> list[GroupEvent]:
        """Make groups of the clients that are ready. Return the events to save."""
        self.is_formed = True
        found: dict[str, list[int]] = {}
        for client in sorted(client for client, (_, answer) in self.answers.items() if answer.reply is not None):
            found.setdefault(self._layout(client).draw, []).append(client)
        events = []
        for draw, members in sorted(found.items()):
            roster = self._settings.roster_of({client: self._identities.get(client, b"") for client in members})
            try:
                terms = self._terms(draw, members, roster)
            except ValueError as error:
                self._too_few |= dict.fromkeys(members, str(error))
                events.append(self._event(draw, "left-out", data=json.dumps([members, str(error)]).encode()))
                continue
            group = self._add(terms, roster)
            events.append(self._event(draw, "formed", data=group.invitation))
        return events

    def _terms(self, draw: str, members: list[int], roster: Roster) -> GroupTerms:
        settings, layout = self._settings, self._layout(members[0])
        weights = [self._weight(client) for client in members]
        bits = bits_for(sum(weights), layout.count, len(members))
        run = roster, settings.run, self.number, draw, members, layout.count, bits
        return group_terms(*run, settings.losses, settings.colluders, settings.least, weights)

    def _add(self, terms: GroupTerms, roster: Roster) -> RoundGroup:
        group = RoundGroup(terms, roster, self._settings.is_handed)
        self.groups[terms.draw] = group
        self._group_of |= dict.fromkeys(terms.members, group)
        return group

    @property
    def needs_steps(self) -> bool:
        return True

    def restore(
        self, judged: Iterable[ReplyJudged], events: Iterable[GroupEvent], claim: Callable[[int], ReplyClaim]
    ) -> None:
        for each in judged:
            if each.outcome == "refused":
                self._refused(each.client, each.message, each.reason)
        for event in events:
            self._events = event.place + 1
            self.is_formed = True
            if event.kind == "formed":
                handed = self._settings.is_handed
                data, roster = read_handed(event.data) if handed else (event.data, self._settings.roster)
                terms = read_terms(data)
                self._add(terms, roster)
                for client in terms.members:
                    self._answer_again(client, claim(client))
            elif event.kind == "step":
                self.groups[event.draw].take(event.client, event.data)
            elif event.kind == "closed":
                self.groups[event.draw].close()
            elif event.kind == "failed":
                self.groups[event.draw].fail(event.data.decode())
            elif event.kind == "left-out":
                members, reason = json.loads(event.data)
                self._too_few |= dict.fromkeys(members, reason)
                for client in members:
                    self._answer_again(client, claim(client))

    def _answer_again(self, client: int, claim: ReplyClaim) -> None:
        reply = self._stand_in(self._plans[client], claim)
        trained = Trained(self.number, {}, reply.selection_hash, reply.examples, reply.steps, "on", {}, 0.0)
        self.answers[client] = trained, Answer(reply, None, NOTHING)

    def is_complete(self, quorum: int | None, absent: AbstractSet[int] = frozenset()) -> bool:
        return self.is_formed or super().is_complete(quorum, absent)

    def may_plan_again(self, client: int) -> bool:
        """Return whether a client's plan may change. A device that has lost its state has lost what it was ready with,
        unless its group is formed.
        """
        if not self.is_formed:
            self.answers.pop(client, None)
        return client not in self.answers

    def plan_again(self, client: int) -> None:
        super().plan_again(client)
        self._layouts.pop(client, None)

    # The steps of the groups.

    def message_for(self, client: int, is_pending: bool, left_s: float | None) -> Message | None:
        if client in self._group_of:
            return self._group_of[client].request(client)
        return None if self.is_formed else super().message_for(client, is_pending, left_s)

    def take(self, client: int, message: GroupReply) -> GroupEvent | None:
        """Take a client's answer to a step. Return the event to save, or None if nothing has changed.

        Raises  RemoteProtocolError if the message does not fit.
        """
        group = self._group_of.get(client)
        if group is None or group.is_over or message.step != group.phase + 1 or client not in group.awaited():
            return None  # a repetition, or an answer that came too late
        if message.refusal:
            group.refuse(client, message.refusal)
            return None
        group.take(client, message.data)
        self._bytes[client] = self._bytes.get(client, 0) + len(message.data)
        return self._event(group.terms.draw, "step", client, message.data)

    def close_steps(self, now: float) -> list[GroupEvent]:
        """Close the step of each group whose clients have all taken it, or whose deadline has come."""
        events = []
        for draw, group in self.groups.items():
            is_late = group.deadline is not None and now >= group.deadline
            if not group.is_over and group.deadline is not None and (is_late or not group.awaited()):
                group.close()
                failed = "failed" if group.failure else "closed"
                events.append(self._event(draw, failed, data=group.failure.encode()))
        return events

    def saved(self, event: GroupEvent, now: float) -> list[int]:
        """Go on after an event is durable. Return the clients that have to be asked."""
        if event.kind not in ("formed", "closed"):
            return []
        group = self.groups[event.draw]
        group.ask(now + self._settings.step_s)
        return sorted(group.awaited())

    def go_on(self, now: float) -> list[int]:
        """Begin to ask the clients of groups that an earlier process has formed. Return these clients."""
        for group in self.groups.values():
            group.ask(now + self._settings.step_s)
        return sorted(client for group in self.groups.values() for client in group.awaited())

    @property
    def deadline(self) -> float | None:
        """The earliest deadline of a step, or None if no step is waiting."""
        return min((each.deadline for each in self.groups.values() if each.deadline is not None), default=None)

    @property
    def is_over(self) -> bool:
        """True if the groups are formed, and each of them is opened or left out."""
        return self.is_formed and all(group.is_over for group in self.groups.values())

    @property
    def members(self) -> list[int]:
        """The clients that were ready when the groups were formed."""
        return sorted({*self._group_of, *self._too_few})

    @property
    def replied(self) -> AbstractSet[int]:
        return self.answers.keys() - {client for group in self.groups.values() for client in group.awaited()}

    # The end.

    def rulings(self) -> list[ReplyJudged]:
        """Return the verdicts of all clients that were ready."""
        found = []
        for client in self.members:
            group = self._group_of.get(client)
            is_in = group is not None and group.opened is not None and client in group.answered
            why = "" if is_in else self._why_not(client, group)
            found.append(self.ruling(client, "masked" if is_in else "not-opened", why))
        return found

    def ruling(self, client: int, outcome: Any, reason: str) -> ReplyJudged:
        return ReplyJudged(self.number, client, outcome, reason[:LONGEST_TEXT], self.answers[client][0])

    def close(self, seconds: float, aggregation_settings: AggregationSettings) -> tuple[State, dict[str, Any]]:
        """Return the state after the round and its metrics, from the sums of the groups."""
        opened = [group for group in self.groups.values() if group.opened is not None]
        answered = sorted(client for group in opened for client in group.answered)
        pairs = [(self._plans[client], self._accepted(client)) for client in answered]
        totals = [self._total(group) for group in opened]
        closing = close(self._task, self._algorithm, self._state, pairs, self.number, aggregation_settings, sums=totals)
        log_record = round_metrics(self.number, map(self.record, self.clients), closing, seconds)
        failures = {group.failure for group in self.groups.values() if group.failure}
        return closing.state, log_record | of_groups(totals, failures | {*self._too_few.values()})

    def _total(self, group: RoundGroup) -> GroupTotal:
        clients = tuple(sorted(group.answered))
        assert group.opened is not None
        return GroupTotal.of(clients, self._layout(clients[0]), group.opened)

    def record(self, client: int) -> ClientRound:
        plan = self._plans[client]
        if client not in self.answers:
            return super().record(client)
        message, answer = self.answers[client]
        if answer.refusal is not None:
            return ClientRound(client, plan.settings, "refused", answer.refusal)
        group, sent = self._group_of.get(client), self._requests.get(client)
        is_in = group is not None and group.opened is not None and client in group.answered
        down = NOTHING if sent is None else sizes(sent.payload, sent.selection)
        return ClientRound(
            client,
            plan.settings,
            "masked" if is_in else "not-opened",
            None if is_in else self._why_not(client, group),
            message.examples,
            message.steps,
            down=down,
            up=Sizes(self._bytes.get(client, 0), 0, 0),
            seconds=message.seconds,
        )

    def _why_not(self, client: int, group: RoundGroup | None) -> str:
        """Return the reason why a client's vector is in no sum."""
        if group is None:
            return self._too_few.get(client, LATE)
        return group.failure or f"{group.terms.name}: its vector did not come in time"

    # What the server knows of a client without its reply.

    def _layout(self, client: int) -> ReplyLayout:
        if client not in self._layouts:
            self._layouts[client] = ReplyLayout.of(self._plans[client], self._task.spec)
        return self._layouts[client]

    def _stand_in(self, plan: Plan, claim: ReplyClaim) -> Reply:
        return stand_in(plan, self._layout(plan.client), self._old, claim)

    def _accepted(self, client: int) -> Reply:
        reply = self.answers[client][1].reply
        assert reply is not None
        return reply

    def _weight(self, client: int) -> int:
        accumulator = Accumulator(self._task.spec, self._rule.aggregation, self._old)
        reply = counted(self._algorithm, self._accepted(client), self._rule.most_examples)
        return weight_of(self._algorithm, self._plans[client], reply, accumulator)

    def _event(self, draw: str, kind: Any, client: int = -1, data: bytes = b"") -> GroupEvent:
        event = GroupEvent(self.number, self._events, draw, kind, client, data)
        self._events += 1
        return event


def _wrong(plan: Plan, reply: Reply, message: GroupReady, claim: ReplyClaim) -> str | None:
    """Return the reason why a client's word that it has trained is refused, or None.

    reply  reply without changes that makes the claims of the message
    """
    reply = replace(reply, selection_hash=message.selection_hash)
    if claim.examples is None:
        return f"reply of client {plan.client}; expected a client that has declared its samples at enrolment"
    return refuse(plan, reply) or claim.refuse(reply)
