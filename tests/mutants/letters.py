"""Mutants of rounds by envelopes: what is read of them, what a device answers, and what a node is told."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WIRE, DEVICE, SERVER = (
    "tests/protocol/wire/test_envelope.py",
    "tests/deployment/device/test_relayed_device.py",
    "tests/server/test_relay.py",
)

MUTANTS = (
    Mutant(
        "letter-of-anybody",
        "edgefl/protocol/wire/envelope.py",
        "WRITERS[side] != writer or zero",
        "zero",
        "a letter of one side passes as one of the other",
        WIRE,
    ),
    Mutant(
        "letter-unchecked-head",
        "edgefl/protocol/wire/envelope.py",
        "if (found := crc32(run, crc32(data[CHECKED]))) != checksum:",
        "if (found := crc32(run, crc32(data[CHECKED]))) < 0:",
        "a letter whose head was damaged is read",
        WIRE,
    ),
    Mutant(
        "letter-any-message",
        "edgefl/protocol/wire/envelope.py",
        "if kind is None or kind not in MAY[writer]:",
        "if kind is None:",
        "a server's letter may have what only devices say",
        WIRE,
    ),
    Mutant(
        "letter-trains-again",
        "edgefl/deployment/device/relayed_device.py",
        "message.round == state.pending",
        "message.round < 0",
        "a letter that comes again when the reply was lost is not answered",
        DEVICE,
    ),
    Mutant(
        "letter-replies-thrice",
        "edgefl/deployment/device/relayed_device.py",
        "if not isinstance(reply, Trained) or reply.round != replied:",
        "if reply is not None:",
        "a reply is in its letter several times",
        DEVICE,
    ),
    Mutant(
        "letter-before-welcome",
        "edgefl/deployment/device/relayed_device.py",
        "isinstance(message, AFTER_WELCOME) and state.enrolment is None",
        "isinstance(message, AFTER_WELCOME) and state is None",
        "a device that is not of the run trips over a letter in place of refusing it",
        DEVICE,
    ),
    Mutant(
        "letter-asks-too-early",
        "server/relay_nodes.py",
        "        if self.owes:\n",
        "        if self.owes is None:\n",
        "a node that owes a reply is asked for more in the same letter, which it forgets",
        SERVER,
    ),
    Mutant(
        "letter-asks-old",
        "server/relay_nodes.py",
        "self.box = [waiting for waiting in self.box if not isinstance(waiting, ASKS)]",
        "self.box = list(self.box)",
        "a node is asked for rounds that are over",
        SERVER,
    ),
    Mutant(
        "letter-model-again",
        "server/relay.py",
        "() if node.has_model else chunks(self._offer.model, 0)",
        "chunks(self._offer.model, 0)",
        "the model goes to nodes that have it",
        SERVER,
    ),
    Mutant(
        "meeting-without-proof",
        "server/server_handshake.py",
        'handshake.check(self._proof("device"), request.proof, f"client {hello.client}")',
        'handshake.check(request.proof, request.proof, f"client {hello.client}")',
        "a device passes for another one without its key",
        "tests/server/test_trust.py",
    ),
)
