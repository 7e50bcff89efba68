module @kpt {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xi64>) -> (tensor<2x3xf32>, tensor<3xi64>, tensor<3xf32>, tensor<3xi64>, tensor<2x3xf32>) {
    %0 = "stablehlo.convert"(%arg1) : (tensor<3xi64>) -> tensor<3xf32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
    %2 = "stablehlo.constant"() <{value = dense<0x40000000> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
    %4 = "stablehlo.multiply"(%1, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = "stablehlo.add"(%arg0, %4) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %6 = "stablehlo.constant"() <{value = dense<3> : tensor<i64>}> : () -> tensor<i64>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<3xi64>
    %8 = "stablehlo.multiply"(%arg1, %7) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %9 = "stablehlo.convert"(%arg1) : (tensor<3xi64>) -> tensor<3xf32>
    %10 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3xf32>
    %11 = "stablehlo.divide"(%9, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %12 = "stablehlo.constant"() <{value = dense<-3> : tensor<i64>}> : () -> tensor<i64>
    %13 = "stablehlo.broadcast_in_dim"(%12) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<3xi64>
    %14 = "stablehlo.remainder"(%arg1, %13) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %15 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<3xi64>
    %17 = "stablehlo.compare"(%14, %16) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %18 = "stablehlo.compare"(%14, %16) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %19 = "stablehlo.compare"(%13, %16) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %20 = "stablehlo.compare"(%18, %19) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type UNSIGNED>}> : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %21 = "stablehlo.and"(%17, %20) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %22 = "stablehlo.add"(%14, %13) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %23 = "stablehlo.select"(%21, %22, %14) : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %24 = "stablehlo.constant"() <{value = dense<0x3F800000> : tensor<f32>}> : () -> tensor<f32>
    %25 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
    %26 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
    %27 = "stablehlo.multiply"(%arg0, %arg0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%5, %8, %11, %23, %27) : (tensor<2x3xf32>, tensor<3xi64>, tensor<3xf32>, tensor<3xi64>, tensor<2x3xf32>) -> ()
  }
}
