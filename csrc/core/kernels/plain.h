// Kernels that an instruction set compiles in one piece, isa/plain.h: a row of kernels.h each.

// batch
EFL_KERNEL(gather_rows_u8)
EFL_KERNEL(gather_rows_f32)
EFL_KERNEL(gather_labels)
EFL_KERNEL(take_channels_f32)
EFL_KERNEL(to_lanes_f32)
EFL_KERNEL(from_lanes_f32)

// norm
EFL_KERNEL(batchnorm_forward_f32)
EFL_KERNEL(batchnorm_eval_f32)
EFL_KERNEL(batchnorm_backward_f32)
EFL_KERNEL(groupnorm_forward_f32)
EFL_KERNEL(groupnorm_backward_f32)
EFL_KERNEL(batchnorm_relu_forward_f32)
EFL_KERNEL(batchnorm_relu_eval_f32)
EFL_KERNEL(batchnorm_relu_backward_f32)
EFL_KERNEL(groupnorm_relu_forward_f32)
EFL_KERNEL(groupnorm_relu_backward_f32)
EFL_KERNEL(groupnorm_lanes_forward_f32)
EFL_KERNEL(groupnorm_lanes_backward_f32)
EFL_KERNEL(layernorm_forward_f32)
EFL_KERNEL(layernorm_backward_f32)

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
EFL_KERNEL(transpose_f32)
EFL_KERNEL(embedding_forward_f32)
EFL_KERNEL(embedding_backward_f32)

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
EFL_KERNEL(cross_entropy_f32)
EFL_KERNEL(binary_cross_entropy_f32)
EFL_KERNEL(squared_error_f32)
EFL_KERNEL(huber_f32)

// growth
EFL_KERNEL(keep_largest_f32)
EFL_KERNEL(largest_places_f32)

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
