"""A served run with secure aggregation: real processes, TLS, keys and a roster, and SIGKILLs (killed_processes.py).

At the end the run is replayed, and every client of every round has a verdict that its group explains.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, write_partitions
from bench.secure import fatal_step
from bench.secure.killed_processes import KilledProcesses
from edgefl.experiment.settings import Experiment
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.trust.identity_files import make_identity, make_operator
from edgefl.server import run_history
from edgefl.server.secure_settings import SecureSettings


@dataclass(frozen=True)
class ServedRun:
    """The settings of a run and of its faults.

    step_s      seconds that a step waits for clients
    kills       number of SIGKILLs, of the server or of a device
    has_roster  whether an operator has signed a roster. False: the server hands on identities
    others      number of other clients in the roster, which are not in the run
    """

    clients: int = 30
    per_round: int = 25
    rounds: int = 20
    kills: int = 40
    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    step_s: float = 5.0
    seed: int = 0
    has_roster: bool = True
    others: int = 0

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
            killed = KilledProcesses(cluster, self.clients, self.rounds, self.kills, self.step_s, self.seed)
            killed.start()
            killed.play(lambda: run_history.progress(cluster.run).round, self.rounds - 1)
            cluster.finish()
        killed.see_the_end()
        if killed.missed:
            raise RuntimeError(f"seed {self.seed}: SIGKILLs that came to nobody: {', '.join(killed.missed)}")
        seconds = round(time.monotonic() - began, 1)
        return {**self._checked(cluster.run), **dict(sorted(killed.found.items())), "seconds": seconds}

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
        insecure = () if self.has_roster else ("--insecure",)
        cluster = Cluster(
            root,
            self.experiment,
            root / "shares",
            (*trust, "--tls-key", str(keys / "server-tls.key"), "--max-empty-rounds", "20", *insecure),
            lambda client: self._of_device(root, client, is_secure),
            fatal_step.PROGRAM,
            fatal_step.PROGRAM,
        )
        if not is_secure:
            return cluster
        public |= {client: bytes(32) for client in range(self.clients, self.clients + self.others)}
        signed = signed_roster(Roster("bench", 1, public), operator) if self.has_roster else b""
        SecureSettings(signed, step_s=self.step_s).write(cluster.run)
        return cluster

    def _of_device(self, root: Path, client: int, is_secure: bool) -> tuple[str, ...]:
        keys, ids = root / "keys", root / "identities"
        trust = "--key", str(keys / f"device-{client:04d}.key"), "--tls-ca", str(keys / "ca.pem")
        operator = ("--operator", str(ids / "operator.pub")) if self.has_roster else ("--insecure",)
        return *trust, *(("--identity", str(ids / str(client)), *operator) if is_secure else ())

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
