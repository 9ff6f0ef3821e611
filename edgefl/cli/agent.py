"""`edgefl agent` keeps a device in service, and shows what the agent does and which of its conditions hold."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from edgefl.cli.access_error import sentence
from edgefl.cli.energy_messages import told_meter
from edgefl.cli.log_writer import say
from edgefl.cli.size_arguments import size
from edgefl.cli.working import working
from edgefl.deployment.agent.activity_file import Activity, read_activity, write_activity
from edgefl.deployment.agent.agent_settings import AgentSettings, read_settings
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.agent.sample_file import SampleFile
from edgefl.deployment.agent.service import AgentService
from edgefl.deployment.device import secure_settings
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.request_limits import give_back
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.errors import DataError, RequestError
from edgefl.learning.energy.meter import EnergyMeter
from edgefl.system.log_lines import Alert, LimitedLog

INTERRUPTED = "stopped; it goes on where it was when it is started again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file of settings, and the options that look at the agent instead of serving."""
    parser.add_argument(
        "settings",
        type=Path,
        metavar="FILE.toml",
        help="file of servers, limits and conditions, as docs/boards.md describes",
    )
    parser.add_argument(
        "--status", action="store_true", help="show the activity of the agent and which conditions hold, then end"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the file and the samples that it names, then end",
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help="number of finished runs after which the agent ends (default: no limit)"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="folder in which the folders sys and proc of the system lie (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Check the settings, then keep the device in service until the command is stopped."""
    if options.runs is not None and options.runs < 1:
        raise RequestError(f"--runs {options.runs}; expected at least 1")
    if options.json and not (options.status or options.check):
        raise RequestError("--json without --status or --check; expected one of them, or --log-json for the log")
    settings = read_settings(options.settings, size)
    if options.status:
        from edgefl.cli.agent_status import show  # rich takes a while, and a board may be without it

        activity = read_activity(settings.state)
        return show(settings, activity, lambda process: _watch(settings, options.root, process), options.json)
    if options.check:
        with working("reading the samples of the servers"):
            samples = _samples(options.settings, settings)
        if options.json:
            print(json.dumps(_as_json(options.settings, settings, samples)))
        else:
            say(_words(options.settings, settings, samples))
        return 0
    _serve(settings, options)
    return 0


def _samples(file: Path, settings: AgentSettings) -> list[int]:
    """Return the number of samples for each server.

    Raises  RequestError for a file of samples that no server could train on
    """
    counts = []
    for entry in settings.server_entries:
        try:
            data = SampleFile(entry.data, entry.profile.max_memory).newest()
        except (DataError, OSError) as error:
            raise RequestError(f"{file}: server {entry.server}: {sentence(error)}") from error
        counts.append(len(data.samples))
    return counts


def _words(file: Path, settings: AgentSettings, samples: list[int]) -> str:
    """Describe the servers and the samples of the settings in one line."""
    entries = zip(settings.server_entries, samples, strict=True)
    counts = [f"{entry.server} ({count} samples in {entry.data})" for entry, count in entries]
    servers = "1 server" if len(counts) == 1 else f"{len(counts)} servers"
    return f"{file}: {servers}: {', '.join(counts)}; state in {settings.state}"


def _as_json(file: Path, settings: AgentSettings, samples: list[int]) -> dict[str, Any]:
    """Return the servers and the samples of the settings as JSON values."""
    entries = zip(settings.server_entries, samples, strict=True)
    servers = [{"server": str(each.server), "data": str(each.data), "samples": count} for each, count in entries]
    return {"settings": str(file), "state": str(settings.state), "servers": servers}


def _serve(settings: AgentSettings, options: argparse.Namespace) -> None:
    limits = settings.server_entries[0].profile
    if limits.max_memory is not None:
        give_back()
    directory = StateDirectory(settings.state)
    tell = _telling(settings.state)
    for server_entry in settings.server_entries:
        if server_entry.is_insecure and not server_entry.server.is_loopback:
            danger = "insecure: whoever is in between can read every update, or be the server"
            say(Alert(f"{server_entry.server}: {danger}"))
        if line := secure_settings.warning(server_entry.profile.secure):
            say(Alert(f"{server_entry.server}: {line}"))
    watch = _watch(settings, options.root, "self")
    meter = told_meter(None, say, None if options.root == Path("/") else options.root)
    AgentService(settings, directory, watch, _world(limits.max_seconds, meter), tell, options.runs).run()
    tell("ended")


def _watch(settings: AgentSettings, root: Path, process: int | str) -> ConditionMonitor:
    intervals = settings.intervals
    return ConditionMonitor(
        settings.conditions,
        root,
        time.monotonic,
        lambda: datetime.now().time(),
        intervals.check_s,
        intervals.settle_s,
        process,
    )


def _telling(directory: Path) -> Callable[[str], None]:
    """Return a function that writes down what the agent does now, when the activity changes."""
    last = ""

    def tell(doing: str) -> None:
        nonlocal last
        if doing != last:
            last = doing
            write_activity(directory, Activity(os.getpid(), time.time(), doing))

    return tell


def _world(max_seconds: float | None, meter: Callable[[], EnergyMeter]) -> DeviceEnvironment:
    log = LimitedLog(say, time.monotonic)
    world = DeviceEnvironment(say, lambda failures: time.sleep(1.0), time.monotonic, meter=meter, log=log)
    if max_seconds is None:
        return world
    from edgefl.deployment.device.time_limit import Alarm

    return world._replace(within=Alarm(max_seconds, say))
