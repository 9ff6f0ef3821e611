"""Mistakes in the decisions of the server: rounds, deadlines, verdicts, and who is let in."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

SESSIONS, ROUNDS, OPENING = "server/device_sessions.py", "server/round_sequence.py", "server/round_opening.py"
HOLDINGS, ENROLMENT, OPEN = "server/device_holdings.py", "server/enrolment.py", "server/open_round.py"

MUTANTS = (
    row(
        "verdict-before-save",
        SESSIONS,
        "                self._judged(judged)\n",
        "                self._queue.send(link, Verdict(message.round, judged.outcome, judged.reason))\n"
        "                self._judged(judged)\n",
        "a verdict is sent before it is durable",
    ),
    row(
        "judged-twice",
        SESSIONS,
        "        elif not self._rulings.is_judging(*key):",
        "        else:",
        "a reply that comes again is judged again while its verdict is being saved",
    ),
    row(
        "returned-unasked",
        SESSIONS,
        "        else:\n            self._rounds.requests.ask(link, now)\n\n    def _admitted",
        "\n    def _admitted",
        "a device that comes back during a round is not asked",
    ),
    row(
        "verdict-not-repeated",
        SESSIONS,
        "            self._rule(link, message.round, ruling)\n        elif",
        "            pass\n        elif",
        "a reply that comes again gets no verdict",
    ),
    row(
        "deadline-missed",
        ROUNDS,
        "        if now < self._deadline:",
        "        if now <= self._deadline:",
        "a round is not closed at its deadline but asks for the same deadline again",
    ),
    row(
        "deadline-early",
        ROUNDS,
        "None if seconds is None else now + seconds",
        "None if seconds is None else now + seconds - 1",
        "a round closes a second before its deadline",
    ),
    row(
        "quorum-late",
        OPEN,
        "accepted >= quorum)",
        "accepted > quorum)",
        "a round waits for one reply more than its quorum",
    ),
    row(
        "quorum-early",
        OPEN,
        "accepted >= quorum)",
        "accepted + 1 >= quorum)",
        "a round closes with one reply less than its quorum",
    ),
    row(
        "late-counts",
        ROUNDS,
        "if current is None or not current.awaits(client, message.round):",
        "if current is None:",
        "a reply of an earlier round counts in the open one",
    ),
    row(
        "answers-forgotten",
        OPENING,
        "found.restore(stored.answers, ",
        "found.restore((), ",
        "a server that resumes a round forgets the replies that it has accepted",
    ),
    row(
        "planned-anew",
        OPENING,
        "planned = self._again(state, round, len(self.begun))",
        "plans = self.planner.take(state, round, connected, now, refusing, self.tasks)\n            "
        "planned = opened(self.planner.task, self.planner.algorithm, state, plans, round, self._rules)",
        "a resumed round is planned again",
    ),
    row(
        "one-round-more",
        ROUNDS,
        "is_last = self.round >= self._rules.rounds",
        "is_last = self.round > self._rules.rounds",
        "a run has one round more than it should",
    ),
    row(
        "loss-not-remembered",
        HOLDINGS,
        "return self._losses.get((client, last), last)",
        "return last",
        "a loss that was accepted is refused after the next crash",
    ),
    row(
        "heir-refused",
        HOLDINGS,
        "known in (claim.life, claim.before)",
        "known == claim.life",
        "a device that starts again is taken for a copy",
    ),
    row(
        "admitted-before-saved",
        ENROLMENT,
        "            self._begin(link, event.secret)\n",
        "            self._begin(link, event.secret)\n            self._admit(link, now)\n",
        "a device is let in before its new life is durable",
    ),
    row(
        "trained-bit-off-by-one",
        "server/verdict_log.py",
        "self._trained.get(client, 0) | 1 << round",
        "self._trained.get(client, 0) | 1 << round - 1",
        "the log knows the wrong round of what a client keeps",
    ),
)
