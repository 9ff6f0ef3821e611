"""The exchange between server and device, as values and as bytes.

codec   encodes updates, neuron sets and masks as payloads, and decodes them
wire    defines messages, frames and the order in which messages may come
trust   has keys, certificates and TLS contexts
secure  sums vectors of a group so that the server sees the sum alone

No file here opens a socket (deployment and server do), and no file here knows a method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgefl import _lazily

if TYPE_CHECKING:
    from edgefl.protocol.codec.decoding import decode
    from edgefl.protocol.codec.encoding import encode
    from edgefl.protocol.wire.connection import Connection

EXPORTS = {  # public name -> the module that defines it, which is read when the name is first asked for
    "Connection": "edgefl.protocol.wire.connection",
    "decode": "edgefl.protocol.codec.decoding",
    "encode": "edgefl.protocol.codec.encoding",
}


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


__all__ = ["Connection", "decode", "encode"]
