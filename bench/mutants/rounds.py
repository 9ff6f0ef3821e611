"""Mutants of rounds: what is exchanged and counted, the server's decisions and store, a device and what it keeps."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

COORDINATOR = "tests/server/test_coordinator.py tests/server/test_coordinator_ends.py"
STORE, PARTICIPATION = "tests/server/test_store.py", "tests/server/test_participation.py"
DEVICE, DOWNLOAD = "tests/device/test_device.py", "tests/device/test_device_download.py"
EXCHANGE, METRICS = "tests/rounds/test_exchange.py", "tests/rounds/test_metrics.py"

MUTANTS = (
    # What is exchanged and counted.
    Mutant(
        "missing-blocks",
        "edgefl/rounds/exchange.py",
        "update.blocks.keys() ^ set(_names(plan, name, spec))",
        "update.blocks.keys() - set(_names(plan, name, spec))",
        "a reply may leave parameters out",
        EXCHANGE,
    ),
    Mutant(
        "endless-training",
        "edgefl/rounds/exchange.py",
        "0 <= message.seconds < math.inf",
        "0 <= message.seconds",
        "training that took infinite seconds passes",
        EXCHANGE,
    ),
    Mutant(
        "selection-in-payload",
        "edgefl/rounds/exchange.py",
        "plan.selection != _selection_in(plan.payload, spec)",
        "_selection_in(plan.payload, spec) is None",
        "neurons beside a payload of other ones are not sent",
        EXCHANGE,
    ),
    Mutant(
        "accuracy-weighted",
        "edgefl/rounds/metrics.py",
        "sum(each.correct / each.examples for each in found) / len(found)",
        "correct / examples",
        "the mean over clients is weighted",
        METRICS,
    ),
    Mutant(
        "late-clients-train",
        "edgefl/rounds/participation.py",
        'TRAINED = ("accepted", "late")',
        'TRAINED = ("accepted",)',
        "a client whose reply came late loses its model in a replay",
        PARTICIPATION,
    ),
    Mutant(
        "evaluate-again",
        "edgefl/simulation/evaluation.py",
        "self._personal.pop(client, None)",
        "pass",
        "a model that has changed keeps its former accuracy",
        "tests/simulation/test_simulate.py",
    ),
    # The coordinator.
    Mutant(
        "limit-keeps-plans",
        "server/coordinator.py",
        "        self._planner.forget()\n        if self._open",
        "        if self._open",
        "plans made before a client declared its capacity are kept",
        COORDINATOR,
    ),
    Mutant(
        "older-reply-owed",
        "server/coordinator.py",
        "link.pending != self._open.number",
        "not link.pending",
        "a device that owes the reply of an earlier round is not asked",
        COORDINATOR,
    ),
    Mutant(
        "quorum-authorised",
        "server/round.py",
        "sum(self._plans[client].authorised for client in replied)",
        "len(replied)",
        "replies without a payload count towards the quorum",
        f"{COORDINATOR} {PARTICIPATION}",
    ),
    Mutant(
        "judged-twice",
        "server/coordinator.py",
        "elif key not in self._judging:",
        "else:",
        "a reply repeated before its verdict is judged again",
        COORDINATOR,
    ),
    Mutant(
        "id-being-enrolled",
        "server/clients.py",
        "self.capacities.keys() | self._enrolling",
        "self.capacities.keys()",
        "an id that is being enrolled is given to a second device",
        COORDINATOR,
    ),
    Mutant(
        "evaluation-due",
        "server/coordinator.py",
        "is_due and self._scored < self.round",
        "is_due and self._scored <= self.round",
        "an evaluation is made again and again",
        COORDINATOR,
    ),
    # The store.
    Mutant(
        "replies-of-closed-round",
        "server/store.py",
        '        execute("DELETE FROM replies")\n',
        "",
        "replies of a closed round come back after a restart",
        STORE,
    ),
    Mutant(
        "late-reply-stored",
        "server/store.py",
        'record.outcome != "late"',
        "True",
        "a late reply takes the place of the open round's",
        STORE,
    ),
    Mutant(
        "done-not-stored",
        "server/store.py",
        "row = int(record.done),",
        "row = 0,",
        "a run that is over goes on after a restart",
        STORE,
    ),
    # The device.
    Mutant(
        "round-applied-twice",
        "edgefl/device/protocol.py",
        "message.round <= self._state.round",
        "message.round < self._state.round",
        "a device trains a round twice",
        DEVICE,
    ),
    Mutant(
        "refused-round-kept",
        "edgefl/device/protocol.py",
        "                self._model.forget()",
        "                pass",
        "a device goes on from a round that was refused",
        DEVICE,
    ),
    Mutant(
        "deferred-across-connections",
        "edgefl/device/protocol.py",
        "self._nonce, self._deferred = nonce, []",
        "self._nonce = nonce",
        "what a lost connection asked for is done in the next one",
        DEVICE,
    ),
    Mutant(
        "download-tail",
        "edgefl/device/state.py",
        "            file.truncate(offset)\n",
        "",
        "what lay beyond a repeated part of the model stays",
        DOWNLOAD,
    ),
    Mutant(
        "global-model-kept",
        "edgefl/device/model.py",
        "            self._is_own = False  # the learner holds what all clients share\n",
        "            pass\n",
        "after an evaluation a device trains the global model as its own",
        "tests/device/test_device_simulated.py",
    ),
)
