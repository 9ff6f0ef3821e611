"""`edgefl serve` runs the server of one run. Devices connect with `edgefl client`, and `edgefl status RUN` shows the
progress.
"""

from __future__ import annotations

import argparse
import errno
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgefl.cli import log_writer, secure_serving
from edgefl.cli.access_error import sentence
from edgefl.cli.experiment_options import requested, say_who_made
from edgefl.cli.log_writer import say
from edgefl.cli.page import announce
from edgefl.cli.page_options import PageRequest, half_of_tls, page_request
from edgefl.cli.page_process import page_beside
from edgefl.cli.serve_options import add_arguments as add_arguments
from edgefl.cli.serve_progress import ServeProgress
from edgefl.cli.serve_warnings import PartitionComparison, early_start, large_model, small_partition
from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.errors import DataError, RequestError, RunError
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.asynchronous_settings import asynchronous_rounds
from edgefl.experiment.data_meaning import write_meaning
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.default_settings import new_directory
from edgefl.experiment.run_json import EXPERIMENT, check_data, open_run
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Model
from edgefl.protocol.trust.certificate_dates import expiry
from edgefl.protocol.trust.keys import KeyTable, read_table
from edgefl.protocol.trust.tls import server_context
from edgefl.server import run_history
from edgefl.server.admission import Caps
from edgefl.server.event_loop import serve
from edgefl.server.listener import ListenAddress, bound
from edgefl.server.operator_command import ClientSelection
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import host
from edgefl.server.store import Store
from edgefl.server.trust_files import TrustFiles
from edgefl.system.log_lines import Alert

if TYPE_CHECKING:
    from edgefl.server.secure_settings import SecureSettings  # needs cryptography, which a plain run does without

INTERRUPTED = "interrupted; continue with --resume"
LOOKS = ("page", "page_token")
MEMBERS = ("open", "come_again", "drain")
TRUST = ("keys", "tls_cert", "tls_key", "tls_client_ca", "strangers", "strangers_per_address", "insecure")


def run(options: argparse.Namespace) -> int:
    """Check the request, then serve until the run is over."""
    with ExitStack() as stack:
        try:
            page = _page(options)
            if page is not None:
                stack.callback(page.close)
            request = _request(dict(vars(options)))
        except (ValueError, DataError, RunError, OSError) as error:
            raise RequestError(sentence(error)) from error
        stack.callback(request.close)
        return _serve(request, options.insecure, page, options.page_token)


def _page(options: argparse.Namespace) -> PageRequest | None:
    """Return the page that is asked for, listening, or None without --page. Raises RequestError."""
    if options.page is None:
        if options.page_token is not None:
            raise RequestError(f"--page-token {options.page_token} without --page; expected both")
        return None
    trust = options.page_token, options.tls_cert, options.tls_key, options.insecure
    return page_request(options.page, *trust, ("--page", "--page-token"))


def _serve(request: _ServeRequest, is_insecure: bool, page: PageRequest | None, token: Path | None) -> int:
    """Serve a run whose port is bound, until the run is over. Return the exit code."""
    lines = request.expiry, small_partition(request.assembled), early_start(request.assembled, request.rules)
    warnings = (_warning(request), secure_serving.warning(request.rules.secure)) if is_insecure else ()
    for line in (*warnings, *lines):
        if line:
            say(Alert(line))
    say(f"run directory: {request.path}; {words_of(request.rules.deadline_s)}")
    say_who_made(request.path)
    with closing(Store(request.path, request.keep_rounds)) as store:
        experiment = request.assembled.experiment
        open_run(request.path, experiment.to_json())
        if request.rules.secure is not None:
            request.rules.secure.write(request.path)
        if words := check_data(request.path, request.trains_on, request.accept_data):
            say(words)
        most = request.rules.aggregation_settings.most_examples
        federation = request.assembled.federation
        comparison = PartitionComparison([len(split.train) for split in federation.clients], say)
        watch = ServeProgress(experiment, run_history.metrics(request.path), most, comparison)
        given = request.rules, request.keys, say, watch
        server = host(
            request.assembled, store, *given, accepting=request.accepting, trust=request.trust, drain_s=request.drain_s
        )
        if line := large_model(len(server.service.model)):
            say(Alert(line))
        with ExitStack() as stack:
            stack.callback(watch.end)
            if page is not None:
                announce(page, token)
                stack.enter_context(page_beside(request.path, page, token, log_writer.flags(), say))
            if not serve(server, request.address, watch.ready(request.path), request.linger_s):
                say(f"ended between two rounds, as the operator asked; continue with --resume {request.path}")
    return 0


@dataclass(frozen=True)
class _ServeRequest:
    """A run that can be served as asked."""

    assembled: AssembledExperiment
    path: Path
    rules: Rules
    address: ListenAddress
    keys: KeyTable | None
    linger_s: float
    drain_s: float
    keep_rounds: int
    accepting: list[int]
    accept_data: bool
    trains_on: DataRecord
    trust: TrustFiles
    expiry: str  # warning that the certificate expires soon, or ""

    def close(self) -> None:
        """Close the listening sockets. The server has closed them already if it has served."""
        for listener in self.address.sockets:
            listener.close()


def _request(options: dict[str, Any]) -> _ServeRequest:
    names = ("data_dir", "run_dir", "resume", "host", "port", "wait_for", "quorum", "deadline", "evaluation_deadline")
    extra = ("select", "keep_rounds", "accept_data", "accept_loss", "max_empty_rounds", "linger", *LOOKS, *MEMBERS)
    how = argparse.Namespace(**{name: options.pop(name) for name in (*names, *extra, *TRUST, *secure_serving.NAMES)})
    _check_asked(how)
    secure = secure_serving.prepare(how, options)
    experiment, model = _experiment(options, how.resume, how.data_dir)
    _check_losses(experiment, how.accept_loss)
    address, keys = _address(how)
    rules = _rules(how, experiment, secure)
    _check_select(experiment, how)
    _check_asynchronous(experiment, rules, how.keep_rounds)
    assembled = assemble_experiment(experiment, how.data_dir, model, served=True)
    rules = replace(rules, aggregation_settings=assembled.aggregation_settings)
    if secure is not None:
        secure_serving.check(assembled, secure)
    path = how.resume or how.run_dir or new_directory(Path(experiment.data).stem)
    if how.resume is None and (path / EXPERIMENT).exists():
        raise RunError(f"{path} already holds a run; expected a new directory, or --resume {path}")
    dates = "" if how.tls_cert is None else expiry(how.tls_cert, time.time())
    asked = how.linger, how.drain, how.keep_rounds, how.accept_loss, how.accept_data
    trusted = DataRecord.of_federation(assembled.federation), _trust(how, keys, address), dates
    request = _ServeRequest(assembled, path, rules, _bound(address), keys, *asked, *trusted)
    if how.resume is None:
        _make_directory(request, model)
    return request


def _rules(how: argparse.Namespace, experiment: Experiment, secure: SecureSettings | None) -> Rules:
    """Return the rules of the run's rounds."""
    first = min(experiment.per_round, experiment.clients) if how.open else experiment.clients
    return Rules(
        experiment.rounds,
        experiment.eval_interval,
        how.quorum,
        how.deadline,
        how.evaluation_deadline,
        how.wait_for or first,
        experiment.values,
        **_selection(how)._asdict(),
        is_open=how.open,
        max_empty_rounds=how.max_empty_rounds,
        come_again_s=how.come_again,
        evaluate_first=experiment.evaluates_first,
        secure=secure,
        asynchronous=asynchronous_rounds(experiment),
    )


def _trust(how: argparse.Namespace, keys: KeyTable | None, address: ListenAddress) -> TrustFiles:
    """Return the files of keys and certificates, which the server reads again when they change."""
    pair = None if how.tls_cert is None else (how.tls_cert, how.tls_key)
    return TrustFiles(how.keys, keys or {}, pair, address.tls)


def _check_asked(how: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together."""
    if how.run_dir and how.resume:
        raise ValueError(f"--run-dir {how.run_dir} with --resume {how.resume}; expected one of them")
    if how.accept_data and not how.resume:
        raise ValueError("--accept-data without --resume; expected both, as only a run that goes on has data of before")
    if not 0 <= how.drain < float("inf"):
        raise ValueError(f"--drain {how.drain:g}; expected a finite number of seconds, 0 or more")
    if how.keep_rounds < 2:
        raise ValueError(f"--keep-rounds {how.keep_rounds}; expected at least 2")


def _check_losses(experiment: Experiment, accepted: list[int]) -> None:
    """Raise ValueError for a client that the run does not have."""
    for client in accepted:
        if not 0 <= client < experiment.clients:
            raise ValueError(f"--accept-loss {client}; expected the id of a client, below {experiment.clients}")


def _make_directory(request: _ServeRequest, model: Model | None) -> None:
    """Make the directory of a new run. The port is free again if that fails."""
    try:
        open_run(request.path, request.assembled.experiment.to_json(), model, trains_on=request.trains_on)
        write_meaning(request.path, request.assembled.federation.meaning)
    except BaseException:
        request.close()
        raise


def _bound(address: ListenAddress) -> ListenAddress:
    """Return the address with sockets that listen, before the run has a directory. Raises ValueError if it cannot
    listen.
    """
    try:
        return bound(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            where = f"--host {address.host} --port {address.port}"
            raise ValueError(f"{where} is in use; expected a free port, or --port 0 for any that is free") from None
        raise


def _selection(how: argparse.Namespace) -> ClientSelection:
    """Return the clients among which the clients of rounds are chosen."""
    return how.select or ClientSelection(among_enrolled=how.open)


def _check_select(experiment: Experiment, how: argparse.Namespace) -> None:
    """Raise ValueError if --select leaves out clients that the method needs."""
    ((name, algorithm),) = experiment.algorithms().items()
    selection = _selection(how)
    if algorithm.asks_all and selection != ClientSelection():
        asked = f"--select {selection}" if how.select is not None else "--open"
        raise ValueError(f"{asked} with {name}; expected all, as it asks everybody every round")


def _check_asynchronous(experiment: Experiment, rules: Rules, keep_rounds: int) -> None:
    """Raise ValueError for an option that asynchronous rounds cannot have."""
    if not experiment.buffer:
        return
    if rules.quorum is not None:
        raise ValueError(f"--quorum {rules.quorum} with --buffer {experiment.buffer}; expected --buffer alone")
    if rules.secure is not None:
        raise ValueError(f"--secure with --buffer {experiment.buffer}; expected rounds that wait, for sums of groups")
    if keep_rounds <= experiment.max_staleness:
        most = f"--max-staleness {experiment.max_staleness}"
        raise ValueError(f"--keep-rounds {keep_rounds} with {most}; expected at least {experiment.max_staleness + 1}")


def words_of(deadline: Deadline) -> str:
    """Return a sentence that says when rounds are closed, and how to change that."""
    if deadline is None:
        return "rounds wait for every reply, however long (--deadline sets a limit)"
    if isinstance(deadline, AdaptiveDeadline):
        rule = f"{deadline.multiple:g} times what replies took, {deadline.floor_s:g} s at least, {deadline.first_s:g} s"
        return f"a round is closed after {rule} at first (--deadline S sets it, --deadline none waits for ever)"
    return f"a round is closed after {deadline:g} s (--deadline none waits for ever)"


def _experiment(options: dict[str, Any], resume: Path | None, data_dir: str | None) -> tuple[Experiment, Model | None]:
    """Return the experiment asked for, and the model of a file. The experiment has one method, by default FedSPU with
    early stopping.
    """
    if resume is None:
        options.setdefault("method", ["fedspu-es"])
    experiment, model = requested(options, resume, data_dir=data_dir)
    experiment.check_served()
    return experiment, model


def _address(how: argparse.Namespace) -> tuple[ListenAddress, KeyTable | None]:
    """Return the address to listen on, and the devices' keys if there are any.

    Raises  ValueError if other machines could reach the server without a key
    """
    if not 0 <= how.port < 1 << 16:
        raise ValueError(f"--port {how.port}; expected 0 to 65535")
    keys = None if how.keys is None else read_table(how.keys)
    if (how.tls_cert is None) != (how.tls_key is None):
        raise ValueError(half_of_tls(how.tls_cert, how.tls_key))
    if how.tls_client_ca is not None and how.tls_cert is None:
        raise ValueError(f"--tls-client-ca {how.tls_client_ca} without --tls-cert; expected both")
    tls = None if how.tls_cert is None else server_context(how.tls_cert, how.tls_key, how.tls_client_ca)
    if not ServerAddress(how.host, how.port).is_loopback and not how.insecure and (keys is None or tls is None):
        raise ValueError(f"--host {how.host} is open to other machines; expected --tls-cert and --keys, or --insecure")
    return ListenAddress(how.host, how.port, tls, Caps(how.strangers, how.strangers_per_address)), keys


def _warning(request: _ServeRequest) -> str:
    """Return the warning about the danger of --insecure in this run."""
    where, tls, keys = request.address.host, request.address.tls, request.keys
    missing = []
    if tls is None:
        missing.append("whoever is between a device and it can read the model and every update, and change them")
    if keys is None:
        missing.append(f"whoever reaches {where} can take part as any client that has not enrolled yet")
    return f"--insecure: {'; '.join(missing) or 'not needed, as there are TLS and keys'}"
