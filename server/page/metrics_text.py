"""A run in the text form 0.0.4 that Prometheus reads. A pure function makes it from facts and rows.

Prometheus may ask as often as it likes, because the facts come from the run's directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgefl.server.device_history import OUTCOMES
from edgefl.server.device_rows import DeviceRow

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float | None]  # labels and the value. A sample without a value is left out


def metrics_text(facts: Mapping[str, Any], rounds: list[dict[str, Any]], rows: list[DeviceRow]) -> str:
    """Return the text with every metric and its HELP and TYPE, also for a metric without samples."""
    return "".join(
        _family(name, kind, words, samples)
        for name, kind, words, samples in (*_of_run(facts, rounds), *_of_devices(rows))
    )


Family = tuple[str, str, str, Iterable[Sample]]


def _of_run(facts: Mapping[str, Any], rounds: list[dict[str, Any]]) -> list[Family]:
    last: dict[str, Any] = next((each["evaluation"] for each in reversed(rounds) if each["evaluation"]), {})
    payload = sum(each["down"] + each["up"] for each in rounds)
    about = {"run": facts["run"], "method": facts["method"], "data": facts["data"], "phase": facts["phase"]}
    totals = [({"outcome": outcome}, sum(each["replies"][outcome] for each in rounds)) for outcome in OUTCOMES]
    return [
        ("edgefl_run_info", "gauge", "The run, with its method, data and phase; always 1.", [(about, 1)]),
        ("edgefl_up", "gauge", "Whether the run's server runs.", [({}, facts["running"])]),
        ("edgefl_run_done", "gauge", "Whether the last round is closed.", [({}, facts["done"])]),
        ("edgefl_rounds", "gauge", "Rounds that the run is to have.", [({}, facts["rounds"])]),
        ("edgefl_rounds_closed_total", "counter", "Rounds that are closed.", [({}, facts["closed"])]),
        ("edgefl_round_opened_timestamp_seconds", "gauge", "When what is open was opened.", [({}, facts["opened"])]),
        ("edgefl_round_closes_timestamp_seconds", "gauge", "When it is closed in any case.", [({}, facts["closes"])]),
        ("edgefl_round_seconds", "gauge", "Length of the last closed round.", [({}, _last(rounds, "seconds"))]),
        ("edgefl_clients", "gauge", "Clients that the run may have.", [({}, facts["clients"])]),
        ("edgefl_devices_enrolled", "gauge", "Devices that have enrolled.", [({}, facts["enrolled"])]),
        ("edgefl_devices_connected", "gauge", "Devices that are connected now.", [({}, facts["connected"])]),
        ("edgefl_devices_awaited", "gauge", "Devices that are waited for.", [({}, len(facts["waiting_for"]))]),
        ("edgefl_replies_total", "counter", "Replies of closed rounds, by what became of them.", totals),
        ("edgefl_payload_bytes_total", "counter", "Bytes of payloads, both directions.", [({}, payload)]),
        ("edgefl_socket_bytes_total", "counter", "Bytes through the server's sockets.", [({}, facts["socket_bytes"])]),
        ("edgefl_train_loss", "gauge", "Training loss of the last closed round.", [({}, _last(rounds, "train_loss"))]),
        *(
            (
                f"edgefl_test_{what}",
                "gauge",
                f"{what.capitalize()} on the clients' test samples.",
                _by_model(last, what),
            )
            for what in ("accuracy", "loss")
        ),
    ]


def _of_devices(rows: list[DeviceRow]) -> list[Family]:
    def each(name: str) -> list[Sample]:
        return [({"client": str(row.client)}, getattr(row, name)) for row in rows]

    infos = [
        ({"client": str(row.client), "version": row.version, "doing": row.doing, "why": row.why}, 1)
        for row in rows
        if row.enrolled or row.why
    ]
    replies = [
        ({"client": str(row.client), "outcome": outcome}, getattr(row, outcome)) for row in rows for outcome in OUTCOMES
    ]
    joules = [
        ({"client": str(row.client), "source": kind}, value) for row in rows for kind, value in row.joules.items()
    ]
    return [
        ("edgefl_device_info", "gauge", "A device's version, what it does, its last trouble; always 1.", infos),
        ("edgefl_device_connected", "gauge", "Whether the device is connected.", each("connected")),
        ("edgefl_device_awaited", "gauge", "Whether the device is waited for.", each("waited_for")),
        ("edgefl_device_capacity", "gauge", "Share of the neurons that it trains at most.", each("capacity")),
        ("edgefl_device_last_seen_timestamp_seconds", "gauge", "When its last bytes came.", each("last_seen")),
        ("edgefl_device_training_seconds", "gauge", "Median of its training in a round.", each("median_seconds")),
        ("edgefl_device_replies_total", "counter", "Its replies of closed rounds, by what became of them.", replies),
        ("edgefl_device_training_samples", "gauge", "Training samples that it declared.", each("examples")),
        ("edgefl_device_memory_bytes", "gauge", "Memory that its training may take.", each("memory_bytes")),
        ("edgefl_device_test_accuracy", "gauge", "Accuracy on its own test samples.", each("accuracy")),
        ("edgefl_device_joules_total", "counter", "Joules that it measured while it trained.", joules),
    ]


def _by_model(last: Mapping[str, Any], what: str) -> list[Sample]:
    return [({"model": kind}, found[what]) for kind, found in last.items()]


def _last(rounds: list[dict[str, Any]], name: str) -> float | None:
    return rounds[-1][name] if rounds else None


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {_escaped(words)}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {float(value):.15g}" for labels, value in samples if value is not None]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value, True)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, is_quoted: bool = False) -> str:
    found = text.replace("\\", "\\\\").replace("\n", "\\n")
    return found.replace('"', '\\"') if is_quoted else found
