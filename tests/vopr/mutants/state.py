"""Mistakes in a device's files, and in files that both sides write."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

FILES, STATE = "edgefl/system/durable_files.py", "edgefl/deployment/device/device_state.py"
IDENTITY, RECORD = "edgefl/deployment/device/identity.py", "edgefl/deployment/device/digest_record.py"

MUTANTS = (
    row(
        "file-unsynced",
        FILES,
        "            os.fsync(file.fileno())",
        "            pass",
        "a written file is renamed without fsync",
    ),
    row(
        "rename-unsynced",
        FILES,
        "        raise\n    sync(path.parent)",
        "        raise",
        "the directory of a renamed file is not synced",
    ),
    row(
        "made-folder-unsynced",
        FILES,
        "            sync(folder.parent)\n    if",
        "            pass\n    if",
        "the name of a new folder is not synced",
    ),
    row(
        "found-folder-unsynced",
        FILES,
        "    if not missing:\n        sync_name(path)\n",
        "",
        "a folder that a killed process has made is never synced",
    ),
    row(
        "accept-unsynced",
        STATE,
        "self._pending.replace(self._client_state)\n        sync(self.path)",
        "self._pending.replace(self._client_state)",
        "an accepted round is not synced",
    ),
    row(
        "forgotten-life",
        IDENTITY,
        "random_bytes(LIFE_BYTES).hex(), self.life, of=self.of)",
        "random_bytes(LIFE_BYTES).hex(), self.before, of=self.of)",
        "a device does not know the life of which its server has heard",
    ),
    row(
        "torn-model",
        STATE,
        "if sha256(pieces_of(self._part)) != expected.hex():",
        "if not self._part.read_bytes():",
        "a download that a loss of power has spoilt is taken",
    ),
    row(
        "model-unchecked",
        STATE,
        "        if sha256(pieces_of(file)) != welcome.model_digest.hex():",
        "        if not file.read_bytes():",
        "a device trains from a damaged model",
    ),
    row(
        "round-unchecked",
        "edgefl/deployment/device/round_file.py",
        "if sealed[SEAL] != digest_of(arrays, sealed[AFTER]):",
        "if not sealed[SEAL]:",
        "a device goes on from a damaged state",
    ),
    row(
        "record-unchecked",
        RECORD,
        "    if stated != _digest(record):",
        "    if not stated:",
        "a device goes on with a damaged identity",
    ),
    row(
        "full-is-final",
        "edgefl/deployment/device/device_environment.py",
        "if error.errno not in FULL:",
        "if error.errno:",
        "a device ends when its disk is full",
    ),
    row(
        "failing-name-passes",
        FILES,
        "        if error.errno == errno.EIO:\n            raise",
        "        pass",
        "a name that could not be synced counts as durable",
    ),
)
