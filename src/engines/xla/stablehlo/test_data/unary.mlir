module @kpt {
  func.func public @main(%arg0: tensor<4xbf16>) -> (tensor<4xbf16>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<4xbf16>) -> tensor<4xf32>
    %1 = "chlo.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.constant"() <{value = dense<0x40800000> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %5 = "stablehlo.compare"(%2, %4) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %6 = "stablehlo.sign"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %7 = "stablehlo.select"(%5, %6, %1) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %8 = "stablehlo.convert"(%7) : (tensor<4xf32>) -> tensor<4xbf16>
    %9 = "stablehlo.negate"(%8) : (tensor<4xbf16>) -> tensor<4xbf16>
    %10 = "stablehlo.convert"(%9) : (tensor<4xbf16>) -> tensor<4xf32>
    %11 = "stablehlo.logistic"(%10) : (tensor<4xf32>) -> tensor<4xf32>
    %12 = "stablehlo.multiply"(%10, %11) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %13 = "stablehlo.convert"(%12) : (tensor<4xf32>) -> tensor<4xbf16>
    "func.return"(%13) : (tensor<4xbf16>) -> ()
  }
}
