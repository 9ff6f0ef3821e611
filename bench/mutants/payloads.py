"""Mutants of what bytes may say: payloads and their id sets, frames, the order of messages, proofs."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

CODEC = "tests/codec/test_codec.py tests/codec/test_codec_malformed.py"
NEURONS = "tests/codec/test_codec_neurons.py"
FRAMES, CONNECTION = "tests/wire/test_frames.py", "tests/wire/test_connection.py"
AGREEMENT, HANDSHAKE = "tests/wire/test_agreement.py", "tests/wire/test_handshake.py"

MUTANTS = (
    # Id sets.
    Mutant(
        "unread-id-set",
        "edgefl/codec/decoding.py",
        "if entry.name not in read:",
        "if not read:",
        "an id set that no block reads passes beside one that is read",
        CODEC,
    ),
    Mutant(
        "short-ids",
        "edgefl/codec/ids.py",
        "n <= LARGEST_SHORT",
        "n <= LARGEST_SHORT + 1",
        "ids out of 65536 are listed in two bytes",
        CODEC,
    ),
    Mutant(
        "bitmap-tie",
        "edgefl/codec/ids.py",
        "bitmap_bytes <= width * k",
        "bitmap_bytes < width * k",
        "of a bitmap and a list of equal size the list is written",
        CODEC,
    ),
    Mutant(
        "seed-tie",
        "edgefl/codec/ids.py",
        "key is not None and size > SEED_BYTES",
        "key is not None and size >= SEED_BYTES",
        "of a seed and ids of equal size the seed is written",
        CODEC,
    ),
    Mutant(
        "bitmap-padding",
        "edgefl/codec/ids.py",
        "bits[n:].any()",
        "bits[n + 1 :].any()",
        "the first padding bit of a bitmap may be 1",
        CODEC,
    ),
    Mutant(
        "id-beyond",
        "edgefl/codec/ids.py",
        "k and ids[-1] >= n",
        "k and ids[-1] > n",
        "an id one beyond the group passes",
        CODEC,
    ),
    Mutant(
        "whole-id-set",
        "edgefl/codec/sets.py",
        "if not 0 < k < n:",
        "if not 0 < k <= n:",
        "a set of all neurons passes",
        CODEC,
    ),
    Mutant(
        "repeated-row",
        "edgefl/codec/sets.py",
        "number <= last",
        "number < last",
        "a block may stand in the table twice",
        CODEC,
    ),
    # Values.
    Mutant(
        "float16-finite",
        "edgefl/codec/decoding.py",
        "is_float16 and not np.isfinite(values).all()",
        "is_float16 and np.isnan(values).any()",
        "an infinite float16 value passes",
        CODEC,
    ),
    Mutant(
        "trailing-bytes",
        "edgefl/codec/decoding.py",
        "reader.at != len(reader.data)",
        "reader.at > len(reader.data)",
        "bytes after the values are ignored",
        CODEC,
    ),
    Mutant(
        "known-sets",
        "edgefl/codec/decoding.py",
        "set_count > (0 if known is not None else len(spec.groups))",
        "set_count > len(spec.groups)",
        "a payload for known neurons may carry ids of its own",
        CODEC,
    ),
    Mutant(
        "claimed-values",
        "edgefl/codec/decoding.py",
        "if left < expected:",
        "if left < 0:",
        "ids are expanded before it is known that their values are there",
        CODEC,
    ),
    Mutant(
        "neurons-zero-byte",
        "edgefl/codec/neurons.py",
        "(version, zero) != (VERSION, 0)",
        "version != VERSION",
        "a neuron set has more than one form",
        NEURONS,
    ),
    Mutant(
        "neurons-of-update",
        "edgefl/codec/neurons.py",
        "first.neurons is not ids.neurons and first.neurons.tolist() != ids.neurons.tolist()",
        "False",
        "blocks of one update may have different neurons",
        NEURONS,
    ),
    # Frames.
    Mutant(
        "checksum-type",
        "edgefl/wire/frames.py",
        "CHECKED = slice(0, 16)",
        "CHECKED = slice(0, 3)",
        "the header's checksum leaves out all that follows the version",
        FRAMES,
    ),
    Mutant(
        "frame-sequence",
        "edgefl/wire/frames.py",
        "header.sequence != self._sequence",
        "header.sequence < self._sequence",
        "a frame may be left out",
        FRAMES,
    ),
    Mutant(
        "frame-cap",
        "edgefl/wire/frames.py",
        "header.length > self.cap",
        "header.length >= self.cap",
        "the largest frame is refused",
        FRAMES,
    ),
    # Whose turn it is.
    Mutant(
        "late-verdict",
        "edgefl/wire/connection.py",
        '    ("finished", "server", Verdict): "finished",  # and a last reply still gets its answer\n',
        "",
        "no verdict may follow the end of the run",
        CONNECTION,
    ),
    Mutant(
        "broken-connection",
        "edgefl/wire/connection.py",
        "            self._broken = True\n",
        "",
        "a connection whose peer broke the protocol goes on",
        CONNECTION,
    ),
    Mutant(
        "header-bytes",
        "edgefl/wire/connection.py",
        "len(message.selection) if isinstance(message, Train) else 0",
        "0",
        "a selection counts as header",
        "tests/wire/test_traffic.py",
    ),
    Mutant(
        "chunk-order",
        "edgefl/wire/agreement.py",
        "message.offset != self._next_byte",
        "message.offset < self._next_byte",
        "a part of the model may be left out",
        AGREEMENT,
    ),
    Mutant(
        "model-request-end",
        "edgefl/wire/agreement.py",
        "message.offset >= self._model_bytes",
        "message.offset > self._model_bytes",
        "a download may begin at the model's end",
        AGREEMENT,
    ),
    Mutant(
        "another-client",
        "edgefl/wire/agreement.py",
        "self._client not in (None, message.client)",
        "self._client is None and message.client < 0",
        "a device may be welcomed as another one",
        AGREEMENT,
    ),
    # Proofs.
    Mutant(
        "proof-role",
        "edgefl/wire/handshake.py",
        "(DOMAIN, role.encode(), run.encode(),",
        "(DOMAIN, run.encode(),",
        "one side's proof passes as the other's",
        HANDSHAKE,
    ),
    Mutant(
        "proof-lengths",
        "edgefl/wire/handshake.py",
        'len(field).to_bytes(4, "little") + field',
        "field",
        "bytes may move from one field of a proof to the next",
        HANDSHAKE,
    ),
)
