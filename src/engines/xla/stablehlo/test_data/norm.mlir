module @kpt {
  func.func public @main(%arg0: tensor<4xbf16>, %arg1: tensor<2x4xbf16>) -> (tensor<2x4xbf16>) {
    %0 = "stablehlo.convert"(%arg1) : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %1 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
    %6 = "stablehlo.reshape"(%5) : (tensor<2xf32>) -> tensor<2x1xf32>
    %7 = "stablehlo.constant"() <{value = dense<0x40800000> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %9 = "stablehlo.divide"(%6, %8) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x4xf32>
    %11 = "stablehlo.subtract"(%0, %10) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %12 = "stablehlo.multiply"(%11, %11) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %16 = "stablehlo.reduce"(%12, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%13: tensor<f32>, %14: tensor<f32>):
      %15 = "stablehlo.add"(%13, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%15) : (tensor<f32>) -> ()
    }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
    %17 = "stablehlo.reshape"(%16) : (tensor<2xf32>) -> tensor<2x1xf32>
    %18 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %19 = "stablehlo.divide"(%17, %18) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %20 = "stablehlo.constant"() <{value = dense<0x3727C5AC> : tensor<f32>}> : () -> tensor<f32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %22 = "stablehlo.add"(%19, %21) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %23 = "stablehlo.rsqrt"(%22) : (tensor<2x1xf32>) -> tensor<2x1xf32>
    %24 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x4xf32>
    %25 = "stablehlo.subtract"(%0, %24) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %26 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x4xf32>
    %27 = "stablehlo.multiply"(%25, %26) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %28 = "stablehlo.convert"(%arg0) : (tensor<4xbf16>) -> tensor<4xf32>
    %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<2x4xf32>
    %30 = "stablehlo.multiply"(%27, %29) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %31 = "stablehlo.convert"(%30) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    "func.return"(%31) : (tensor<2x4xbf16>) -> ()
  }
}
