"""NeuronSet <-> bytes, for messages whose payload does not carry the ids of the active neurons itself.

    header   4  magic "EFLN"
             1  version, 1
             1  zero
             2  number of id sets, S
            16  fingerprint of the model's specification
           8 S  id sets, as in codec/__init__.py: by increasing group, for the groups with inactive neurons
    index       bytes of the id sets, in the order of their table

All numbers are little-endian and unsigned. A set has one form only, except that its ids may be written as the key with
which they were drawn.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from edgefl.errors import CodecError
from edgefl.models.neurons.block_index import Axes, AxisIds, ids_by_group
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update
from edgefl.protocol.codec.format import ActiveNeuronSets
from edgefl.protocol.codec.id_tables import ByteReader, read_sets, read_table, write_sets

MAGIC, VERSION = b"EFLN", 1
HEADER = struct.Struct("<4sBBH16s")


def encode_neurons(neurons: NeuronSet, spec: ModelSpec) -> bytes:
    """Encode a neuron set. A key is written where it is shorter than the ids.

    Raises  CodecError if the set is of another model, or one of its keys stands for other ids.
    """
    if dict(neurons.sizes) != dict(spec.groups):
        raise CodecError(f"neuron set of groups {dict(neurons.sizes)}; expected {dict(spec.groups)}")
    partial = {group: ids for group in spec.groups if (ids := neurons.active[group]).size < spec.groups[group]}
    table, index = write_sets(ActiveNeuronSets(partial, neurons.keys), spec)
    return HEADER.pack(MAGIC, VERSION, 0, len(partial), spec.fingerprint) + table + index


def decode_neurons(data: bytes, spec: ModelSpec) -> NeuronSet:
    """Decode the neuron set that `encode_neurons` wrote, with its keys.

    Raises  CodecError if `data` is not a neuron set of this model. The memory used is bounded by the size of `data` and
            the groups of `spec`.
    """
    reader = ByteReader(bytes(data))
    magic, version, zero, count, fingerprint = HEADER.unpack(reader.take("header", HEADER.size))
    if magic != MAGIC:
        raise CodecError(f"magic {magic!r}; expected {MAGIC!r}")
    if (version, zero) != (VERSION, 0):
        raise CodecError(f"version {version} and reserved byte {zero}; expected version {VERSION} and byte 0")
    if fingerprint != spec.fingerprint:
        raise CodecError(f"neuron set of model {fingerprint.hex()}; expected {spec.fingerprint.hex()}")
    if count > len(spec.groups):
        raise CodecError(f"{count} id sets; expected at most {len(spec.groups)}")
    table = read_table(reader, "id set", "group", count, list(spec.groups))
    sets = read_sets(reader, table, spec)
    if reader.at != len(data):
        raise CodecError(f"{len(data) - reader.at} trailing bytes; expected the end of the payload after the ids")
    return _whole_elsewhere(sets, spec)


def neurons_of(update: Update, spec: ModelSpec) -> NeuronSet:
    """Return the neuron set that the ids of a decoded update stand for. In a group without ids all neurons are active.

    If the update has the parameters of every group, the result is the set that `take` was given, with an equal hash.
    Raises  CodecError if two blocks have different ids for one group.
    """
    found: dict[str, AxisIds] = {}
    for name, block in update.blocks.items():
        if isinstance(block.index, Axes):
            param = spec.params[name]
            for axis, ids in ((param.rows, block.index.rows), (param.cols, block.index.cols)):
                for group, part in ids_by_group(axis, ids):
                    first = found.setdefault(group, part)
                    if first.neurons is not part.neurons and first.neurons.tolist() != part.neurons.tolist():
                        raise CodecError(f"block {name!r} has other neurons of group {group!r} than earlier blocks")
    sets = ActiveNeuronSets(
        {group: ids.neurons for group, ids in found.items()}, {group: ids.key for group, ids in found.items()}
    )
    return _whole_elsewhere(sets, spec)


def _whole_elsewhere(sets: ActiveNeuronSets, spec: ModelSpec) -> NeuronSet:
    """Return the neuron set with these ids and keys, and with all neurons of the other groups."""
    active = {group: sets.active.get(group, range(size)) for group, size in spec.groups.items()}
    return replace(NeuronSet.of(spec, active), keys={group: sets.keys.get(group) for group in spec.groups})
