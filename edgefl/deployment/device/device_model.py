"""The computation of a device: a round of its method, and evaluations, from messages to values. device_state.py keeps
the state on disk, and device_protocol.py decides the time.

One learner holds the model that is needed: the device's own model, or the global model during its evaluation. The
device's own model is read from its directory whenever the learner may hold another model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from edgefl import methods
from edgefl.deployment.device.device_state import DeviceState, StoredSummand
from edgefl.deployment.device.request_limits import Bounds
from edgefl.deployment.device.throughput_meter import ClockPair, measure
from edgefl.errors import CodecError, DataError, EdgeflError, PlanError, RunError
from edgefl.experiment.data.column_units import check_columns, is_normalised
from edgefl.experiment.data.split import Split
from edgefl.experiment.data.split import split as split_by_seed
from edgefl.experiment.data_record import DataRecord
from edgefl.learning import Samples
from edgefl.learning.energy.meter import EnergyMeter, unmeasured
from edgefl.learning.learner import Evaluation, MakeLearner
from edgefl.learning.losses import Loss
from edgefl.learning.scores import MEAN_IOU
from edgefl.learning.targets import with_loss
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, evaluate
from edgefl.methods.method_registry import OWN
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds import client_round, exchange
from edgefl.methods.rounds.adaptation import ADAPTATION, AdaptedScores, own_scores
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.rounds.summed_reply import summand
from edgefl.methods.task import BODY, MODEL, State
from edgefl.methods.throughput import Throughput
from edgefl.methods.weighted_mean import put_at
from edgefl.models.graph import Model, Params
from edgefl.models.neurons.block_index import slice_index
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Block
from edgefl.protocol import codec
from edgefl.protocol.wire.messages import (
    AdaptationReport,
    AdaptationWork,
    Evaluate,
    Evaluated,
    OverlapReport,
    Scores,
    Train,
    Trained,
    Welcome,
)
from edgefl.protocol.wire.model_message import exchanged

MakeMeter = Callable[[], EnergyMeter]
PASSES = 3  # passes of a step: forward, and backward to the parameters and to the activations
REFUSED = (LookupError, TypeError, ValueError, ArithmeticError, AssertionError, MemoryError, RecursionError)


class Data(NamedTuple):
    """A device's own samples, and their split. If the split is None, the run gives it."""

    samples: Samples
    split: Split | None

    @property
    def counts(self) -> list[int]:
        """The number of samples, or the number in each part if their split is given."""
        split = self.split
        return [len(self.samples)] if split is None else [len(split.train), len(split.validation), len(split.test)]

    @property
    def record(self) -> DataRecord:
        """The counts and the SHA-256 that tell other samples from these."""
        return DataRecord.of(self.samples, None if self.split is None else [self.split])

    def newest(self, counts: Sequence[int]) -> Data:
        """Return as many samples as the server was told of: the last ones, or the last ones of each part.

        counts  numbers of samples as they were declared
        Raises  DataError if there are fewer samples, or they are split in another way.
        """
        found = self.counts
        if found == list(counts):
            return self
        if len(found) != len(counts) or any(have < told for have, told in zip(found, counts)):
            told, have = ("+".join(map(str, each)) for each in (counts, found))
            raise DataError(f"{have} samples; expected at least {told}, as this device declared to the server")
        if self.split is None:
            begin, samples = len(self.samples) - counts[0], self.samples
            return Data(replace(samples, x=samples.x[begin:], y=samples.y[begin:]), None)
        parts = self.split.train, self.split.validation, self.split.test
        return Data(self.samples, Split(*(part[len(part) - told :] for part, told in zip(parts, counts))))

    def parts(self, welcome: Welcome) -> Split:
        """Return the split that the run's simulation would make. Raises DataError if there is nothing to train on."""
        everything = np.arange(len(self.samples), dtype=np.int32)
        return self.split or split_by_seed(everything, welcome.seed, welcome.client, *welcome.shares)


class TrainingResult(NamedTuple):
    """A trained round: the reply, what the device keeps after it, and with secure aggregation its part of the sum."""

    reply: Trained
    kept: StoredClientState
    summand: StoredSummand | None = None


class DeviceModel:
    """The method and the learner of one device in one run. The initial model must be on its disk.

    bounds  limits on what the server may ask for
    make    returns the learner of a model. None: a learner that keeps within the bounds
    Raises  GraphError, CodecError or MemoryLimitError if the initial model is not valid or not within the bounds.
            DataError if the data do not fit.
    """

    def __init__(
        self, state: DeviceState, welcome: Welcome, data: Data, bounds: Bounds, make: MakeLearner | None = None
    ) -> None:
        self._state, self._welcome, self._bounds = state, welcome, bounds
        self._algorithm = method_of(welcome)
        initial = state.model(bounds.graph())
        samples = with_loss(data.samples, loss_of(welcome, initial.graph.output_shape))
        if is_normalised(initial.graph):
            check_columns(samples)
        spec, learner, parts = ModelSpec.of(initial.graph), (make or bounds.learner)(initial), data.parts(welcome)
        self._client_state = ClientState(
            welcome.client, welcome.seed, spec, learner, samples, parts.train, parts.validation, parts.test
        )
        self._initial_graph = initial.graph
        self._is_own = False  # whether learner and private values are in the state after the last round, pending or not

    def train(
        self, message: Train, clock: Callable[[], float], meter: MakeMeter = unmeasured, is_summed: bool = False
    ) -> TrainingResult:
        """Take part in a round. The result must be on the disk before the next call.

        is_summed  whether the reply goes into a sum. It has no values and no figures of this client then
        Raises  PlanError, CodecError, DataError, TrainingError or MemoryLimitError if the round cannot be trained. The
                device is then in the state after its last round.
        """
        client_state = self._own()
        self._is_own = False  # after an error the learner is between two models
        with followed(f"round {message.round} of {self._welcome.method}"):
            plan = exchange.plan_of(message, client_state.client, client_state.spec, self._algorithm.held(client_state))
            self._check_effort(self._algorithm.effort(len(client_state.train)))
            reply, seconds = client_round.trained(
                self._algorithm, self._initial_graph, client_state, plan, clock, meter
            )
            part = self._summand(plan, reply) if is_summed else None
        self._is_own = self._algorithm.keeps_model
        sent = replace(reply, payload={}, masks={}, metrics={}) if is_summed else reply
        answer = exchange.trained_message(sent, plan, client_state.spec, self._welcome.values, seconds)
        own = client_state.learner.read(client_state.spec.exchanged) if self._is_own else {}
        return TrainingResult(answer, StoredClientState(own, client_state.private, client_state.arrays), part)

    def _summand(self, plan: Plan, reply: Reply) -> StoredSummand:
        """Return the device's part of the sum, with the accuracy of the model that it has just trained."""
        client_state = self._client_state
        found = evaluate(client_state) if len(client_state.test) else None
        accuracy = found.correct / (found.examples * found.decisions) if found and found.decisions else None
        part = summand(plan, reply, client_state.spec, client_state.seed, self._algorithm.changes, accuracy)
        return StoredSummand(part.layout.draw, part.numbers)

    def throughput(self, clocks: ClockPair) -> Throughput | None:
        """Measure the throughput by training the method's trials for a moment. The trained values are not kept.

        Raises  PlanError, DataError or TrainingError if the trials cannot be trained at all.
        """
        initial = self._trained()
        self._hold(StoredClientState(initial.params, {}, {}))
        self._is_own = False
        with followed(f"measuring the throughput of {self._welcome.method}"):
            found = measure(self._algorithm, initial.graph, self._client_state, clocks)
        return found and found._replace(memory=self._bounds.training(initial.graph))

    def forget(self) -> None:
        """Forget the last trained round, which does not count."""
        self._is_own = False

    def evaluate(self, message: Evaluate, clock: Callable[[], float]) -> Evaluated:
        """Score the device's own model and the global model on its test samples, as far as they are asked for.

        The answer has the work of the adaptation where it is asked for.
        Raises  CodecError if the global model, or the body that all clients share, is not whole.
        """
        with followed(f"evaluation after round {message.round} of {self._welcome.method}"):
            return self._evaluate(message, clock)

    def _evaluate(self, message: Evaluate, clock: Callable[[], float]) -> Evaluated:
        spec = self._client_state.spec
        body_names = tuple(name for name in self._algorithm.body_names(spec) if name not in spec.frozen)
        current, body = self._part(message, MODEL, spec.exchanged), self._part(message, BODY, body_names)
        parts = {name: part for name, part in ((MODEL, current), (BODY, body)) if part is not None}
        parts |= self._beside(message)
        own = self._scores_of_own(parts, clock) if message.personal else None
        if parts:
            self._is_own = False  # the learner holds what all clients share
        common = None
        if current is not None:
            self._hold(StoredClientState(current, {}, {}))
            common = evaluate(self._client_state)
        return _answer(message, own, common)

    def _beside(self, message: Evaluate) -> dict[str, Params]:
        """Return the running statistics that came with the model, by the name of their part."""
        names = tuple(name for name, param in self._client_state.spec.params.items() if param.kind == "stat")
        found = {part: self._part(message, part, names) for part in self._algorithm.beside(message.payload)}
        return {part: params for part, params in found.items() if params is not None}

    def _part(self, message: Evaluate, part: str, names: tuple[str, ...]) -> Params | None:
        """Return these parameters of a part of a message, each of them whole, or None if the message lacks the part."""
        if part not in message.payload:
            return None
        data = message.payload[part]
        blocks = codec.decode(data, self._client_state.spec, limit=len(data)).blocks
        whole = {name: block.values for name, block in blocks.items() if block.index is None}
        whole |= self._with_slices(blocks)
        if whole.keys() != set(names):
            raise CodecError(f"payload of the global {part} with {len(whole)} whole parameters; expected {len(names)}")
        return whole

    def _with_slices(self, blocks: Mapping[str, Block]) -> Params:
        """Return the parameters of which a message has the trained slice, whole: the rest is that of the model."""
        spec = self._client_state.spec
        found = {name: blocks[name] for name in spec.slices if name in blocks}
        parts = {name: block for name, block in found.items() if block.index == slice_index(spec, name)}
        initial = self._trained().params if parts else {}
        whole = {name: np.array(initial[name]) for name in parts}
        for name, block in parts.items():
            put_at(whole[name], block)
        return whole

    def _scores_of_own(self, parts: dict[str, Params], clock: Callable[[], float]) -> AdaptedScores:
        """Score the device's own model, or the model that the method adapts to the device and that is not kept."""
        self._check_effort(self._algorithm.adaptation(len(self._client_state.train)))
        shared = self._algorithm.shared(parts)
        if shared is not None or self._state.round:
            client_state = self._own()
        else:
            client_state = self._client_state
            self._hold(StoredClientState(self._algorithm.untrained(State(parts), self._trained().params), {}, {}))
            self._is_own = False
        return own_scores(self._algorithm, client_state, shared, [client_state.test], clock)

    def _own(self) -> ClientState:
        """Return the client state as it was after the device's last round."""
        if not self._is_own:
            kept = self._state.personal() or StoredClientState({}, {}, {})
            self._hold(kept if kept.params else kept._replace(params=self._trained().params))
            self._is_own = self._algorithm.keeps_model
        return self._client_state

    def _check_effort(self, effort: tuple[int, int]) -> None:
        """Raise PlanError for steps and samples that cannot be done in the time of a round on any machine."""
        steps, seen = effort
        macs = sum(self._initial_graph.macs().values())
        self._bounds.check_steps(steps, PASSES * macs * seen)

    def _trained(self) -> Model:
        """Return the initial model without its frozen parameters, which the learner has."""
        return self._state.model(self._bounds.graph(), exchanged)

    def _hold(self, kept: StoredClientState) -> None:
        self._client_state.learner.write({name: kept.params[name] for name in self._client_state.spec.exchanged})
        self._client_state.private, self._client_state.arrays = kept.private, kept.arrays


@contextmanager
def followed(what: str) -> Iterator[None]:
    """Turn an error that an unforeseen plan causes into a PlanError that says where it happened."""
    try:
        yield
    except EdgeflError:
        raise
    except REFUSED as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PlanError(f"{what} cannot be done as the server asks for it ({why})") from error


def method_of(welcome: Welcome) -> Algorithm:
    """Return the method of a run. The method is looked up, and never imported by the name that the server gives.

    Raises RunError if the method is neither a method of edgefl nor admitted here, or lacks a hyper-parameter.
    """
    if welcome.method not in (*methods.METHODS, *OWN):
        raise RunError(
            f"method {welcome.method} of the server is not a method of edgefl; expected one that is installed here and "
            "named by --allow-method, or by methods in the agent's settings"
        )
    told = {name: tuple(value) if isinstance(value, list) else value for name, value in welcome.options.items()}
    try:
        options = methods.renamed(welcome.method, told)
        known = methods.settings_of(welcome.method)
        if unknown := sorted(options.keys() - known.keys()):
            raise ValueError(f"{unknown[0]}; expected one of {', '.join(known)}")
        for name, value in options.items():
            if isinstance(known[name], int) != isinstance(value, int) and not isinstance(known[name], float):
                raise ValueError(f"{name}={value!r} is not of type {type(known[name]).__name__}")
        return methods.build(welcome.method, options)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"method {welcome.method} of the server: {error}; expected a method that this version of edgefl knows"
        ) from None


def same_run(before: Welcome, now: Welcome) -> bool:
    """Return whether a server still describes the same run. A newer version of it may write equal options otherwise."""
    names = [name for name in Welcome.__struct_fields__ if name != "options"]
    return before == now or (
        all(getattr(before, name) == getattr(now, name) for name in names) and method_of(before) == method_of(now)
    )


def loss_of(welcome: Welcome, output: tuple[int, ...]) -> Loss:
    """Return the loss that a model with outputs of this shape minimises. Raises RunError if this version of edgefl has
    no such loss.
    """
    try:
        loss = Loss.parse(welcome.loss)
        loss.check_outputs(loss.split(output)[0])
    except (ValueError, DataError) as error:
        raise RunError(f"the server's {error}; expected a loss that this version of edgefl knows") from None
    return loss


def _answer(message: Evaluate, own: AdaptedScores | None, common: Evaluation | None) -> Evaluated:
    """Return the answer with the scores of the device's own and of the global model, and with what else is asked for.

    The work of an adaptation is told only where it is asked for.
    """
    mine = None if own is None else own.found[0]
    scores = message.round, _scores(mine), _scores(common)
    is_told = ADAPTATION in message.payload and own is not None and not own.adaptation.is_empty
    work = AdaptationWork(*own.adaptation) if own is not None and is_told else None
    if MEAN_IOU in message.payload:
        return OverlapReport(*scores, work, *(None if each is None else each.mean_iou for each in (mine, common)))
    return AdaptationReport(*scores, work) if ADAPTATION in message.payload else Evaluated(*scores)


def _scores(found: Evaluation | None) -> Scores | None:
    return None if found is None else Scores(found.loss_sum, found.correct, found.examples)
