module @kpt {
  func.func public @main(%arg0: tensor<2x4xf32>, %arg1: tensor<i64>, %arg2: tensor<4xf32>) -> (tensor<f32>, tensor<2x4xf32>, tensor<i64>) {
    %0 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 4>, strides = array<i64: 1, 1>}> : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %1 = "stablehlo.reshape"(%0) : (tensor<1x4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.add"(%1, %arg2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 4>, strides = array<i64: 1, 1>}> : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x4xf32>) -> tensor<4xf32>
    %5 = "stablehlo.reshape"(%2) : (tensor<4xf32>) -> tensor<1x4xf32>
    %6 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %7 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %8 = "stablehlo.dynamic_update_slice"(%arg0, %5, %6, %7) : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    %9 = "stablehlo.add"(%arg1, %6) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %10 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.reduce"(%8, %10) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%11: tensor<f32>, %12: tensor<f32>):
      %13 = "stablehlo.add"(%11, %12) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%13) : (tensor<f32>) -> ()
    }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.reshape"(%14) : (tensor<f32>) -> tensor<1x1xf32>
    %16 = "stablehlo.reshape"(%15) : (tensor<1x1xf32>) -> tensor<f32>
    "func.return"(%16, %8, %9) : (tensor<f32>, tensor<2x4xf32>, tensor<i64>) -> ()
  }
}
