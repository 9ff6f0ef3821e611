"""The group "output" that every command has: --json, --quiet, --verbose and --log-json, with one meaning each.

Results go to stdout, as text or with --json as one JSON object. Everything else goes to stderr: progress and notes
(working.py), or the log of a service (log_writer.py).
"""

from __future__ import annotations

import argparse

from edgefl.cli.log_writer import LogFormat

JSON = {  # command with --json -> sentences about its object, which follow the help text
    "simulate": "",
    "methods": "",
    "check": "",
    "demo": "",
    "report": "",
    "status": " With --watch every look is an object in a line of its own.",
    "devices": " With --watch every look is an object in a line of its own.",
    "control": "",
    "agent": " The option needs --status or --check.",
    "partition": "",
    "keys": "",
    "convert": "",
    "export": "",
    "predict": "",
    "lora": "",
    "inspect": "",
    "memory": " The object lists the tensors of the arena.",
    "bench": "",
    "doctor": "",
}


def add_output(parser: argparse.ArgumentParser, command: str, has_log: bool) -> None:
    """Add the group to the parser of a command. `has_log`: the command writes a log, whose form can be chosen."""
    group = parser.add_argument_group("output")
    if command in JSON:
        more = JSON[command]
        text = f"print the result as one JSON object{'.' if more else ''}{more}"
        group.add_argument("--json", action="store_true", help=text)
    how_much = group.add_mutually_exclusive_group()
    details = "write also the lines that help to find a fault"
    how_much.add_argument("-v", "--verbose", action="store_true", help=details)
    quiet = "write only warnings and errors to stderr, and no progress"
    how_much.add_argument("-q", "--quiet", action="store_true", help=quiet)
    if has_log:
        fields = "write each line of the log as a JSON object with time, level, event, client and text"
        group.add_argument("--log-json", action="store_true", help=fields)


def use_output(options: argparse.Namespace) -> None:
    """Remove the options from `options` but --json, and write to stderr as they say from now on."""
    given = vars(options)
    is_verbose, is_quiet = given.pop("verbose"), given.pop("quiet")
    LogFormat.least = "DEBUG" if is_verbose else "WARNING" if is_quiet else "INFO"
    LogFormat.is_json = given.pop("log_json", False)
