"""The output of `edgefl agent --status`: the activity of the agent, its conditions, its runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl.cli.memory_table import size
from edgefl.deployment.agent.activity_file import Activity
from edgefl.deployment.agent.agent_settings import AgentSettings
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.device.run_folders import is_in_use
from edgefl.deployment.device.state_reader import RunRecord, runs_of

BETWEEN_S = 0.5  # two looks at what the processors do


def show(settings: AgentSettings, activity: Activity | None, watch: Callable[[int | str], ConditionMonitor]) -> int:
    """Prints it; 0 if all conditions hold, else 1."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    is_running = is_in_use(settings.state)
    process: int | str = activity.process if activity is not None and is_running else "self"
    console.print(_doing(activity, is_running), soft_wrap=True, highlight=False)
    looking = watch(process)
    if settings.conditions.max_others is not None:
        time.sleep(BETWEEN_S)
    checks = looking.checks()
    table = _table("condition", "now", "limit", "holds")
    for check in checks:
        table.add_row(check.name, check.value, check.limit, "yes" if check.holds else "NO")
    console.print(table if checks else "no conditions")
    if records := runs_of(settings.state):
        console.print(_runs(records))
    return int(not all(check.holds for check in checks))


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
