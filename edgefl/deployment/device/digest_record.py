"""Records of a device as JSON with their own SHA-256, and the SHA-256 of named arrays. Damage on the disk is found when
a record is read. The digest does not show who made a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import RunError

SEAL = "sha256"
DIGEST_BYTES = 32


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of JSON values with its digest."""
    return {**record, SEAL: _digest(record)}


def read_sealed(file: Path) -> dict[str, Any] | None:
    """Read the record in a JSON file, or None if there is no file. Raises RunError naming the file if it is damaged."""
    try:
        record = dict(json.loads(file.read_bytes()))
        stated = record.pop(SEAL)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{file} is damaged ({error!r}); expected the record that a device wrote") from None
    if stated != _digest(record):
        raise RunError(
            f"{file} is damaged (its SHA-256 is not the stated one); expected the record that a device wrote"
        )
    return record


def digested(data: bytes) -> bytes:
    """Return the bytes after their own SHA-256."""
    return hashlib.sha256(data).digest() + data


def read_digested(file: Path) -> bytes | None:
    """Read the bytes of a file that `digested` made, or None if there is no file. Raises RunError if it is damaged."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error})") from None
    data = content[DIGEST_BYTES:]
    if content != digested(data):
        raise RunError(f"{file} is damaged (its SHA-256 is not the stated one); expected the bytes that a device wrote")
    return data


def digest_of(arrays: Mapping[str, np.ndarray], *texts: str) -> str:
    """Return the SHA-256 in hex of arrays by name, with their types and shapes, and of texts."""
    found = hashlib.sha256(json.dumps(texts).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
