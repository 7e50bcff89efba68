module @kpt {
  func.func public @main(%arg0: tensor<2x3xbf16>) -> (tensor<2x1xbf16>, tensor<2xi64>, tensor<i1>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %1 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %6 = "stablehlo.reshape"(%5) : (tensor<2xf32>) -> tensor<2x1xf32>
    %7 = "stablehlo.constant"() <{value = dense<0x40400000> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1xf32>
    %9 = "stablehlo.divide"(%6, %8) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %10 = "stablehlo.convert"(%9) : (tensor<2x1xf32>) -> tensor<2x1xbf16>
    %11 = "stablehlo.constant"() <{value = dense<0xFF80> : tensor<bf16>}> : () -> tensor<bf16>
    %15 = "stablehlo.reduce"(%arg0, %11) <{dimensions = array<i64: 1>}> ({
    ^bb0(%12: tensor<bf16>, %13: tensor<bf16>):
      %14 = "stablehlo.maximum"(%12, %13) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
      "stablehlo.return"(%14) : (tensor<bf16>) -> ()
    }) : (tensor<2x3xbf16>, tensor<bf16>) -> tensor<2xbf16>
    %16 = "stablehlo.reshape"(%15) : (tensor<2xbf16>) -> tensor<2x1xbf16>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xbf16>) -> tensor<2x3xbf16>
    %18 = "stablehlo.compare"(%arg0, %17) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x3xi1>
    %19 = "stablehlo.compare"(%arg0, %arg0) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x3xi1>
    %20 = "stablehlo.or"(%18, %19) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
    %21 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi64>
    %22 = "stablehlo.constant"() <{value = dense<3> : tensor<i64>}> : () -> tensor<i64>
    %23 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<2x3xi64>
    %24 = "stablehlo.select"(%20, %21, %23) : (tensor<2x3xi1>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
    %25 = "stablehlo.constant"() <{value = dense<9223372036854775807> : tensor<i64>}> : () -> tensor<i64>
    %29 = "stablehlo.reduce"(%24, %25) <{dimensions = array<i64: 1>}> ({
    ^bb0(%26: tensor<i64>, %27: tensor<i64>):
      %28 = "stablehlo.minimum"(%26, %27) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%28) : (tensor<i64>) -> ()
    }) : (tensor<2x3xi64>, tensor<i64>) -> tensor<2xi64>
    %30 = "stablehlo.reshape"(%29) : (tensor<2xi64>) -> tensor<2x1xi64>
    %31 = "stablehlo.reshape"(%30) : (tensor<2x1xi64>) -> tensor<2xi64>
    %32 = "stablehlo.constant"() <{value = dense<0x0000> : tensor<bf16>}> : () -> tensor<bf16>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<2x3xbf16>
    %34 = "stablehlo.compare"(%arg0, %33) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x3xi1>
    %35 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %39 = "stablehlo.reduce"(%34, %35) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%36: tensor<i1>, %37: tensor<i1>):
      %38 = "stablehlo.or"(%36, %37) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%38) : (tensor<i1>) -> ()
    }) : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
    %40 = "stablehlo.reshape"(%39) : (tensor<i1>) -> tensor<1x1xi1>
    %41 = "stablehlo.reshape"(%40) : (tensor<1x1xi1>) -> tensor<i1>
    "func.return"(%10, %31, %41) : (tensor<2x1xbf16>, tensor<2xi64>, tensor<i1>) -> ()
  }
}
