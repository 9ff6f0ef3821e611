"""The round loop with no network: the definition of correct for the server.

Every payload passes through encode and decode in both directions; every client's model and private values live in files
of the run directory. The result depends on the method, the federation and the seed alone: not on the number of workers,
nor on being killed and resumed. Not the command line (cli.py), not the evaluation (evaluation.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from edgefl import codec, kernels, rng
from edgefl.algorithms.base import Algorithm, Plan, Reply, State, Tally, Task, refuse
from edgefl.codec import Sizes
from edgefl.evaluation import Evaluator
from edgefl.federation import Devices, Federation
from edgefl.runs import Journal
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec
from edgefl.update import Update


@dataclass(frozen=True)
class Settings:
    """How a run is carried out. `workers` is the only field that no result depends on."""

    rounds: int = 100
    eval_every: int = 10
    checkpoint_every: int = 10
    values: str = "float32"  # of the payloads: float32 or float16
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_every", "checkpoint_every", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected {name} >= 1")
        if self.values not in ("float32", "float16"):
            raise ValueError(f"values={self.values}; expected float32 or float16")


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    settings: Settings,
    journal: Journal,
    watch: Callable[[dict[str, Any]], None] = lambda line: None,
) -> State:
    """Runs the rounds that the journal has not committed yet; the server's final state.

    watch  called with every round's metrics line, in the order of rounds
    """
    simulation = _Simulation(algorithm, federation, settings, journal)
    try:
        with _kernel_threads(1 if settings.workers > 1 else None):
            return simulation.run(watch)
    finally:
        simulation.pool.shutdown(cancel_futures=True)


@contextmanager
def _kernel_threads(count: int | None) -> Iterator[None]:
    """Limits the native kernels' own threads, where the backend has any; None leaves them as they are."""
    ops = kernels.backend()
    if count is None or not hasattr(ops, "set_threads"):
        yield
        return
    before = ops.threads()
    ops.set_threads(count)
    try:
        yield
    finally:
        ops.set_threads(before)


class _Simulation:
    def __init__(self, algorithm: Algorithm, federation: Federation, settings: Settings, journal: Journal) -> None:
        self.algorithm, self.settings, self.journal = algorithm, settings, journal
        self.pool = ThreadPoolExecutor(settings.workers)
        self.spec = ModelSpec.of(federation.graph)
        self.task = Task(self.spec, len(federation.clients), federation.seed)
        self.initial = federation.graph.init(rng.stream(federation.seed, rng.INIT))
        self.devices = Devices(federation, self.initial, journal, settings.workers)
        self.evaluator = Evaluator(algorithm, federation, self.devices, self.initial, self.pool)

    def run(self, watch: Callable[[dict[str, Any]], None]) -> State:
        if self.journal.committed.round < 0:
            state = self.algorithm.start(self.task, self.initial)
            self.journal.commit(0, state)
        state, round, done = self.journal.load_state(), self.journal.committed.round, self.journal.committed.done
        plans = [] if done else self.algorithm.plan(self.task, state, round + 1)
        while not done:
            round += 1
            state, line = self._round(state, round, plans)
            plans = self.algorithm.plan(self.task, state, round + 1)
            done = round == self.settings.rounds or not plans
            if done or round % self.settings.eval_every == 0:
                line["evaluation"] = self.evaluator.bundle(state)
            self.journal.log(line)
            if done or round % self.settings.checkpoint_every == 0:
                self.journal.commit(round, state, done)
            watch(line)
        return state

    def _round(self, state: State, round: int, plans: list[Plan]) -> tuple[State, dict[str, Any]]:
        started = time.perf_counter()
        outcomes = list(self.pool.map(lambda plan: self._client_round(plan), plans))
        tally = Tally(self.spec)
        for plan, outcome in sorted(zip(plans, outcomes, strict=True), key=lambda pair: pair[0].client):
            if outcome.refusal is None:
                self.algorithm.fold(tally, plan, outcome.reply)
        state = self.algorithm.finish(self.task, state, tally, round)
        line: dict[str, Any] = {
            "round": round,
            "clients": [_record(*pair) for pair in zip(plans, outcomes, strict=True)],
        }
        line["down"] = _parts(_sum([outcome.down for outcome in outcomes]))
        line["up"] = _parts(_sum([outcome.up for outcome in outcomes]))
        if "running" in state.values:
            line["running"] = len(state.values["running"])
        line["seconds"] = time.perf_counter() - started
        return state, line

    def _client_round(self, plan: Plan) -> _Outcome:
        """One client's part of a round: the message down, training, the message up, and its private files."""
        payload, down = self._send(plan.payload, None)
        with self.devices.local(plan.client, self.initial) as local:
            started = time.perf_counter()
            reply = self.algorithm.train(local, replace(plan, payload=payload))
            seconds = time.perf_counter() - started
            sent, up = self._send(reply.payload, plan.selection)
            reply = replace(reply, payload=sent)
            refusal = refuse(plan, reply)
            if refusal is None and self.algorithm.keeps_model:
                self.journal.save_local(plan.client, plan.round, local.learner.params, local.private)
                self.evaluator.forget(plan.client)
        return _Outcome(reply, down, up, seconds, refusal)

    def _send(self, payload: Mapping[str, Update], known: NeuronSet | None) -> tuple[dict[str, Update], Sizes]:
        """What arrives at the other side, and the bytes it took. `known`: the receiver knows the neurons' ids."""
        arrived, sizes = {}, []
        for name, update in payload.items():
            data = codec.encode(update, self.spec, values=self.settings.values, known=known)
            sizes.append(codec.sizes(data))
            arrived[name] = codec.decode(data, self.spec, limit=len(data), known=known)
        return arrived, _sum(sizes)


@dataclass(frozen=True)
class _Outcome:
    reply: Reply
    down: Sizes
    up: Sizes
    seconds: float
    refusal: str | None


def _record(plan: Plan, outcome: _Outcome) -> dict[str, Any]:
    """One client's entry in the metrics line of a round."""
    record: dict[str, Any] = {"client": plan.client, **plan.settings}
    record.update(examples=outcome.reply.examples, steps=outcome.reply.steps)
    if outcome.refusal is None:
        record.update(status=outcome.reply.status, **outcome.reply.metrics)
    else:
        record.update(status="refused", reason=outcome.refusal)
    record.update(down=outcome.down.total, up=outcome.up.total, seconds=outcome.seconds)
    return record


def _sum(sizes: list[Sizes]) -> Sizes:
    return Sizes(sum(s.values for s in sizes), sum(s.index for s in sizes), sum(s.header for s in sizes))


def _parts(sizes: Sizes) -> dict[str, int]:
    return {"values": sizes.values, "index": sizes.index, "header": sizes.header}
