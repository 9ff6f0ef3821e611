"""Any method of edgefl as a Flower app: `client_app` on the SuperNodes, `server_app` next to the SuperLink.

Flower carries envelopes (protocol/wire/envelope.py). Each envelope is one byte array in a record. The messages in the
envelopes, and what each side keeps, are as in `edgefl client` and `edgefl serve`: see
deployment/device/relayed_device.py and server/relay.py. A device without flwr is not here but in deployment/supernode.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from logging import INFO
from pathlib import Path
from typing import Any, TypeVar, Union

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common.logger import log
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import Result
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "edgefl.integrations.flower needs flwr 1.41 or later, which is not installed; pip install 'edgefl[flower]' with"
        " Python 3.11 or later"
    ) from error

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.run_extension import evaluated_as_before
from edgefl.experiment.run_json import EXPERIMENT, check_data, open_run
from edgefl.experiment.settings import Experiment
from edgefl.methods.task import MODEL
from edgefl.protocol.wire.envelope import ARRAY, DTYPE, RECORD, STYPE
from edgefl.server import run_history
from edgefl.server.events import Record, RoundClosed, RoundEvaluated
from edgefl.server.relay import OutgoingEnvelope, RelayServer
from edgefl.server.reminder import Reminder
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import staff
from edgefl.server.store import Store

MAX_MODEL_BYTES = 256 << 20
NODES_EVERY_S = 2.0  # seconds between two requests for the list of nodes
PULL_EVERY_S = 0.2
FOLLOWING = AdaptiveDeadline()  # deadline that follows the times that replies have taken
LINGER_S = 45.0  # seconds at the end in which nodes may still hear that the run is over
PARTITION = "partition-id"  # key of a node's config that holds the client's id

Value = TypeVar("Value")
Of = Union[Value, Callable[[Context], Value]]  # noqa: UP007  # mypy takes no other alias of a type variable


# The device's side.


def client_app(
    data: Callable[[Context], Data],
    state: Of[Path] | None = None,
    capacity: float = 1.0,
    max_model: int = MAX_MODEL_BYTES,
    max_memory: int | None = None,
) -> ClientApp:
    """Make the ClientApp of a device, for any method.

    data   function that returns the samples of the node. The client's id is the node config's "partition-id". Without a
           partition-id the server chooses the id, and the replay of the run does not know the samples of the client
    state  directory of what the device keeps between rounds, which outlives the SuperNode. Each node has its own
           directory. None: the state is kept in the Context of the node, which lives as long as the SuperNode and its
           run. Only a directory keeps the frozen parameters of a model for later runs
    capacity, max_model, max_memory  as the options of `edgefl client`: a share of neurons, bytes and bytes
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        profile = DeviceProfile(_client(context), None, capacity, max_model, max_memory)
        with _directory(context, state) as path:
            world = DeviceEnvironment(_say, time.sleep, time.perf_counter)
            device = RelayClient(path, profile, data(context), world, takes_parts=state is not None)
            with closing(device):
                reply = device.answer(_bytes_of(message))
        return Message(_record(reply), reply_to=message)

    for register in (app.query, app.train, app.evaluate):
        register()(answer)
    return app


def _client(context: Context) -> int | None:
    found = context.node_config.get(PARTITION)
    return None if found is None else int(found)


@contextmanager
def _directory(context: Context, state: Of[Path] | None) -> Iterator[Path]:
    """Give the directory of the device's state while the device answers.

    The Context keeps the files of the directory, or the path of `state` if one is given.
    """
    if state is not None:
        path = Path(_of(state, context))
        context.state[RECORD] = ConfigRecord({"directory": str(path)})
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for name, content in context.state.config_records.get(RECORD, ConfigRecord()).items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_bytes(content)
        yield path
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "lock")
        kept = {str(file.relative_to(path)): file.read_bytes() for file in files}
        context.state[RECORD] = ConfigRecord(kept)


# The server's side.


def server_app(experiment: Of[Experiment], run_dir: Of[Path], **options: Any) -> ServerApp:
    """Make the ServerApp of an experiment with one method.

    experiment  settings of the run, or a function of the Context that returns them
    run_dir     directory of the run, or a function of the Context that returns it
    options     options of `serve`
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        result = serve(grid, _of(experiment, context), Path(_of(run_dir, context)), **options)
        log(INFO, "\n%s", result)

    return app


def serve(
    grid: Grid,
    experiment: Experiment,
    run_dir: Path,
    data_dir: Path | None = None,
    deadline_s: Deadline = FOLLOWING,
    wait_for: int | None = None,
    linger_s: float = LINGER_S,
    accept_loss: Collection[int] = (),
) -> Result:
    """Run the experiment with the nodes of a grid to its end. A directory that holds the run is continued.

    grid        Flower's connection to the nodes
    experiment  settings of the run
    run_dir     directory of the run
    data_dir    directory of the data sets. None: the default directory
    deadline_s  seconds after which a round is closed, as --deadline of `edgefl serve`
    wait_for    number of enrolled clients with which round 1 begins. None: all clients
    linger_s    seconds at the end in which nodes may still hear that the run is over
    accept_loss clients that may come back once without what they kept, as --accept-loss of `edgefl serve`
    Raises      RunError if the directory holds something else, ValueError if settings contradict each other.
    """
    experiment.check_served()
    if experiment.buffer:
        raise ValueError(f"buffer={experiment.buffer} with Flower; expected buffer=0, rounds that wait for their nodes")
    experiment = evaluated_as_before(run_dir, experiment)
    assembled = assemble_experiment(experiment, data_dir, served=True)
    rules = _rules(assembled, deadline_s, wait_for or experiment.clients)
    is_new, trains_on = not (run_dir / EXPERIMENT).exists(), DataRecord.of_federation(assembled.federation)
    open_run(run_dir, experiment.to_json(), trains_on=trains_on)
    if not is_new and (words := check_data(run_dir, trains_on)):
        _say(words)
    with closing(Store(run_dir)) as store:
        coordinator, offer = staff(assembled, store, rules, None, accept_loss)
        run = RelayServer(coordinator, store, offer, _say, _shown)
        run.start()
        _EnvelopeCarrier(grid, run, linger_s).work()
        run.end()
    return _result(run_dir)


def _rules(assembled: AssembledExperiment, deadline_s: Deadline, wait_for: int) -> Rules:
    experiment = assembled.experiment
    return Rules(
        experiment.rounds,
        experiment.eval_interval,
        deadline_s=deadline_s,
        evaluation_deadline_s=deadline_s,
        wait_for=wait_for,
        values=experiment.values,
        aggregation_settings=assembled.aggregation_settings,
        evaluate_first=experiment.evaluates_first,
    )


class _EnvelopeCarrier:
    """A carrier of the envelopes of a run: it takes them to the nodes of a grid, and brings the answers back."""

    def __init__(self, grid: Grid, run: RelayServer, linger_s: float) -> None:
        self._grid, self._run, self._linger_s = grid, run, linger_s
        self._nodes: dict[str, int] = {}  # by message id: the node, for messages that have not been answered
        self._looked_at = -NODES_EVERY_S
        self._reminder = Reminder()

    def work(self) -> None:
        """Carry envelopes until the run is over.

        Then wait until the present nodes have heard of it, but at most `linger_s` seconds.
        """
        done_at: float | None = None
        while not self._run.is_over:
            now = time.monotonic()
            done_at = now if done_at is None and self._run.is_done else done_at
            if done_at is not None and now - done_at > self._linger_s:
                return
            self._look(now)
            self._push(self._run.due())
            self._pull()
            time.sleep(PULL_EVERY_S)

    def _look(self, now: float) -> None:
        if now - self._looked_at < NODES_EVERY_S:
            return
        nodes, self._looked_at = set(self._grid.get_node_ids()), now
        self._run.present(nodes)
        self._nodes = {message: node for message, node in self._nodes.items() if node in nodes}
        if self._reminder.is_due(self._run.stage, now) and (line := self._run.waits_for()) is not None:
            self._run.say(line, "waiting")

    def _push(self, outgoing_envelopes: list[OutgoingEnvelope]) -> None:
        if not outgoing_envelopes:
            return
        group = str(self._run.stage[1] + 1)  # number of the round, by which Flower groups messages
        messages = [
            Message(_record(outgoing_envelope.data), outgoing_envelope.node, outgoing_envelope.purpose, group_id=group)
            for outgoing_envelope in outgoing_envelopes
        ]
        sent = list(self._grid.push_messages(messages))
        sent += [""] * (len(outgoing_envelopes) - len(sent))  # Flower leaves out the messages that it does not take
        for outgoing_envelope, message in zip(outgoing_envelopes, sent):
            if message:
                self._nodes[message] = outgoing_envelope.node
            else:
                self._run.failed(outgoing_envelope.node, "Flower does not accept a message for this node")

    def _pull(self) -> None:
        for reply in self._grid.pull_messages(list(self._nodes)) if self._nodes else ():
            node = self._nodes.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                continue
            if reply.has_error():
                self._run.failed(node, f"Flower says: {reply.error.reason}")
                continue
            try:
                data = _bytes_of(reply)
            except ValueError as error:
                self._run.failed(node, str(error))
            else:
                self._run.answered(node, data)


def _shown(record: Record) -> None:
    """Write one line for a round or an evaluation into Flower's log."""
    if isinstance(record, RoundClosed):
        clients = [each for each in record.log_record["clients"] if each["status"] != "absent"]
        down, up = (sum(record.log_record[way].values()) for way in ("down", "up"))
        log(INFO, "edgefl: round %d: %d replies, payload %d bytes down, %d up", record.round, len(clients), down, up)
    elif isinstance(record, RoundEvaluated):
        log(INFO, "edgefl: evaluation after round %d: %s", record.round, dict(_numbers(record.bundle)))


def _result(run_dir: Path) -> Result:
    """Return the result of the run as Flower's strategies do, with the metrics of `edgefl simulate` by round."""
    result = Result()
    state = run_history.progress(run_dir).state
    model = {} if state is None else state.arrays.get(MODEL, {})
    result.arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    for log_record in run_history.metrics(run_dir):
        evaluation = log_record.pop("evaluation", None)
        result.train_metrics_clientapp[log_record["round"]] = MetricRecord(dict(_numbers(log_record)))
        if evaluation is not None:
            result.evaluate_metrics_clientapp[log_record["round"]] = MetricRecord(dict(_numbers(evaluation)))
    return result


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number with its path of names, joined by dots.

    A list of objects, such as the clients, gives one list for each number that all of them have.
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            names = [key for key in value[0] if all(_is_number(each.get(key)) for each in value)]
            yield from ((f"{prefix}{name}.{key}", [each[key] for each in value]) for key in names)
        elif _is_number(value):
            yield prefix + name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# The envelopes that Flower carries.


def _record(data: bytes) -> RecordDict:
    return RecordDict({RECORD: ArrayRecord({ARRAY: Array(DTYPE, (len(data),), STYPE, data)})})


def _bytes_of(message: Message) -> bytes:
    """Return the bytes of the envelope in a message. Raises ValueError if the message has no envelope."""
    array = message.content.array_records.get(RECORD, {}).get(ARRAY)
    if array is None or array.stype != STYPE:
        found = sorted(message.content) if array is None else array.stype
        raise ValueError(
            f"message with {found}; expected an envelope of edgefl ({STYPE}): do both ends run one version?"
        )
    return bytes(array.data)


def _of(value: Of[Value], context: Context) -> Value:
    return value(context) if callable(value) else value


def _say(line: str) -> None:
    log(INFO, "edgefl: %s", line)
