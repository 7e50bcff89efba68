module @kpt {
  func.func public @main(%arg0: tensor<4x3xbf16>, %arg1: tensor<4xbf16>, %arg2: tensor<2x5x3xbf16>) -> (tensor<2x5x4xbf16>) {
    %0 = "stablehlo.dot_general"(%arg2, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x5x3xbf16>, tensor<4x3xbf16>) -> tensor<2x5x4xf32>
    %1 = "stablehlo.convert"(%arg1) : (tensor<4xbf16>) -> tensor<4xf32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 2>}> : (tensor<4xf32>) -> tensor<2x5x4xf32>
    %3 = "stablehlo.add"(%0, %2) : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
    %4 = "stablehlo.convert"(%3) : (tensor<2x5x4xf32>) -> tensor<2x5x4xbf16>
    "func.return"(%4) : (tensor<2x5x4xbf16>) -> ()
  }
}
