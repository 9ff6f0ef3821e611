"""Every reader of settings, and every field of it, with a value of every type: taken, or refused in one sentence."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.experiment_options import requested
from edgefl.cli.size_arguments import size
from edgefl.deployment.agent.agent_settings import read_settings
from edgefl.errors import DataError, EdgeflError, RequestError, RunError
from edgefl.experiment import run_toml
from edgefl.experiment.device_models import device_assignment
from edgefl.experiment.device_models.device_profile import Profile
from edgefl.experiment.run_json import EXPERIMENT
from edgefl.experiment.settings import Experiment
from edgefl.system.durable_files import with_digest

VALUES: tuple[Any, ...] = (
    True, False, None, 0, 1, -1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf, "", "5", "text", "a\nb",
    "\x1b[31m", [], [1], ["a"], [[]], [True], [["lr", 1]], [["lr", [1]]], [[[], 1]], [{}], {}, {"a": 1},
    {"a": {"b": [1]}},
)  # fmt: skip
SETTINGS = [each.name for each in fields(Experiment) if each.name != "tuned"]
AGENT = {
    "": ["state", "data", "keep_runs", "check_s", "settle_s", "poll_s", "turn_s", "limits", "conditions", "servers"],
    "limits": ["capacity", "max_model", "max_memory", "max_seconds", "throughput", "pace"],
    "conditions": ["power", "max_celsius", "max_others", "max_pressure", "hours", "interfaces", "metered"],
    "servers": [
        *("address", "id", "key", "tls", "tls_ca", "tls_cert", "tls_key", "insecure", "data", "runs", "methods"),
    ],
}
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads TOML by tomli")


def as_toml(value: Any) -> str:
    """The value as it stands in TOML, which has tables in braces, and no null."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {as_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf"
    return json.dumps(value)


def refusal(read: Callable[[], object], *declared: type[Exception]) -> str:
    """Return the sentence of a refusal, or "" where the value is taken. Any other error fails the test."""
    try:
        read()
    except declared as error:
        return str(error)
    return ""


def assert_short(sentence: str) -> None:
    assert "Traceback" not in sentence
    assert len(sentence) < 2000, sentence


def settings_of_agent(section: str, name: str, value: Any) -> dict[str, Any]:
    """Settings that are right but for one entry."""
    found: dict[str, Any] = {"state": "s", "data": "d.npz", "servers": [{"address": "127.0.0.1:7000"}]}
    table = {"": found, "servers": found["servers"][0]}.get(section)
    if table is None:
        table = found[section] = {}
    table[name] = value
    return found


@pytest.mark.parametrize(("section", "name"), [(section, name) for section, names in AGENT.items() for name in names])
def test_an_agent_takes_or_names_an_entry_of_any_type(section: str, name: str, tmp_path: Path) -> None:
    for value in VALUES:
        settings = settings_of_agent(section, name, value)
        (tmp_path / "agent.json").write_text(json.dumps(settings))
        sentence = refusal(lambda: read_settings(tmp_path / "agent.json", size), RequestError)
        assert_short(sentence)
        if value is not None and sys.version_info >= (3, 11):
            (tmp_path / "agent.toml").write_text(
                "\n".join(f"{key} = {as_toml(each)}" for key, each in settings.items()) + "\n"
            )
            again = refusal(lambda: read_settings(tmp_path / "agent.toml", size), RequestError)
            assert again.replace("agent.toml", "agent.json") == sentence


@pytest.mark.parametrize(
    ("value", "found"), [(64_000_000, 64_000_000), ("64MB", 64_000_000), ("64MiB", 64 << 20), (1, 1), (2**62, 2**62)]
)
def test_a_size_is_a_number_of_bytes_or_a_text(value: Any, found: int, tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(settings_of_agent("limits", "max_memory", value)))
    assert read_settings(file, size).server_entries[0].profile.max_memory == found


@pytest.mark.parametrize("value", [True, 0, -1, 2**63, 6.4e7, [64], {}, "", "much"])
def test_what_is_no_size_is_named(value: Any, tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(settings_of_agent("limits", "max_memory", value)))
    with pytest.raises(RequestError, match=r"agent\.json: limits\.max_memory = .*; .*expected"):
        read_settings(file, size)


@needs_toml
@pytest.mark.parametrize("name", [*SETTINGS, "method", "preset", "data_dir", "no_such_setting"])
def test_a_recipe_takes_or_names_a_setting_of_any_type(name: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    for value in VALUES:
        if value is not None:
            file.write_text(f"{name} = {as_toml(value)}\n")
            sentence = refusal(lambda: _requested(file), ValueError, DataError, RunError, RequestError, OSError)
            assert_short(sentence)


def _requested(file: Path) -> None:
    given = run_toml.read(file)
    given.pop("data_dir", None)  # which the commands take for themselves
    experiment, _ = requested(given, None)
    experiment.algorithms()
    experiment.settings(1)
    experiment.how_to_read()


@needs_toml
@pytest.mark.parametrize("value", ["5", [1], True, 0.5, {}])
def test_max_examples_of_another_type_is_named(value: Any, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(f"max_examples = {as_toml(value)}\n")
    with pytest.raises(RequestError, match=r"recipe\.toml: max_examples=.*; expected a whole number, as 100"):
        run_toml.read(file)


@pytest.mark.parametrize("name", [*SETTINGS, "fold", "deal_test", "made_by", "no_such_setting"])
def test_a_run_takes_or_names_a_setting_of_any_type(name: str, tmp_path: Path) -> None:
    for value in VALUES:
        content = {**Experiment().to_json(), name: value}
        (tmp_path / EXPERIMENT).write_text(json.dumps(with_digest(content)))
        assert_short(refusal(lambda: Experiment.of_run(tmp_path), RunError))


@needs_toml
@pytest.mark.parametrize(
    "name", [*(each.name for each in fields(Profile)), "like", "share", "clients", "source", "no_such_key"]
)
def test_a_device_takes_or_names_a_key_of_any_type(name: str) -> None:
    like = "" if name == "like" else f"like = {json.dumps(BOARD)}\n"
    for value in map(as_toml, (each for each in VALUES if each is not None)):
        assert_short(refusal(partial(_assigned, f"[mine]\n{like}{name} = {value}\n"), ValueError))
        if not value.startswith("{"):
            assert refusal(partial(_assigned, f"mine = {value}\n"), ValueError)


BOARD = next(name for name in device_assignment.NAMES if name != "mixed")


def _assigned(text: str) -> None:
    device_assignment.fleet_of(text).assigned(4)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "nul", "[]", "1", '"x"', "\xff"])
def test_a_file_that_is_no_settings_is_one_sentence(text: str, tmp_path: Path) -> None:
    for suffix in (".json", ".toml"):
        file = tmp_path / f"settings{suffix}"
        file.write_bytes(text.encode("latin-1"))
        assert len(refusal(partial(read_settings, file, size), RequestError)) in range(1, 500)
    assert issubclass(RequestError, EdgeflError)


@needs_toml
@pytest.mark.parametrize(
    "text", ["a" + ".a" * 100_000 + " = 1", "[" + "a." * 100_000 + "a]", "x = {" + "a." * 100_000 + "a = 1}"]
)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    message = "line 1 has 100000 dots in a key; expected at most 256"
    assert message in refusal(partial(read_settings, file, size), RequestError)
    assert message in refusal(partial(run_toml.read, file), RequestError)
    assert message in refusal(lambda: device_assignment.fleet_of(text + "\n"), ValueError)


def test_a_large_file_is_refused_after_its_first_bytes(tmp_path: Path) -> None:
    for suffix in (".json", ".toml"):
        file = tmp_path / f"settings{suffix}"
        with open(file, "wb") as stream:
            stream.truncate(1 << 34)  # 16 GiB, of which the disk holds nothing
        assert "more than 1048576 bytes" in refusal(partial(read_settings, file, size), RequestError)
        assert "more than 1048576 bytes" in refusal(partial(run_toml.read, file), RequestError)
