module @kpt {
  func.func public @main() -> (tensor<4xi64>, tensor<3xf32>, tensor<2xbf16>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi64>
    %1 = "stablehlo.constant"() <{value = dense<2> : tensor<i64>}> : () -> tensor<i64>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<4xi64>
    %3 = "stablehlo.multiply"(%0, %2) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %4 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<4xi64>
    %6 = "stablehlo.add"(%3, %5) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %7 = "stablehlo.constant"() <{value = dense<"0x000000000000803F00000040"> : tensor<3xf32>}> : () -> tensor<3xf32>
    %8 = "stablehlo.constant"() <{value = dense<0xFF80> : tensor<bf16>}> : () -> tensor<bf16>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<2xbf16>
    "func.return"(%6, %7, %9) : (tensor<4xi64>, tensor<3xf32>, tensor<2xbf16>) -> ()
  }
}
