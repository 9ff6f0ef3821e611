"""Mistakes in the conversation of both sides, their connections, and the server's event loop."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

PROTOCOL, SOCKET = "edgefl/deployment/device/device_protocol.py", "edgefl/deployment/device/device_socket.py"
RECORDS, PEER = "server/record_queue.py", "server/peer.py"

MUTANTS = (
    row(
        "saved-before-save",
        RECORDS,
        "                await self._save(thread, batch)\n                for record in batch:\n",
        "                thread.submit(self._store.save, batch)\n                for record in batch:\n",
        "records count as durable before they are saved",
    ),
    row(
        "save-gives-up",
        RECORDS,
        "                complained = True\n                await asyncio.sleep(RETRY_S)\n",
        "                break\n",
        "records that the disk refuses once are dropped",
    ),
    row(
        "reply-before-keep",
        PROTOCOL,
        "        self._durably(lambda: self._state.keep(*result))\n        yield self._reply(result.reply)",
        "        yield self._reply(result.reply)\n        self._durably(lambda: self._state.keep(*result))",
        "a reply is sent before its round is on the device's disk",
    ),
    row(
        "reply-not-repeated",
        PROTOCOL,
        "        if self.is_waiting:\n            yield self._reply(self._state.reply())\n",
        "",
        "a device does not send a reply again that nobody has acknowledged",
    ),
    row(
        "trains-while-waiting",
        PROTOCOL,
        "case Train() | Evaluate() if self.is_waiting:",
        "case Train() | Evaluate() if False:",
        "a device trains while its last reply waits for a verdict",
    ),
    row(
        "refused-is-kept",
        PROTOCOL,
        '        if verdict.outcome == "refused":\n            self._durably',
        '        if verdict.outcome == "":\n            self._durably',
        "a device keeps a round that was refused",
    ),
    row(
        "late-is-undone",
        PROTOCOL,
        '        if verdict.outcome == "refused":\n            self._durably',
        '        if verdict.outcome != "accepted":\n            self._durably',
        "a device drops a round whose reply came late",
    ),
    row(
        "timeout-is-final",
        SOCKET,
        "except (OSError, SpoiltError, DamagedFrameError) as error:",
        "except (ConnectionError, SpoiltError, DamagedFrameError) as error:",
        "a device ends after a connection that took too long",
    ),
    row(
        "damage-is-final",
        PEER,
        "self.drop(str(error))  # without a word",
        "self.refuse(str(error))  # with a word",
        "a device is refused for a bit that changed on its way",
    ),
    row(
        "slow-is-final",
        PEER,
        'self.drop(f"{what} is not complete after {seconds:g} s")',
        'self.refuse(f"{what} is not complete after {seconds:g} s")',
        "a device is refused because its connection was slow",
    ),
    row(
        "body-unchecked",
        "edgefl/protocol/wire/frames.py",
        '_check("body", header.body_checksum, crc32(self._body))',
        '_check("body", header.body_checksum, header.body_checksum)',
        "a bit that changed on its way is not noticed",
    ),
    row(
        "asked-while-loading",
        PEER,
        "        if self.connection.state in LOADING:\n            self._waiting.append(message)\n            return\n",
        "",
        "a device is asked before it has the model",
    ),
    row(
        "withdrawn-key-passes",
        "server/server_handshake.py",
        "if hello.client is None or hello.client not in keys:",
        "if hello.client is None:",
        "a client whose key was withdrawn is not refused by name",
    ),
)
