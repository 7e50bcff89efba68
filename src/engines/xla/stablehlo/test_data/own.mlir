module @kpt {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<2x3xf32>) -> (tensor<2x2xf32>) {
    %0 = "stablehlo.dot_general"(%arg1, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
    %1 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4xf32>
    %3 = "stablehlo.maximum"(%0, %2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = "stablehlo.multiply"(%3, %3) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %8 = "stablehlo.reduce"(%4, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%5: tensor<f32>, %6: tensor<f32>):
      %7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<2xf32>) -> tensor<2x1xf32>
    %10 = "stablehlo.constant"() <{value = dense<0x40800000> : tensor<f32>}> : () -> tensor<f32>
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %12 = "stablehlo.divide"(%9, %11) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %13 = "stablehlo.constant"() <{value = dense<0x358637BD> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %15 = "stablehlo.add"(%12, %14) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %16 = "stablehlo.rsqrt"(%15) : (tensor<2x1xf32>) -> tensor<2x1xf32>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x4xf32>
    %18 = "stablehlo.multiply"(%3, %17) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %19 = "stablehlo.slice"(%18) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 2>, strides = array<i64: 1, 1>}> : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %20 = "stablehlo.logistic"(%19) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %21 = "stablehlo.multiply"(%19, %20) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %22 = "stablehlo.slice"(%18) <{start_indices = array<i64: 0, 2>, limit_indices = array<i64: 2, 4>, strides = array<i64: 1, 1>}> : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %23 = "stablehlo.multiply"(%21, %22) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%23) : (tensor<2x2xf32>) -> ()
  }
}
