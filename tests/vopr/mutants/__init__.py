"""Mistakes in the code of a served run, and what finds them.

`python -m tests vopr --mutants` puts each mistake into a copy of the repository, and simulates seeds until a promise is
broken. A mistake that no seed finds is printed as missed. found.jsonl has the last results.

Some fsyncs are made a second time by code that follows before anything rests on them, so their omission is no mistake:

* of a new run.db's name (schema.create), because the store syncs its folder before it goes on
* of the run's folder at the start (store), because the files id and last_commit are written later and sync it
* of run.db at the start (store), because SQLite keeps its log until a checkpoint is on the disk
* of model.bin and its name (device_state.complete), because the digest of Welcome shows a loss, and it is sent again
* of a run's folder that a device opens again (device_state), because the device writes its new identity there, and
  syncs the folder, before it says anything to a server
* of the removal of a damaged model, of a refused round and of a part in the store, which are removed again

A half written line of last_commit is no mistake any more. A server that starts writes its commit there, which replaces
that line, or the next commit does. So after a loss of power one line is whole in any case.
"""

from __future__ import annotations

from tests.vopr.mutants import agent, coordinator, members, protocol, state, store

MUTANTS = (
    *store.MUTANTS,
    *state.MUTANTS,
    *coordinator.MUTANTS,
    *protocol.MUTANTS,
    *agent.MUTANTS,
    *members.MUTANTS,
)
