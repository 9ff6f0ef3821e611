"""Mutants of a Flower node: what it believes of a SuperLink, what it signs, and what a crash may not lose."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

NODE, OBJECTS, KEYS, PROTOBUF = (
    "tests/deployment/supernode/test_supernode.py",
    "tests/deployment/supernode/test_message_objects.py",
    "tests/deployment/supernode/test_node_key.py",
    "tests/deployment/supernode/test_protobuf.py",
)

MUTANTS = (
    Mutant(
        "node-version-prefix",
        "edgefl/deployment/supernode/fleet_api.py",
        r're.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", version)',
        r're.match(r"(\d{1,4})\.(\d{1,2})", version)',
        "a SuperLink of flwr 1.410 passes as 1.41",
        NODE,
    ),
    Mutant(
        "node-unchecked-object",
        "edgefl/deployment/supernode/message_objects.py",
        "if object_id(data) != name:",
        "if not data:",
        "an object that was changed on its way is read",
        f"{OBJECTS} {NODE}",
    ),
    Mutant(
        "node-repeated-chunks",
        "edgefl/deployment/supernode/message_objects.py",
        "        self._spend(repeated)\n",
        "",
        "a small message unfolds to more bytes than the limit",
        OBJECTS,
    ),
    Mutant(
        "node-answers-before-it-keeps",
        "edgefl/deployment/supernode/supernode.py",
        "        durably(lambda: self._mailbox.keep_message(message), self._mailbox.path, self._world)\n",
        "",
        "a message in hand is lost with the process",
        NODE,
    ),
    Mutant(
        "node-replies-before-it-keeps",
        "edgefl/deployment/supernode/supernode.py",
        "        durably(lambda: self._mailbox.keep_reply(reply), self._mailbox.path, self._world)\n",
        "",
        "a reply is made again after a crash, rather than sent again",
        NODE,
    ),
    Mutant(
        "node-no-doubt",
        "edgefl/deployment/supernode/supernode.py",
        "        self._is_in_doubt = True\n        found = self._fleet.pull(self._node)\n",
        "        found = self._fleet.pull(self._node)\n",
        "a message that was lost on its way is waited for until its time is over",
        NODE,
    ),
    Mutant(
        "node-half-sent",
        "edgefl/deployment/supernode/supernode.py",
        "        is_again = reply is not None\n",
        "        is_again = False\n",
        "the objects of a reply that was taken when it was announced never come",
        NODE,
    ),
    Mutant(
        "node-drops-on-401",
        "edgefl/deployment/supernode/supernode.py",
        "        if error.status == 401:  # the SuperLink has forgotten this node\n"
        "            raise ConnectionError(str(error)) from None\n",
        "",
        "a SuperLink that has forgotten the node ends the device",
        NODE,
    ),
    Mutant(
        "node-forgets-the-end",
        "edgefl/deployment/supernode/supernode.py",
        "None if why else self._envelopes.finished",
        "None",
        "a device does not end with its run",
        NODE,
    ),
    Mutant(
        "node-key-padding",
        "edgefl/deployment/supernode/node_key.py",
        'number.lstrip(b"\\0").rjust(size, b"\\0")',
        'number.lstrip(b"\\0")',
        "a small private key is written short",
        KEYS,
    ),
    Mutant(
        "node-key-curve",
        "edgefl/deployment/supernode/node_key.py",
        "if not any(curve in public for curve, _ in CURVES.values()):",
        "if not public:",
        "a key on a curve that a SuperLink refuses is taken",
        KEYS,
    ),
    Mutant(
        "protobuf-packed-count",
        "edgefl/deployment/supernode/protobuf.py",
        "                item, at = _taken(value, at, own, field.name)\n                self._count()\n",
        "                item, at = _taken(value, at, own, field.name)\n",
        "a packed list makes more values than the limit",
        PROTOBUF,
    ),
    Mutant(
        "protobuf-presence",
        "edgefl/deployment/supernode/protobuf.py",
        "value is None or (not field.present and value == field.default)",
        "value is None or value == field.default or value == 0",
        "a task's id of 0 is not sent",
        PROTOBUF,
    ),
    Mutant(
        "attempts-reset-tls",
        "edgefl/deployment/device/reconnection.py",
        "        self._tls_faults[wrong] += 1\n",
        "        self._tls_faults[wrong] = 1\n",
        "a certificate that is never accepted is tried for ever",
        NODE,
    ),
)
