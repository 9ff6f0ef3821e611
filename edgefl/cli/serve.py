"""`edgefl serve`: the server of one run. Devices connect with `edgefl client`; `edgefl status RUN` looks on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgefl.cli.experiment_options import requested, say_who_made
from edgefl.cli.refusal_log import Refusals
from edgefl.cli.serve_options import add_arguments as add_arguments
from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.errors import DataError, RequestError, RunError
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.default_settings import new_directory
from edgefl.experiment.run_json import EXPERIMENT, open_run
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Model
from edgefl.protocol.trust.keys import read_table
from edgefl.protocol.trust.tls import server_context
from edgefl.server import run_history
from edgefl.server.admission import Caps
from edgefl.server.endpoint import announced
from edgefl.server.event_loop import serve
from edgefl.server.events import Enrolment, Record, ReplyJudged, RoundClosed, RoundEvaluated
from edgefl.server.listener import ListenAddress
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import host
from edgefl.server.store import Store
from edgefl.study import progress_display

INTERRUPTED = "interrupted; continue with --resume"
TRUST = ("keys", "tls_cert", "tls_key", "tls_client_ca", "strangers", "strangers_per_address", "insecure")


def run(options: argparse.Namespace) -> int:
    """Checks the request, then serves until the run is over."""
    try:
        request = _request(dict(vars(options)))
    except (ValueError, DataError, RunError, OSError) as error:
        raise RequestError(str(error)) from error
    if options.insecure:
        _say(_warning(request))
    _say(f"run directory: {request.path}; {words_of(request.rules.deadline_s)}")
    say_who_made(request.path)
    with closing(Store(request.path, request.keep_rounds)) as store:
        experiment = request.assembled.experiment
        open_run(request.path, experiment.to_json())
        most = request.rules.aggregation_settings.most_examples
        watch = ServeProgress(experiment, run_history.metrics(request.path), most)
        server = host(request.assembled, store, request.rules, request.keys, _say, watch, accepting=request.accepting)
        try:
            serve(server, request.address, watch.ready(request.path), request.linger_s)
        finally:
            watch.end()
    return 0


@dataclass(frozen=True)
class _ServeRequest:
    """A run that can be served as asked."""

    assembled: AssembledExperiment
    path: Path
    rules: Rules
    address: ListenAddress
    keys: dict[int, bytes] | None
    linger_s: float
    keep_rounds: int
    accepting: list[int]


def _request(options: dict[str, Any]) -> _ServeRequest:
    names = ("data_dir", "run_dir", "resume", "host", "port", "wait_for", "quorum", "deadline", "evaluation_deadline")
    extra = ("select", "keep_rounds", "accept_loss", "max_empty_rounds", "linger")
    how = argparse.Namespace(**{name: options.pop(name) for name in (*names, *extra, *TRUST)})
    if how.run_dir and how.resume:
        raise ValueError(f"--run-dir {how.run_dir} with --resume {how.resume}; expected one of them")
    if how.keep_rounds < 2:
        raise ValueError(f"--keep-rounds {how.keep_rounds}; expected at least 2")
    experiment, model = _experiment(options, how.resume, how.data_dir)
    for client in how.accept_loss:
        if not 0 <= client < experiment.clients:
            raise ValueError(f"--accept-loss {client}; expected the id of a client, below {experiment.clients}")
    address, keys = _address(how)
    rules = Rules(
        experiment.rounds,
        experiment.eval_every,
        how.quorum,
        how.deadline,
        how.evaluation_deadline,
        how.wait_for or experiment.clients,
        experiment.values,
        how.select,
        max_empty_rounds=how.max_empty_rounds,
    )
    _check_select(experiment, rules)
    assembled = assemble_experiment(experiment, how.data_dir, model, served=True)
    rules = replace(rules, aggregation_settings=assembled.aggregation_settings)
    path = how.resume or how.run_dir or new_directory(Path(experiment.data).stem)
    if how.resume is None and (path / EXPERIMENT).exists():
        raise RunError(f"{path} already holds a run; expected a new directory, or --resume {path}")
    if how.resume is None:
        open_run(path, experiment.to_json(), model)
    asked = how.linger, how.keep_rounds, how.accept_loss
    return _ServeRequest(assembled, path, rules, address, keys, *asked)


def _check_select(experiment: Experiment, rules: Rules) -> None:
    """Raises ValueError if the method needs those who are not there."""
    ((name, algorithm),) = experiment.algorithms().items()
    if rules.seen_s is not None and algorithm.asks_all:
        raise ValueError(f"--select seen:{rules.seen_s:g} with {name}; expected all, as it asks everybody every round")


def words_of(deadline: Deadline) -> str:
    """When rounds are closed, and how to change that."""
    if deadline is None:
        return "rounds wait for every reply, however long (--deadline sets a limit)"
    if isinstance(deadline, AdaptiveDeadline):
        rule = f"{deadline.multiple:g} times what replies took, {deadline.floor_s:g} s at least, {deadline.first_s:g} s"
        return f"a round is closed after {rule} at first (--deadline S sets it, --deadline none waits for ever)"
    return f"a round is closed after {deadline:g} s (--deadline none waits for ever)"


def _experiment(options: dict[str, Any], resume: Path | None, data_dir: str | None) -> tuple[Experiment, Model | None]:
    """The experiment asked for, and the model of a file. It has one method: FedSPU with early stopping unless another
    is named.
    """
    if resume is None:
        options.setdefault("method", ["fedspu-es"])
    experiment, model = requested(options, resume, data_dir=data_dir)
    experiment.check_served()
    return experiment, model


def _address(how: argparse.Namespace) -> tuple[ListenAddress, dict[int, bytes] | None]:
    """Where to listen, and the devices' keys if any. Raises ValueError if others could reach it without being asked."""
    if not 0 <= how.port < 1 << 16:
        raise ValueError(f"--port {how.port}; expected 0 to 65535")
    keys = None if how.keys is None else read_table(how.keys)
    if (how.tls_cert is None) != (how.tls_key is None):
        raise ValueError(f"--tls-cert {how.tls_cert} with --tls-key {how.tls_key}; expected both or neither")
    if how.tls_client_ca is not None and how.tls_cert is None:
        raise ValueError(f"--tls-client-ca {how.tls_client_ca} without --tls-cert; expected both")
    tls = None if how.tls_cert is None else server_context(how.tls_cert, how.tls_key, how.tls_client_ca)
    if not ServerAddress(how.host, how.port).is_loopback and not how.insecure and (keys is None or tls is None):
        raise ValueError(f"--host {how.host} is open to other machines; expected --tls-cert and --keys, or --insecure")
    return ListenAddress(how.host, how.port, tls, Caps(how.strangers, how.strangers_per_address)), keys


def _warning(request: _ServeRequest) -> str:
    """What --insecure means here."""
    where, tls, keys = request.address.host, request.address.tls, request.keys
    missing = []
    if tls is None:
        missing.append("whoever is between a device and it can read the model and every update, and change them")
    if keys is None:
        missing.append(f"whoever reaches {where} can take part as any client that has not enrolled yet")
    return f"--insecure: {'; '.join(missing) or 'not needed, as there are TLS and keys'}"


class ServeProgress:
    """Live progress of a served run, from its durable records. `lines`: its metrics before this process."""

    def __init__(
        self, experiment: Experiment, log_records: list[dict[str, Any]], most_examples: int | None = None
    ) -> None:
        self._display, self._experiment, self._at = progress_display.watch(), experiment, len(log_records)
        self._log_record = log_records[-1] if log_records else {}  # its evaluation may be the next record
        self._refusals = Refusals(_say)
        self._most = most_examples

    def ready(self, path: Path) -> Callable[[str, int], AbstractContextManager[None]]:
        """What to do once the server listens, for as long as it does."""

        def listening(host: str, port: int) -> AbstractContextManager[None]:
            _say(f"listening on {host}:{port}")
            self._display.begin(self._experiment.methods[0], self._experiment.rounds, self._at)
            return announced(path, host, port)

        return listening

    def __call__(self, record: Record) -> None:
        if isinstance(record, Enrolment):
            self._enrolled(record)
        elif isinstance(record, ReplyJudged):
            self._refusals.judged(record.round, record.outcome, record.reason)
        elif isinstance(record, RoundClosed):
            self._log_record = record.log_record
            self._refusals.closed(record.log_record)
            self._display.log_record(record.log_record)
        elif isinstance(record, RoundEvaluated):
            self._display.log_record({**self._log_record, "evaluation": record.bundle})

    def _enrolled(self, record: Enrolment) -> None:
        """Says that a client counts as one of fewer samples than it declares."""
        if self._most is not None and record.examples is not None and record.examples > self._most:
            declared = f"client {record.client} declares {record.examples} training samples"
            _say(f"{declared} and counts as {self._most}; --max-examples sets another limit")

    def end(self) -> None:
        self._display.end()


def _say(line: str) -> None:  # what peers wrote in it is made printable in server/server_log.py
    print(line, file=sys.stderr, flush=True)
