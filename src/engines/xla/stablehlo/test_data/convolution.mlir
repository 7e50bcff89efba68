module @kpt {
  func.func public @main(%arg0: tensor<4x1x3x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<1x2x8x8xf32>) -> (tensor<1x4x1x1xf32>) {
    %0 = "stablehlo.convolution"(%arg2, %arg0) <{window_strides = array<i64: 2, 2>, padding = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, false>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<1x2x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x4x4xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<1x4x4x4xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
    %3 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.reduce_window"(%2, %3) <{window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>, base_dilations = array<i64: 1, 1, 1, 1>, window_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>}> ({
    ^bb0(%4: tensor<f32>, %5: tensor<f32>):
      %6 = "stablehlo.maximum"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%6) : (tensor<f32>) -> ()
    }) : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x2x2xf32>
    %8 = "stablehlo.reshape"(%7) : (tensor<1x4x2x2xf32>) -> tensor<1x4x1x2x2xf32>
    %9 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %13 = "stablehlo.reduce"(%8, %9) <{dimensions = array<i64: 3>}> ({
    ^bb0(%10: tensor<f32>, %11: tensor<f32>):
      %12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<1x4x1x2x2xf32>, tensor<f32>) -> tensor<1x4x1x2xf32>
    %14 = "stablehlo.constant"() <{value = dense<0x40000000> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x1x2xf32>
    %16 = "stablehlo.divide"(%13, %15) : (tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>) -> tensor<1x4x1x2xf32>
    %17 = "stablehlo.reshape"(%16) : (tensor<1x4x1x2xf32>) -> tensor<1x4x1x1x2xf32>
    %21 = "stablehlo.reduce"(%17, %9) <{dimensions = array<i64: 4>}> ({
    ^bb0(%18: tensor<f32>, %19: tensor<f32>):
      %20 = "stablehlo.add"(%18, %19) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%20) : (tensor<f32>) -> ()
    }) : (tensor<1x4x1x1x2xf32>, tensor<f32>) -> tensor<1x4x1x1xf32>
    %22 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x1x1xf32>
    %23 = "stablehlo.divide"(%21, %22) : (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x1x1xf32>
    "func.return"(%23) : (tensor<1x4x1x1xf32>) -> ()
  }
}
