"""Mutants that believe the wrong peer, or take what comes at the wrong time: of another run, round, server or client.

Each check still stands where it stood, and compares other things. An operator removes a check, which more tests notice.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "letter-unchecked-head",
        "edgefl/protocol/wire/envelope.py",
        "if (found := crc32(run, crc32(data[CHECKED]))) != checksum:",
        "if (found := crc32(run, crc32(data[CHECKED]))) < 0:",
        "a letter whose head was damaged is read",
        "tests/protocol/wire/test_envelope.py",
    ),
    Mutant(
        "meeting-without-proof",
        "server/server_handshake.py",
        'handshake.check(self._proof("device"), request.proof, f"client {hello.client}")',
        'handshake.check(request.proof, request.proof, f"client {hello.client}")',
        "a device passes for another one without its key",
        "tests/server/test_trust.py",
    ),
    Mutant(
        "visit-believes-anybody",
        "edgefl/deployment/device/run_query.py",
        'handshake.check(expected, message.proof, "the server")',
        'handshake.check(message.proof, message.proof, "the server")',
        "a server without the key is asked for its run",
        "tests/deployment/device/test_device_runs.py",
    ),
    Mutant(
        "another-run-meanwhile",
        "edgefl/deployment/device/enrol_request.py",
        "if expected and challenge.run != expected:",
        "if expected and not challenge.run:",
        "a folder is enrolled in another run than its own",
        "tests/deployment/device/test_device_runs.py",
    ),
    Mutant(
        "folder-of-any-server",
        "edgefl/deployment/device/run_folders.py",
        'server = b"" if key is None else',
        'server = b"" if key is None or key else',
        "a server with another key opens the folder of a run whose id it has copied",
        "tests/deployment/device/test_device_runs.py",
    ),
    Mutant(
        "frame-sequence",
        "edgefl/protocol/wire/frames.py",
        "header.sequence != self._sequence",
        "header.sequence < self._sequence",
        "a frame may be left out",
        "tests/protocol/wire/test_frames.py",
    ),
    Mutant(
        "another-client",
        "edgefl/protocol/wire/session_terms.py",
        "self._client not in (None, message.client)",
        "self._client is None and message.client < 0",
        "a device may be welcomed as another one",
        "tests/protocol/wire/test_session_terms.py",
    ),
    Mutant(
        "older-reply-owed",
        "server/client_requests.py",
        "link.pending == number",
        "bool(link.pending)",
        "a device that owes the reply of an earlier round is not asked",
        "tests/server/test_coordinator.py tests/server/test_coordinator_ends.py",
    ),
    Mutant(
        "stopped-are-averaged",
        "edgefl/methods/fedspu.py",
        "        if MODEL in reply.payload:\n            weight",
        '        if MODEL in reply.payload and reply.status != "stopped":\n            weight',
        "a client's last reply is not averaged",
        "tests/methods/test_early_stopping.py",
    ),
    Mutant(
        "quorum-authorised",
        "server/open_round.py",
        "sum(self._plans[client].authorised for client in replied)",
        "len(replied)",
        "replies without a payload count towards the quorum",
        "tests/server/test_coordinator.py tests/server/test_coordinator_ends.py tests/server/test_participation.py",
    ),
    Mutant(
        "deferred-across-connections",
        "edgefl/deployment/device/device_protocol.py",
        "self._nonce, self._deferred = handshake.marked(nonce, self._profile.key), DeferredRequests()",
        "self._nonce = handshake.marked(nonce, self._profile.key)",
        "what a lost connection asked for is done in the next one",
        "tests/deployment/device/test_device.py",
    ),
    Mutant(
        "fuse-too-old",
        "edgefl/methods/fedumf.py",
        'client_state.private.get("round") == plan.round - 1',
        'client_state.private.get("round") is not None',
        "a change of any round before is added",
        "tests/methods/test_fedumf.py",
    ),
    Mutant(
        "head-of-tests",
        "edgefl/methods/personal_head.py",
        "np.unique(client_state.data.y[client_state.train])",
        "np.unique(client_state.data.y[np.concatenate([client_state.train, client_state.test])])",
        "a head has outputs for classes that are only tested",
        "tests/methods/test_personal_heads.py",
    ),
    Mutant(
        "copy-is-trusted",
        "edgefl/experiment/model_file.py",
        "if (found := name_of(model)) != name:",
        "if (found := name) != name:",
        "a run goes on from a copy that was changed",
        "tests/experiment/test_model_file.py",
    ),
)
