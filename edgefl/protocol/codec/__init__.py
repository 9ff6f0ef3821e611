"""The binary format of an Update: encoding.py writes it, and decoding.py reads it and checks every byte.

The tables below are the specification, and golden vectors in tests/protocol/codec/golden test every row. All numbers
are little-endian and unsigned. An update has one valid payload. The decoder refuses a payload that could have been
shorter, that has another order, or that says something twice. The codec uses neither sockets nor files, and it does not
know the messages around a payload.

    header   4  magic "EFLU"
             1  version, 1
             1  flags: 1 = values in float16, 8 = in bfloat16, 16 = in int8, otherwise in float32. 2 = the receiver
                knows the neuron set. 4 = the receiver knows the mask. Other bits are 0
             2  number of id sets, S
            16  fingerprint of the model's specification
             4  number of blocks, B
           [ 8  hash of the neuron set (NeuronSet.hash) or of the mask (Mask.hash), if flag 2 or 4 is set. Then S = 0 ]
           8 S  id sets, by increasing group:  2 group, 2 id coding, 4 number of ids
           8 B  blocks, by increasing parameter:  2 parameter, 2 coding, 4 number of values
    index       bytes of the id sets, then of the coordinates of flat blocks, each in the order of their table. Zero
                bytes follow up to a multiple of 4
    values      values of the blocks in order, each block in row-major order. In int8 the scales of all blocks are first

    float32     4 bytes a value
    float16     2 bytes a value, rounded to nearest even, finite. bfloat16 is alike: it is the upper half of a float32
    int8        1 byte a value, and a float32 scale of 4 bytes for every 256 values of a block (fewer at its end).
                The scale is the largest magnitude of the group, or 0 if that magnitude is below 2^-100. A byte b stands
                for (b - 128) (scale / 127) in float64. Some b is 1 or 255, or the scale is 0 and every b is 128

Groups and parameters are numbered in the order of ModelSpec.groups and ModelSpec.params.

    block coding  0  dense: every value of the parameter. Of a parameter that the graph trains in part (Graph.slices),
                     every value of its slice
                  1  axes: rows and columns of the active neurons of the parameter's groups (ParamSpec.rows, .cols)
              2 + c  flat: coordinates of the flattened parameter, in id coding c = 0, 1 or 2
                  6  masked: the coordinates that the receiver's mask lists. It needs flag 4, and replaces flat
                  7  flat, in id coding 4

An id set lists the active neurons of a group: at least one neuron, and not all. All neurons of a group without a set
are active. Each set is read by some block, and an axes block reads at least one set. With flag 2 the receiver has the
sets.

    id coding     0  bitmap: ceil(n / 8) bytes. Id i is bit i % 8 of byte i / 8. Bits from n on are 0
                  1  list of 2-byte ids, if n <= 65535
                  2  list of 4-byte ids, if n > 65535
                  3  seed: 8 bytes, the key for which rng.sample_ids(key, n, k) gives the ids. Not in flat blocks
                  4  code near the entropy of the ids (entropy_code.py). In flat blocks and masks only

The encoder writes the smaller one of bitmap and list, or the bitmap if both have equal sizes. It writes a seed or a
code only where that is smaller than both. The size of a code is estimated by entropy_code.expected_bytes.
"""

from edgefl.protocol.codec.decoding import decode, decode_exchanged
from edgefl.protocol.codec.encoding import Sizes, dense_head, encode, pieces, sizes
from edgefl.protocol.codec.values import FORMATS

__all__ = ["FORMATS", "Sizes", "decode", "decode_exchanged", "dense_head", "encode", "pieces", "sizes"]
