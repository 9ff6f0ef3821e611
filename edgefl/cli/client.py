"""`edgefl client` is one device of a run. The command loads only modules that it uses, for the sake of small boards."""

from __future__ import annotations

import argparse
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgefl.cli.access_error import sentence
from edgefl.cli.client_options import add_arguments as add_arguments
from edgefl.cli.energy_messages import told_meter
from edgefl.cli.log_writer import say
from edgefl.deployment.device import secure_settings
from edgefl.deployment.device.base_store import FOLDER, BaseStore
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile, SecureProfile
from edgefl.deployment.device.device_socket import DeviceSocket, Party, ServerAddress
from edgefl.deployment.device.participation import leave, take_part
from edgefl.deployment.device.reconnection import delay_s
from edgefl.deployment.device.request_limits import give_back
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.errors import DataError, EdgeflError, GraphError, RequestError
from edgefl.experiment.client_dataset import client_of, read_partition
from edgefl.learning.learner import MakeLearner
from edgefl.models.graph import Model, model_files
from edgefl.protocol.trust.keys import read_key
from edgefl.protocol.trust.tls import device_context
from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import Alert, LimitedLog, LogLine

INTERRUPTED = "interrupted; run it again with the same --state to continue"
LONGEST_S = 1e8  # time in seconds that a round may take, as timers cannot count further


def run(options: argparse.Namespace) -> int:
    """Check the request, then take part until the run is over."""
    server = None if options.flower is not None else _server(options)
    if options.leave:
        return _leave(options, server)
    if options.data is None:
        raise RequestError("--data is missing; expected the file of the device's samples")
    try:
        data = Data(*read_partition(options.data, options.max_memory))
        options.id = client_of(options.data) if options.id is None and options.key is None else options.id
    except (DataError, OSError) as error:
        raise RequestError(sentence(error)) from error
    profile, make = _profile(options), _learner(options)
    base = _base(options)
    if options.max_memory is not None:
        give_back()
    world = _world(options.max_seconds)._replace(meter=told_meter(options.measure_energy, say))
    if server is None:
        from edgefl.cli import flower_device

        return flower_device.take_part(options, profile, data, world)
    talk, directory = _talk(options, server, world), StateDirectory(options.state)
    if base is not None:
        BaseStore(directory.path / FOLDER).keep_model(base.params)
    _warn(options, server, profile)
    with _printable():
        reason = take_part(directory, profile, data, world, talk, make)
    _over(directory, reason, options.keep_runs)
    return 0


def _leave(options: argparse.Namespace, server: ServerAddress | None) -> int:
    """Tell the server that the device leaves its run."""
    if server is None:
        raise RequestError("--leave with --flower; expected --server, as envelopes have no message for it")
    if not options.state.is_dir():
        raise RequestError(f"--leave with --state {options.state}, which is no directory; expected the device's state")
    profile, world = _profile(options), _world(None)
    talk, directory = _talk(options, server, world), StateDirectory(options.state)
    _warn(options, server, profile)
    with _printable():
        reason = leave(directory, profile, world, talk)
    say(LogLine(f"the server says: {reason}", "left"))
    return 0


def _talk(options: argparse.Namespace, server: ServerAddress, world: DeviceEnvironment) -> Callable[[Party], str]:
    """Return the function that lets a party talk to the server."""
    context = device_context(options.tls_ca, options.tls_cert, options.tls_key) if _uses_tls(options) else None
    return lambda party: DeviceSocket(server, party, context, secrets.token_bytes, world, options.give_up).run()


def _warn(options: argparse.Namespace, server: ServerAddress, profile: DeviceProfile) -> None:
    """Say what --insecure means here."""
    if options.insecure:
        say(Alert(_warning(server, options.key is not None, _uses_tls(options))))
    if line := secure_settings.warning(profile.secure, mark="--"):
        say(Alert(line))


@contextmanager
def _printable() -> Iterator[None]:
    """Make the text of an error printable, as the server's words may be in it."""
    try:
        yield
    except EdgeflError as error:
        error.args = (printable(str(error)),)
        raise


def _base(options: argparse.Namespace) -> Model | None:
    """Return the model that lies on the device, or None. Raises RequestError if its file is not a model of edgefl."""
    if options.base is None:
        return None
    if options.flower is not None:
        raise RequestError(f"--base {options.base} with --flower; expected --server, as envelopes have whole models")
    try:
        return model_files.load(options.base)
    except (GraphError, OSError) as error:
        raise RequestError(sentence(error)) from error


def _learner(options: argparse.Namespace) -> MakeLearner | None:
    """Return the function that makes the learner, or None for the learner of edgefl, which keeps within the limits."""
    if options.learner == "native":
        return None
    if options.max_memory is not None:
        raise RequestError("--learner torch with --max-memory; expected one of them: torch does not say what it takes")
    try:
        from edgefl.torch import TorchLearner
    except ModuleNotFoundError as error:
        raise RequestError(sentence(error)) from error
    return TorchLearner


def _over(directory: StateDirectory, reason: str, keep: int | None) -> None:
    """Say that the run is over, and remove the files of older runs that the user does not want to keep."""
    say(LogLine(f"the run is over: {reason}", "over"))
    for removed in [] if keep is None else directory.prune(keep):
        say(f"run {removed.over.run} is over: removed its {removed.size_bytes} bytes (--keep-runs {keep})")


def _world(max_seconds: float | None) -> DeviceEnvironment:
    world = DeviceEnvironment(say, _pause, time.perf_counter, log=LimitedLog(say, time.monotonic))
    if max_seconds is None:
        return world
    from edgefl.deployment.device.time_limit import Alarm

    return world._replace(within=Alarm(max_seconds, say))


def _server(options: argparse.Namespace) -> ServerAddress:
    if options.node_key is not None:
        raise RequestError("--node-key without --flower; expected --key, or the URL of a SuperLink")
    server = ServerAddress.parse(options.server)
    if not server.is_loopback and not options.insecure and (options.key is None or not _uses_tls(options)):
        raise RequestError(f"--server {server} is another machine; expected --tls and --key FILE, or --insecure")
    return server


def _warning(server: ServerAddress, has_key: bool, has_tls: bool) -> str:
    """Return the warning about the danger of --insecure in this connection."""
    if has_tls:
        meaning = "not needed, as there are TLS and a key" if has_key else "others can enrol as this client before it"
        return f"--insecure: {meaning}"
    does = "change them" if has_key else "change them, or be the server"
    return f"--insecure: whoever is between here and {server} can read the model and every update, and {does}"


def _uses_tls(options: argparse.Namespace) -> bool:
    """Return whether the device uses TLS. An option about certificates implies TLS."""
    return options.tls or any(file is not None for file in (options.tls_ca, options.tls_cert, options.tls_key))


def _profile(options: argparse.Namespace) -> DeviceProfile:
    if not 0 < options.capacity <= 1:
        raise RequestError(f"--capacity {options.capacity}; expected 0 < capacity <= 1")
    if options.max_seconds is not None and not 0 < options.max_seconds <= LONGEST_S:
        raise RequestError(f"--max-seconds {options.max_seconds}; expected 0 < seconds <= {LONGEST_S:g}")
    if options.keep_runs is not None and options.keep_runs < 0:
        raise RequestError(f"--keep-runs {options.keep_runs}; expected 0 or more")
    if not options.give_up >= 0:
        raise RequestError(f"--give-up {options.give_up}; expected a number of seconds, or inf")
    if options.key is not None and options.id is None:
        raise RequestError("--key without --id; expected the id that the key belongs to")
    if options.id is not None and not 0 <= options.id < 1 << 31:
        raise RequestError(f"--id {options.id}; expected 0 <= id < 2^31")
    if options.former_key is not None and options.key is None:
        raise RequestError(f"--former-key {options.former_key} without --key; expected both, the old and the new key")
    key, former = (None if file is None else read_key(file) for file in (options.key, options.former_key))
    limits = options.max_model, options.max_memory, options.max_seconds
    told = not options.no_throughput, options.accept_data
    allowed, secure = _allowed(options.allow_method), _secure(options)
    profile = DeviceProfile(options.id, key, options.capacity, *limits, allowed, *told, secure)
    return profile._replace(tags=_tags(options), sleeps=options.sleep, former_key=former)


def _tags(options: argparse.Namespace) -> dict[str, str]:
    if options.flower is not None and (options.tag or options.sleep):
        name = f"--tag {options.tag[0]}" if options.tag else "--sleep"
        raise RequestError(f"{name} with --flower; expected --server, as envelopes have no message for it")
    if not options.tag:
        return {}
    from edgefl.protocol.wire.tag_text import parse_tags

    try:
        return parse_tags(options.tag)
    except ValueError as error:
        raise RequestError(f"--tag: {error}") from None


def _secure(options: argparse.Namespace) -> SecureProfile | None:
    """Return what the device asks of secure aggregation, or None for runs without it."""
    if options.identity is not None and options.flower is not None:
        raise RequestError("--identity with --flower; expected --server, as envelopes carry no secure aggregation")
    asked = options.federation, options.secure_least, options.secure_colluders
    return secure_settings.secure_profile(options.identity, options.operator, *asked, options.insecure, mark="--")


def _allowed(names: list[str]) -> tuple[str, ...]:
    """Return the methods that the device takes part in. Methods of the user's own are imported now."""
    if names:
        from edgefl.experiment.user_methods import admit

        try:
            for name in names:
                admit(name)
        except ValueError as error:
            raise RequestError(f"--allow-method {name}: {error}") from error
    return tuple(names)


def _pause(failures: int) -> None:
    time.sleep(delay_s(failures, random.random()))
