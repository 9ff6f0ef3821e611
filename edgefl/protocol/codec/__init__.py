"""Update <-> bytes: the format. encoding.py writes it; decoding.py reads it and checks everything.

The tables below are the specification; golden vectors in tests/codec/golden pin every row. All numbers are
little-endian and unsigned. A payload has one form only: what could have been written shorter, in another order or twice
is refused.
Nothing here touches sockets or files, or knows of the messages around a payload.

    header   4  magic "EFLU"
             1  version, 1
             1  flags: values are 1 = float16, 8 = bfloat16 or 16 = int8, else float32; 2 = the receiver knows the
                neuron set, or 4 = the mask; other bits 0
             2  number of id sets, S
            16  fingerprint of the model's specification
             4  number of blocks, B
           [ 8  hash of the neuron set (NeuronSet.hash) or of the mask (Mask.hash), if flag 2 or 4 is set; then S = 0 ]
           8 S  id sets, by increasing group:  2 group, 2 id coding, 4 number of ids
           8 B  blocks, by increasing parameter:  2 parameter, 2 coding, 4 number of values
    index       bytes of the id sets, then of the coordinates of flat blocks, each in the order of their table;
                zero bytes up to a multiple of 4
    values      of the blocks in order, each in row-major order; of int8 first the scales of all blocks

    float32     4 bytes a value
    float16     2 bytes, and bfloat16, the upper half of float32: rounded to nearest even, finite
    int8        a byte a value, and for every 256 values of a block, or what is left of them, 4 of float32 scale, which
                is their largest magnitude, or 0 if that is below 2^-100. A byte b is (b - 128) (scale / 127), computed
                in float64. Some b is 1 or 255, or the scale is 0 and all are 128

Groups and parameters are numbered in the order of ModelSpec.groups and ModelSpec.params.

    block coding  0  dense: every value of the parameter
                  1  axes: rows and columns of the active neurons of the parameter's groups (ParamSpec.rows, .cols)
              2 + c  flat: coordinates of the flattened parameter, in id coding c = 0, 1 or 2
                  6  masked: the coordinates that the receiver's mask lists; with flag 4 only, and in place of flat
                  7  flat, in id coding 4

An id set lists the active neurons of a group: at least one, and not all of them. A group without a set is whole. Each
set is read by some block, and an axes block reads at least one. With flag 2 the sets are the receiver's own.

    id coding     0  bitmap: ceil(n / 8) bytes, id i is bit i % 8 of byte i / 8; bits from n on are 0
                  1  list of 2-byte ids, if n <= 65535
                  2  list of 4-byte ids, if n > 65535
                  3  seed: 8 bytes, the key whose rng.sample_ids(key, n, k) are the ids; not in flat blocks
                  4  code, near the entropy of so many ids: entropy_code.py; in flat blocks and masks only

Of bitmap and list the smaller is written, the bitmap if equal; a seed, or a code by what coded.expected_bytes says of
its size, only where it is smaller than both.
"""

from edgefl.protocol.codec.decoding import decode, decode_exchanged
from edgefl.protocol.codec.encoding import Sizes, encode, sizes
from edgefl.protocol.codec.values import FORMATS

__all__ = ["FORMATS", "Sizes", "decode", "decode_exchanged", "encode", "sizes"]
