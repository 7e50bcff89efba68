module @kpt {
  func.func public @main(%arg0: tensor<1x4x3x2xf32>, %arg1: tensor<1x2x5x2xf32>, %arg2: tensor<1x2x5x2xf32>, %arg3: tensor<1x1x3x5xi1>) -> (tensor<1x4x3x2xf32>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<1x4x3x2xf32>) -> tensor<1x2x6x2xf32>
    %1 = "stablehlo.dot_general"(%0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<1x2x6x2xf32>, tensor<1x2x5x2xf32>) -> tensor<1x2x6x5xf32>
    %2 = "stablehlo.reshape"(%1) : (tensor<1x2x6x5xf32>) -> tensor<1x4x3x5xf32>
    %3 = "stablehlo.constant"() <{value = dense<0x3F3504F3> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x3x5xf32>
    %5 = "stablehlo.multiply"(%2, %4) : (tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %6 = "stablehlo.broadcast_in_dim"(%arg3) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x3x5xi1>) -> tensor<1x4x3x5xi1>
    %7 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x3x5xf32>
    %9 = "stablehlo.select"(%6, %5, %8) : (tensor<1x4x3x5xi1>, tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %13 = "stablehlo.reduce"(%9, %7) <{dimensions = array<i64: 3>}> ({
    ^bb0(%10: tensor<f32>, %11: tensor<f32>):
      %12 = "stablehlo.maximum"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<1x4x3x5xf32>, tensor<f32>) -> tensor<1x4x3xf32>
    %14 = "stablehlo.reshape"(%13) : (tensor<1x4x3xf32>) -> tensor<1x4x3x1xf32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x3x1xf32>) -> tensor<1x4x3x5xf32>
    %16 = "stablehlo.subtract"(%9, %15) : (tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %17 = "stablehlo.exponential"(%16) : (tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %18 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %22 = "stablehlo.reduce"(%17, %18) <{dimensions = array<i64: 3>}> ({
    ^bb0(%19: tensor<f32>, %20: tensor<f32>):
      %21 = "stablehlo.add"(%19, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%21) : (tensor<f32>) -> ()
    }) : (tensor<1x4x3x5xf32>, tensor<f32>) -> tensor<1x4x3xf32>
    %23 = "stablehlo.reshape"(%22) : (tensor<1x4x3xf32>) -> tensor<1x4x3x1xf32>
    %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x3x1xf32>) -> tensor<1x4x3x5xf32>
    %25 = "stablehlo.divide"(%17, %24) : (tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %26 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x3x1xf32>
    %27 = "stablehlo.compare"(%14, %26) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<1x4x3x1xf32>, tensor<1x4x3x1xf32>) -> tensor<1x4x3x1xi1>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x3x1xi1>) -> tensor<1x4x3x5xi1>
    %29 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x4x3x5xf32>
    %30 = "stablehlo.select"(%28, %29, %25) : (tensor<1x4x3x5xi1>, tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) -> tensor<1x4x3x5xf32>
    %31 = "stablehlo.reshape"(%30) : (tensor<1x4x3x5xf32>) -> tensor<1x2x6x5xf32>
    %32 = "stablehlo.dot_general"(%31, %arg2) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<1x2x6x5xf32>, tensor<1x2x5x2xf32>) -> tensor<1x2x6x2xf32>
    %33 = "stablehlo.reshape"(%32) : (tensor<1x2x6x2xf32>) -> tensor<1x4x3x2xf32>
    "func.return"(%33) : (tensor<1x4x3x2xf32>) -> ()
  }
}
