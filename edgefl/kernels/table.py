"""The table of operations: for each operation its arguments in order, what is written, and what it computes.

It is the only list of operations. signature.py describes how rows are written, and C programs read the same promises in
csrc/edgefl.h. From a row follow the checks of the Python backends (checks.py), the signatures of every backend, what a
Program records, and the tests of wrong arguments, of aliases and of what is left alone. The rules that rows name are in
argument_rules.py. The families name the files of all layers.
"""

from __future__ import annotations

from .signature import Signature

HYPER = ("lr", "momentum", "weight_decay", "pull")
"""What the four float32 of `hyper` are."""

ADAM = ("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "pull")
"""What the seven float64 of Adam's `settings` are; decoupled: 1 for AdamW, 0 for Adam."""

ADAM_RATES = ("mean_share", "square_kept", "square_share", "step", "root", "eps", "decay", "kept", "pull")
"""What the nine `rates` of one of its steps are; see efl_adam_rates in csrc/edgefl.h."""

ACTIVATIONS = ("sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "hardsigmoid", "hardswish", "softplus")
"""The smooth activations; their numbers are places here."""

_CONV = "stride:pair padding:pair dilation:pair"
_LANES = "x_lanes|B y_lanes|B"  # of x or dx, and of y or dy: 1, or the floats of a word; see to_lanes
_POOL = "kernel:pair stride:pair padding:pair"
_NORM = "x[B,C,*] weight[C] bias[C]"
_OUTPUT_GRAD = "dy[B,C,*] xhat[B,C,*] weight[C]"  # what reaches a normalisation from above
_GRADS = "dx[B,C,*]!dy dweight[outs]! dbias[outs]!"
_RELU_GRADS = "dx[B,C,*]!x,dy dweight[outs]! dbias[outs]!"

FAMILIES: dict[str, tuple[Signature, ...]] = {
    "batch": (
        Signature(
            "gather_rows",
            "src:pixels[N,*] index[B]<N scale:real shift:real out[B,*]!",
            "out[b] = float(src[index[b]]) * scale + shift, rounded twice",
        ),
        Signature("gather_labels", "src:int32[N] index[B]<N out:int32[B]!", "out[b] = src[index[b]]"),
        Signature("take_channels", "x[B,C,*] channels<C out[B,channels,*]!", "out[b, j] = x[b, channels[j]]"),
        Signature(
            "to_lanes",
            "x[B,*] lanes|B y[B,*]!",
            "y holds `lanes` images side by side, a cell of each: [B / lanes, *, lanes] in the memory of x's shape",
        ),
        Signature("from_lanes", "y[B,*] lanes|B x[B,*]!", "x = the images apart that lie side by side in y"),
    ),
    "convolution": (
        Signature(
            "conv2d_forward",
            f"x[B,I,H,W] weight[O,I/groups,Y,X] bias[O]? y[B,O,P,Q]! {_CONV} groups|I,O",
            "y = conv(x, weight) + bias",
            rules=("window",),
            packs=True,
        ),
        Signature(
            "conv2d_grad_input",
            f"dy[B,O,P,Q] weight[O,I/groups,Y,X] dx[B,I,H,W]! {_CONV} groups|I,O outs<O ins<I",
            "dx[:, ins] = transposed convolution of dy[:, outs] with weight[outs, ins]; the rest of dx is left alone",
            rules=("window",),
            packs=True,
        ),
        Signature(
            "conv2d_grad_weight",
            f"x[B,S,H,W] dy[B,O,P,Q] dw[outs,columns,Y,X]! {_CONV} groups|in_channels,O outs<O ins<S in_channels:int",
            "compact dw[outs, ins] from dy and x, which holds all of in_channels or only the planes that are needed",
            rules=("window", "planes"),
            packs=True,
        ),
    ),
    "sparse_convolution": (
        Signature(
            "sparse_conv2d_build",
            "mask:uint8[O,I,Y,X] structure:uint32[words]! order:uint32[N]! structure_t:uint32[words_t]! "
            f"order_t:uint32[N]! size:pair {_CONV}",
            "both structures of the weights that the mask keeps in a layer of images of `size`; order: of each slot "
            "the weight's flat index; order_t: of each transposed slot the forward one",
            rules=("structures",),
            packs=True,
        ),
        Signature(
            "sparse_conv2d_forward",
            f"x[B,I,H,W] structure:uint32[words] values[N] bias[O]? y[B,O,P,Q]! kernel:pair {_CONV} {_LANES}",
            "y = conv(x, weight) + bias of a masked weight, whose values lie in the order of its slots",
            rules=("structures",),
            packs=True,
        ),
        Signature(
            "sparse_conv2d_grad_input",
            f"dy[B,O,P,Q] structure_t:uint32[words_t] values_t[N] dx[B,I,H,W]! kernel:pair {_CONV} {_LANES}",
            "dx = transposed convolution of dy with a masked weight",
            rules=("structures",),
            packs=True,
        ),
        Signature(
            "sparse_conv2d_grad_weight",
            f"x[B,I,H,W] dy[B,O,P,Q] structure:uint32[words] gradients[N]! kernel:pair {_CONV} {_LANES}",
            "the gradients of the weights that a mask keeps, in the order of their slots",
            rules=("structures",),
            packs=True,
        ),
    ),
    "linear": (
        Signature("linear_forward", "x[B,I] weight[O,I] bias[O]? y[B,O]!", "y = x weight^T + bias", packs=True),
        Signature(
            "linear_grad_input",
            "dy[B,O] weight[O,I] dx[B,I]! outs<O ins<I",
            "dx[:, ins] = dy[:, outs] weight[outs, ins]; the rest of dx is left alone",
            packs=True,
        ),
        Signature(
            "linear_grad_weight",
            "x[B,I] dy[B,O] dw[outs,ins]! outs<O ins<I",
            "compact dw = dy[:, outs]^T x[:, ins]",
            packs=True,
        ),
        Signature(
            "linear_update",
            "x[B,I] dy[B,O] w[O,C]+ hyper[4] outs<O ins<I cols<C",
            "w[outs, cols] moves by a step of plain SGD with dw = dy[:, outs]^T x[:, ins]",
            rules=("columns", "plain"),
            packs=True,
        ),
        Signature("channel_sum", "dy[B,C,*] out[outs]! outs<C", "out[j] = sum of dy[:, outs[j]]"),
    ),
    "sparse_linear": (
        Signature(
            "sparse_linear_build",
            "mask:uint8[O,I] structure:uint32[words]! order:uint32[N]! structure_t:uint32[words_t]?! "
            "order_t:uint32[N]?! batch:int",
            "both structures of the weights that the mask keeps, laid out for such batches; order: of each slot the "
            "weight's flat index; order_t: of each transposed slot the forward one",
            rules=("kept_weights",),
            packs=True,
        ),
        Signature(
            "sparse_linear_forward",
            "x[B,I] structure:uint32[S] values[N] bias[O]? y[B,O]!",
            "y = x weight^T + bias of a masked weight, whose values lie in the order of its slots",
            rules=("weight_structure",),
            packs=True,
        ),
        Signature(
            "sparse_linear_grad_input",
            "dy[B,O] structure:uint32[S] values[N] dx[B,I]!",
            "dx = dy weight of a masked weight, with its structure and values or with the transposed ones",
            rules=("weight_structure",),
            packs=True,
        ),
        Signature(
            "sparse_linear_grad_weight",
            "x[B,I] dy[B,O] structure:uint32[S] gradients[N]!",
            "the gradients of the weights that a mask keeps, in the order of their slots",
            rules=("weight_structure",),
            packs=True,
        ),
    ),
    "norm": (
        Signature(
            "batchnorm_forward",
            f"{_NORM} running_mean[C]+ running_var[C]+ y[B,C,*]!x xhat[B,C,*]!x inv_std[C]! eps:real momentum:real",
            "normalise by the batch's statistics; the running ones move by momentum",
            rules=("two_values",),
        ),
        Signature(
            "batchnorm_eval",
            f"{_NORM} running_mean[C] running_var[C] y[B,C,*]!x eps:real",
            "normalise by the running statistics",
        ),
        Signature(
            "batchnorm_backward",
            f"{_OUTPUT_GRAD} inv_std[C] {_GRADS} channels<C outs<channels",
            "dx for channels, dweight and dbias compact for outs",
        ),
        Signature(
            "groupnorm_forward",
            f"{_NORM} y[B,C,*]!x xhat[B,C,*]?!x inv_std[B,groups]! groups|C eps:real",
            "normalise by sample and group",
        ),
        Signature(
            "groupnorm_backward",
            f"{_OUTPUT_GRAD} inv_std[B,groups] {_GRADS} groups|C groups_needed<groups outs<C",
            "dx for groups_needed, dweight and dbias compact for outs",
            rules=("outs_in_groups",),
            packs=True,
        ),
        Signature(
            "batchnorm_relu_forward",
            f"{_NORM} running_mean[C]+ running_var[C]+ y[B,C,Z]!x mean[C]! inv_std[C]! eps:real momentum:real "
            "relu6:flag",
            "max(z, 0) of the normalised z, of relu6 at most 6, or its 2 x 2 window maxima, by the shape of y",
            rules=("two_values", "halved"),
        ),
        Signature(
            "batchnorm_relu_eval",
            f"{_NORM} running_mean[C] running_var[C] y[B,C,Z]!x eps:real relu6:flag",
            "the same of z normalised by the running statistics: of batchnorm_eval, a rectifier and a pool in turn",
            rules=("halved",),
        ),
        Signature(
            "batchnorm_relu_backward",
            f"dy[B,C,Z] {_NORM} mean[C] inv_std[C] {_RELU_GRADS} channels<C outs<channels relu6:flag",
            "the backward pass of both forms, from x alone",
            rules=("halved",),
        ),
        Signature(
            "groupnorm_relu_forward",
            f"{_NORM} y[B,C,Z]!x mean[B,groups]! inv_std[B,groups]! groups|C eps:real",
            "max(z, 0) or its window maxima, with z normalised by sample and group",
            rules=("halved",),
        ),
        Signature(
            "groupnorm_relu_backward",
            f"dy[B,C,Z] {_NORM} mean[B,groups] inv_std[B,groups] {_RELU_GRADS} groups|C groups_needed<groups outs<C",
            "dx for groups_needed, dweight and dbias compact for outs, from x alone",
            rules=("halved", "outs_in_groups"),
            packs=True,
        ),
        Signature(
            "groupnorm_lanes_forward",
            "x[B,C,I,L] weight[C] bias[C] y[B,C,I,L]!x mean[B,groups,L]! inv_std[B,groups,L]! groups|C relu:flag "
            "eps:real",
            "normalise by sample and group L images side by side, then max(z, 0) if `relu`",
        ),
        Signature(
            "groupnorm_lanes_backward",
            "dy[B,C,I,L] x[B,C,I,L] weight[C] bias[C] mean[B,groups,L] inv_std[B,groups,L] dx[B,C,I,L]!x,dy "
            "dweight[C]?! dbias[C]?! groups|C relu:flag",
            "the backward pass, from x alone; dweight and dbias are there both or not at all",
            rules=("both_gradients",),
            packs=True,
        ),
        Signature(
            "layernorm_forward",
            "x[B,C,I] weight[C] bias[C] y[B,C,I]!x xhat[B,C,I]?!x inv_std[B,I]! eps:real",
            "normalise each place over its channels",
        ),
        Signature(
            "layernorm_backward",
            "dy[B,C,I] xhat[B,C,I] weight[C] inv_std[B,I] dx[B,C,I]!dy dweight[outs]! dbias[outs]! outs<C",
            "dx, dweight and dbias compact for outs",
        ),
    ),
    "pool": (
        Signature(
            "maxpool_forward",
            f"x[B,C,H,W] y[B,C,P,Q]! codes:uint8{{B,C,P,Q}}?! {_POOL}",
            "y = window maximum; codes = the winning cell; by y's shape windows may be cut at the end",
            rules=("pool_window", "small_padding", "code_cells"),
        ),
        Signature(
            "maxpool_backward",
            f"dy[B,C,P,Q] codes:uint8{{B,C,P,Q}} dx[B,C,H,W]! {_POOL} channels<C",
            "dy sent to the winning cells",
            rules=("pool_window", "small_padding", "code_cells"),
        ),
        Signature(
            "maxpool_lanes_forward",
            f"x[B,C,H,W,L] y[B,C,P,Q,L]! codes:uint8{{B,C,P,Q,L}}?! {_POOL}",
            "maxpool_forward of L images side by side",
            rules=("pool_window", "small_padding", "code_cells"),
        ),
        Signature(
            "maxpool_lanes_backward",
            f"dy[B,C,P,Q,L] codes:uint8{{B,C,P,Q,L}} dx[B,C,H,W,L]! {_POOL}",
            "dy sent to the winning cells",
            rules=("pool_window", "small_padding", "code_cells"),
        ),
        Signature(
            "avgpool_forward",
            f"x[B,C,H,W] y[B,C,P,Q]! {_POOL} count_include_pad:flag",
            "y = window mean",
            rules=("pool_window", "small_padding"),
        ),
        Signature(
            "avgpool_backward",
            f"dy[B,C,P,Q] dx[B,C,H,W]! {_POOL} count_include_pad:flag channels<C",
            "dy shared over the window",
            rules=("pool_window", "small_padding"),
        ),
        Signature(
            "adaptive_avgpool_forward",
            "x[B,C,H,W] y[B,C,M,N]!",
            "y = the means of M x N windows that cover a plane, the longer ones by a cell",
            rules=("some_cells",),
        ),
        Signature(
            "adaptive_avgpool_backward",
            "dy[B,C,M,N] dx[B,C,H,W]! channels<C",
            "dy shared over the windows",
            rules=("some_cells",),
        ),
    ),
    "elementwise": (
        Signature(
            "relu_forward",
            "x[B,C,*] y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = max(x, 0), NaN kept; one bit per element where x > 0",
            rules=("bits",),
        ),
        Signature(
            "relu_backward",
            "dy[B,C,*] bits:uint8{B,C,bytes} dx[B,C,*]!dy channels<C",
            "dx = dy where the bit is set, else 0",
            rules=("bits",),
        ),
        Signature(
            "leaky_relu_forward",
            "x[B,C,*] negative_slope:real y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = x where x > 0, else negative_slope * x, NaN kept; one bit per element where x > 0",
            rules=("bits",),
        ),
        Signature(
            "leaky_relu_backward",
            "dy[B,C,*] bits:uint8{B,C,bytes} negative_slope:real dx[B,C,*]!dy channels<C",
            "dx = dy where the bit is set, else negative_slope * dy",
            rules=("bits",),
        ),
        Signature(
            "relu6_forward",
            "x[B,C,*] y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = min(max(x, 0), 6), NaN kept; one bit per element where 0 < x < 6, for relu_backward",
            rules=("bits",),
        ),
        Signature("add", "a[*] b[*] y[*]!a,b", "y = a + b"),
        Signature("mul", "a[*] b[*] y[*]!a,b", "y = a b"),
        Signature("add_channels", "y[B,C,*]+ offset[C]", "y[:, c] += offset[c]"),
        Signature("scale_channels", "x[B,C,*] scale[B,C] y[B,C,*]!x", "y[b, c] = scale[b, c] x[b, c]"),
        Signature("channel_dot", "a[B,C,*] b[B,C,*] out[B,C]!", "out[b, c] = sum of a[b, c] b[b, c]"),
        Signature("fill_zero", "x:any[*]!", "x = 0"),
    ),
    "activation": (
        Signature(
            "activation_forward",
            "x[*] kind:int beta:real threshold:real y[*]!x",
            "y = f(x), with f of this number in ACTIVATIONS; a softplus has beta and threshold",
            rules=("activation",),
        ),
        Signature(
            "activation_backward",
            "dy[B,C,*] saved[B,C,*] kind:int beta:real threshold:real dx[B,C,*]!dy channels<C",
            "dx = dy f'(x); saved is y of a sigmoid or tanh, and x of the others",
            rules=("activation",),
        ),
        Signature(
            "prelu_forward", "x[B,C,*] weight[M] y[B,C,*]!x", "y = x where x > 0, else weight x", rules=("one_or_each",)
        ),
        Signature(
            "prelu_backward",
            "dy[B,C,*] x[B,C,*] weight[M] dx[B,C,*]!dy dweight[outs]! channels<C outs<M",
            "dx for channels, dweight compact for outs",
            rules=("one_or_each",),
        ),
    ),
    "arrange": (
        Signature("put_channels", "x[B,C,*] first:int y[B,D,*]+", "y[:, first : first + C] = x", rules=("inside",)),
        Signature("get_channels", "y[B,D,*] first:int x[B,C,*]!", "x = y[:, first : first + C]", rules=("inside",)),
        Signature(
            "pad_planes",
            "x[B,C,H,W] top:int left:int y[B,C,M,N]!",
            "y = x with its corner at (top, left), and zeros around it",
            rules=("room_around",),
        ),
        Signature(
            "crop_planes",
            "y[B,C,M,N] top:int left:int x[B,C,H,W]!",
            "x = the part of y with its corner at (top, left)",
            rules=("room_around",),
        ),
        Signature(
            "upsample_forward", "x[B,C,H,W] scale:pair y[B,C,M,N]!", "y = x, each cell repeated", rules=("scaled",)
        ),
        Signature(
            "upsample_backward",
            "dy[B,C,M,N] scale:pair dx[B,C,H,W]!",
            "dx = the sum of dy over the cells that repeat one",
            rules=("scaled",),
        ),
        Signature("transpose", "x[B,R,C,*] y[B,C,R,*]!", "y[b, c, r] = x[b, r, c]"),
        Signature(
            "embedding_forward",
            "ids[B,L] weight[V,F] y[B,F,L]!",
            "y[b, :, l] = weight[ids[b, l]], ids being whole numbers",
            rules=("rows_of_table",),
        ),
        Signature(
            "embedding_backward",
            "dy[B,F,L] ids[B,L] dweight[V,cols]! padding:int cols<F",
            "at each row the sum of dy[b, cols, l] over the places with its id; 0 at row `padding`, -1 being none",
            rules=("rows_of_table", "padding_row"),
        ),
    ),
    "recurrent": (
        Signature("to_steps", "x[B,C,T] y[T,B,C]!", "y[t, b, c] = x[b, c, t]"),
        Signature("from_steps", "y[S,B,C] x[B,C,T]!", "x[b, c, t] = y[S - T + t, b, c]", rules=("last_steps",)),
        Signature(
            "gru_forward",
            "gates[T,B,G]+ weight[G,H] bias[G]? hidden[T,B,H]?! states[S,B,H]!",
            "states from states[0] = 0 on; gates, what the input gives them, become r, z, n; hidden: weight states + "
            "bias of n",
            rules=("recurrence",),
            packs=True,
        ),
        Signature(
            "gru_backward",
            "dy[T,B,H] gates[T,B,G]+ hidden[T,B,H] states[S,B,H] weight[G,H] dhidden[T,B,G]! units<H",
            "gates become the gradients of what the input gave them, dhidden those of weight states + bias; 0 where "
            "units are not listed",
            rules=("recurrence",),
            packs=True,
        ),
        Signature(
            "lstm_forward",
            "gates[T,B,G]+ weight[G,H] bias[G]? cells[S,B,H]! states[S,B,H]!",
            "cells and states from 0 on; gates, what the input gives them, become i, f, g, o",
            rules=("recurrence",),
            packs=True,
        ),
        Signature(
            "lstm_backward",
            "dy[T,B,H] gates[T,B,G]+ cells[S,B,H] weight[G,H] units<H",
            "gates become the gradients of what was added up for them; 0 where units are not listed",
            rules=("recurrence",),
            packs=True,
        ),
    ),
    "attention": (
        Signature(
            "attention_forward",
            "qkv[B,C,T] heads|E causal:flag y[B,E,T]! shares[B,heads,T,T]?!",
            "y[:, i] = sum over j of shares[j, i] v[:, j], shares of a head the softmax over j of k[:, j] . q[:, i] / "
            "sqrt(its channels)",
            rules=("three_parts",),
            packs=True,
        ),
        Signature(
            "attention_backward",
            "dy[B,E,T] qkv[B,C,T] shares[B,heads,T,T] heads|E causal:flag dqkv[B,C,T]! heads_needed<heads",
            "dqkv of the heads needed; the rest of dqkv is left alone",
            rules=("three_parts",),
            packs=True,
        ),
    ),
    "dropout": (
        Signature(
            "dropout",
            "x[B,C,*] state:int64[3] node:int threshold:int scale:real whole:flag y[B,C,*]!x channels<C",
            "y = x scale where the stream's word is `threshold` or more, else x 0, of values or of whole planes, for "
            "channels; state: key, step, first example. Its own backward pass",
            rules=("words_of_a_stream",),
        ),
        Signature("count_step", "state:int64[3]+", "state[1] += 1, the next step of a stream"),
    ),
    "loss": (
        Signature(
            "softmax_xent",
            "logits[B,K] labels[B]<K dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "loss += summed cross-entropy; correct += hits; dlogits = (softmax - onehot) / B",
        ),
        Signature(
            "cross_entropy",
            "logits[B,K] labels[B]<K weight[K]? smoothing:real dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "the same with weights of classes and smoothed labels; the mean is by the weights of the labels",
            rules=("smoothing",),
        ),
        Signature(
            "binary_cross_entropy",
            "logits[B,K] targets[B,K] pos_weight[K]? dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "loss += of each row its mean cross-entropy of K decisions; correct += right ones at logit 0",
        ),
        Signature(
            "squared_error",
            "y[B,K] targets[B,K] dy[B,K]?!y loss:float64[1]+",
            "loss += of each row its mean squared error; dy = the gradient of their mean",
        ),
        Signature(
            "huber",
            "y[B,K] targets[B,K] delta:real dy[B,K]?!y loss:float64[1]+",
            "the same of Huber's loss, linear beyond delta",
            rules=("above_zero",),
        ),
    ),
    "update": (
        Signature("sum_squares", "x[*] total:float64[1]+", "total += sum of x^2 in float64"),
        Signature(
            "clip_scale",
            "total:float64[1] max_norm:real scale[1]!",
            "scale = min(1, max_norm / (sqrt(total) + 1e-6))",
            rules=("not_negative",),
        ),
        Signature(
            "sgd",
            "w[R,C,K]+ grad{rows,cols,K} hyper[4] rows<R cols<C scale[1]? velocity{rows,cols,K}?+ centre{rows,cols,K}? "
            "linear{rows,cols,K}?",
            "one step of SGD on w[rows, cols]; hyper in HYPER order",
            rules=("needed",),
        ),
        Signature(
            "nesterov",
            "w[R,C,K]+ grad{rows,cols,K} hyper[4] rows<R cols<C velocity{rows,cols,K}+ scale[1]? centre{rows,cols,K}? "
            "linear{rows,cols,K}?",
            "one step of SGD with Nesterov's momentum on w[rows, cols]; hyper in HYPER order",
            rules=("needed",),
        ),
        Signature(
            "begin_adam",
            "settings:float64[7] steps:int64[1]+ rates[9]!",
            "steps += 1; rates are those of that step, in ADAM_RATES order; settings in ADAM order",
            rules=("moments",),
        ),
        Signature(
            "adam",
            "w[R,C,K]+ grad{rows,cols,K} rates[9] rows<R cols<C mean{rows,cols,K}+ square{rows,cols,K}+ scale[1]? "
            "centre{rows,cols,K}? linear{rows,cols,K}?",
            "one step of Adam or AdamW on w[rows, cols]; rates are begin_adam's",
            rules=("needed_centre",),
        ),
    ),
    "growth": (
        Signature(
            "keep_largest",
            "grad[*] first:int exists:uint8[E] count:int magnitudes[M]+ places:int32[M]+ filled:int32[1]+ smallest[1]+",
            "appends |grad| and the places from `first` on that do not exist; where there is no room the largest stay",
            rules=("within", "roomy"),
        ),
        Signature(
            "largest_places",
            "magnitudes[M] places:int32[M] filled:int32[1] found:int32[K]!",
            "found = the places of the K largest of the first `filled` magnitudes, in order; of equals the first",
            rules=("enough",),
        ),
    ),
    "parameters": (
        Signature("take_axes", "w:word[R,C,K] rows<R cols<C values:word{rows,cols,K}!", "values = w[rows, cols, :]"),
        Signature("put_axes", "w:word[R,C,K]+ rows<R cols<C values:word{rows,cols,K}", "w[rows, cols, :] = values"),
        Signature("take_flat", "w:word{N} ids:uint32<N values:word{ids}!", "values = w.flat[ids]"),
        Signature("put_flat", "w:word{N}+ ids:uint32<N values:word{ids}", "w.flat[ids] = values"),
        Signature(
            "permute",
            "values[N] order:uint32[N] permuted[N]!",
            "permuted = values[order], in any order",
            rules=("places",),
        ),
    ),
    "mask": (
        Signature(
            "encode_mask",
            "bits:uint8{N} ones:int code:uint8[S]! size:int64[1]!",
            "the last size bytes of code are the code of bits, each 0 or 1, of which `ones` are 1",
            rules=("some_of_the_bits", "room"),
        ),
        Signature(
            "decode_mask",
            "code:uint8[S] ones:int bits:uint8{N}! size:int64[1]!",
            "the bits whose code the first size bytes of code are; size is -1 if they are of none with so many ones",
            rules=("some_of_the_bits",),
        ),
    ),
    "narrow": (
        Signature("narrow_float16", "x{N} halves:uint8{N,2}!", "two bytes of each x, rounded to nearest even"),
        Signature("widen_float16", "halves:uint8{N,2} x{N}!", "x of its two bytes"),
        Signature("narrow_bfloat16", "x{N} halves:uint8{N,2}!", "two bytes of each x, rounded to nearest even"),
        Signature("widen_bfloat16", "halves:uint8{N,2} x{N}!", "x of its two bytes"),
        Signature(
            "narrow_int8",
            "x{N} noise:uint8{N} largest[M]! codes:uint8{N}!",
            "codes = floor(127 x / largest + 128 + (noise + 1/2) / 256), with the largest magnitude of each 256 values",
            rules=("blocks",),
        ),
        Signature(
            "widen_int8",
            "largest[M] codes:uint8{N} x{N}!",
            "x = (codes - 128) * (largest / 127)",
            rules=("blocks",),
        ),
    ),
}

TABLE: dict[str, Signature] = {row.name: row for rows in FAMILIES.values() for row in rows}
"""The operations by name."""
