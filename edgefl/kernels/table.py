"""The table of operations: for each operation its arguments in order, what is written, and what it computes.

It is the only list of operations. signature.py describes how rows are written. From a row follow the checks of the
Python backends (checks.py), the signatures of every backend, what a Program records, and the tests of wrong arguments,
of aliases and of what is left alone. In every build csrc/generate.py makes of a row the prototype and the contract in
edgefl.h, the checks in C++, the reading of arguments in edgefl._core, and the row of dispatch. Rules that no expression
says are in argument_rules.py. The families name the files of all layers.
"""

from __future__ import annotations

from .signature import InC, Signature

HYPER = ("lr", "momentum", "weight_decay", "pull")
"""The meanings of the four float32 values of `hyper`, in order."""

ADAM = ("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "pull")
"""The meanings of the seven float64 values of Adam's `settings`. `decoupled` is 1 for AdamW and 0 for Adam."""

ADAM_RATES = ("mean_share", "square_kept", "square_share", "step", "root", "eps", "decay", "kept", "pull")
"""The meanings of the nine `rates` of one step of Adam. efl_adam_rates in csrc/edgefl.h defines them."""

ACTIVATIONS = ("sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "hardsigmoid", "hardswish", "softplus", "mish")
"""The smooth activations. An activation's number is its position in this tuple."""

RESAMPLINGS = ("half_pixel", "aligned", "reflect", "replicate", "circular", "flip")
"""The ways in which a plane is sampled anew. A way's number is its position in this tuple."""

_CONV = "stride:pair padding:pair dilation:pair"
_LANES = "x_lanes|B y_lanes|B"  # lanes of x or dx, and of y or dy: 1, or the floats of a word (see to_lanes)
_POOL = "kernel:pair stride:pair padding:pair"
_OF_ACTIVATIONS = (
    f"kind: 0 <= kind < {len(ACTIVATIONS)}: 0 to {len(ACTIVATIONS) - 1}",
    "beta: beta > 0: a number above 0",
)
_RESAMPLED = (
    "x: 1 <= H <= 1073741824 and 1 <= W <= 1073741824: planes of 1 to 2^30 rows and columns",
    "y: 1 <= M <= 1073741824 and 1 <= N <= 1073741824: planes of 1 to 2^30 rows and columns",
    "mode: 0 <= mode < 6: 0 to 5",
    "top: mode < 2 or 0 <= top <= M - H: 0 to {M - H}",
    "left: mode < 2 or 0 <= left <= N - W: 0 to {N - W}",
    "mode: mode != 2 or (top < H and M - H - top < H and left < W and N - W - left < W): "
    "less room than ({H}, {W}) [shape]",
    "mode: mode != 4 or (top <= H and M - H - top <= H and left <= W and N - W - left <= W): "
    "at most ({H}, {W}) cells of room [shape]",
    "mode: mode != 5 or (M == H and N == W): planes of ({H}, {W}) cells [shape]",
)
_NORM = "x[B,C,*] weight[C] bias[C]"
_STORED = "row_scale[{0}]? col_scale[{1}]?"  # of a weight in fewer bits
_STORED_CHECK = "stored_bytes(bytes, row_scale, col_scale)"
_OUTPUT_GRAD = "dy[B,C,*] xhat[B,C,*] weight[C]"  # what reaches a normalisation from above
_GRADS = "dx[B,C,*]!dy dweight[outs]! dbias[outs]!"
_RELU_GRADS = "dx[B,C,*]!x,dy dweight[outs]! dbias[outs]!"
_HEADS = "heads|E kv_heads|heads masks|heads causal:flag window:int scale:real node:int threshold:int keep_scale:real"
_SDPA_RULES = (
    "qkv: C * heads == E * (heads + 2 * kv_heads): queries of {heads} heads, keys of {kv_heads} [arrays]",
    "window: window >= 0: 0 or more",
    "node: 0 <= node < 2147483648: 0 to 2147483647",
    "threshold: 0 <= threshold < 4294967296: 0 to 4294967295",
)

# C parameters that several rows share.
_C_CONV = "conv=efl_conv2d(B,I,H,W,O,Y,X,stride,padding,dilation,groups)"
_C_MASKED = "conv=efl_conv2d(B,I,H,W,O,kernel,stride,padding,dilation,1)"
_C_MAXPOOL = "pool=efl_pool2d(B*C,H,W,kernel,stride,padding,0,ceil)"
_C_AVGPOOL = "pool=efl_pool2d(B*C,H,W,kernel,stride,padding,count_include_pad,ceil)"
_C_SDPA = "efl_sdpa(B,E,T,heads,kv_heads,masks,window,node,threshold,scale,keep_scale,causal)"
_C_NORMED = "dy x weight bias mean inv_std"

FAMILIES: dict[str, tuple[Signature, ...]] = {
    "batch": (
        Signature(
            "gather_rows",
            "src:pixels[N,*] index[B]<N scale:real shift:real out[B,*]!",
            "out[b] = float(src[index[b]]) * scale + shift, rounded twice",
            c=InC("src rows=N width=inner ids=index count=B scale shift dst=out", sizes="rows width; count width"),
            contract=(
                "dst[b, :] = src[ids[b], :] * scale + shift. src [rows, width], dst [count, width]. ids need not be "
                "sorted here."
            ),
        ),
        Signature(
            "gather_labels",
            "src:int32[N] index[B]<N out:int32[B]!",
            "out[b] = src[index[b]]",
            c=InC("src rows=N ids=index count=B dst=out", sizes="rows; count"),
            contract="dst[b] = src[ids[b]].",
        ),
        Signature(
            "take_channels",
            "x[B,C,*] channels<C out[B,channels,*]!",
            "out[b, j] = x[b, channels[j]]",
            c=InC("x B C inner ids=channels y=out"),
            contract="y[b, j, :] = x[b, ids[j], :]. x [batch, channels, inner], y [batch, |ids|, inner].",
        ),
        Signature(
            "to_lanes",
            "x[B,*] lanes|B y[B,*]!",
            "y holds `lanes` images side by side, a cell of each: [B / lanes, *, lanes] in the memory of x's shape",
            c=InC("x B inner lanes y"),
            contract=(
                "y[b, j, m] = x[b * lanes + m, j]: `lanes` images side by side; and back. x [batch, inner], y [batch /"
                " lanes, inner, lanes]. EFL_BAD_ARGUMENT unless lanes divides the batch."
            ),
        ),
        Signature(
            "from_lanes",
            "y[B,*] lanes|B x[B,*]!",
            "x = the images apart that lie side by side in y",
            c=InC("y B inner lanes x"),
        ),
    ),
    "convolution": (
        Signature(
            "conv2d_forward",
            f"x[B,I,H,W] weight[O,I/groups,Y,X] bias[O]? y[B,O,P,Q]! {_CONV} groups|I,O",
            "y = conv(x, weight) + bias",
            rules=("window",),
            packs=True,
            c=InC(f"{_C_CONV} x weight bias y", sizes="-", checks=("geometry(*conv)",)),
            contract="y = conv(x, weight) + bias. bias may be NULL.",
        ),
        Signature(
            "conv2d_grad_input",
            f"dy[B,O,P,Q] weight[O,I/groups,Y,X] dx[B,I,H,W]! {_CONV} groups|I,O outs<O ins<I",
            "dx[:, ins] = transposed convolution of dy[:, outs] with weight[outs, ins]; the rest of dx is left alone",
            rules=("window",),
            packs=True,
            c=InC(f"{_C_CONV} dy weight outs ins dx", sizes="-", checks=("geometry(*conv)",)),
            contract=(
                "dx[:, ins] = transposed convolution of dy[:, outs] with weight[outs, ins]; other channels of dx "
                "untouched. dy [batch, out_channels, ...], dx [batch, in_channels, ...], both with all their channels."
            ),
        ),
        Signature(
            "pointwise_forward",
            f"x[B,I,N] codes:uint8[O,I,K] {_STORED.format('O', 'I')} bias[O]? y[B,O,N]!",
            "y[b, o, n] = sum of weight[o, i] x[b, i, n] + bias[o], with the weight that widen_weight gives",
            rules=("stored_bytes",),
            packs=True,
            c=InC(
                "x B in_channels=I positions=N codes out_channels=O bytes=K row_scale col_scale bias y",
                sizes="batch in_channels positions; batch out_channels positions; out_channels in_channels bytes",
                checks=(_STORED_CHECK,),
            ),
            contract=(
                "y [batch, out_channels, positions] = weight x + bias at each position, of x [batch, in_channels, "
                "positions] and the weight [out_channels, in_channels] of the codes, as efl_widen_weight_f32 reads "
                "them. Results have the bits of efl_conv2d_forward_f32. bias may be NULL."
            ),
        ),
        Signature(
            "pointwise_grad_input",
            f"dy[B,O,N] codes:uint8[O,I,K] {_STORED.format('O', 'I')} dx[B,I,N]! outs<O ins<I",
            "dx[b, i, n] = sum over outs of weight[o, i] dy[b, o, n], for i in ins; the rest of dx is left alone",
            rules=("stored_bytes",),
            packs=True,
            c=InC(
                "dy B out_channels=O positions=N codes in_channels=I bytes=K row_scale col_scale outs ins dx",
                sizes="batch in_channels positions; batch out_channels positions; out_channels in_channels bytes",
                checks=(_STORED_CHECK,),
            ),
            contract=(
                "dx[:, ins] = the weight's transpose times dy[:, outs] at each position, with the weight of the codes;"
                " other channels of dx untouched. Results have the bits of efl_conv2d_grad_input_f32."
            ),
        ),
        Signature(
            "conv2d_grad_weight",
            f"x[B,S,H,W] dy[B,O,P,Q] dw[outs,columns,Y,X]! {_CONV} groups|in_channels,O outs<O ins<S in_channels:int",
            "compact dw[outs, ins] from dy and x, which holds all of in_channels or only the planes that are needed",
            rules=("window", "planes"),
            packs=True,
            c=InC(
                "conv=efl_conv2d(B,in_channels,H,W,O,Y,X,stride,padding,dilation,groups) x x_channels=S dy outs ins dw",
                sizes="-",
                hand="binding",
                checks=(
                    "geometry(*conv)",
                    "products(*conv, x_channels)",
                    "grouped_planes(*conv, x_channels, outs, ins)",
                ),
            ),
            contract=(
                "dw[j, i, kh, kw] = sum over batch and pixels of dy[outs[j]] * x[ins[i]] at the tap; dw [|outs|, "
                "|ins|, kernel_h, kernel_w]. x_channels is the number of planes x holds: ins selects among those (a "
                "caller that saved only active planes passes them all). groups > 1: ins must be NULL and dw is "
                "[|outs|, in_channels / groups, kernel_h, kernel_w]; x holds either all in_channels planes, or, where "
                "in_channels / groups == 1, only the planes of the groups of outs, in their order."
            ),
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
            c=InC(
                "conv=efl_conv2d(1,I,size,O,Y,X,stride,padding,dilation,1) mask count=N structure words order "
                "structure_t words_t order_t",
                hand="checks binding",
            ),
            contract=(
                "Both structures of mask [out_channels, in_channels, kernel_h, kernel_w], whose bytes that are not 0 "
                "keep a weight: `count` of them, else EFL_BAD_ARGUMENT. order [count]: of each slot, the weight's flat"
                " index; order_t [count]: of each transposed slot, the forward one. O(out_channels in_channels "
                "kernel)."
            ),
        ),
        Signature(
            "sparse_conv2d_forward",
            f"x[B,I,H,W] structure:uint32[words] values[N] bias[O]? y[B,O,P,Q]! kernel:pair {_CONV} {_LANES}",
            "y = conv(x, weight) + bias of a masked weight, whose values lie in the order of its slots",
            rules=("structures",),
            packs=True,
            c=InC(f"{_C_MASKED} structure words values count=N x bias y x_lanes y_lanes", hand="checks binding"),
            contract="y = conv(x, weight) + bias. bias may be NULL.",
        ),
        Signature(
            "sparse_conv2d_grad_input",
            f"dy[B,O,P,Q] structure_t:uint32[words_t] values_t[N] dx[B,I,H,W]! kernel:pair {_CONV} {_LANES}",
            "dx = transposed convolution of dy with a masked weight",
            rules=("structures",),
            packs=True,
            c=InC(f"{_C_MASKED} structure_t words_t values_t count=N dy dx x_lanes y_lanes", hand="checks binding"),
            contract="dx = transposed convolution of dy with the weight.",
        ),
        Signature(
            "sparse_conv2d_grad_weight",
            f"x[B,I,H,W] dy[B,O,P,Q] structure:uint32[words] gradients[N]! kernel:pair {_CONV} {_LANES}",
            "the gradients of the weights that a mask keeps, in the order of their slots",
            rules=("structures",),
            packs=True,
            c=InC(f"{_C_MASKED} structure words x dy gradients count=N x_lanes y_lanes", hand="checks binding"),
            contract="gradients[slot] = sum over batch and pixels of dy and x at the slot's channels and tap.",
        ),
    ),
    "linear": (
        Signature(
            "linear_forward",
            "x[B,I] weight[O,I] bias[O]? y[B,O]!",
            "y = x weight^T + bias",
            packs=True,
            c=InC("x weight bias B in_features=I out_features=O y"),
            contract="y[b, o] = sum_i x[b, i] weight[o, i] + bias[o]. bias may be NULL.",
        ),
        Signature(
            "linear_grad_input",
            "dy[B,O] weight[O,I] dx[B,I]! outs<O ins<I",
            "dx[:, ins] = dy[:, outs] weight[outs, ins]; the rest of dx is left alone",
            packs=True,
            c=InC("dy weight B in_features=I out_features=O outs ins dx"),
            contract=(
                "dx[b, i] = sum over o in outs of dy[b, o] weight[o, i], for i in ins; other columns of dx untouched."
            ),
        ),
        Signature(
            "linear_grad_weight",
            "x[B,I] dy[B,O] dw[outs,ins]! outs<O ins<I",
            "compact dw = dy[:, outs]^T x[:, ins]",
            packs=True,
            c=InC("x dy B x_features=I out_features=O outs ins dw"),
            contract=(
                "dw[j, i] = sum_b dy[b, outs[j]] x[b, ins[i]]; dw [|outs|, |ins|]; x [batch, x_features], ins selects "
                "among those."
            ),
        ),
        Signature(
            "linear_update",
            "x[B,I] dy[B,O] w[O,C]+ hyper[4] outs<O ins<I cols<C",
            "w[outs, cols] moves by a step of plain SGD with dw = dy[:, outs]^T x[:, ins]",
            rules=(
                "cols: cols == ins: {ins} columns, as many as ins [shape]",
                "hyper: hyper[1] == 0 and hyper[3] == 0: momentum and pull 0 [run]",
            ),
            packs=True,
            c=InC(
                "x dy B x_features=I in_features=C out_features=O outs ins cols sgd=hyper:efl_sgd w",
                sizes="batch x_features out_features; in_features out_features",
            ),
            contract=(
                "One step of plain SGD with that gradient, which is not stored: w[outs, cols] -= lr (dw + weight_decay"
                " w[outs, cols]), the rest of w [out_features, in_features] untouched. As many cols as ins: where x "
                "holds the columns cols only, ins is NULL. EFL_BAD_ARGUMENT if momentum or pull is not 0. The same "
                "numbers as linear_grad_weight and sgd."
            ),
        ),
        Signature(
            "channel_sum",
            "dy[B,C,*] out[outs]! outs<C",
            "out[j] = sum of dy[:, outs[j]]",
            c=InC("dy B C inner outs db=out"),
            contract=(
                "db[j] = sum over batch and inner of dy[b, outs[j], :]. dy [batch, channels, inner]; db compact."
            ),
        ),
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
            c=InC(
                "mask out_features=O in_features=I count=N batch structure words order structure_t words_t order_t",
                hand="checks binding",
            ),
            contract=(
                "The structure of mask [out_features, in_features], whose bytes that are not 0 keep a weight: `count` "
                "of them, else EFL_BAD_ARGUMENT. order [count]: of each slot, the weight's flat index. And if "
                "structure_t is not NULL the transposed structure, with order_t [count]: of each transposed slot, the "
                "forward one. O(out_features in_features)."
            ),
        ),
        Signature(
            "sparse_linear_forward",
            "x[B,I] structure:uint32[S] values[N] bias[O]? y[B,O]!",
            "y = x weight^T + bias of a masked weight, whose values lie in the order of its slots",
            rules=("weight_structure",),
            packs=True,
            c=InC(
                "structure words=S values count=N x bias B in_features=I out_features=O y",
                hand="checks",
            ),
            contract=(
                "y[b, o] = sum over the weights kept in row o of x[b, i] weight[o, i] + bias[o]. bias may be NULL."
            ),
        ),
        Signature(
            "sparse_linear_grad_input",
            "dy[B,O] structure:uint32[S] values[N] dx[B,I]!",
            "dx = dy weight of a masked weight, with its structure and values or with the transposed ones",
            rules=("weight_structure",),
            packs=True,
            c=InC(
                "structure words=S values count=N dy B in_features=I out_features=O dx",
                hand="checks",
            ),
            contract=(
                "dx[b, i] = sum over the weights kept in column i of dy[b, o] weight[o, i]. With the structure and the"
                " values of forward, or with the transposed ones, which are faster for large batches."
            ),
        ),
        Signature(
            "sparse_linear_grad_weight",
            "x[B,I] dy[B,O] structure:uint32[S] gradients[N]!",
            "the gradients of the weights that a mask keeps, in the order of their slots",
            rules=("weight_structure",),
            packs=True,
            c=InC(
                "structure words=S x dy B in_features=I out_features=O gradients count=N",
                hand="checks",
            ),
            contract="gradients[slot] = sum_b dy[b, o] x[b, i] at the slot's o and i.",
        ),
    ),
    "norm": (
        Signature(
            "batchnorm_forward",
            f"{_NORM} running_mean[C]+ running_var[C]+ y[B,C,*]!x xhat[B,C,*]!x inv_std[C]! eps:real momentum:real",
            "normalise by the batch's statistics; the running ones move by momentum",
            rules=("x: B * inner >= 2: at least 2 values per channel",),
            c=InC("x weight bias B C inner eps momentum running_mean running_var y xhat inv_std"),
            contract=(
                "Training mode. xhat = (x - mean) / sqrt(var + eps) per channel, biased variance; y = weight xhat + "
                "bias; running statistics move by `momentum` towards the batch's, with the unbiased variance "
                "(PyTorch). inv_std [channels]. y or xhat may alias x, not each other. EFL_BAD_SHAPE if batch * inner "
                "< 2."
            ),
        ),
        Signature(
            "batchnorm_eval",
            f"{_NORM} running_mean[C] running_var[C] y[B,C,*]!x eps:real",
            "normalise by the running statistics",
            c=InC("x weight bias running_mean running_var B C inner eps y"),
            contract="Evaluation mode, with the running statistics. y may alias x.",
        ),
        Signature(
            "batchnorm_backward",
            f"{_OUTPUT_GRAD} inv_std[C] {_GRADS} channels<C outs<channels",
            "dx for channels, dweight and dbias compact for outs",
            c=InC("dy xhat weight inv_std B C inner channels_needed=channels outs dx dweight dbias"),
            contract=(
                "dx for channels_needed (dx may alias dy); dweight, dbias compact for `outs`, which are all among "
                "channels_needed."
            ),
        ),
        Signature(
            "groupnorm_forward",
            f"{_NORM} y[B,C,*]!x xhat[B,C,*]?!x inv_std[B,groups]! groups|C eps:real",
            "normalise by sample and group",
            c=InC("x weight bias B C inner groups eps y xhat inv_std", sizes="batch channels inner; batch groups"),
            contract=(
                "Per sample and group of channels / groups channels; inv_std [batch, groups]. xhat may be NULL. "
                "Aliasing as above."
            ),
        ),
        Signature(
            "groupnorm_backward",
            f"{_OUTPUT_GRAD} inv_std[B,groups] {_GRADS} groups|C groups_needed<groups outs<C",
            "dx for groups_needed, dweight and dbias compact for outs",
            rules=("outs_in_groups",),
            packs=True,
            c=InC(
                "dy xhat weight inv_std B C inner groups groups_needed outs dx dweight dbias",
                sizes="batch channels inner; batch groups",
                checks=("members(outs, channels, groups_needed, channels / groups)",),
            ),
            contract=(
                "dx for all channels of groups_needed (dx may alias dy); dweight, dbias compact for `outs`, all in "
                "those groups."
            ),
        ),
        Signature(
            "batchnorm_relu_forward",
            f"{_NORM} running_mean[C]+ running_var[C]+ y[B,C,Z]!x mean[C]! inv_std[C]! eps:real momentum:real "
            "relu6:flag",
            "max(z, 0) of the normalised z, of relu6 at most 6, or its 2 x 2 window maxima, by the shape of y",
            rules=("x: B * inner >= 2: at least 2 values per channel", "halved"),
            c=InC(
                "x weight bias B C height=H width=W halved:int32 relu6 eps momentum running_mean running_var y mean "
                "inv_std",
                sizes="batch channels height width",
                checks=("halving(height, width, halved)",),
            ),
            contract=(
                "y = max(z, 0), or min(max(z, 0), 6) if `relu6`, with z as above; or if `halved` its largest in each 2"
                " x 2 window (stride 2, no padding), as one rounding of weight inv_std (x - mean) + bias. Nothing else"
                " of x's size is written: the backward pass reads x. mean and inv_std [channels]. y may alias x if not"
                " halved. EFL_BAD_SHAPE if batch * height * width < 2, or if halved and a plane holds no window."
            ),
        ),
        Signature(
            "batchnorm_relu_eval",
            f"{_NORM} running_mean[C] running_var[C] y[B,C,Z]!x eps:real relu6:flag",
            "the same of z normalised by the running statistics: of batchnorm_eval, a rectifier and a pool in turn",
            rules=("halved",),
            c=InC(
                "x weight bias running_mean running_var B C height=H width=W halved:int32 relu6 eps y",
                sizes="batch channels height width",
                checks=("halving(height, width, halved)",),
            ),
            contract=(
                "Evaluation mode, with the running statistics: max(z, 0), at most 6 if `relu6`, and of that if "
                "`halved` the largest, bit for bit as efl_batchnorm_eval_f32, efl_relu_forward_f32 or "
                "efl_relu6_forward_f32, and efl_maxpool_forward_f32 one after the other; a NaN may be another. y may "
                "alias x if not halved. EFL_BAD_SHAPE if halved and a plane holds no window."
            ),
        ),
        Signature(
            "batchnorm_relu_backward",
            f"dy[B,C,Z] {_NORM} mean[C] inv_std[C] {_RELU_GRADS} channels<C outs<channels relu6:flag",
            "the backward pass of both forms, from x alone",
            rules=("halved",),
            c=InC(
                f"{_C_NORMED} B C height=H width=W halved:int32 relu6 channels_needed=channels outs dx dweight dbias",
                sizes="batch channels height width",
                checks=("halving(height, width, halved)",),
            ),
            contract=(
                "dy of y's shape. It goes to the elements with z > 0, and z < 6 if `relu6`; in a window to the first "
                "cell with the largest sign(weight) x. dx for channels_needed; it may alias x, and dy if not halved. "
                "dweight and dbias compact for `outs`, among channels_needed."
            ),
        ),
        Signature(
            "groupnorm_relu_forward",
            f"{_NORM} y[B,C,Z]!x mean[B,groups]! inv_std[B,groups]! groups|C eps:real",
            "max(z, 0) or its window maxima, with z normalised by sample and group",
            rules=("halved",),
            c=InC(
                "x weight bias B C height=H width=W halved:int32 groups eps y mean inv_std",
                sizes="batch channels height width; batch groups",
                checks=("halving(height, width, halved)",),
            ),
            contract="The same per sample and group; mean and inv_std [batch, groups].",
        ),
        Signature(
            "groupnorm_relu_backward",
            f"dy[B,C,Z] {_NORM} mean[B,groups] inv_std[B,groups] {_RELU_GRADS} groups|C groups_needed<groups outs<C",
            "dx for groups_needed, dweight and dbias compact for outs, from x alone",
            rules=("halved", "outs_in_groups"),
            packs=True,
            c=InC(
                f"{_C_NORMED} B C height=H width=W halved:int32 groups groups_needed outs dx dweight dbias",
                sizes="batch channels height width; batch groups",
                checks=("halving(height, width, halved)", "members(outs, channels, groups_needed, channels / groups)"),
            ),
            contract="dx for every channel of the groups in `groups_needed`; `outs` all in those groups.",
        ),
        Signature(
            "groupnorm_lanes_forward",
            "x[B,C,I,L] weight[C] bias[C] y[B,C,I,L]!x mean[B,groups,L]! inv_std[B,groups,L]! groups|C relu:flag "
            "eps:real",
            "normalise by sample and group L images side by side, then max(z, 0) if `relu`",
            rules=("x: L >= 1: 1 or more images side by side [argument]",),
            c=InC(
                "shape=efl_norm_lanes(B,C,I,L,groups,relu) x weight bias eps y mean inv_std",
                sizes="batch channels cells lanes; batch lanes groups",
            ),
            contract=(
                "z, or max(z, 0), per image and group of channels / groups channels; mean and inv_std [batch, groups, "
                "lanes]. y may alias x. groups must divide channels, lanes be at least 1."
            ),
        ),
        Signature(
            "groupnorm_lanes_backward",
            "dy[B,C,I,L] x[B,C,I,L] weight[C] bias[C] mean[B,groups,L] inv_std[B,groups,L] dx[B,C,I,L]!x,dy "
            "dweight[C]?! dbias[C]?! groups|C relu:flag",
            "the backward pass, from x alone; dweight and dbias are there both or not at all",
            rules=(
                "x: L >= 1: 1 or more images side by side [argument]",
                "dbias: (dweight is None) == (dbias is None): None if and only if dweight is [argument]",
            ),
            packs=True,
            c=InC(
                "shape=efl_norm_lanes(B,C,I,L,groups,relu) dy x weight bias mean inv_std dx dweight dbias",
                sizes="batch channels cells lanes; batch lanes groups",
            ),
            contract="dx may alias dy or x. dweight and dbias [channels], both or none NULL.",
        ),
        Signature(
            "layernorm_forward",
            "x[B,C,I] weight[C] bias[C] y[B,C,I]!x xhat[B,C,I]?!x inv_std[B,I]! eps:real",
            "normalise each place over its channels",
            c=InC("x weight bias B C inner=I eps y xhat inv_std"),
            contract=(
                "xhat = (x - mean) / sqrt(var + eps) with the statistics of the channels of a position; inv_std "
                "[batch, inner]; y = weight xhat + bias. xhat may be NULL. y or xhat may alias x, not each other."
            ),
        ),
        Signature(
            "layernorm_backward",
            "dy[B,C,I] xhat[B,C,I] weight[C] inv_std[B,I] dx[B,C,I]!dy dweight[outs]! dbias[outs]! outs<C",
            "dx, dweight and dbias compact for outs",
            c=InC("dy xhat weight inv_std B C inner=I outs dx dweight dbias"),
            contract="dx of all channels (dx may alias dy); dweight, dbias compact for `outs`.",
        ),
    ),
    "pool": (
        Signature(
            "maxpool_forward",
            f"x[B,C,H,W] y[B,C,P,Q]! codes:uint8{{B,C,P,Q}}?! {_POOL}",
            "y = window maximum; codes = the winning cell; by y's shape windows may be cut at the end",
            rules=("pool_window", "small_padding", "code_cells"),
            c=InC(f"{_C_MAXPOOL} x y codes", sizes="-", checks=("geometry(*pool)", "codes_fit(*pool)")),
            contract=(
                "codes, if not NULL: one byte per output, the winning cell's kh * kernel_w + kw (first of equals, NaN "
                "wins, as PyTorch)."
            ),
        ),
        Signature(
            "maxpool_backward",
            f"dy[B,C,P,Q] codes:uint8{{B,C,P,Q}} dx[B,C,H,W]! {_POOL} channels<C",
            "dy sent to the winning cells",
            rules=("pool_window", "small_padding", "code_cells"),
            c=InC(
                f"{_C_MAXPOOL} dy codes C channels_needed=channels dx",
                sizes="-",
                checks=("geometry(*pool)", "codes_fit(*pool)", "whole_images(pool->planes, channels)"),
            ),
        ),
        Signature(
            "maxpool_lanes_forward",
            f"x[B,C,H,W,L] y[B,C,P,Q,L]! codes:uint8{{B,C,P,Q,L}}?! {_POOL}",
            "maxpool_forward of L images side by side",
            rules=("pool_window", "small_padding", "code_cells", "x: L >= 1: 1 or more images side by side [argument]"),
            c=InC(
                f"{_C_MAXPOOL} lanes=L x y codes",
                sizes="-",
                checks=("geometry(*pool)", "codes_fit(*pool)", "widened(*pool, lanes)"),
            ),
            contract=(
                "The same of `lanes` images side by side in every cell: x [planes, height, width, lanes], y and codes "
                "alike."
            ),
        ),
        Signature(
            "maxpool_lanes_backward",
            f"dy[B,C,P,Q,L] codes:uint8{{B,C,P,Q,L}} dx[B,C,H,W,L]! {_POOL}",
            "dy sent to the winning cells",
            rules=(
                "pool_window",
                "small_padding",
                "code_cells",
                "dx: L >= 1: 1 or more images side by side [argument]",
            ),
            c=InC(
                f"{_C_MAXPOOL} lanes=L dy codes dx",
                sizes="-",
                checks=("geometry(*pool)", "codes_fit(*pool)", "widened(*pool, lanes)"),
            ),
        ),
        Signature(
            "avgpool_forward",
            f"x[B,C,H,W] y[B,C,P,Q]! {_POOL} count_include_pad:flag",
            "y = window mean",
            rules=("pool_window", "small_padding"),
            c=InC(f"{_C_AVGPOOL} x y", sizes="-", checks=("geometry(*pool)",)),
        ),
        Signature(
            "avgpool_backward",
            f"dy[B,C,P,Q] dx[B,C,H,W]! {_POOL} count_include_pad:flag channels<C",
            "dy shared over the window",
            rules=("pool_window", "small_padding"),
            c=InC(
                f"{_C_AVGPOOL} dy C channels_needed=channels dx",
                sizes="-",
                checks=("geometry(*pool)", "whole_images(pool->planes, channels)"),
            ),
        ),
        Signature(
            "adaptive_avgpool_forward",
            "x[B,C,H,W] y[B,C,M,N]!",
            "y = the means of M x N windows that cover a plane, the longer ones by a cell",
            rules=(
                "x: H >= 1 and W >= 1: planes of 1 or more cells",
                "y: M >= 1 and N >= 1: planes of 1 or more cells",
            ),
            c=InC("pool=efl_adaptive(B*C,H,W,M,N) x y"),
        ),
        Signature(
            "adaptive_avgpool_backward",
            "dy[B,C,M,N] dx[B,C,H,W]! channels<C",
            "dy shared over the windows",
            rules=(
                "dx: H >= 1 and W >= 1: planes of 1 or more cells",
                "dy: M >= 1 and N >= 1: planes of 1 or more cells",
            ),
            c=InC(
                "pool=efl_adaptive(B*C,H,W,M,N) dy C channels_needed=channels dx",
                sizes="planes height width out_height out_width; channels",
                checks=("whole_images(pool->planes, channels)",),
            ),
        ),
    ),
    "elementwise": (
        Signature(
            "relu_forward",
            "x[B,C,*] y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = max(x, 0), NaN kept; one bit per element where x > 0",
            rules=("bytes = (inner + 7) // 8",),
            c=InC("x planes=B*C inner y bits"),
            contract=(
                "y = x > 0 ? x : 0 (NaN stays NaN). bits, if not NULL: [planes][(inner + 7) / 8] bytes, bit j % 8 of "
                "byte j / 8 set where x[plane, j] > 0, padding bits 0. y may alias x."
            ),
        ),
        Signature(
            "relu_backward",
            "dy[B,C,*] bits:uint8{B,C,bytes} dx[B,C,*]!dy channels<C",
            "dx = dy where the bit is set, else 0",
            rules=("bytes = (inner + 7) // 8",),
            c=InC("dy bits B C inner channels_needed=channels dx"),
            contract=(
                "dx = dy where the bit is set, else 0, on the planes [b, c] with c in channels_needed; planes = batch "
                "* channels. dx may alias dy."
            ),
        ),
        Signature(
            "leaky_relu_forward",
            "x[B,C,*] negative_slope:real y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = x where x > 0, else negative_slope * x, NaN kept; one bit per element where x > 0",
            rules=("bytes = (inner + 7) // 8",),
            c=InC("x planes=B*C inner negative_slope y bits"),
            contract=(
                "y = x > 0 ? x : negative_slope * x (NaN stays NaN); bits and what may alias as efl_relu_forward_f32."
            ),
        ),
        Signature(
            "leaky_relu_backward",
            "dy[B,C,*] bits:uint8{B,C,bytes} negative_slope:real dx[B,C,*]!dy channels<C",
            "dx = dy where the bit is set, else negative_slope * dy",
            rules=("bytes = (inner + 7) // 8",),
            c=InC("dy bits B C inner negative_slope channels_needed=channels dx"),
            contract=(
                "dx = dy where the bit is set, else negative_slope * dy; planes and what may alias as "
                "efl_relu_backward_f32."
            ),
        ),
        Signature(
            "relu6_forward",
            "x[B,C,*] y[B,C,*]!x bits:uint8{B,C,bytes}?!",
            "y = min(max(x, 0), 6), NaN kept; one bit per element where 0 < x < 6, for relu_backward",
            rules=("bytes = (inner + 7) // 8",),
            c=InC("x planes=B*C inner y bits"),
            contract=(
                "y = min(max(x, 0), 6) (NaN stays NaN); bits set where 0 < x < 6, as efl_relu_backward_f32 reads them."
                " y may alias x."
            ),
        ),
        Signature(
            "add",
            "a[*] b[*] y[*]!a,b",
            "y = a + b",
            c=InC("a b count=inner y"),
            contract="y = a + b. y may alias a or b.",
        ),
        Signature(
            "mul",
            "a[*] b[*] y[*]!a,b",
            "y = a b",
            c=InC("a b count=inner y"),
            contract="y = a b. y may alias a or b.",
        ),
        Signature(
            "add_channels",
            "y[B,C,*]+ offset[C]",
            "y[:, c] += offset[c]",
            c=InC("offset B C inner y"),
            contract="y[b, c, :] += offset[c].",
            cuda="y offset planes channels inner",
        ),
        Signature(
            "scale_channels",
            "x[B,C,*] scale[B,C] y[B,C,*]!x",
            "y[b, c] = scale[b, c] x[b, c]",
            c=InC("x scale planes=B*C inner y"),
            contract="y = scale[plane] x[plane, :]. y may alias x.",
            cuda="x scale y planes inner",
        ),
        Signature(
            "channel_dot",
            "a[B,C,*] b[B,C,*] out[B,C]!",
            "out[b, c] = sum of a[b, c] b[b, c]",
            c=InC("a b planes=B*C inner out"),
            contract="out[plane] = sum of a[plane, :] b[plane, :].",
        ),
        Signature(
            "scale_places",
            "x[B,C,*] scale[B,*] y[B,C,*]!x",
            "y[b, c] = scale[b] x[b, c], a number for each place",
            c=InC("x scale B C inner y"),
            cuda="x scale y count channels inner",
        ),
        Signature(
            "place_dot",
            "a[B,C,*] b[B,C,*] out[B,*]!",
            "out[b] = sum over c of a[b, c] b[b, c]",
            c=InC("a b B C inner out"),
            cuda="a b out count channels inner",
        ),
        Signature(
            "evaluate",
            "a[*] b[*]? c[*]? d[*]? e[*]? program:int32[K,4] constants:float64[M] y[*]!a,b,c,d,e",
            "y = the expression of the inputs that `program` writes down, value by value",
            rules=("program: 1 <= K <= 59: 1 to 59 steps", "program_steps"),
            c=InC(
                "a b c d e inner program steps=K constants count=M y",
                sizes="inner; each steps count",
                checks=("program_steps(program, steps, count, {a, b, c, d, e})",),
            ),
            contract=(
                "y[i] = the value of the last step. Values 0 to 4 are a[i] to e[i], and value 5 + k is the result of "
                "step k: [operation, first, second, third] in numbers of earlier values. Operations, by their number: "
                "0 constants[first], 1 sum, 2 difference, 3 product, 4 quotient, 5 larger, 6 smaller, 7 power, 8 "
                "whether first < second, 9 whether first <= second, 10 whether they are equal (1 or 0), 11 second "
                "where first is not 0 and else third, 12 exp, 13 log, 14 sqrt, 15 sin, 16 cos, 17 magnitude. NaN stays "
                "in 5 and 6. 1 to 59 steps. EFL_BAD_ARGUMENT for another step, or for an input that is NULL. y may "
                "alias inputs."
            ),
        ),
        Signature(
            "expand",
            "x[R,L] y[R,C,L]!",
            "y[r, c] = x[r], each row C times",
            c=InC("x rows=R copies=C length=L y"),
            cuda="x y count batch channels",
        ),
        Signature(
            "reduce",
            "x[R,C,L] kind:int scale:real y[R,L]!",
            "y[r] = the sum over c of x[r, c] times scale, or the largest or the smallest x[r, c]",
            rules=("kind: 0 <= kind < 3: 0 to 2", "x: C >= 1: at least one value to reduce [arrays]"),
            c=InC("x rows=R values=C length=L kind:int32 scale y"),
            contract=(
                "y[r, l] = over c the sum of x[r, c, l] times scale (kind 0), the largest (1) or the smallest (2); NaN "
                "is larger and smaller than all others."
            ),
            cuda="x y count channels inner kind scale",
        ),
        Signature(
            "fill_zero",
            "x:any[*]!",
            "x = 0",
        ),
    ),
    "activation": (
        Signature(
            "activation_forward",
            "x[*] kind:int beta:real threshold:real y[*]!x",
            "y = f(x), with f of this number in ACTIVATIONS; a softplus has beta and threshold",
            rules=_OF_ACTIVATIONS,
            c=InC("x count=inner kind:int32 beta threshold y"),
            contract=(
                f"y = f(x). kind: {', '.join(f'{number} {name}' for number, name in enumerate(ACTIVATIONS))}. A "
                "softplus alone has beta (above 0) and threshold, else EFL_BAD_ARGUMENT. y may alias x."
            ),
            cuda="x y count kind beta threshold",
        ),
        Signature(
            "activation_backward",
            "dy[B,C,*] saved[B,C,*] kind:int beta:real threshold:real dx[B,C,*]!dy channels<C",
            "dx = dy f'(x); saved is y of a sigmoid or tanh, and x of the others",
            rules=_OF_ACTIVATIONS,
            c=InC("dy saved B C inner kind:int32 beta threshold channels_needed=channels dx"),
            contract=(
                "dx = dy f'(x) on the planes [b, c] with c in channels_needed; saved is y of kinds 0 and 1, x of the "
                "others. dx may alias dy."
            ),
            cuda="dy saved dx chosen:Chosen batch kind beta threshold",
        ),
        Signature(
            "elu_forward",
            "x[*] alpha:real y[*]!x",
            "y = x where x > 0, else alpha (e^x - 1), NaN kept",
            c=InC("x count=inner alpha y"),
            cuda="x y count alpha",
        ),
        Signature(
            "elu_backward",
            "dy[B,C,*] x[B,C,*] alpha:real dx[B,C,*]!dy channels<C",
            "dx = dy where x > 0, else alpha e^x dy",
            c=InC("dy x B C inner alpha channels_needed=channels dx"),
            cuda="dy x dx chosen:Chosen batch alpha",
        ),
        Signature(
            "prelu_forward",
            "x[B,C,*] weight[M] y[B,C,*]!x",
            "y = x where x > 0, else weight x",
            rules=("weight: M in (1, C): 1 value, or {C}",),
            c=InC("x weight weights=M B C inner y", sizes="batch channels inner"),
            contract="y = x > 0 ? x : weight x, with one weight, or one for each channel. y may alias x.",
        ),
        Signature(
            "prelu_backward",
            "dy[B,C,*] x[B,C,*] weight[M] dx[B,C,*]!dy dweight[outs]! channels<C outs<M",
            "dx for channels, dweight compact for outs",
            rules=("weight: M in (1, C): 1 value, or {C}",),
            c=InC(
                "dy x weight weights=M B C inner channels_needed=channels outs dx dweight", sizes="batch channels inner"
            ),
            contract=(
                "dx for channels_needed (dx may alias dy); dweight compact for `outs`: sums of dy x where x is not "
                "positive."
            ),
        ),
    ),
    "arrange": (
        Signature(
            "put_channels",
            "x[B,C,*] first:int y[B,D,*]+",
            "y[:, first : first + C] = x",
            rules=("first: 0 <= first <= D - C: 0 to {D - C} [shape]",),
            c=InC("x B C inner first all_channels=D y", sizes="batch channels inner; batch all_channels inner"),
            contract=(
                "y[b, first + c, :] = x[b, c, :] of y [batch, all_channels, inner]; the rest of y is left alone. And "
                "back."
            ),
        ),
        Signature(
            "get_channels",
            "y[B,D,*] first:int x[B,C,*]!",
            "x = y[:, first : first + C]",
            rules=("first: 0 <= first <= D - C: 0 to {D - C} [shape]",),
            c=InC("y B all_channels=D inner first C x", sizes="batch channels inner; batch all_channels inner"),
        ),
        Signature(
            "pad_planes",
            "x[B,C,H,W] top:int left:int y[B,C,M,N]!",
            "y = x with its corner at (top, left), and zeros around it",
            rules=("top: 0 <= top <= M - H: 0 to {M - H} [shape]", "left: 0 <= left <= N - W: 0 to {N - W} [shape]"),
            c=InC("room=efl_room(B*C,H,W,top,left,M,N) x y", sizes="planes height width; planes out_height out_width"),
            contract="y = x, and zeros around it; and x of y.",
        ),
        Signature(
            "crop_planes",
            "y[B,C,M,N] top:int left:int x[B,C,H,W]!",
            "x = the part of y with its corner at (top, left)",
            rules=("top: 0 <= top <= M - H: 0 to {M - H} [shape]", "left: 0 <= left <= N - W: 0 to {N - W} [shape]"),
            c=InC("room=efl_room(B*C,H,W,top,left,M,N) y x", sizes="planes height width; planes out_height out_width"),
        ),
        Signature(
            "upsample_forward",
            "x[B,C,H,W] scale:pair y[B,C,M,N]!",
            "y = x, each cell repeated",
            rules=(
                "scale: scale[0] >= 1 and scale[1] >= 1: two integers, at least 1",
                "scale: M == H * scale[0] and N == W * scale[1]: how often ({H}, {W}) goes into ({M}, {N}) [arrays]",
            ),
            c=InC("scaling=efl_scaling(B*C,H,W,scale) x y", sizes="planes height width scale_h scale_w"),
            contract="y = x with each cell repeated; and dx, the sums of dy over the cells that repeat one.",
        ),
        Signature(
            "upsample_backward",
            "dy[B,C,M,N] scale:pair dx[B,C,H,W]!",
            "dx = the sum of dy over the cells that repeat one",
            rules=(
                "scale: scale[0] >= 1 and scale[1] >= 1: two integers, at least 1",
                "scale: M == H * scale[0] and N == W * scale[1]: how often ({H}, {W}) goes into ({M}, {N}) [arrays]",
            ),
            c=InC("scaling=efl_scaling(B*C,H,W,scale) dy dx", sizes="planes height width scale_h scale_w"),
        ),
        Signature(
            "resample_forward",
            "x[B,C,H,W] mode:int top:int left:int y[B,C,M,N]!",
            "y = x sampled anew in the way of this number in RESAMPLINGS",
            rules=_RESAMPLED,
            packs=True,
            c=InC(
                "resampling=efl_resampling(B*C,H,W,M,N,top,left,mode) x y",
                sizes="planes height width; planes out_height out_width",
            ),
            contract=(
                "mode 0: bilinear interpolation by half pixels; 1: bilinear interpolation with the corners of x and y "
                "at one place; 2, 3, 4: x with its corner at (top, left), and around it the cells mirrored at the "
                "edge, the nearest cell, or the cells of the other side; 5: the columns in reverse. EFL_BAD_ARGUMENT "
                "for another mode, and for room that is negative. (torch.nn.functional.interpolate and pad)"
            ),
        ),
        Signature(
            "resample_backward",
            "dy[B,C,M,N] mode:int top:int left:int dx[B,C,H,W]!",
            "dx = for each cell the sum of dy over the cells that it is part of, by its weight in each",
            rules=tuple(rule.replace("x:", "dx:", 1).replace("y:", "dy:", 1) for rule in _RESAMPLED),
            packs=True,
            c=InC(
                "resampling=efl_resampling(B*C,H,W,M,N,top,left,mode) dy dx",
                sizes="planes height width; planes out_height out_width",
            ),
        ),
        Signature(
            "transpose",
            "x[B,R,C,*] y[B,C,R,*]!",
            "y[b, c, r] = x[b, r, c]",
            c=InC("x B rows=R cols=C inner y"),
            contract="y[b, c, r, :] = x[b, r, c, :] of x [batch, rows, cols, inner].",
        ),
        Signature(
            "embedding_forward",
            "ids[B,L] weight[V,F] y[B,F,L]!",
            "y[b, :, l] = weight[ids[b, l]], ids being whole numbers",
            rules=("rows_of_table",),
            c=InC(
                "ids B length=L weight rows=V features=F y",
                sizes="batch length features; rows features",
                checks=("whole_rows(ids, batch * length, rows)",),
            ),
            contract=(
                "y[b, d, t] = weight[ids[b, t], d] of weight [rows, features], y [batch, features, length]. "
                "EFL_BAD_INDEX if an id is not a whole number in [0, rows)."
            ),
        ),
        Signature(
            "embedding_stored",
            f"ids[B,L] codes:uint8[V,F,K] {_STORED.format('V', 'F')} y[B,F,L]!",
            "y[b, :, l] = weight[ids[b, l]], with the weight that widen_weight gives",
            rules=("stored_bytes", "rows_of_table"),
            c=InC(
                "ids B length=L codes rows=V features=F bytes=K row_scale col_scale y",
                sizes="batch length features; rows features bytes",
                checks=(_STORED_CHECK, "whole_rows(ids, batch * length, rows)"),
            ),
            contract=(
                "y[b, d, t] = weight[ids[b, t], d] of the weight [rows, features] of the codes, as "
                "efl_widen_weight_f32 reads them. EFL_BAD_INDEX as above."
            ),
        ),
        Signature(
            "embedding_backward",
            "dy[B,F,L] ids[B,L] dweight[V,cols]! padding:int cols<F",
            "at each row the sum of dy[b, cols, l] over the places with its id; 0 at row `padding`, -1 being none",
            rules=("rows_of_table", "padding: -1 <= padding < V: -1 to {V - 1}"),
            c=InC(
                "dy ids B features=F length=L rows=V padding:int32 cols dweight",
                sizes="batch length features; rows features",
                checks=("whole_rows(ids, batch * length, rows)",),
            ),
            contract=(
                "dweight [rows, |cols|], compact for cols: at each row the sum of dy[b, cols, t] over the positions "
                "with its id, images and positions in order; 0 at row `padding` (-1: no row). EFL_BAD_INDEX as above. "
                "O(rows |cols| + batch length |cols|)."
            ),
        ),
    ),
    "recurrent": (
        Signature(
            "to_steps",
            "x[B,C,T] y[T,B,C]!",
            "y[t, b, c] = x[b, c, t]",
            c=InC("x B C steps=T y"),
            contract=(
                "y[t, b, c] = x[b, c, t] of x [batch, channels, steps]; and back, x[b, c, t] = y[passed + t, b, c]."
            ),
        ),
        Signature(
            "from_steps",
            "y[S,B,C] x[B,C,T]!",
            "x[b, c, t] = y[S - T + t, b, c]",
            rules=("y: S >= T: at least the {T} steps of x [arrays]",),
            c=InC("y passed=S-T B C steps=T x", sizes="each passed steps; passed+steps batch channels"),
        ),
        Signature(
            "rnn_forward",
            "gates[T,B,H]+ weight[H,H] bias[H]? relu:flag states[S,B,H]!",
            "states from states[0] = 0 on; gates, what the input gives them, become the states after each step",
            rules=("states: S == T + 1: {T + 1} steps [arrays]",),
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) weight bias relu:int32 gates states",
                sizes="each steps batch units; steps+1 batch units; units units",
            ),
            contract=(
                "weight [units, units], bias [units] or NULL. gates [steps, batch, units]: what the input gives; on "
                "return as states[1:]. states[t + 1] = tanh(gates[t] + weight states[t] + bias), or the rectifier of "
                "the sum unless relu is 0; states [steps + 1, batch, units] are written from states[0] = 0 on."
            ),
        ),
        Signature(
            "rnn_backward",
            "dy[T,B,H] gates[T,B,H]+ weight[H,H] relu:flag units<H",
            "gates become the gradients of what the input gave them; 0 where units are not listed",
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) dy weight relu:int32 listed=units gates",
                sizes="each steps batch units; steps+1 batch units; units units",
            ),
            contract=(
                "dy [steps, batch, units] of states[1:]. gates, as the forward pass left them, become the gradients of "
                "the sums. Of units that are not in `listed` they are 0, and no gradient passes through them."
            ),
        ),
        Signature(
            "gru_forward",
            "gates[T,B,G]+ weight[G,H] bias[G]? hidden[T,B,H]?! states[S,B,H]!",
            "states from states[0] = 0 on; gates, what the input gives them, become r, z, n; hidden: weight states + "
            "bias of n",
            rules=(
                "weight: G == 3 * H: 3 rows for each of {H} units [arrays]",
                "states: S == T + 1: {T + 1} steps [arrays]",
            ),
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) weight bias gates hidden states",
                sizes="each steps batch units; steps+1 batch 3 units; 3 units units",
            ),
            contract=(
                "weight [3 units, units], bias [3 units] or NULL. gates [steps, batch, 3 units]: what the input gives "
                "each gate; on return r, z, n. With a = weight states[t] + bias: n = tanh(gates_n + r a_n), states[t +"
                " 1] = (1 - z) n + z states[t]. states [steps + 1, batch, units] are written from states[0] = 0 on; "
                "hidden [steps, batch, units], or NULL: a_n."
            ),
        ),
        Signature(
            "gru_backward",
            "dy[T,B,H] gates[T,B,G]+ hidden[T,B,H] states[S,B,H] weight[G,H] dhidden[T,B,G]! units<H",
            "gates become the gradients of what the input gave them, dhidden those of weight states + bias; 0 where "
            "units are not listed",
            rules=(
                "weight: G == 3 * H: 3 rows for each of {H} units [arrays]",
                "states: S == T + 1: {T + 1} steps [arrays]",
            ),
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) dy weight hidden states listed=units gates dhidden",
                sizes="each steps batch units; steps+1 batch 3 units; 3 units units",
            ),
            contract=(
                "dy [steps, batch, units] of states[1:]. gates, as the forward pass left them, become the gradients of"
                " what the input gave them; dhidden [steps, batch, 3 units] is written: those of weight states[t] + "
                "bias. Of units that are not in `listed` both are 0, and no gradient passes through their gates."
            ),
        ),
        Signature(
            "lstm_forward",
            "gates[T,B,G]+ weight[G,H] bias[G]? cells[S,B,H]! states[S,B,H]!",
            "cells and states from 0 on; gates, what the input gives them, become i, f, g, o",
            rules=(
                "weight: G == 4 * H: 4 rows for each of {H} units [arrays]",
                "states: S == T + 1: {T + 1} steps [arrays]",
            ),
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) weight bias gates cells states",
                sizes="each steps batch units; steps+1 batch 4 units; 4 units units",
            ),
            contract=(
                "weight [4 units, units], bias [4 units] or NULL; gates [steps, batch, 4 units] as above, on return i,"
                " f, g, o. cells[t + 1] = f cells[t] + i g, states[t + 1] = o tanh(cells[t + 1]), both [steps + 1, "
                "batch, units] from 0 on."
            ),
        ),
        Signature(
            "lstm_backward",
            "dy[T,B,H] gates[T,B,G]+ cells[S,B,H] weight[G,H] units<H",
            "gates become the gradients of what was added up for them; 0 where units are not listed",
            rules=(
                "weight: G == 4 * H: 4 rows for each of {H} units [arrays]",
                "cells: S == T + 1: {T + 1} steps [arrays]",
            ),
            packs=True,
            c=InC(
                "shape=efl_recurrence(T,B,H) dy weight cells listed=units gates",
                sizes="each steps batch units; steps+1 batch 4 units; 4 units units",
            ),
            contract="gates become the gradients of what was added up for them; dy and `listed` as above.",
        ),
    ),
    "attention": (
        Signature(
            "attention_forward",
            "qkv[B,C,T] heads|E causal:flag y[B,E,T]! shares[B,heads,T,T]?!",
            "y[:, i] = sum over j of shares[j, i] v[:, j], shares of a head the softmax over j of k[:, j] . q[:, i] / "
            "sqrt(its channels)",
            rules=("qkv: C == 3 * E: queries, keys and values of {E} channels [arrays]",),
            packs=True,
            c=InC(
                "shape=efl_attention(B,E,T,heads,causal) qkv y shares",
                sizes="each batch channels places; batch 3 channels places; batch heads places places",
            ),
            contract=(
                "qkv [batch, 3 channels, places]: queries, keys and values one below the other. Of every head with s "
                "channels the shares [batch, heads, places (of keys j), places (of queries i)] = softmax over j of "
                "k[:, j] . q[:, i] / sqrt(s), kept unless NULL; y [batch, channels, places] = sum over j of shares[j, "
                "i] v[:, j]. heads must divide channels."
            ),
        ),
        Signature(
            "attention_backward",
            "dy[B,E,T] qkv[B,C,T] shares[B,heads,T,T] heads|E causal:flag dqkv[B,C,T]! heads_needed<heads",
            "dqkv of the heads needed; the rest of dqkv is left alone",
            rules=("qkv: C == 3 * E: queries, keys and values of {E} channels [arrays]",),
            packs=True,
            c=InC(
                "shape=efl_attention(B,E,T,heads,causal) dy qkv shares heads_needed dqkv",
                sizes="each batch channels places; batch 3 channels places; batch heads places places",
            ),
            contract="dqkv of the heads in heads_needed; the rest of it is left alone.",
        ),
    ),
    "sdpa": (
        Signature(
            "sdpa_forward",
            f"qkv[B,C,T] bias[masks,T,T]? state:int64[3]? {_HEADS} y[B,E,T]! lse[B,heads,T]?!",
            "y[:, i] = sum over j of shares[j, i] v[:, j], shares of a head the softmax over j of scale k[:, j] . q[:, "
            "i] + bias[j, i], times 0 or keep_scale by the stream's words where state is given; several heads may share"
            " keys and values; lse: the logarithms of the sums of exp",
            rules=_SDPA_RULES,
            packs=True,
            c=InC(
                f"shape={_C_SDPA} qkv bias state y lse",
                sizes="each batch channels places; batch 3 channels places; batch heads places places",
            ),
            contract=(
                "qkv [batch, channels + 2 channels / heads kv_heads, places]: queries, keys and values one below the "
                "other. A run of heads / kv_heads heads of queries has one head of keys and values. y [batch, channels,"
                " places]; lse [batch, heads, places (of queries)], unless NULL. bias [masks, places (of keys), places "
                "(of queries)], or NULL, has one for each run of heads / masks heads. Nothing is dropped where state is"
                " NULL."
            ),
        ),
        Signature(
            "sdpa_backward",
            f"dy[B,E,T] qkv[B,C,T] bias[masks,T,T]? state:int64[3]? lse[B,heads,T] {_HEADS} dqkv[B,C,T]! "
            "dbias[masks,T,T]?! kv_needed<kv_heads",
            "dqkv of the heads of keys and values that are needed, and of their queries; the rest of dqkv is left "
            "alone. dbias: the sum over the batch and the heads that share a bias, if all heads are needed",
            rules=_SDPA_RULES,
            packs=True,
            c=InC(
                f"shape={_C_SDPA} dy qkv bias state lse kv_needed dqkv dbias",
                sizes="each batch channels places; batch 3 channels places; batch heads places places",
            ),
            contract=(
                "dqkv of the heads in kv_needed and of the queries that share them; the rest of it is left alone. The "
                "shares are computed again from lse, and dropped again from state. dbias, if not NULL, is the sum over "
                "the batch and over the heads that share a bias. It is whole only if kv_needed is."
            ),
        ),
    ),
    "rms_norm": (
        Signature(
            "rmsnorm_forward",
            "x[B,C,I] weight[W] y[B,C,I]!x inv_rms[B,G,I]! offset:real eps:real",
            "normalise each run of W channels of a place by its root mean square: y = (offset + weight) x inv_rms",
            rules=("x: C == G * W: {G} runs of {W} channels [arrays]",),
            c=InC("x weight B groups=G width=W inner=I offset eps y inv_rms"),
            contract=(
                "x, y [batch, groups, width, inner]; inv_rms [batch, groups, inner] = 1 / sqrt(mean of x^2 + eps) over "
                "`width`; y = (offset + weight) x inv_rms. y may alias x."
            ),
        ),
        Signature(
            "rmsnorm_backward",
            "dy[B,C,I] x[B,C,I] weight[W] inv_rms[B,G,I] offset:real dx[B,C,I]!dy dweight[outs]! outs<W",
            "dx, and dweight compact for outs",
            rules=("x: C == G * W: {G} runs of {W} channels [arrays]",),
            c=InC("dy x weight inv_rms B groups=G width=W inner=I offset outs dx dweight"),
            contract="dx of all channels (dx may alias dy); dweight compact for `outs`.",
        ),
    ),
    "rotary": (
        Signature(
            "rotary",
            "x[B,C,I] cos[W,I] sin[W,I] back:flag y[B,C,I]!x",
            "rotate each run of W channels: y[d] = cos[d] x[d] - sin[d] x[d + W / 2] in its first half, cos[d] x[d] + "
            "sin[d] x[d - W / 2] in its second; back: the transposed map, which is the gradient",
            rules=("x: W >= 2 and W == W // 2 * 2 and C == C // W * W: channels in runs of {W}, and {W} even",),
            c=InC("x cos sin B C inner=I width=W back y", sizes="batch channels inner; width inner"),
            contract=(
                "Channels in runs of `width`, each rotated by cos and sin [width, inner]. y may alias x. "
                "EFL_BAD_SHAPE unless width is even and divides the channels."
            ),
        ),
    ),
    "dropout": (
        Signature(
            "dropout",
            "x[B,C,*] state:int64[3] node:int threshold:int scale:real whole:flag y[B,C,*]!x channels<C",
            "y = x scale where the stream's word is `threshold` or more, else x 0, of values or of whole planes, for "
            "channels; state: key, step, first example. Its own backward pass",
            rules=(
                "node: 0 <= node < 2147483648: 0 to 2147483647",
                "threshold: 0 <= threshold < 4294967296: 0 to 4294967295",
            ),
            c=InC("dropout=efl_dropout(B,C,inner,node,threshold,scale,whole) x state channels_needed=channels y"),
            contract=(
                "y = x scale where it is kept, x 0 elsewhere, on the planes [b, c] with c in channels_needed. Backward"
                " is the same of dy. y may alias x."
            ),
        ),
        Signature(
            "uniform",
            "y[B,C,*]! state:int64[3] node:int",
            "y = (2 (word >> 9) + 1) / 2^24, uniform in (0, 1), by the words of the stream; state as in dropout",
            rules=("node: 0 <= node < 2147483648: 0 to 2147483647",),
            c=InC("state batch=B count=C*inner node y"),
            contract=(
                "y [batch, count] = (2 (word >> 9) + 1) / 2^24, where value e of example b has word e of the stream of"
                " efl_dropout. Every backend gives equal bits."
            ),
            cuda="y state batch channels inner node",
        ),
        Signature(
            "count_step",
            "state:int64[3]+",
            "state[1] += 1, the next step of a stream",
            c=InC("state", hand="checks"),
            contract="state[1] += 1: the next step of a stream, state as in efl_dropout.",
        ),
    ),
    "loss": (
        Signature(
            "softmax_xent",
            "logits[B,K] labels[B]<K dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "loss += summed cross-entropy; correct += hits; dlogits = (softmax - onehot) / B",
            c=InC("logits labels B classes=K dlogits loss correct"),
            contract=(
                "Mean softmax cross-entropy over the batch. *loss += sum of the losses (not the mean); *correct += "
                "rows whose first largest logit is the label. dlogits, if not NULL: (softmax - onehot) / batch; may "
                "alias logits. EFL_BAD_INDEX if a label is outside [0, classes)."
            ),
        ),
        Signature(
            "cross_entropy",
            "logits[B,K] labels[B]<K weight[K]? smoothing:real dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "the same with weights of classes and smoothed labels; the mean is by the weights of the labels",
            rules=("smoothing: 0 <= smoothing <= 1: 0 to 1",),
            c=InC("logits labels weight B classes=K smoothing dlogits loss correct"),
            contract=(
                "The same with a weight for each class [classes], NULL for 1, and label smoothing: a label gets 1 - "
                "smoothing, and all classes share the rest. Of a row, sum over c of a_c times the loss that label c "
                "would have, a_c = smoothing weight_c / classes, and (1 - smoothing) weight_c more for its label; the "
                "mean divides by the sum of the labels' weights. EFL_BAD_ARGUMENT unless 0 <= smoothing <= 1. "
                "(torch.nn.functional.cross_entropy)"
            ),
        ),
        Signature(
            "place_cross_entropy",
            "logits[B,K,L] labels:int32[N,T] index[M]<N first:int place:int weight[K]? smoothing:real ignored:int "
            "dlogits[B,K,L]?!logits loss:float64[1]+ correct:int64[1]+",
            "cross_entropy of every place, with labels[index[first + b], place + l]; "
            "a place counts if its label is a class, not ignored",
            rules=(
                "smoothing: 0 <= smoothing <= 1: 0 to 1",
                "first: 0 <= first <= M - B: 0 to {M - B} [shape]",
                "place: 0 <= place <= T - L: 0 to {T - L} [shape]",
            ),
            c=InC(
                "logits labels rows=N length=T ids=index indices=M first place weight B classes=K places=L smoothing "
                "ignored dlogits loss correct",
                sizes="batch classes places; rows length; indices length",
            ),
            contract=(
                "cross_entropy of every place of logits [batch, classes, places], which are the places from `place` "
                "on of the examples from `first` on of all [indices], each of `length` places. The label of place p "
                "of example b is labels[ids[first + b], place + p], of [rows, length]. A place counts unless its "
                "label is outside [0, classes) or is `ignored`. *loss += sum over the places that count; the mean "
                "divides by the sum of the labels' weights of all places of all [indices]. dlogits, if not NULL: the "
                "gradient of the mean, 0 at places that do not count; may alias logits. "
                "(torch.nn.functional.cross_entropy with ignore_index)"
            ),
        ),
        Signature(
            "binary_cross_entropy",
            "logits[B,K] targets[B,K] pos_weight[K]? dlogits[B,K]?!logits loss:float64[1]+ correct:int64[1]+",
            "loss += of each row its mean cross-entropy of K decisions; correct += right ones at logit 0",
            c=InC("logits targets pos_weight B outputs=K dlogits loss correct", empty="K"),
            contract=(
                "A decision for each output, targets in [0, 1]: with p a sigmoid of the logit, -(pos_weight t log p + "
                "(1 - t) log(1 - p)), pos_weight [outputs] or NULL for 1. An example's loss is the mean over its "
                "outputs; *loss += sum of the examples' losses; *correct += outputs whose logit is above 0 where the "
                "target is above .5, or neither. dlogits, if not NULL: the gradient of the mean over all [batch, "
                "outputs]; may alias logits. (torch.nn.BCEWithLogitsLoss)"
            ),
        ),
        Signature(
            "squared_error",
            "y[B,K] targets[B,K] dy[B,K]?!y loss:float64[1]+",
            "loss += of each row its mean squared error; dy = the gradient of their mean",
            c=InC("y targets B outputs=K dy loss", empty="K"),
            contract=(
                "An example's loss is the mean of (y - t)^2 over its outputs, *loss += their sum; dy, if not NULL: the"
                " gradient of the mean over all [batch, outputs]; may alias y."
            ),
        ),
        Signature(
            "absolute_error",
            "y[B,K] targets[B,K] dy[B,K]?!y loss:float64[1]+",
            "loss += of each row its mean absolute error; dy = the gradient of their mean, 0 where y is its target",
            c=InC("y targets B outputs=K dy loss", empty="K"),
            contract="squared_error with |y - t| in place of its square. (torch.nn.L1Loss)",
        ),
        Signature(
            "huber",
            "y[B,K] targets[B,K] delta:real dy[B,K]?!y loss:float64[1]+",
            "the same of Huber's loss, linear beyond delta",
            rules=("delta: delta > 0: a number above 0",),
            c=InC("y targets B outputs=K delta dy loss", empty="K"),
            contract=(
                "The same of (y - t)^2 / 2 where |y - t| <= delta, delta (|y - t| - delta / 2) elsewhere. "
                "EFL_BAD_ARGUMENT unless delta is above 0. (torch.nn.HuberLoss)"
            ),
        ),
    ),
    "update": (
        Signature(
            "sum_squares",
            "x[*] total:float64[1]+",
            "total += sum of x^2 in float64",
            c=InC("x count=inner total"),
            contract="*total += sum of x^2, in float64, in an order that depends on count alone.",
        ),
        Signature(
            "sum_squared_changes",
            "x[*] before[*] total:float64[1]+ copy[*]?!",
            "total += sum of (x - before)^2 in float64, and copy = x if it is given",
            c=InC("x before count=inner total copy"),
            contract=(
                "*total += sum of (x - before)^2, in float64, in an order that depends on count alone; copy, if not"
                " NULL: x, written past the caches where it is long."
            ),
        ),
        Signature(
            "add_scaled",
            "total:float64[*]+ x[*] factors:float64[4] second[*]? third[*]? fourth[*]?",
            "total += factors[0] x, then the others that are given times their factors, in float64, each product "
            "rounded first",
            c=InC("total x count=inner factors second third fourth"),
            contract=(
                "total[i] += factors[0] * x[i], then factors[1] * second[i], factors[2] * third[i] and "
                "factors[3] * fourth[i], in float64, without the arrays that are null: each product is rounded, then "
                "the sum."
            ),
            cuda="total x factors second third fourth count",
        ),
        Signature(
            "clip_scale",
            "total:float64[1] max_norm:real scale[1]!",
            "scale = min(1, max_norm / (sqrt(total) + 1e-6))",
            rules=("max_norm: max_norm >= 0: a number >= 0",),
            c=InC("total:double max_norm:double scale", hand="checks binding"),
            contract="*scale = min(1, max_norm / (sqrt(total) + 1e-6)) (torch.nn.utils.clip_grad_norm_).",
        ),
        Signature(
            "sgd",
            "w[R,C,K]+ grad{rows,cols,K} hyper[4] rows<R cols<C scale[1]? velocity{rows,cols,K}?+ centre{rows,cols,K}? "
            "linear{rows,cols,K}?",
            "one step of SGD on w[rows, cols]; hyper in HYPER order",
            rules=(
                "velocity: hyper[1] == 0 or velocity is not None: an array, because momentum is {hyper[1]} [run]",
                "centre: hyper[3] == 0 or centre is not None: an array, because pull is {hyper[3]} [run]",
            ),
            c=InC("w n_rows=R n_cols=C inner=K rows cols grad sgd=hyper:efl_sgd scale velocity centre linear"),
            contract=(
                "In place on the block w[rows, cols, :] of w [n_rows, n_cols, inner]; everything else untouched. "
                "Compact arrays [|rows|, |cols|, inner]: grad, and where not NULL velocity, centre, linear.\n"
                "  g = *scale * grad + weight_decay w + pull (w - centre) + linear ; v = momentum v + g ; w -= lr "
                "(momentum ? v : g)\n"
                "scale NULL means 1. velocity may be NULL only if momentum is 0, and is then neither read nor written;"
                " centre only if pull is 0. (torch.optim.SGD, dampening 0; start with v = 0.)"
            ),
        ),
        Signature(
            "nesterov",
            "w[R,C,K]+ grad{rows,cols,K} hyper[4] rows<R cols<C velocity{rows,cols,K}+ scale[1]? centre{rows,cols,K}? "
            "linear{rows,cols,K}?",
            "one step of SGD with Nesterov's momentum on w[rows, cols]; hyper in HYPER order",
            rules=("centre: hyper[3] == 0 or centre is not None: an array, because pull is {hyper[3]} [run]",),
            c=InC("w n_rows=R n_cols=C inner=K rows cols grad sgd=hyper:efl_sgd velocity scale centre linear"),
            contract=(
                "The same with Nesterov's momentum: w -= lr (g + momentum v), v the new one. velocity is never NULL."
            ),
        ),
        Signature(
            "begin_adam",
            "settings:float64[7] steps:int64[1]+ rates[9]!",
            "steps += 1; rates are those of that step, in ADAM_RATES order; settings in ADAM order",
            rules=("moments",),
            c=InC("adam=settings:efl_adam steps rates:efl_adam_rates", hand="checks"),
            contract=(
                "++*steps, and the rates of that step, computed in float64. Once a step, before it. EFL_BAD_ARGUMENT "
                "unless both betas are in [0, 1), epsilon is above 0 and *steps >= 0."
            ),
        ),
        Signature(
            "adam",
            "w[R,C,K]+ grad{rows,cols,K} rates[9] rows<R cols<C mean{rows,cols,K}+ square{rows,cols,K}+ scale[1]? "
            "centre{rows,cols,K}? linear{rows,cols,K}?",
            "one step of Adam or AdamW on w[rows, cols]; rates are begin_adam's",
            rules=("centre: rates[8] == 0 or centre is not None: an array, because pull is {rates[8]} [run]",),
            c=InC("w n_rows=R n_cols=C inner=K rows cols grad rates:efl_adam_rates mean square scale centre linear"),
            contract=(
                "One step of Adam on the block w[rows, cols, :], as efl_sgd_f32 of blocks and arrays; t steps have "
                "begun.\n"
                "  g = *scale * grad + decay w + pull (w - centre) + linear ; w *= kept (AdamW)\n"
                "  mean += (1 - beta1) (g - mean) ; square = beta2 square + (1 - beta2) g^2\n"
                "  w -= lr / (1 - beta1^t) mean / (sqrt(square) / sqrt(1 - beta2^t) + epsilon)\n"
                "centre may be NULL only if pull is 0. (torch.optim.Adam and AdamW; start with mean = square = 0 and "
                "*steps = 0.)"
            ),
        ),
    ),
    "growth": (
        Signature(
            "keep_largest",
            "grad[*] first:int exists:uint8[E] count:int magnitudes[M]+ places:int32[M]+ filled:int32[1]+ smallest[1]+",
            "appends |grad| and the places from `first` on that do not exist; where there is no room the largest stay",
            rules=(
                "first: 0 <= first <= min(8 * E, 2147483648) - inner: 0 to {min(8 * E, 2147483648) - inner} [shape]",
                "count: 0 <= count <= M - 16: 0 to {M - 16} [shape]",
                "filled[0]: first == 0 or 0 <= filled[0] <= M: 0 to {M} [run]",
            ),
            c=InC(
                "grad size=inner first exists exists_bytes=E count magnitudes places capacity=M filled smallest",
                sizes="each size first exists_bytes count capacity",
            ),
            contract=(
                "Look at the next part of a parameter's gradient: grad[i] belongs to coordinate first + i. Coordinates"
                " whose bit of `exists` is set (bit c % 8 of byte c / 8; [exists_bytes]) are passed over. Of the "
                "others |grad| and the coordinate are appended to magnitudes and places [capacity], NaN as infinity. "
                "Before 16 values of the part for which there is no room the list shrinks: its `count` largest stay, "
                "of equal ones those with lower coordinates, in order, and from then on only what is larger than "
                "*smallest, the smallest of them, is appended. *filled: how many there are; at first == 0 the list "
                "begins anew. Parts come in order. EFL_BAD_SHAPE unless 0 <= count <= capacity - 16 and first + size "
                "<= 8 exists_bytes, and coordinates are below 2^31; EFL_BAD_ARGUMENT unless 0 <= *filled <= capacity."
            ),
        ),
        Signature(
            "largest_places",
            "magnitudes[M] places:int32[M] filled:int32[1] found:int32[K]!",
            "found = the places of the K largest of the first `filled` magnitudes, in order; of equals the first",
            rules=("filled[0]: K <= filled[0] <= M: {K} to {M} [run]",),
            c=InC("magnitudes places capacity=M filled count=K found", sizes="capacity; count"),
            contract=(
                "found [count] = the positions of the `count` largest of the first *filled magnitudes, of equal ones "
                "the first, in order. EFL_BAD_ARGUMENT unless count <= *filled <= capacity."
            ),
        ),
    ),
    "parameters": (
        Signature(
            "take_axes",
            "w:word[R,C,K] rows<R cols<C values:word{rows,cols,K}!",
            "values = w[rows, cols, :]",
            c=InC("w n_rows=R n_cols=C inner=K rows cols values"),
            contract="values [|rows|, |cols|, inner] = w[rows, cols, :].",
        ),
        Signature(
            "put_axes",
            "w:word[R,C,K]+ rows<R cols<C values:word{rows,cols,K}",
            "w[rows, cols, :] = values",
            c=InC("w n_rows=R n_cols=C inner=K rows cols values"),
            contract="w[rows, cols, :] = values; everything else untouched.",
        ),
        Signature(
            "take_flat",
            "w:word{N} ids:uint32<N values:word{ids}!",
            "values = w.flat[ids]",
            c=InC("w size=N ids count=len(ids) values", sizes="size; count"),
        ),
        Signature(
            "put_flat",
            "w:word{N}+ ids:uint32<N values:word{ids}",
            "w.flat[ids] = values",
            c=InC("w size=N ids count=len(ids) values", sizes="size; count"),
        ),
        Signature(
            "permute",
            "values[N] order:uint32[N] permuted[N]!",
            "permuted = values[order], in any order",
            rules=("places",),
            c=InC("values order count=N permuted", hand="binding"),
            contract="permuted[i] = values[order[i]], in any order. EFL_BAD_INDEX if one is not below count.",
        ),
    ),
    "mask": (
        Signature(
            "encode_mask",
            "bits:uint8{N} ones:int code:uint8[S]! size:int64[1]!",
            "the last size bytes of code are the code of bits, each 0 or 1, of which `ones` are 1",
            rules=(
                "bits: N <= 1099511627776: at most 2^40 values",
                "ones: 0 <= ones <= N: 0 to {N}",
                "code: S >= 16 + (N + 7) // 8 * 4: at least {16 + (N + 7) // 8 * 4} bytes [argument]",
            ),
            c=InC("bits n=N ones code room=S size", sizes="each n room"),
            contract=(
                "The code of bits [n], each 0 or 1, of which `ones` are 1: the last *size bytes of code [room]; those "
                "before them are left alone. `ones` is not checked: with another number the code is that of no bits. "
                "EFL_BAD_SHAPE if n is over 2^40, EFL_BAD_ARGUMENT if ones is not in [0, n] or room below 16 + 4 "
                "ceil(n / 8). O(n)."
            ),
        ),
        Signature(
            "decode_mask",
            "code:uint8[S] ones:int bits:uint8{N}! size:int64[1]!",
            "the bits whose code the first size bytes of code are; size is -1 if they are of none with so many ones",
            rules=("bits: N <= 1099511627776: at most 2^40 values", "ones: 0 <= ones <= N: 0 to {N}"),
            c=InC("code room=S ones bits n=N size", sizes="each n room"),
            contract=(
                "The bits [n] whose code begins at code [room], which may be anything: *size is the bytes that it "
                "takes, or -1 if no bits with so many ones have such a code; bits are then unspecified. Statuses as "
                "above. O(n)."
            ),
        ),
    ),
    "int8": (
        Signature(
            "conv2d_int8",
            f"x[B,I,H,W] codes:uint8[O,Y,X,I] scale[O] bias[O]? y[B,O,P,Q]! {_CONV}",
            "y = conv(x, weight) + bias with x rounded to int8 codes per image, and a weight of int8 codes times scale",
            rules=(
                "codes: I <= 131072 and Y <= 131072 and X <= 131072 and Y * X * I <= 131072: "
                "sums of at most 131072 products",
                "window",
            ),
            packs=True,
            c=InC(
                "conv=efl_conv2d(B,I,H,W,O,Y,X,stride,padding,dilation,1) x codes scale bias y",
                sizes="-",
                checks=("geometry(*conv)", "whole_sums(*conv)"),
            ),
            contract=(
                "y = conv(x, weight) + bias of one group. codes [out_channels, kernel_h, kernel_w, in_channels] are "
                "int8 and stand for code scale[o]. An image of x is rounded to codes n = round(x (127 / m)), to "
                "nearest even, of its largest magnitude m, and y = float(sum of products of codes) ((m / 127) "
                "scale[o]) + bias[o], each step rounded to float32. All codes are 0 where m is below 2^-100, and the "
                "image's results are NaN where m is not finite. Sums are exact, so results have the same bits on every "
                "instruction set. EFL_BAD_SHAPE for sums of more than 131072 products. bias may be NULL."
            ),
        ),
    ),
    "narrow": (
        Signature(
            "narrow_float16",
            "x{N} halves:uint8{N,2}!",
            "two bytes of each x, rounded to nearest even",
            c=InC("x n=N halves"),
            contract=(
                "halves [n], two bytes each: x [n] rounded to nearest even. float16: what is too large, from 65520 on,"
                " becomes infinity. NaN stays NaN. The bits are the same on every instruction set."
            ),
        ),
        Signature(
            "widen_float16",
            "halves:uint8{N,2} x{N}!",
            "x of its two bytes",
            c=InC("halves n=N x"),
        ),
        Signature(
            "narrow_bfloat16",
            "x{N} halves:uint8{N,2}!",
            "two bytes of each x, rounded to nearest even",
            c=InC("x n=N halves"),
        ),
        Signature(
            "widen_bfloat16",
            "halves:uint8{N,2} x{N}!",
            "x of its two bytes",
            c=InC("halves n=N x"),
        ),
        Signature(
            "narrow_int8",
            "x{N} noise:uint8{N} largest[M]! codes:uint8{N}!",
            "codes = floor(127 x / largest + 128 + (noise + 1/2) / 256), with the largest magnitude of each 256 values",
            rules=("largest: M == (N + 255) // 256: {(N + 255) // 256} values, one for every 256 [arrays]",),
            c=InC("x n=N noise largest codes", sizes="n"),
            contract=(
                "Of every 256 values of x [n] the largest magnitude, largest [ceil(n / 256)], 0 if it is below 2^-100;"
                " and codes [n]:\n"
                "  codes[i] = floor(127 x[i] / largest + 128 + (noise[i] + 1/2) / 256)\n"
                "in float64, so that noise [n] of uniform bytes rounds at random. 128 where largest is 0 or not "
                "finite."
            ),
        ),
        Signature(
            "widen_int8",
            "largest[M] codes:uint8{N} x{N}!",
            "x = (codes - 128) * (largest / 127)",
            rules=("largest: M == (N + 255) // 256: {(N + 255) // 256} values, one for every 256 [arrays]",),
            c=InC("largest codes n=N x", sizes="n"),
            contract="x[i] = (codes[i] - 128) * (largest[i / 256] / 127), in float64 until it is rounded once.",
        ),
        Signature(
            "widen_weight",
            f"codes:uint8[R,C,K] {_STORED.format('R', 'C')} x[R,C]!",
            "x = the weight of two bytes for each value (bfloat16), or of int8 codes times a scale of row or column",
            rules=("stored_bytes",),
            c=InC(
                "codes rows=R cols=C bytes=K row_scale col_scale x",
                sizes="rows cols bytes",
                checks=(_STORED_CHECK,),
            ),
            contract=(
                "x [rows, cols] of codes [rows, cols, bytes]: bfloat16 values where bytes is 2, and both scales are "
                "NULL. int8 codes where bytes is 1: x[r, c] = code row_scale[r] col_scale[c], where a scale may be "
                "NULL, but not both; each product is rounded. EFL_BAD_SHAPE otherwise."
            ),
        ),
    ),
}

TABLE: dict[str, Signature] = {row.name: row for rows in FAMILIES.values() for row in rows}
"""The signatures of all operations, by name."""
