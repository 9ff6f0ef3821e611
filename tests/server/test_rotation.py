"""Twenty devices as processes get new keys one after the other, the server a new certificate, and one key is withdrawn.

A key's withdrawal has to count within a second. The test prints how long it took.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cluster import Cluster, await_, write_partitions
from edgefl.cli.cli import main
from edgefl.protocol.trust.keys import read_table
from edgefl.server import run_history
from tests.faults.outcome import Truth
from tests.server.test_trust import EXPERIMENT, server_pair
from tests.server.test_trust_files import rewrite

DEVICES, ROUNDS = 20, 200


def test_new_keys_for_twenty_devices_and_a_new_certificate_lose_no_round_and_no_model(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    experiment = replace(EXPERIMENT, clients=DEVICES, per_round=4, rounds=ROUNDS, eval_every=ROUNDS)
    keys = tmp_path / "keys"
    write_partitions(tmp_path / "shares", experiment)
    assert main(["keys", str(keys), "--clients", str(DEVICES), "--host", "127.0.0.1"]) == 0

    def options(client: int) -> tuple[str, ...]:
        return "--key", str(keys / f"device-{client:04d}.key"), "--tls-ca", str(keys / "ca.pem")

    serve = ("--keys", str(keys / "server.keys"), "--linger", "5", *server_pair(keys))
    with Cluster(tmp_path, experiment, tmp_path / "shares", serve, options) as cluster:
        cluster.start_server()
        for client in range(DEVICES):
            cluster.start_device(client)
        await_(lambda: len(run_history.metrics(cluster.run)) >= 2, "two rounds are closed", limit_s=120)
        assert main(["keys", str(keys), "--renew", "all"]) == 0
        for client in range(DEVICES):
            change(cluster, client, keys)
        assert cluster.server.said().count("has proven the new one of its two keys") >= DEVICES
        before = len(run_history.metrics(cluster.run))
        assert before < ROUNDS, "the keys have changed while the run went on"
        assert main(["keys", str(keys), "--retire", "all"]) == 0
        assert main(["keys", str(keys), "--renew", "server"]) == 0
        for words in ("20 with a key replaced", f"{keys / 'server.pem'} was read again"):
            await_(lambda words=words: words in cluster.server.said(), words, limit_s=20)
        cluster.finish()
        assert [device.said().count("connected as client") for device in cluster.devices.values()] == [2] * DEVICES
        assert len(run_history.metrics(cluster.run)) == ROUNDS
        assert Truth.of(experiment, tmp_path / "simulated").difference(cluster) is None


def change(cluster: Cluster, client: int, keys: Path) -> None:
    """Start a device again with its new key, and wait until the server knows it."""
    device = cluster.devices[client]
    device.kill()
    place = device.arguments.index("--key") + 1
    former, new = device.arguments[place], str(keys / f"device-{client:04d}-2.key")
    device.arguments[place : place + 1] = [new, "--former-key", former]
    cluster.start_device(client)
    line = f"client {client} has proven the new one"
    await_(lambda: line in cluster.server.said(), f"device {client} has its new key", limit_s=60)


def test_a_withdrawn_key_ends_its_device_within_a_second(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    experiment, keys = replace(EXPERIMENT, rounds=ROUNDS, eval_every=ROUNDS), tmp_path / "keys"
    write_partitions(tmp_path / "shares", experiment)
    assert main(["keys", str(keys), "--clients", "3", "--host", "127.0.0.1"]) == 0

    def options(client: int) -> tuple[str, ...]:
        return "--key", str(keys / f"device-{client:04d}.key"), "--tls-ca", str(keys / "ca.pem")

    serve = ("--keys", str(keys / "server.keys"), *server_pair(keys))
    with Cluster(tmp_path, experiment, tmp_path / "shares", serve, options) as cluster:
        cluster.start_server()
        for client in range(3):
            cluster.start_device(client)
        await_(lambda: len(run_history.metrics(cluster.run)) >= 2, "two rounds are closed", limit_s=60)
        table = keys / "server.keys"
        known = read_table(table)
        rewrite(table, {client: each for client, each in known.items() if client != 1})
        since = time.monotonic()
        await_(lambda: "refused client 1" in cluster.server.said(), "device 1 is refused", limit_s=20)
        took_s = time.monotonic() - since
    print(f"the key's withdrawal counted after {took_s:.2f} s")
    assert took_s < 1.5, "a second, and what a loaded machine adds"
