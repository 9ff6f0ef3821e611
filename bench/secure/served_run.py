"""A served run with secure aggregation: real processes, TLS, keys and a roster, and SIGKILLs at random times.

Some killed devices stay away for longer than a step waits, so that their groups lose them at any step. At the end the
run is replayed, and every client of every round has a verdict that its group explains.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults.cluster import Cluster, await_, write_partitions
from edgefl.deployment.device.device_state import GROUP
from edgefl.deployment.device.digest_record import DIGEST_BYTES
from edgefl.experiment.settings import Experiment
from edgefl.protocol.secure.member_state import MemberState, Stage
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.trust.identity_files import make_identity, make_operator
from edgefl.server import run_history
from edgefl.server.secure_settings import SecureSettings

LOOK_S, LIMIT_S = 0.2, 120.0
LOST_AFTER = (Stage.BEGUN, Stage.SHARED, Stage.MASKED, Stage.CONSENTED)


@dataclass(frozen=True)
class ServedRun:
    """The settings of a run and of its faults.

    step_s  seconds that a step waits for clients
    kills   number of SIGKILLs, of the server or of a device
    """

    clients: int = 30
    per_round: int = 25
    rounds: int = 20
    kills: int = 40
    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    step_s: float = 5.0
    seed: int = 0

    @property
    def experiment(self) -> Experiment:
        """The experiment, FedSPU on the digits."""
        return Experiment(
            methods=("fedspu:draws=shared",),
            data="digits",
            clients=self.clients,
            per_round=self.per_round,
            rounds=self.rounds,
            keep=self.keep,
            epochs=1,
            aggregation="exact",
            bound="off",
            partition="iid",
        )

    def play(self, root: Path) -> dict[str, Any]:
        """Play the run in an empty directory. Return figures. Raises RuntimeError for a broken promise."""
        began = time.monotonic()
        with self.cluster(root) as cluster:
            cluster.start_server()
            for client in range(self.clients):
                cluster.start_device(client)
            await_(lambda: run_history.progress(cluster.run).round >= 1, "round 1 is closed")
            lost = self._lose(cluster)
            killed = self._kill(cluster)
            cluster.finish()
        return {**self._checked(cluster.run), **lost, **killed, "seconds": round(time.monotonic() - began, 1)}

    def cluster(self, root: Path, is_secure: bool = True) -> Cluster:
        """Return the processes of the run with TLS and keys, and with secure aggregation unless `is_secure` says no."""
        keys, ids = root / "keys", root / "identities"
        ids.mkdir(parents=True)
        made = [sys.executable, "-m", "edgefl", "keys", str(keys), "--clients", str(self.clients)]
        subprocess.run([*made, "--host", "127.0.0.1", "--quiet"], check=True)
        operator = make_operator(ids / "operator")
        public = {client: make_identity(ids / str(client)).public for client in range(self.clients)}
        write_partitions(root / "shares", self.experiment)
        trust = "--keys", str(keys / "server.keys"), "--tls-cert", str(keys / "server.pem")
        cluster = Cluster(
            root,
            self.experiment,
            root / "shares",
            (*trust, "--tls-key", str(keys / "server-tls.key"), "--max-empty-rounds", "20"),
            lambda client: self._of_device(root, client, is_secure),
        )
        if not is_secure:
            return cluster
        SecureSettings(signed_roster(Roster("bench", 1, public), operator), step_s=self.step_s).write(cluster.run)
        return cluster

    def _of_device(self, root: Path, client: int, is_secure: bool) -> tuple[str, ...]:
        keys, ids = root / "keys", root / "identities"
        trust = "--key", str(keys / f"device-{client:04d}.key"), "--tls-ca", str(keys / "ca.pem")
        identity = "--identity", str(ids / str(client)), "--operator", str(ids / "operator.pub")
        return *trust, *(identity if is_secure else ())

    def _lose(self, cluster: Cluster) -> dict[str, int]:
        """Kill a device right after each of its steps, and start it again when its group has gone on without it."""
        found = Counter[str]()
        for client, stage in enumerate(LOST_AFTER):
            begun = self._stage(cluster, client)[0]
            if begun >= self.rounds - 2:
                break  # the last rounds are for the other kills
            until = time.monotonic() + LIMIT_S
            while self._stage(cluster, client) != (begun + 1, stage) and self._stage(cluster, client)[0] <= begun + 1:
                if time.monotonic() > until:
                    raise RuntimeError(f"client {client} has not come to the stage {stage.name} after {LIMIT_S:g} s")
            cluster.devices[client].kill()
            if self._stage(cluster, client) == (begun + 1, stage):
                found[f"killed_{stage.name.lower()}"] += 1
            time.sleep(1.5 * self.step_s)
            cluster.start_device(client)
        return dict(found)

    def _stage(self, cluster: Cluster, client: int) -> tuple[int, Stage]:
        """Return the last round in which a device began a group, and the last step that it has taken there."""
        for file in cluster.state_of(client).glob(f"runs/*/{GROUP}"):
            state = MemberState.from_bytes(file.read_bytes()[DIGEST_BYTES:])
            return state.terms.round, state.stage
        return 0, Stage.BEGUN

    def _kill(self, cluster: Cluster) -> dict[str, int]:
        """Kill processes until the run is over, and start each of them again after a while."""
        draw, found, away = random.Random(self.seed), Counter[str](), dict[int, float]()
        while sum(found.values()) < self.kills and run_history.progress(cluster.run).round < self.rounds - 1:
            time.sleep(LOOK_S)
            now = time.monotonic()
            for client in [client for client, until in away.items() if now >= until]:
                del away[client]
                cluster.start_device(client)
            if draw.random() < 0.2 and cluster.server.ended() is None:
                cluster.server.kill()
                cluster.start_server()
                found["server_kills"] += 1
            elif len(away) < 4:
                client = draw.choice([each for each in range(self.clients) if each not in away])
                cluster.devices[client].kill()
                away[client] = now + draw.choice((0.0, 0.5, 1.5 * self.step_s))
                found["device_kills"] += 1
        for client in away:
            cluster.start_device(client)
        return dict(found)

    def _checked(self, run: Path) -> dict[str, Any]:
        """Replay the run, and return figures of its rounds."""
        command = [sys.executable, "-m", "edgefl", "simulate", "--replay", str(run)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode or "identical" not in said.stdout + said.stderr:
            raise RuntimeError(f"seed {self.seed}: the replay differs: {said.stdout}{said.stderr}")
        progress = run_history.progress(run)
        outcomes = Counter("absent" if each is None else each.outcome for each in progress.rulings.values())
        rulings = [each for each in progress.rulings.values() if each is not None]
        reasons = {each.reason for each in rulings if each.outcome == "not-opened"}
        if not {*outcomes} <= {"masked", "not-opened", "late", "absent"} or "" in reasons:
            raise RuntimeError(f"seed {self.seed}: outcomes {dict(outcomes)}, reasons {sorted(reasons)}")
        records = list(run_history.metrics(run))
        opened = sum(len(record.get("groups", ())) for record in records)
        return {"rounds": progress.round, "opened_groups": opened, "outcomes": dict(outcomes), "reasons": len(reasons)}
