module @kpt {
  func.func public @main(%arg0: tensor<7x6xf32>) -> (tensor<7x5x2xf32>, tensor<i64>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<7x6xf32>) -> tensor<7x2x3xf32>
    %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 0, 2, 1>}> : (tensor<7x2x3xf32>) -> tensor<7x3x2xf32>
    %2 = "stablehlo.slice"(%1) <{start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 7, 3, 2>, strides = array<i64: 1, 1, 1>}> : (tensor<7x3x2xf32>) -> tensor<7x2x2xf32>
    %3 = "stablehlo.concatenate"(%2, %1) <{dimension = 1 : i64}> : (tensor<7x2x2xf32>, tensor<7x3x2xf32>) -> tensor<7x5x2xf32>
    %4 = "stablehlo.constant"() <{value = dense<7> : tensor<i64>}> : () -> tensor<i64>
    "func.return"(%3, %4) : (tensor<7x5x2xf32>, tensor<i64>) -> ()
  }
}
