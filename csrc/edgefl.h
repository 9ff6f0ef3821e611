/* edgefl.h: the C ABI of the edgefl kernels. Plain C without includes, so that cffi parses it: without its lines of
 * preprocessor, and without what stands between #ifdef __cplusplus and #endif. csrc/generate.py writes this file into
 * the build's folder: each line of csrc/edgefl.h that names a family becomes the prototypes of the family's operations,
 * with their contracts, from the rows of edgefl/kernels/table.py.
 *
 * Every tensor is dense, C-contiguous (row-major) float32 unless the comment says otherwise, in PyTorch's layouts:
 * activations [batch, channels, height, width] or [batch, features], convolution weights
 * [out_channels, in_channels / groups, kernel_h, kernel_w], linear weights [out_features, in_features].
 *
 * Memory     the caller owns every buffer; a function writes its outputs completely, or exactly the channels, rows and
 *            columns its efl_index arguments select, and nothing else. Inputs and outputs must not overlap unless the
 *            comment says "may alias". Packing scratch is one grow-only block per calling thread (efl_scratch_bytes).
 * Threads    callable from several threads at once. Work is spread over one pool (efl_set_threads); results do not
 *            depend on its size: no sum is ever split by thread. A call made while the pool is busy runs on its caller.
 * Errors     a status; nothing is written when it is not EFL_OK. Indices must be sorted, unique and in range: checked.
 */
#ifndef EDGEFL_H
#define EDGEFL_H

#ifdef __cplusplus
extern "C" {
#endif

typedef signed char efl_int8;
typedef unsigned char efl_uint8;
typedef int efl_int32;
typedef long long efl_int64;
typedef unsigned int efl_uint32;

typedef enum {
    EFL_OK = 0,
    EFL_BAD_SHAPE = 1,    /* an extent is negative, all together are over 2^54, or the geometry gives no output */
    EFL_BAD_INDEX = 2,    /* ids not sorted, not unique, or out of range */
    EFL_BAD_ARGUMENT = 3, /* a null pointer, a max-pool window over 255 cells, groups that do not divide */
    EFL_NO_MEMORY = 4,    /* scratch could not be allocated */
    EFL_BAD_ISA = 5,      /* this CPU or this build lacks the instruction set asked for */
    EFL_BAD_STRUCTURE = 6 /* of a masked weight: corrupt, or made for another layer or another mask */
} efl_status;

/* Sorted unique ids of channels, rows or columns. ids == NULL selects all of them and count is ignored. */
typedef struct {
    const efl_int32* ids;
    efl_int64 count;
} efl_index;

/* Output height = (height + 2 pad_h - dil_h (kernel_h - 1) - 1) / stride_h + 1, rounded down; width alike. */
typedef struct {
    efl_int64 batch, in_channels, height, width, out_channels;
    efl_int64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w, groups;
} efl_conv2d;

/* A pooling window over [planes, height, width]; output extents as for a convolution with dilation 1, or with ceil_mode
 * rounded up, but every window begins before the last cell. A max-pool window must not exceed 255 cells; height and
 * width at least 1, padding at most half the kernel (PyTorch's rules). */
typedef struct {
    efl_int64 planes, height, width;
    efl_int64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    efl_int32 count_include_pad; /* average pooling only */
    efl_int32 ceil_mode;
} efl_pool2d;

/* Planes [planes, height, width] and as many averages [planes, out_height, out_width]; all extents at least 1. Row i is
 * over the rows from i height / out_height, rounded down, to (i + 1) height / out_height, rounded up; columns alike. */
typedef struct {
    efl_int64 planes, height, width, out_height, out_width;
} efl_adaptive;

/* A dropout of x [batch, channels, inner]. Value i of example b's channel c is kept if word e of a stream is
 * `threshold` or more, e being c inner + i, or c where planes are kept or dropped as wholes. The stream's key is
 * state[0]. Word e is word e % 64 / 16 of the block Philox4x32-10 of the counter [e / 64 * 16 + e % 16, state[2] + b,
 * state[1], node], of which each is taken as 32 bits: state[1] counts steps, state[2] is the first example. 0 <=
 * threshold < 2^32, 0 <= node < 2^31. */
typedef struct {
    efl_int64 batch, channels, inner;
    efl_int64 node, threshold;
    float scale;     /* of what is kept */
    efl_int32 whole; /* planes */
} efl_dropout;

/* x [batch, channels, cells, lanes] of a group normalisation whose images lie side by side, `lanes` in every cell; its
 * ReLU too unless relu is 0. */
typedef struct {
    efl_int64 batch, channels, cells, lanes, groups;
    efl_int32 relu;
} efl_norm_lanes;

/* Planes [planes, height, width] inside larger ones [planes, out_height, out_width], with their corner at (top, left).
 */
typedef struct {
    efl_int64 planes, height, width, top, left, out_height, out_width;
} efl_room;

/* Planes [planes, height, width] of which each cell is repeated scale_h times downwards and scale_w to the right. */
typedef struct {
    efl_int64 planes, height, width, scale_h, scale_w;
} efl_scaling;

/* Planes [planes, height, width] sampled anew as [planes, out_height, out_width]. Modes 2 to 4 put them with their
 * corner at (top, left). No extent is 0 or above 2^30. */
typedef struct {
    efl_int64 planes, height, width, out_height, out_width, top, left;
    efl_int32 mode;
} efl_resampling;

/* Sequences of `steps` steps, `batch` side by side in each: [steps, batch, units] and alike. */
typedef struct {
    efl_int64 steps, batch, units;
} efl_recurrence;

/* Sequences [batch, channels, places] whose channels are the channels of `heads` heads one after another; causal unless
 * 0: a position takes nothing of the positions after it. */
typedef struct {
    efl_int64 batch, channels, places, heads;
    efl_int32 causal;
} efl_attention;

/* Sequences [batch, channels, places] whose channels are the channels of `heads` heads of queries one after another.
 * heads / kv_heads of them share keys and values, and heads / masks of them share a bias. causal unless 0; window
 * unless 0: a position takes nothing of positions `window` or more before it. The share of key j for query i of head h
 * is kept if word (h places + j) places + i of the stream of efl_dropout is `threshold` or more, and then multiplied by
 * keep_scale. */
typedef struct {
    efl_int64 batch, channels, places, heads, kv_heads, masks, window;
    efl_int64 node, threshold;
    float scale, keep_scale;
    efl_int32 causal;
} efl_sdpa;

/* Settings of one step of SGD. */
typedef struct {
    float lr, momentum, weight_decay;
    float pull; /* mu of a proximal term mu/2 |w - centre|^2 */
} efl_sgd;

/* Settings of Adam. Decoupled (not 0): the weights decay by themselves (AdamW), not as a term of the gradient. */
typedef struct {
    double lr, beta1, beta2, epsilon, weight_decay, decoupled, pull;
} efl_adam;

/* What one step of Adam multiplies by. */
typedef struct {
    float mean_share, square_kept, square_share; /* 1 - beta1, beta2, 1 - beta2 */
    float step, root, epsilon;                   /* lr / (1 - beta1^t), sqrt(1 - beta2^t) */
    float decay, kept;                           /* of the gradient's term; of the weights, 1 - lr weight_decay */
    float pull;
} efl_adam_rates;

/* ---- library ------------------------------------------------------------------------------------------------- */

const char* efl_status_text(efl_status status);
/* The instruction set in use: "scalar", "neon", "avx2", "avx512". EDGEFL_ISA caps it when the library is loaded. */
const char* efl_isa(void);
/* Use the best instruction set up to `name`, not while kernels run. EFL_BAD_ISA if it is unknown or this CPU lacks it.
 */
efl_status efl_cap_isa(const char* name);
/* The instructions that multiply int8 codes: "plain" (those of the instruction set), "vnni" (AVX-512), "dotprod" or
 * "i8mm" (NEON). Results do not depend on them. */
const char* efl_code_products(void);
/* Use the best of them up to `name`, not while kernels run; for tests. EFL_BAD_ISA if this build lacks it. */
efl_status efl_cap_code_products(const char* name);
/* 1 if this CPU and this build can run the instruction set `name`. */
efl_int32 efl_has_isa(const char* name);
/* Threads of the pool, the caller included. EDGEFL_NUM_THREADS sets it at load; else efl_preferred_cores of the
 * processors that may be used, on which its threads then stay. */
efl_int32 efl_threads(void);
efl_status efl_set_threads(efl_int32 threads);
/* Of `cores` [count], numbers of processors, those that are worth a thread each, as the files under `sys` ("/sys") say;
 * written over the first ones, their number returned: those with half the largest cpu_capacity or more; where not all
 * capacities are given, those not known to execute in order; all, where that leaves none. */
efl_int32 efl_preferred_cores(const char* sys, efl_int32* cores, efl_int32 count);
/* Bits 31:0 of an ARM processor's MIDR_EL1: of `core` as the files under `sys` say; of the one that runs this where
 * `sys` is null. 0 if it is not to be had. */
efl_uint32 efl_core_id(const char* sys, efl_int32 core);
/* What Arm calls a core of this id, as "Cortex-A53"; null if it is not known here. */
const char* efl_core_name(efl_uint32 id);
/* 1 if the inner products run the body for cores that execute in order. Its results are the other body's, bit by bit.
 */
efl_int32 efl_in_order(void);
/* Chooses the body, not while kernels run; for tests. */
void efl_set_in_order(efl_int32 in_order);
/* Bytes of packing scratch held by all threads of this process. */
efl_int64 efl_scratch_bytes(void);
/* While a thread counts (on != 0), kernels that it calls get no scratch: those that need some return EFL_NO_MEMORY at
 * once. Returns the most that one of them needed since the thread last began to count. Outputs of these calls are
 * undefined. */
efl_int64 efl_count_scratch(efl_int32 on);

/* ---- batch --------------------------------------------------------------------------------------------------- */

/* @batch */

/* ---- convolution --------------------------------------------------------------------------------------------- */

/* 3x3 and 5x5 kernels at stride 1 may be computed by Winograd's F(2x2, 3x3) and its like: errors of about twice a plain
 * float32 sum's, and a value that is not finite spoils the 2x2 results it shares a tile with. */

/* @convolution */

/* ---- sparse convolution: a weight of which a mask keeps `count` positions --------------------------------------- */

/* Groups are not supported: EFL_BAD_ARGUMENT. A layer whose planes are too large for 16-bit offsets (wider than some
 * 8,000 cells, or strides of more than 4,096 phases) is EFL_BAD_SHAPE. EFL_BAD_STRUCTURE if a structure was made for
 * another layer or count, or is corrupt; every call checks what it says, so that nothing outside is read or written.
 *
 * values and gradients have `count` floats in the order of the forward structure's slots, values_t in that of the
 * transposed one. A structure holds for any batch, instruction set and number of threads.
 *
 * x_lanes, y_lanes say how x and dx, and y and dy lie: 1 as ever, or L, which efl_sparse_conv2d_lanes gives, for
 * images side by side, [batch / L, channels, height, width, L], as the kernels need them. L must divide the batch
 * (EFL_BAD_SHAPE); another number is EFL_BAD_ARGUMENT. The results have the same bits. */

/* The floats in a vector of the instruction set in use: images that lie side by side. */
efl_int64 efl_sparse_conv2d_lanes(void);

/* The uint32 words of a structure; -1 if the layer cannot have one. */
efl_int64 efl_sparse_conv2d_words(const efl_conv2d* conv, efl_int64 count, efl_int32 transposed);

/* @sparse_convolution */

/* ---- linear -------------------------------------------------------------------------------------------------- */

/* @linear */

/* ---- sparse linear: a weight of which a mask keeps `count` positions --------------------------------------------- */

/* A structure says which weights exist, in the order in which kernels read them: the order of values and gradients, a
 * float for each. It holds for any batch, instruction set and number of threads; the `batch` that it is built for is
 * the one that it is laid out for. The positions of a matrix are numbered by 32 bits, its rows and columns by 23.
 * EFL_BAD_STRUCTURE if a structure was made for another layer or count, or is corrupt: every call checks what it says,
 * so that nothing outside of the arrays is read or written. */

/* The uint32 words of a structure, or of a transposed one; -1 if the layer cannot have one. */
efl_int64 efl_sparse_linear_words(efl_int64 out_features, efl_int64 in_features, efl_int64 count, efl_int64 batch,
                                  efl_int32 transposed);

/* @sparse_linear */

/* ---- norm: x [batch, channels, inner], or [batch, channels, height, width] ----------------------------------- */

/* @norm */

/* ---- elementwise --------------------------------------------------------------------------------------------- */

/* @elementwise */

/* ---- activation ---------------------------------------------------------------------------------------------- */

/* @activation */

/* ---- arrange ------------------------------------------------------------------------------------------------- */

/* @arrange */

/* ---- dropout ------------------------------------------------------------------------------------------------- */

/* @dropout */

/* ---- pool: channels_needed selects planes [b, c] of [batch, channels] where planes = batch * channels -------- */

/* @pool */

/* ---- recurrent: gates as PyTorch orders them, r z n of a GRU and i f g o of an LSTM; no state before step 0 ----- */

/* @recurrent */

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* @attention */

/* ---- sdpa: scaled dot-product attention whose heads may share keys and values ------------------------------------ */

/* @sdpa */

/* ---- rms_norm: normalisation by the root mean square of runs of channels ----------------------------------------- */

/* @rms_norm */

/* ---- rotary: rotary embedding of positions ----------------------------------------------------------------------- */

/* @rotary */

/* ---- loss ---------------------------------------------------------------------------------------------------- */

/* @loss */

/* ---- update -------------------------------------------------------------------------------------------------- */

/* @update */

/* ---- growth: the coordinates with the largest gradients, of gradients seen a part at a time --------------------- */

/* @growth */

/* ---- parameters: gather and scatter (any 4-byte type) -------------------------------------------------------- */

/* @parameters */

/* ---- mask: booleans as bytes, near their entropy (the format: protocol/codec/entropy_code.py) -------------------- */

/* @mask */

/* ---- int8: products of int8 codes ---------------------------------------------------------------------------- */

/* @int8 */

/* ---- narrow: values in fewer bits ---------------------------------------------------------------------------- */

/* @narrow */

#ifdef __cplusplus
}
#endif

#endif
