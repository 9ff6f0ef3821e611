/* edgefl.h: the C ABI of the edgefl kernels. Plain C without includes, so that cffi parses this very file: without
 * its lines of preprocessor, and without what stands between #ifdef __cplusplus and #endif.
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

/* dst[b, :] = src[ids[b], :] * scale + shift. src [rows, width], dst [count, width]. ids need not be sorted here. */
efl_status efl_gather_rows_u8(const efl_uint8* src, efl_int64 rows, efl_int64 width, const efl_int32* ids,
                              efl_int64 count, float scale, float shift, float* dst);
efl_status efl_gather_rows_f32(const float* src, efl_int64 rows, efl_int64 width, const efl_int32* ids, efl_int64 count,
                               float scale, float shift, float* dst);
/* dst[b] = src[ids[b]]. */
efl_status efl_gather_labels(const efl_int32* src, efl_int64 rows, const efl_int32* ids, efl_int64 count,
                             efl_int32* dst);
/* y[b, j, :] = x[b, ids[j], :]. x [batch, channels, inner], y [batch, |ids|, inner]. */
efl_status efl_take_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index ids,
                                 float* y);

/* y[b, j, m] = x[b * lanes + m, j]: `lanes` images side by side; and back. x [batch, inner], y [batch / lanes, inner,
 * lanes]. EFL_BAD_ARGUMENT unless lanes divides the batch. */
efl_status efl_to_lanes_f32(const float* x, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* y);
efl_status efl_from_lanes_f32(const float* y, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* x);

/* ---- convolution --------------------------------------------------------------------------------------------- */

/* 3x3 and 5x5 kernels at stride 1 may be computed by Winograd's F(2x2, 3x3) and its like: errors of about twice a plain
 * float32 sum's, and a value that is not finite spoils the 2x2 results it shares a tile with. */

/* y = conv(x, weight) + bias. bias may be NULL. */
efl_status efl_conv2d_forward_f32(const efl_conv2d* conv, const float* x, const float* weight, const float* bias,
                                  float* y);
/* dx[:, ins] = transposed convolution of dy[:, outs] with weight[outs, ins]; other channels of dx untouched.
 * dy [batch, out_channels, ...], dx [batch, in_channels, ...], both with all their channels. */
efl_status efl_conv2d_grad_input_f32(const efl_conv2d* conv, const float* dy, const float* weight, efl_index outs,
                                     efl_index ins, float* dx);
/* dw[j, i, kh, kw] = sum over batch and pixels of dy[outs[j]] * x[ins[i]] at the tap; dw [|outs|, |ins|, kernel_h,
 * kernel_w]. x_channels is the number of planes x holds: ins selects among those (a caller that saved only active
 * planes passes them all). groups > 1: ins must be NULL and dw is [|outs|, in_channels / groups, kernel_h, kernel_w]; x
 * holds either all in_channels planes, or, where in_channels / groups == 1, only the planes of the groups of outs, in
 * their order. */
efl_status efl_conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy,
                                      efl_index outs, efl_index ins, float* dw);

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
/* Both structures of mask [out_channels, in_channels, kernel_h, kernel_w], whose bytes that are not 0 keep a weight:
 * `count` of them, else EFL_BAD_ARGUMENT. order [count]: of each slot, the weight's flat index; order_t [count]: of
 * each transposed slot, the forward one. O(out_channels in_channels kernel). */
efl_status efl_sparse_conv2d_build(const efl_conv2d* conv, const efl_uint8* mask, efl_int64 count,
                                   efl_uint32* structure, efl_int64 words, efl_uint32* order, efl_uint32* structure_t,
                                   efl_int64 words_t, efl_uint32* order_t);
/* y = conv(x, weight) + bias. bias may be NULL. */
efl_status efl_sparse_conv2d_forward_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64 words,
                                         const float* values, efl_int64 count, const float* x, const float* bias,
                                         float* y, efl_int64 x_lanes, efl_int64 y_lanes);
/* dx = transposed convolution of dy with the weight. */
efl_status efl_sparse_conv2d_grad_input_f32(const efl_conv2d* conv, const efl_uint32* structure_t, efl_int64 words_t,
                                            const float* values_t, efl_int64 count, const float* dy, float* dx,
                                            efl_int64 x_lanes, efl_int64 y_lanes);
/* gradients[slot] = sum over batch and pixels of dy and x at the slot's channels and tap. */
efl_status efl_sparse_conv2d_grad_weight_f32(const efl_conv2d* conv, const efl_uint32* structure, efl_int64 words,
                                             const float* x, const float* dy, float* gradients, efl_int64 count,
                                             efl_int64 x_lanes, efl_int64 y_lanes);

/* ---- linear -------------------------------------------------------------------------------------------------- */

/* y[b, o] = sum_i x[b, i] weight[o, i] + bias[o]. bias may be NULL. */
efl_status efl_linear_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                  efl_int64 in_features, efl_int64 out_features, float* y);
/* dx[b, i] = sum over o in outs of dy[b, o] weight[o, i], for i in ins; other columns of dx untouched. */
efl_status efl_linear_grad_input_f32(const float* dy, const float* weight, efl_int64 batch, efl_int64 in_features,
                                     efl_int64 out_features, efl_index outs, efl_index ins, float* dx);
/* dw[j, i] = sum_b dy[b, outs[j]] x[b, ins[i]]; dw [|outs|, |ins|]; x [batch, x_features], ins selects among those. */
efl_status efl_linear_grad_weight_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                      efl_int64 out_features, efl_index outs, efl_index ins, float* dw);
/* One step of plain SGD with that gradient, which is not stored: w[outs, cols] -= lr (dw + weight_decay w[outs, cols]),
 * the rest of w [out_features, in_features] untouched. As many cols as ins: where x holds the columns cols only, ins is
 * NULL. EFL_BAD_ARGUMENT if momentum or pull is not 0. The same numbers as linear_grad_weight and sgd. */
efl_status efl_linear_update_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                 efl_int64 in_features, efl_int64 out_features, efl_index outs, efl_index ins,
                                 efl_index cols, const efl_sgd* sgd, float* w);
/* db[j] = sum over batch and inner of dy[b, outs[j], :]. dy [batch, channels, inner]; db compact. */
efl_status efl_channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs,
                               float* db);

/* ---- sparse linear: a weight of which a mask keeps `count` positions --------------------------------------------- */

/* A structure says which weights exist, in the order in which kernels read them: the order of values and gradients, a
 * float for each. It holds for any batch, instruction set and number of threads; the `batch` that it is built for is
 * the one that it is laid out for. The positions of a matrix are numbered by 32 bits, its rows and columns by 23.
 * EFL_BAD_STRUCTURE if a structure was made for another layer or count, or is corrupt: every call checks what it says,
 * so that nothing outside of the arrays is read or written. */

/* The uint32 words of a structure, or of a transposed one; -1 if the layer cannot have one. */
efl_int64 efl_sparse_linear_words(efl_int64 out_features, efl_int64 in_features, efl_int64 count, efl_int64 batch,
                                  efl_int32 transposed);
/* The structure of mask [out_features, in_features], whose bytes that are not 0 keep a weight: `count` of them, else
 * EFL_BAD_ARGUMENT. order [count]: of each slot, the weight's flat index. And if structure_t is not NULL the transposed
 * structure, with order_t [count]: of each transposed slot, the forward one. O(out_features in_features). */
efl_status efl_sparse_linear_build(const efl_uint8* mask, efl_int64 out_features, efl_int64 in_features,
                                   efl_int64 count, efl_int64 batch, efl_uint32* structure, efl_int64 words,
                                   efl_uint32* order, efl_uint32* structure_t, efl_int64 words_t, efl_uint32* order_t);
/* y[b, o] = sum over the weights kept in row o of x[b, i] weight[o, i] + bias[o]. bias may be NULL. */
efl_status efl_sparse_linear_forward_f32(const efl_uint32* structure, efl_int64 words, const float* values,
                                         efl_int64 count, const float* x, const float* bias, efl_int64 batch,
                                         efl_int64 in_features, efl_int64 out_features, float* y);
/* dx[b, i] = sum over the weights kept in column i of dy[b, o] weight[o, i]. With the structure and the values of
 * forward, or with the transposed ones, which are faster for large batches. */
efl_status efl_sparse_linear_grad_input_f32(const efl_uint32* structure, efl_int64 words, const float* values,
                                            efl_int64 count, const float* dy, efl_int64 batch, efl_int64 in_features,
                                            efl_int64 out_features, float* dx);
/* gradients[slot] = sum_b dy[b, o] x[b, i] at the slot's o and i. */
efl_status efl_sparse_linear_grad_weight_f32(const efl_uint32* structure, efl_int64 words, const float* x,
                                             const float* dy, efl_int64 batch, efl_int64 in_features,
                                             efl_int64 out_features, float* gradients, efl_int64 count);

/* ---- norm: x [batch, channels, inner] ------------------------------------------------------------------------ */

/* Training mode. xhat = (x - mean) / sqrt(var + eps) per channel, biased variance; y = weight xhat + bias; running
 * statistics move by `momentum` towards the batch's, with the unbiased variance (PyTorch). inv_std [channels]. y or
 * xhat may alias x, not each other. EFL_BAD_SHAPE if batch * inner < 2. */
efl_status efl_batchnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, float eps, float momentum,
                                     float* running_mean, float* running_var, float* y, float* xhat, float* inv_std);
/* Evaluation mode, with the running statistics. y may alias x. */
efl_status efl_batchnorm_eval_f32(const float* x, const float* weight, const float* bias, const float* running_mean,
                                  const float* running_var, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                  float eps, float* y);
/* dx for channels_needed (dx may alias dy); dweight, dbias compact for `outs`, which are all among channels_needed. */
efl_status efl_batchnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                      efl_index outs, float* dx, float* dweight, float* dbias);
/* Per sample and group of channels / groups channels; inv_std [batch, groups]. xhat may be NULL. Aliasing as above. */
efl_status efl_groupnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, efl_int64 groups, float eps, float* y,
                                     float* xhat, float* inv_std);
/* dx for all channels of groups_needed (dx may alias dy); dweight, dbias compact for `outs`, all in those groups. */
efl_status efl_groupnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_int64 groups,
                                      efl_index groups_needed, efl_index outs, float* dx, float* dweight, float* dbias);

/* ---- norm, with ReLU and pooling in one: x [batch, channels, height, width] ---------------------------------- */

/* y = max(z, 0), or min(max(z, 0), 6) if `relu6`, with z as above; or if `halved` its largest in each 2 x 2 window
 * (stride 2, no padding), as one rounding of weight inv_std (x - mean) + bias. Nothing else of x's size is written: the
 * backward pass reads x. mean and inv_std [channels]. y may alias x if not halved. EFL_BAD_SHAPE if batch * height *
 * width < 2, or if halved and a plane holds no window. */
efl_status efl_batchnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                          efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                          efl_int32 relu6, float eps, float momentum, float* running_mean,
                                          float* running_var, float* y, float* mean, float* inv_std);
/* Evaluation mode, with the running statistics: max(z, 0), at most 6 if `relu6`, and of that if `halved` the largest,
 * bit for bit as efl_batchnorm_eval_f32, efl_relu_forward_f32 or efl_relu6_forward_f32, and efl_maxpool_forward_f32 one
 * after the other; a NaN may be another. y may alias x if not halved. EFL_BAD_SHAPE if halved and a plane holds no
 * window. */
efl_status efl_batchnorm_relu_eval_f32(const float* x, const float* weight, const float* bias,
                                       const float* running_mean, const float* running_var, efl_int64 batch,
                                       efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                       efl_int32 relu6, float eps, float* y);
/* dy of y's shape. It goes to the elements with z > 0, and z < 6 if `relu6`; in a window to the first cell with the
 * largest sign(weight) x. dx for channels_needed; it may alias x, and dy if not halved. dweight and dbias compact for
 * `outs`, among channels_needed. */
efl_status efl_batchnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                           const float* mean, const float* inv_std, efl_int64 batch, efl_int64 channels,
                                           efl_int64 height, efl_int64 width, efl_int32 halved, efl_int32 relu6,
                                           efl_index channels_needed, efl_index outs, float* dx, float* dweight,
                                           float* dbias);
/* The same per sample and group; mean and inv_std [batch, groups]. */
efl_status efl_groupnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                          efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                          efl_int64 groups, float eps, float* y, float* mean, float* inv_std);
/* dx for every channel of the groups in `groups_needed`; `outs` all in those groups. */
efl_status efl_groupnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                           const float* mean, const float* inv_std, efl_int64 batch, efl_int64 channels,
                                           efl_int64 height, efl_int64 width, efl_int32 halved, efl_int64 groups,
                                           efl_index groups_needed, efl_index outs, float* dx, float* dweight,
                                           float* dbias);

/* ---- norm, of images side by side ---------------------------------------------------------------------------- */

/* z, or max(z, 0), per image and group of channels / groups channels; mean and inv_std [batch, groups, lanes]. y may
 * alias x. groups must divide channels, lanes be at least 1. */
efl_status efl_groupnorm_lanes_forward_f32(const efl_norm_lanes* shape, const float* x, const float* weight,
                                           const float* bias, float eps, float* y, float* mean, float* inv_std);
/* dx may alias dy or x. dweight and dbias [channels], both or none NULL. */
efl_status efl_groupnorm_lanes_backward_f32(const efl_norm_lanes* shape, const float* dy, const float* x,
                                            const float* weight, const float* bias, const float* mean,
                                            const float* inv_std, float* dx, float* dweight, float* dbias);

/* ---- norm, of each position over its channels ---------------------------------------------------------------- */

/* xhat = (x - mean) / sqrt(var + eps) with the statistics of the channels of a position; inv_std [batch, inner]; y =
 * weight xhat + bias. xhat may be NULL. y or xhat may alias x, not each other. */
efl_status efl_layernorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, float eps, float* y, float* xhat,
                                     float* inv_std);
/* dx of all channels (dx may alias dy); dweight, dbias compact for `outs`. */
efl_status efl_layernorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs, float* dx,
                                      float* dweight, float* dbias);

/* ---- elementwise --------------------------------------------------------------------------------------------- */

/* y = x > 0 ? x : 0 (NaN stays NaN). bits, if not NULL: [planes][(inner + 7) / 8] bytes, bit j % 8 of byte j / 8 set
 * where x[plane, j] > 0, padding bits 0. y may alias x. */
efl_status efl_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits);
/* dx = dy where the bit is set, else 0, on the planes [b, c] with c in channels_needed; planes = batch * channels. dx
 * may alias dy. */
efl_status efl_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                 efl_int64 inner, efl_index channels_needed, float* dx);
/* y = x > 0 ? x : negative_slope * x (NaN stays NaN); bits and what may alias as efl_relu_forward_f32. */
efl_status efl_leaky_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float negative_slope, float* y,
                                      efl_uint8* bits);
/* dx = dy where the bit is set, else negative_slope * dy; planes and what may alias as efl_relu_backward_f32. */
efl_status efl_leaky_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                       efl_int64 inner, float negative_slope, efl_index channels_needed, float* dx);
/* y = min(max(x, 0), 6) (NaN stays NaN); bits set where 0 < x < 6, as efl_relu_backward_f32 reads them. y may alias x.
 */
efl_status efl_relu6_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits);
/* y = a + b. y may alias a or b. */
efl_status efl_add_f32(const float* a, const float* b, efl_int64 count, float* y);
/* y = a b. y may alias a or b. */
efl_status efl_mul_f32(const float* a, const float* b, efl_int64 count, float* y);
/* y[b, c, :] += offset[c]. */
efl_status efl_add_channels_f32(const float* offset, efl_int64 batch, efl_int64 channels, efl_int64 inner, float* y);
/* y = scale[plane] x[plane, :]. y may alias x. */
efl_status efl_scale_channels_f32(const float* x, const float* scale, efl_int64 planes, efl_int64 inner, float* y);
/* out[plane] = sum of a[plane, :] b[plane, :]. */
efl_status efl_channel_dot_f32(const float* a, const float* b, efl_int64 planes, efl_int64 inner, float* out);

/* ---- activation ---------------------------------------------------------------------------------------------- */

/* y = f(x). kind: 0 sigmoid, 1 tanh, 2 silu, 3 gelu, 4 gelu by tanh, 5 hardsigmoid, 6 hardswish, 7 softplus, which
 * alone has beta (above 0) and threshold, else EFL_BAD_ARGUMENT. y may alias x. */
efl_status efl_activation_forward_f32(const float* x, efl_int64 count, efl_int32 kind, float beta, float threshold,
                                      float* y);
/* dx = dy f'(x) on the planes [b, c] with c in channels_needed; saved is y of kinds 0 and 1, x of the others. dx may
 * alias dy. */
efl_status efl_activation_backward_f32(const float* dy, const float* saved, efl_int64 batch, efl_int64 channels,
                                       efl_int64 inner, efl_int32 kind, float beta, float threshold,
                                       efl_index channels_needed, float* dx);
/* y = x > 0 ? x : weight x, with one weight, or one for each channel. y may alias x. */
efl_status efl_prelu_forward_f32(const float* x, const float* weight, efl_int64 weights, efl_int64 batch,
                                 efl_int64 channels, efl_int64 inner, float* y);
/* dx for channels_needed (dx may alias dy); dweight compact for `outs`: sums of dy x where x is not positive. */
efl_status efl_prelu_backward_f32(const float* dy, const float* x, const float* weight, efl_int64 weights,
                                  efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                  efl_index outs, float* dx, float* dweight);

/* ---- arrange ------------------------------------------------------------------------------------------------- */

/* y[b, first + c, :] = x[b, c, :] of y [batch, all_channels, inner]; the rest of y is left alone. And back. */
efl_status efl_put_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_int64 first,
                                efl_int64 all_channels, float* y);
efl_status efl_get_channels_f32(const float* y, efl_int64 batch, efl_int64 all_channels, efl_int64 inner,
                                efl_int64 first, efl_int64 channels, float* x);
/* y = x, and zeros around it; and x of y. */
efl_status efl_pad_planes_f32(const efl_room* room, const float* x, float* y);
efl_status efl_crop_planes_f32(const efl_room* room, const float* y, float* x);
/* y = x with each cell repeated; and dx, the sums of dy over the cells that repeat one. */
efl_status efl_upsample_forward_f32(const efl_scaling* scaling, const float* x, float* y);
efl_status efl_upsample_backward_f32(const efl_scaling* scaling, const float* dy, float* dx);
/* y[b, c, r, :] = x[b, r, c, :] of x [batch, rows, cols, inner]. */
efl_status efl_transpose_f32(const float* x, efl_int64 batch, efl_int64 rows, efl_int64 cols, efl_int64 inner,
                             float* y);
/* y[b, d, t] = weight[ids[b, t], d] of weight [rows, features], y [batch, features, length]. EFL_BAD_INDEX if an id is
 * not a whole number in [0, rows). */
efl_status efl_embedding_forward_f32(const float* ids, efl_int64 batch, efl_int64 length, const float* weight,
                                     efl_int64 rows, efl_int64 features, float* y);
/* dweight [rows, |cols|], compact for cols: at each row the sum of dy[b, cols, t] over the positions with its id,
 * images and positions in order; 0 at row `padding` (-1: no row). EFL_BAD_INDEX as above. O(rows |cols| + batch length
 * |cols|).
 */
efl_status efl_embedding_backward_f32(const float* dy, const float* ids, efl_int64 batch, efl_int64 features,
                                      efl_int64 length, efl_int64 rows, efl_int32 padding, efl_index cols,
                                      float* dweight);

/* ---- dropout ------------------------------------------------------------------------------------------------- */

/* y = x scale where it is kept, x 0 elsewhere, on the planes [b, c] with c in channels_needed. Backward is the same of
 * dy. y may alias x. */
efl_status efl_dropout_f32(const efl_dropout* dropout, const float* x, const efl_int64* state,
                           efl_index channels_needed, float* y);
/* state[1] += 1: the next step of a stream, state as in efl_dropout. */
efl_status efl_count_step(efl_int64* state);

/* ---- pool: channels_needed selects planes [b, c] of [batch, channels] where planes = batch * channels -------- */

/* codes, if not NULL: one byte per output, the winning cell's kh * kernel_w + kw (first of equals, NaN wins, as
 * PyTorch). */
efl_status efl_maxpool_forward_f32(const efl_pool2d* pool, const float* x, float* y, efl_uint8* codes);
efl_status efl_maxpool_backward_f32(const efl_pool2d* pool, const float* dy, const efl_uint8* codes, efl_int64 channels,
                                    efl_index channels_needed, float* dx);
/* The same of `lanes` images side by side in every cell: x [planes, height, width, lanes], y and codes alike. */
efl_status efl_maxpool_lanes_forward_f32(const efl_pool2d* pool, efl_int64 lanes, const float* x, float* y,
                                         efl_uint8* codes);
efl_status efl_maxpool_lanes_backward_f32(const efl_pool2d* pool, efl_int64 lanes, const float* dy,
                                          const efl_uint8* codes, float* dx);
efl_status efl_avgpool_forward_f32(const efl_pool2d* pool, const float* x, float* y);
efl_status efl_avgpool_backward_f32(const efl_pool2d* pool, const float* dy, efl_int64 channels,
                                    efl_index channels_needed, float* dx);
efl_status efl_adaptive_avgpool_forward_f32(const efl_adaptive* pool, const float* x, float* y);
efl_status efl_adaptive_avgpool_backward_f32(const efl_adaptive* pool, const float* dy, efl_int64 channels,
                                             efl_index channels_needed, float* dx);

/* ---- recurrent: gates as PyTorch orders them, r z n of a GRU and i f g o of an LSTM; no state before step 0 ----- */

/* y[t, b, c] = x[b, c, t] of x [batch, channels, steps]; and back, x[b, c, t] = y[passed + t, b, c]. */
efl_status efl_to_steps_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 steps, float* y);
efl_status efl_from_steps_f32(const float* y, efl_int64 passed, efl_int64 batch, efl_int64 channels, efl_int64 steps,
                              float* x);
/* weight [3 units, units], bias [3 units] or NULL. gates [steps, batch, 3 units]: what the input gives each gate; on
 * return r, z, n. With a = weight states[t] + bias: n = tanh(gates_n + r a_n), states[t + 1] = (1 - z) n + z states[t].
 * states [steps + 1, batch, units] are written from states[0] = 0 on; hidden [steps, batch, units], or NULL: a_n. */
efl_status efl_gru_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                               float* hidden, float* states);
/* dy [steps, batch, units] of states[1:]. gates, as the forward pass left them, become the gradients of what the input
 * gave them; dhidden [steps, batch, 3 units] is written: those of weight states[t] + bias. Of units that are not in
 * `listed` both are 0, and no gradient passes through their gates. */
efl_status efl_gru_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight, const float* hidden,
                                const float* states, efl_index listed, float* gates, float* dhidden);
/* weight [4 units, units], bias [4 units] or NULL; gates [steps, batch, 4 units] as above, on return i, f, g, o.
 * cells[t + 1] = f cells[t] + i g, states[t + 1] = o tanh(cells[t + 1]), both [steps + 1, batch, units] from 0 on. */
efl_status efl_lstm_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                                float* cells, float* states);
/* gates become the gradients of what was added up for them; dy and `listed` as above. */
efl_status efl_lstm_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight, const float* cells,
                                 efl_index listed, float* gates);

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* qkv [batch, 3 channels, places]: queries, keys and values one below the other. Of every head with s channels the
 * shares [batch, heads, places (of keys j), places (of queries i)] = softmax over j of k[:, j] . q[:, i] / sqrt(s),
 * kept unless NULL; y [batch, channels, places] = sum over j of shares[j, i] v[:, j]. heads must divide channels. */
efl_status efl_attention_forward_f32(const efl_attention* shape, const float* qkv, float* y, float* shares);
/* dqkv of the heads in heads_needed; the rest of it is left alone. */
efl_status efl_attention_backward_f32(const efl_attention* shape, const float* dy, const float* qkv,
                                      const float* shares, efl_index heads_needed, float* dqkv);

/* ---- loss ---------------------------------------------------------------------------------------------------- */

/* Mean softmax cross-entropy over the batch. *loss += sum of the losses (not the mean); *correct += rows whose first
 * largest logit is the label. dlogits, if not NULL: (softmax - onehot) / batch; may alias logits. EFL_BAD_INDEX if a
 * label is outside [0, classes). */
efl_status efl_softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes,
                                float* dlogits, double* loss, efl_int64* correct);
/* The same with a weight for each class [classes], NULL for 1, and label smoothing: a label gets 1 - smoothing, and all
 * classes share the rest. Of a row, sum over c of a_c times the loss that label c would have, a_c = smoothing weight_c
 * / classes, and (1 - smoothing) weight_c more for its label; the mean divides by the sum of the labels' weights.
 * EFL_BAD_ARGUMENT unless 0 <= smoothing <= 1. (torch.nn.functional.cross_entropy) */
efl_status efl_cross_entropy_f32(const float* logits, const efl_int32* labels, const float* weight, efl_int64 batch,
                                 efl_int64 classes, float smoothing, float* dlogits, double* loss, efl_int64* correct);
/* A decision for each output, targets in [0, 1]: with p a sigmoid of the logit, -(pos_weight t log p + (1 - t) log(1 -
 * p)), pos_weight [outputs] or NULL for 1. An example's loss is the mean over its outputs; *loss += sum of the
 * examples' losses; *correct += outputs whose logit is above 0 where the target is above .5, or neither. dlogits, if
 * not NULL: the gradient of the mean over all [batch, outputs]; may alias logits. (torch.nn.BCEWithLogitsLoss) */
efl_status efl_binary_cross_entropy_f32(const float* logits, const float* targets, const float* pos_weight,
                                        efl_int64 batch, efl_int64 outputs, float* dlogits, double* loss,
                                        efl_int64* correct);
/* An example's loss is the mean of (y - t)^2 over its outputs, *loss += their sum; dy, if not NULL: the gradient of the
 * mean over all [batch, outputs]; may alias y. */
efl_status efl_squared_error_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float* dy,
                                 double* loss);
/* The same of (y - t)^2 / 2 where |y - t| <= delta, delta (|y - t| - delta / 2) elsewhere. EFL_BAD_ARGUMENT unless
 * delta is above 0. (torch.nn.HuberLoss) */
efl_status efl_huber_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float delta,
                         float* dy, double* loss);

/* ---- update -------------------------------------------------------------------------------------------------- */

/* *total += sum of x^2, in float64, in an order that depends on count alone. */
efl_status efl_sum_squares_f32(const float* x, efl_int64 count, double* total);
/* *scale = min(1, max_norm / (sqrt(total) + 1e-6)) (torch.nn.utils.clip_grad_norm_). */
efl_status efl_clip_scale(double total, double max_norm, float* scale);

/* In place on the block w[rows, cols, :] of w [n_rows, n_cols, inner]; everything else untouched. Compact arrays
 * [|rows|, |cols|, inner]: grad, and where not NULL velocity, centre, linear.
 *   g = *scale * grad + weight_decay w + pull (w - centre) + linear ; v = momentum v + g ; w -= lr (momentum ? v : g)
 * scale NULL means 1. velocity may be NULL only if momentum is 0, and is
 * then neither read nor written; centre only if pull is 0. (torch.optim.SGD, dampening 0; start with v = 0.) */
efl_status efl_sgd_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                       const float* grad, const efl_sgd* sgd, const float* scale, float* velocity, const float* centre,
                       const float* linear);
/* The same with Nesterov's momentum: w -= lr (g + momentum v), v the new one. velocity is never NULL. */
efl_status efl_nesterov_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                            efl_index cols, const float* grad, const efl_sgd* sgd, float* velocity, const float* scale,
                            const float* centre, const float* linear);

/* ++*steps, and the rates of that step, computed in float64. Once a step, before it. EFL_BAD_ARGUMENT unless both betas
 * are in [0, 1), epsilon is above 0 and *steps >= 0. */
efl_status efl_begin_adam(const efl_adam* adam, efl_int64* steps, efl_adam_rates* rates);
/* One step of Adam on the block w[rows, cols, :], as efl_sgd_f32 of blocks and arrays; t steps have begun.
 *   g = *scale * grad + decay w + pull (w - centre) + linear ; w *= kept (AdamW)
 *   mean += (1 - beta1) (g - mean) ; square = beta2 square + (1 - beta2) g^2
 *   w -= lr / (1 - beta1^t) mean / (sqrt(square) / sqrt(1 - beta2^t) + epsilon)
 * centre may be NULL only if pull is 0. (torch.optim.Adam and AdamW; start with mean = square = 0 and *steps = 0.) */
efl_status efl_adam_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                        const float* grad, const efl_adam_rates* rates, float* mean, float* square, const float* scale,
                        const float* centre, const float* linear);

/* ---- growth: the coordinates with the largest gradients, of gradients seen a part at a time --------------------- */

/* Look at the next part of a parameter's gradient: grad[i] belongs to coordinate first + i. Coordinates whose bit of
 * `exists` is set (bit c % 8 of byte c / 8; [exists_bytes]) are passed over. Of the others |grad| and the coordinate
 * are appended to magnitudes and places [capacity], NaN as infinity. Before 16 values of the part for which there is no
 * room the list shrinks: its `count` largest stay, of equal ones those with lower coordinates, in order, and from then
 * on only what is larger than *smallest, the smallest of them, is appended. *filled: how many there are; at first == 0
 * the list begins anew. Parts come in order. EFL_BAD_SHAPE unless 0 <= count <= capacity - 16 and first + size <= 8
 * exists_bytes, and coordinates are below 2^31; EFL_BAD_ARGUMENT unless 0 <= *filled <= capacity. */
efl_status efl_keep_largest_f32(const float* grad, efl_int64 size, efl_int64 first, const efl_uint8* exists,
                                efl_int64 exists_bytes, efl_int64 count, float* magnitudes, efl_int32* places,
                                efl_int64 capacity, efl_int32* filled, float* smallest);
/* found [count] = the positions of the `count` largest of the first *filled magnitudes, of equal ones the first, in
 * order. EFL_BAD_ARGUMENT unless count <= *filled <= capacity. */
efl_status efl_largest_places_f32(const float* magnitudes, const efl_int32* places, efl_int64 capacity,
                                  const efl_int32* filled, efl_int64 count, efl_int32* found);

/* ---- parameters: gather and scatter (any 4-byte type) -------------------------------------------------------- */

/* values [|rows|, |cols|, inner] = w[rows, cols, :]. */
efl_status efl_take_axes_32(const void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                            efl_index cols, void* values);
/* w[rows, cols, :] = values; everything else untouched. */
efl_status efl_put_axes_32(void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                           const void* values);
efl_status efl_take_flat_32(const void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, void* values);
efl_status efl_put_flat_32(void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, const void* values);
/* permuted[i] = values[order[i]], in any order. EFL_BAD_INDEX if one is not below count. */
efl_status efl_permute_f32(const float* values, const efl_uint32* order, efl_int64 count, float* permuted);

/* ---- mask: booleans as bytes, near their entropy (the format: protocol/codec/entropy_code.py) -------------------- */

/* The code of bits [n], each 0 or 1, of which `ones` are 1: the last *size bytes of code [room]; those before them are
 * left alone. `ones` is not checked: with another number the code is that of no bits. EFL_BAD_SHAPE if n is over 2^40,
 * EFL_BAD_ARGUMENT if ones is not in [0, n] or room below 16 + 4 ceil(n / 8). O(n). */
efl_status efl_encode_mask(const efl_uint8* bits, efl_int64 n, efl_int64 ones, efl_uint8* code, efl_int64 room,
                           efl_int64* size);
/* The bits [n] whose code begins at code [room], which may be anything: *size is the bytes that it takes, or -1 if no
 * bits with so many ones have such a code; bits are then unspecified. Statuses as above. O(n). */
efl_status efl_decode_mask(const efl_uint8* code, efl_int64 room, efl_int64 ones, efl_uint8* bits, efl_int64 n,
                           efl_int64* size);

/* ---- narrow: values in fewer bits ---------------------------------------------------------------------------- */

/* halves [n], two bytes each: x [n] rounded to nearest even.
 * float16: what is too large, from 65520 on, becomes infinity. NaN stays NaN. The bits are the same on every
 * instruction set. */
efl_status efl_narrow_float16_f32(const float* x, efl_int64 n, efl_uint8* halves);
efl_status efl_widen_float16_f32(const efl_uint8* halves, efl_int64 n, float* x);
efl_status efl_narrow_bfloat16_f32(const float* x, efl_int64 n, efl_uint8* halves);
efl_status efl_widen_bfloat16_f32(const efl_uint8* halves, efl_int64 n, float* x);

/* Of every 256 values of x [n] the largest magnitude, largest [ceil(n / 256)], 0 if it is below 2^-100; and codes [n]:
 *   codes[i] = floor(127 x[i] / largest + 128 + (noise[i] + 1/2) / 256)
 * in float64, so that noise [n] of uniform bytes rounds at random. 128 where largest is 0 or not finite. */
efl_status efl_narrow_int8_f32(const float* x, efl_int64 n, const efl_uint8* noise, float* largest, efl_uint8* codes);
/* x[i] = (codes[i] - 128) * (largest[i / 256] / 127), in float64 until it is rounded once. */
efl_status efl_widen_int8_f32(const float* largest, const efl_uint8* codes, efl_int64 n, float* x);

#ifdef __cplusplus
}
#endif

#endif
