"""A model as bytes, for its way to a device: the graph as JSON text, then every parameter.

    4  length of the text in bytes, little-endian
       text of graph_json.dumps, UTF-8
       codec payload: every parameter in full, float32, exact

One model has one form. The SHA-256 of the whole, which Welcome carries, checks the chunks (messages.ModelChunk). Files
of models for other programs are in models/graph/model_files.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from edgefl.errors import CodecError
from edgefl.models.graph import Model
from edgefl.models.graph import json as graph_json
from edgefl.models.graph.json import Limits
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import EVERY_KIND
from edgefl.protocol import codec
from edgefl.protocol.codec.format import ENTRY, HEADER
from edgefl.protocol.wire.messages import CHUNK_BYTES, ModelChunk

LENGTH_BYTES = 4
FRAME_ALLOWANCE = 1 << 16  # bytes of a message without payloads
DENSE_PAYLOADS = 4  # number of dense payloads that one message may carry
LARGEST_MODEL = (  # in bytes, under Limits(). A node has at most 4 parameters
    LENGTH_BYTES + Limits.text_bytes + HEADER.size + 4 * Limits.nodes * ENTRY.size + 4 * Limits.parameters
)


def pack(model: Model) -> bytes:
    """Return the bytes of a model. Raises GraphError if the parameters do not belong to the graph."""
    model.graph.check(model.params)
    spec = ModelSpec.of(model.graph).without_slices
    text = graph_json.dumps(model.graph).encode()
    payload = codec.encode(take(model.params, spec, kinds=EVERY_KIND), spec)
    return b"".join([len(text).to_bytes(LENGTH_BYTES, "little"), text, payload])


def unpack(data: bytes, limits: Limits | None = None) -> Model:
    """Unpack the model that `pack` wrote. Its parameters are read-only views of one copy of the payload.

    limits  limits of the graph, None for Limits(). They are checked before any allocation of the model's size
    Raises  GraphError if the text is not a graph within the limits. CodecError if the text has another form than `pack`
            writes, or the rest is not all parameters of the graph.
    """
    limits = limits or Limits()
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if length > limits.text_bytes:
        raise CodecError(f"graph text of {length} bytes; the limit is {limits.text_bytes}")
    if len(data) < start:
        raise CodecError(f"model of {len(data)} bytes; expected at least {start}, the size of its graph")
    text = data[LENGTH_BYTES:start]
    graph = graph_json.loads(text, limits)
    if graph_json.dumps(graph).encode() != text:
        raise CodecError(
            f"graph text of {length} bytes in another form; expected the form that graph_json.dumps writes"
        )
    spec = ModelSpec.of(graph).without_slices
    payload, size = data[start:], dense_bytes(spec)
    if len(payload) != size:
        raise CodecError(f"parameters of {len(payload)} bytes; expected {size}, all of them as float32")
    blocks = codec.decode(payload, spec, limit=size).blocks
    for name in spec.params:
        if name not in blocks or blocks[name].index is not None:
            raise CodecError(f"parameter {name!r} is incomplete; expected all its values")
    return Model(graph, {name: block.values for name, block in blocks.items()})


def digest(data: bytes) -> bytes:
    """Return the SHA-256, 32 bytes, that stands for a packed model in Enrol and Welcome."""
    return hashlib.sha256(data).digest()


def chunks(data: bytes, offset: int) -> Iterator[ModelChunk]:
    """Yield a packed model from the byte `offset` on, in the messages that answer ModelRequest."""
    for start in range(offset, len(data), CHUNK_BYTES):
        yield ModelChunk(start, data[start : start + CHUNK_BYTES])


def dense_bytes(spec: ModelSpec) -> int:
    """Return the size in bytes of the codec payload of every parameter in full, float32."""
    scalars = sum(math.prod(param.shape) for param in spec.params.values())
    head = HEADER.size + ENTRY.size * len(spec.params)
    return head + -head % 4 + 4 * scalars


def frame_cap(model_bytes: int) -> int:
    """Return the size in bytes of the largest message about a packed model of this size. It may hold some dense
    payloads.
    """
    return FRAME_ALLOWANCE + DENSE_PAYLOADS * model_bytes
