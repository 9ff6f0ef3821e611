"""The output of `edgefl agent --status`: the activity of the agent, its conditions and its runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl.cli.memory_table import size
from edgefl.deployment.agent.activity_file import Activity
from edgefl.deployment.agent.agent_settings import AgentSettings
from edgefl.deployment.agent.conditions import ConditionStatus
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.device.run_folders import is_in_use
from edgefl.deployment.device.state_reader import RunRecord, runs_of

BETWEEN_S = 0.5  # time in seconds between two looks at the load of the processors


def show(
    settings: AgentSettings,
    activity: Activity | None,
    watch: Callable[[int | str], ConditionMonitor],
    as_json: bool = False,
) -> int:
    """Print the status of the agent. Return 0 if all conditions hold, else 1."""
    is_running = is_in_use(settings.state)
    process: int | str = activity.process if activity is not None and is_running else "self"
    looking = watch(process)
    if settings.conditions.max_others is not None:
        time.sleep(BETWEEN_S)
    checks, records = looking.checks(), runs_of(settings.state)
    if as_json:
        print(json.dumps(_as_json(activity if is_running else None, is_running, checks, records)))
    else:
        _print(_doing(activity, is_running), checks, records)
    return int(not all(check.holds for check in checks))


def _print(doing: str, checks: Sequence[ConditionStatus], records: list[RunRecord]) -> None:
    """Print the activity, a table of the conditions, and a table of the runs."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(doing, soft_wrap=True, highlight=False)
    table = _table("condition", "now", "limit", "holds")
    for check in checks:
        table.add_row(check.name, check.value, check.limit, "yes" if check.holds else "NO")
    console.print(table if checks else "no conditions")
    if records:
        console.print(_runs(records))


def _as_json(
    activity: Activity | None, is_running: bool, checks: Sequence[ConditionStatus], records: list[RunRecord]
) -> dict[str, Any]:
    """Return the status of the agent as JSON values."""
    fields = ("run", "method", "client", "round", "size_bytes", "over")
    return {
        "running": is_running,
        "process": None if activity is None else activity.process,
        "doing": None if activity is None else activity.doing,
        "since": None if activity is None else activity.since,
        "conditions": [{name: getattr(each, name) for name in ("name", "value", "limit", "holds")} for each in checks],
        "runs": [{name: getattr(each, name) for name in fields} for each in records],
    }


def _doing(activity: Activity | None, is_running: bool) -> str:
    if not is_running:
        return "agent: not running"
    if activity is None:
        return "agent: running"
    return f"agent: process {activity.process}, for {time.time() - activity.since:.0f} s: {activity.doing}"


def _runs(records: list[RunRecord]) -> Table:
    table = _table("run", "method", "client", "round", "kept", "state")
    for each in records:
        client = "" if each.client is None else str(each.client)
        state = "goes on" if each.over is None else f"over: {each.over}"
        table.add_row(each.run, each.method, client, str(each.round), size(each.size_bytes), state)
    return table


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in headings:
        table.add_column(heading)
    return table
