// The kernels, one row each: efl_<name> of edgefl.h, its entry in the table and its body in kernels/<family>. Read
// several times, with EFL_KERNEL defined by the reader.

// batch
EFL_KERNEL(gather_rows_u8)
EFL_KERNEL(gather_rows_f32)
EFL_KERNEL(gather_labels)
EFL_KERNEL(take_channels_f32)
EFL_KERNEL(to_lanes_f32)
EFL_KERNEL(from_lanes_f32)

// convolution
EFL_KERNEL(conv2d_forward_f32)
EFL_KERNEL(conv2d_grad_input_f32)
EFL_KERNEL(conv2d_grad_weight_f32)

// sparse_convolution
EFL_KERNEL(sparse_conv2d_lanes)
EFL_KERNEL(sparse_conv2d_build)
EFL_KERNEL(sparse_conv2d_forward_f32)
EFL_KERNEL(sparse_conv2d_grad_input_f32)
EFL_KERNEL(sparse_conv2d_grad_weight_f32)

// linear
EFL_KERNEL(linear_forward_f32)
EFL_KERNEL(linear_grad_input_f32)
EFL_KERNEL(linear_grad_weight_f32)
EFL_KERNEL(linear_update_f32)
EFL_KERNEL(channel_sum_f32)

// sparse_linear
EFL_KERNEL(sparse_linear_build)
EFL_KERNEL(sparse_linear_forward_f32)
EFL_KERNEL(sparse_linear_grad_input_f32)
EFL_KERNEL(sparse_linear_grad_weight_f32)

// norm
EFL_KERNEL(batchnorm_forward_f32)
EFL_KERNEL(batchnorm_eval_f32)
EFL_KERNEL(batchnorm_backward_f32)
EFL_KERNEL(groupnorm_forward_f32)
EFL_KERNEL(groupnorm_backward_f32)
EFL_KERNEL(batchnorm_relu_forward_f32)
EFL_KERNEL(batchnorm_relu_backward_f32)
EFL_KERNEL(groupnorm_relu_forward_f32)
EFL_KERNEL(groupnorm_relu_backward_f32)
EFL_KERNEL(groupnorm_lanes_forward_f32)
EFL_KERNEL(groupnorm_lanes_backward_f32)

// elementwise
EFL_KERNEL(relu_forward_f32)
EFL_KERNEL(relu_backward_f32)
EFL_KERNEL(leaky_relu_forward_f32)
EFL_KERNEL(leaky_relu_backward_f32)
EFL_KERNEL(relu6_forward_f32)
EFL_KERNEL(add_f32)
EFL_KERNEL(mul_f32)
EFL_KERNEL(add_channels_f32)
EFL_KERNEL(scale_channels_f32)
EFL_KERNEL(channel_dot_f32)

// activation
EFL_KERNEL(activation_forward_f32)
EFL_KERNEL(activation_backward_f32)
EFL_KERNEL(prelu_forward_f32)
EFL_KERNEL(prelu_backward_f32)

// arrange
EFL_KERNEL(put_channels_f32)
EFL_KERNEL(get_channels_f32)
EFL_KERNEL(pad_planes_f32)
EFL_KERNEL(crop_planes_f32)
EFL_KERNEL(upsample_forward_f32)
EFL_KERNEL(upsample_backward_f32)

// dropout
EFL_KERNEL(dropout_f32)

// pool
EFL_KERNEL(maxpool_forward_f32)
EFL_KERNEL(maxpool_backward_f32)
EFL_KERNEL(maxpool_lanes_forward_f32)
EFL_KERNEL(maxpool_lanes_backward_f32)
EFL_KERNEL(avgpool_forward_f32)
EFL_KERNEL(avgpool_backward_f32)
EFL_KERNEL(adaptive_avgpool_forward_f32)
EFL_KERNEL(adaptive_avgpool_backward_f32)

// loss
EFL_KERNEL(softmax_xent_f32)

// update
EFL_KERNEL(sum_squares_f32)
EFL_KERNEL(sgd_f32)

// growth
EFL_KERNEL(keep_largest_f32)
EFL_KERNEL(largest_places_f32)

// parameters
EFL_KERNEL(take_axes_32)
EFL_KERNEL(put_axes_32)
EFL_KERNEL(permute_f32)
EFL_KERNEL(take_flat_32)
EFL_KERNEL(put_flat_32)

// mask
EFL_KERNEL(encode_mask)
EFL_KERNEL(decode_mask)

// narrow
EFL_KERNEL(narrow_float16_f32)
EFL_KERNEL(widen_float16_f32)
EFL_KERNEL(narrow_bfloat16_f32)
EFL_KERNEL(widen_bfloat16_f32)
EFL_KERNEL(narrow_int8_f32)
EFL_KERNEL(widen_int8_f32)
