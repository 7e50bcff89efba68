module @kpt {
  func.func public @main(%arg0: tensor<4xbf16>) -> (tensor<4xbf16>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<4xbf16>) -> tensor<4xf32>
    %1 = "chlo.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.convert"(%1) : (tensor<4xf32>) -> tensor<4xbf16>
    %3 = "stablehlo.negate"(%2) : (tensor<4xbf16>) -> tensor<4xbf16>
    %4 = "stablehlo.convert"(%3) : (tensor<4xbf16>) -> tensor<4xf32>
    %5 = "stablehlo.logistic"(%4) : (tensor<4xf32>) -> tensor<4xf32>
    %6 = "stablehlo.multiply"(%4, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = "stablehlo.convert"(%6) : (tensor<4xf32>) -> tensor<4xbf16>
    "func.return"(%7) : (tensor<4xbf16>) -> ()
  }
}
