"""The device's side of the protocol: it takes the server's messages and yields its own. It has no socket and no clock.

    each connection   Hello, then the answers to Challenge and Welcome. A reply that was not acknowledged goes first
    DeviceNotice      goes next, if the device has tags or may be sent away (attendance.py)
    ThroughputReport  goes before anything is trained in a connection, if the run plans by the speed of devices
    Train             trains, writes the round to the disk, then sends the reply
    Verdict           keeps or undoes the round
    Evaluate          sends scores
Other requests wait while a reply waits for its verdict. A round is applied once, however often the device dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgefl.deployment.device.attendance import notice, sent_away
from edgefl.deployment.device.deferred_requests import DeferredRequests
from edgefl.deployment.device.device_environment import DeviceEnvironment, Written, durably
from edgefl.deployment.device.device_model import Data, DeviceModel, followed, method_of, same_run
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_state import DeviceState, Membership
from edgefl.deployment.device.enrol_request import enrol_request
from edgefl.deployment.device.model_download import SPOILT_TRIES as SPOILT_TRIES
from edgefl.deployment.device.model_download import ModelDownload
from edgefl.deployment.device.model_download import SpoiltError as SpoiltError
from edgefl.deployment.device.model_download import WrongModelError as WrongModelError
from edgefl.deployment.device.sample_record import checked_record
from edgefl.deployment.device.secure_settings import participant
from edgefl.deployment.device.throughput_meter import ClockPair
from edgefl.deployment.device.throughput_report import ThroughputReporter
from edgefl.errors import EdgeflError, PlanError, RequestError, RunError
from edgefl.learning.learner import MakeLearner
from edgefl.methods.rounds.provenance import provenance
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import (
    PROTOCOL,
    Challenge,
    ComeAgain,
    Enrol,
    Evaluate,
    Finished,
    GroupRequest,
    Hello,
    Message,
    ModelChunk,
    ModelParts,
    Refused,
    RosterPart,
    SecureOffer,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import frame_cap
from edgefl.system.log_lines import Alert

FIELDS = Welcome.__struct_fields__
UNWANTED = {  # outcomes about which the device says something, and what the server did
    "late": "got the reply too late",
    "refused": "refused the reply",
    "not-opened": "has not opened the sum of this device's group with this device in it",
}


class Device:
    """One device. For each connection, call `hello`, then `handle` for every message that arrives.

    finished  why the run is over, or None while it goes on
    Raises    RequestError if the directory belongs to another client, or the samples have changed.
    """

    def __init__(
        self,
        state: DeviceState,
        profile: DeviceProfile,
        data: Data,
        world: DeviceEnvironment,
        make: MakeLearner | None = None,
        is_vouched: bool = False,
        takes_parts: bool = True,
    ) -> None:
        """Make the device. `make` returns the learner of the run's model, or is None for a learner within the profile's
        bounds. If `is_vouched`, the carrier of the messages vouches for the server, which need not prove itself. If
        `takes_parts`, the directory keeps the frozen parts of models for later runs.
        """
        self._make, self._is_vouched, self._takes_parts = make, is_vouched, takes_parts
        self._state, self._profile, self._data, self._world = state, profile, data, world
        self._model: DeviceModel | None = None
        self._deferred = DeferredRequests()
        self._log, self._nonce = world.limited_log(), b""
        self._declaring = ThroughputReporter(profile.reports_throughput, world.say, world.within)
        self._has_begun = False  # whether this process has drawn its life in the directory
        self._download = ModelDownload(state, world, profile.bounds.seconds)
        self._run, self._bounds = state.run, profile.bounds._replace(in_envelopes=is_vouched)
        self._secure = None if profile.secure is None else participant(profile.secure, state, world)
        self.finished: str | None = None
        if state.enrolment is not None:
            found = state.enrolment.welcome.client
            if profile.client not in (None, found):
                raise RequestError(f"{state.path} belongs to client {found}; expected --id {found}, or another --state")
            if damaged := state.damaged_model():
                self._durably(state.drop_model)
                world.say(f"{damaged} is damaged; downloading it again")
            length, digest = state.enrolment.welcome.model_bytes, state.enrolment.welcome.model_digest
            if not state.has_model() and state.received() == length:
                self._durably(lambda: state.complete(digest))  # a process was killed after the last byte
            self.renew(data)
            trains_on = checked_record(state.enrolment, self._data.record, profile.accepts_data, state.path, world.say)
            if trains_on is not None:
                self._durably(lambda: state.enrol(trains_on))

    def renew(self, data: Data) -> None:
        """Use other samples from the next round on: the newest ones, as many as the server was told of.

        Raises  DataError if there are fewer. The device then goes on with its present samples.
        """
        told = None if self._state.enrolment is None else self._state.enrolment.examples
        self._data, self._model = data if told is None else data.newest(told), None

    @property
    def client(self) -> int | None:
        """The id of the client, once it is known."""
        enrolment = self._state.enrolment
        return self._profile.client if enrolment is None else enrolment.welcome.client

    @property
    def is_waiting(self) -> bool:
        """True if a reply has not been acknowledged."""
        return self._state.pending > 0

    @property
    def frozen_bytes(self) -> int:
        """The bytes of the run's model that are frozen parameters, once the device has the model."""
        return self._state.frozen_bytes(self._bounds.graph())

    def hello(self, nonce: bytes) -> Hello:
        """Return the first message of a connection. `nonce` is 32 random bytes, new for each connection."""
        self._nonce, self._deferred = handshake.marked(nonce, self._profile.key), DeferredRequests()
        if self._secure is not None:
            self._secure.begin()
        self._download.begin()
        if not self._has_begun:
            self._durably(lambda: self._state.begin(self._world.random_bytes))
            self._has_begun = True
        run = "" if self._state.enrolment is None else self._state.enrolment.run
        return Hello(PROTOCOL, run, self.client, self._nonce, provenance())

    def handle(self, message: Message) -> Iterator[Message]:
        """Yield the messages to send in answer, in order. All of them have to be taken before the next call.

        Raises  SpoiltError if a new connection is needed. SentAwayError if the server has no work. AuthError,
                RemoteProtocolError or RunError if the device cannot go on with this server. DataError, CodecError or
                TrainingError if a request cannot be done.
        """
        match message:
            case Challenge():
                yield self._enrol(message)
            case ModelParts():
                self._download.offer(message.parts)
            case RosterPart() | SecureOffer():
                self._offered(message)
            case Welcome():
                yield from self._begin(message)
            case ModelChunk():
                yield from self._add(message)
            case Train() | Evaluate() if self.is_waiting:
                self._defer(message)
            case Train():
                yield from self._train(message)
            case GroupRequest():
                yield from self._step(message)
            case Evaluate() if self._secure is not None:
                raise PlanError(
                    f"evaluation after round {message.round} asks for the scores of this client alone; expected sums"
                )
            case Evaluate():
                with self._world.within(f"the evaluation after round {message.round}"):
                    evaluated = self._ready().evaluate(message, self._world.clock)
                yield evaluated
            case Verdict():
                yield from self._judged(message)
            case ComeAgain():
                raise sent_away(message, self._profile)
            case Finished():
                self.finished = message.reason
            case Refused():
                raise RunError(f"the server refuses: {message.reason}")

    # The beginning of a connection.

    def _enrol(self, challenge: Challenge) -> Enrol:
        """Prove who this device is, to a server that has proven that it knows the device's key."""
        how = self._is_vouched, self._takes_parts
        request = enrol_request(challenge, self._state, self._profile, self._data.counts, self._nonce, *how)
        self._run = challenge.run
        return request

    def _begin(self, welcome: Welcome) -> Iterator[Message]:
        """Enrol, or check that the run has not changed. Then yield what is due: the last reply, or a ModelRequest."""
        enrolment, methods = self._state.enrolment, self._profile.methods
        if methods and welcome.method not in methods:
            raise RunError(
                f"method {welcome.method} of run {self._run}; this device takes part in {', '.join(methods)}"
            )
        if self._secure is not None and not self._secure.is_offered:
            raise RunError(f"run {self._run} has no secure aggregation; expected it, as this device has --identity")
        if enrolment is None:
            self._join(welcome)
        elif not same_run(enrolment.welcome, welcome):
            pairs = {name: (getattr(enrolment.welcome, name), getattr(welcome, name)) for name in FIELDS}
            name, (before, now) = next((name, pair) for name, pair in pairs.items() if pair[0] != pair[1])
            raise RunError(f"run {self._run} has {name}={now!r} now; expected {before!r}, as when this device enrolled")
        self._durably(self._state.heard)
        if not self._state.has_model():
            yield self.lacking()
            if self._download.add_held(welcome.model_bytes):
                yield from self._complete(welcome)
            return
        yield from self._after_model()

    def lacking(self) -> Message:
        """Return the request for the bytes of the model that neither the download nor the store has."""
        if self._is_vouched:
            self._download.restart()
        return self._download.request()

    def _after_model(self) -> Iterator[Message]:
        """Yield what is due once the model is there."""
        if self.is_waiting:
            yield self._reply(self._state.reply())
        if not self._is_vouched:  # envelopes have no notice
            yield from notice(self._profile)
        yield from self._declare()

    def _reply(self, kept: Trained) -> Message:
        """Return what the server is sent of a reply that the device keeps."""
        return kept if self._secure is None else self._secure.ready(kept)

    def _offered(self, message: RosterPart | SecureOffer) -> None:
        if self._secure is None:
            raise RunError(
                "the run has secure aggregation; start the device with --identity and --operator, or use another server"
            )
        self._secure.hear(message)

    def _step(self, message: GroupRequest) -> Iterator[Message]:
        """Take a step in the group of the round whose reply waits. A step of another round is passed over."""
        if self._secure is None or not self._secure.is_offered:
            raise RunError(f"a step of secure aggregation in round {message.round}; expected an offer before Welcome")
        if message.round != self._state.pending:
            self._note(f"a step in round {message.round}, for which no reply waits: ignored", "ignored steps")
            return
        yield self._secure.step(message)

    def _declare(self) -> Iterator[Message]:
        """Yield the speed of the device, if the run plans by speed. Envelopes have no message for the speed."""
        assert self._state.enrolment is not None
        if self._is_vouched or not method_of(self._state.enrolment.welcome).wants_throughput:
            return
        clocks = ClockPair(self._world.clock, self._world.busy)
        yield self._declaring.declare(clocks, lambda clocks: self._ready().throughput(clocks))

    def _join(self, welcome: Welcome) -> None:
        self._bounds.check_model(welcome.model_bytes, self._download.listed_bytes)
        method_of(welcome)
        try:
            self._data.parts(welcome)
        except ValueError as error:
            raise RunError(f"the server's shares of the samples: {error}") from None
        found = Membership(self._run, welcome, tuple(self._data.counts), self._data.record)
        self._durably(lambda: self._state.enrol(found))

    def _add(self, chunk: ModelChunk) -> Iterator[Message]:
        """Add bytes of the model. After the last byte, yield the waiting reply if the model had been lost since."""
        assert self._state.enrolment is not None  # the connection lets no chunk through before Welcome
        if self._is_vouched and self._state.has_model():
            return  # the envelope has come before
        welcome = self._state.enrolment.welcome
        if self._download.add(chunk, welcome.model_bytes):
            yield from self._complete(welcome)

    def _complete(self, welcome: Welcome) -> Iterator[Message]:
        self._download.complete(welcome)
        yield from self._after_model()

    # Rounds.

    def _train(self, message: Train) -> Iterator[Message]:
        if message.round <= self._state.round:
            self._note(
                f"the server asks for round {message.round} after round {self._state.round}: ignored", "ignored rounds"
            )
            return
        try:
            with self._world.within(f"round {message.round}"):
                is_summed = self._secure is not None
                result = self._ready().train(message, self._world.clock, self._world.meter, is_summed)
        except EdgeflError:
            self._forget()  # the time limit may come after the training, before its result is kept
            raise
        self._declaring.trained(result.reply, message.settings)
        self._durably(lambda: self._state.keep(*result))
        yield self._reply(result.reply)

    def _defer(self, message: Train | Evaluate) -> None:
        """Let a message wait for the verdict."""
        assert self._state.enrolment is not None
        cap = frame_cap(self._state.enrolment.welcome.model_bytes - self.frozen_bytes)
        for round in self._deferred.add(message, cap):
            line = f"round {round}: request dropped, as newer ones came before the verdict on the last reply"
            self._note(line, "dropped rounds")

    def _note(self, line: str, kind: str, event: str = "ignored") -> None:
        """Show a line about the server, but not a line for each of many messages."""
        self._log.say(Alert(line, event, *(() if self.client is None else (self.client,))), kind)

    def _judged(self, verdict: Verdict) -> Iterator[Message]:
        if verdict.round != self._state.pending:
            self._note(f"verdict on round {verdict.round}, for which no reply waits: ignored", "ignored verdicts")
            return
        if verdict.outcome in UNWANTED:
            line = f"round {verdict.round}: the server {UNWANTED[verdict.outcome]} ({verdict.reason})"
            self._note(line, f"{verdict.outcome} replies", verdict.outcome)
        if verdict.outcome == "refused":
            self._durably(self._state.reject)
            self._forget()
        else:
            self._durably(self._state.accept)
        if self._declaring.is_outdated():
            yield from self._declare()
        for message in self._deferred.taken():
            yield from self.handle(message)

    def _forget(self) -> None:
        """Forget what was trained last, as it does not count."""
        if self._model is not None:
            self._model.forget()

    def _ready(self) -> DeviceModel:
        """Return the model, which is loaded when it is first needed."""
        if self._model is None:
            assert self._state.enrolment is not None  # the connection lets no round through before Welcome
            welcome, bounds = self._state.enrolment.welcome, self._bounds
            with followed("the server's model"):
                self._model = DeviceModel(self._state, welcome, self._data, bounds, self._make)
        return self._model

    def _durably(self, write: Callable[[], Written]) -> Written:
        return durably(write, self._state.path, self._world)
