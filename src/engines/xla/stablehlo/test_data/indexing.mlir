module @kpt {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<2xi64>, %arg2: tensor<1xi64>, %arg3: tensor<1x3xf32>) -> (tensor<2x3xf32>) {
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<2xi64>
    %2 = "stablehlo.constant"() <{value = dense<5> : tensor<i64>}> : () -> tensor<i64>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<2xi64>
    %4 = "stablehlo.compare"(%arg1, %1) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %5 = "stablehlo.add"(%arg1, %3) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %6 = "stablehlo.select"(%4, %5, %arg1) : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %7 = "stablehlo.compare"(%6, %1) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %8 = "stablehlo.compare"(%6, %3) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %9 = "stablehlo.and"(%7, %8) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
    %10 = "stablehlo.constant"() <{value = dense<4> : tensor<i64>}> : () -> tensor<i64>
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<2xi64>
    %12 = "stablehlo.maximum"(%6, %1) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %13 = "stablehlo.minimum"(%12, %11) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %14 = "stablehlo.convert"(%13) : (tensor<2xi64>) -> tensor<2xi32>
    %15 = "stablehlo.reshape"(%14) : (tensor<2xi32>) -> tensor<2x1xi32>
    %16 = "stablehlo.gather"(%arg0, %15) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>, indices_are_sorted = false}> : (tensor<5x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
    %17 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xi1>) -> tensor<2x3xi1>
    %18 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
    %20 = "stablehlo.select"(%17, %16, %19) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %21 = "stablehlo.reshape"(%arg2) : (tensor<1xi64>) -> tensor<i64>
    %22 = "stablehlo.constant"() <{value = dense<2> : tensor<i64>}> : () -> tensor<i64>
    %23 = "stablehlo.compare"(%21, %0) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %24 = "stablehlo.add"(%21, %22) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %25 = "stablehlo.select"(%23, %24, %21) : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
    %26 = "stablehlo.compare"(%25, %0) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %27 = "stablehlo.compare"(%25, %22) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %28 = "stablehlo.and"(%26, %27) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %29 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %30 = "stablehlo.maximum"(%25, %0) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %31 = "stablehlo.minimum"(%30, %29) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %32 = "stablehlo.convert"(%31) : (tensor<i64>) -> tensor<i32>
    %33 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<1x3xi1>
    %34 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x3xf32>
    %35 = "stablehlo.select"(%33, %arg3, %34) : (tensor<1x3xi1>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %36 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %37 = "stablehlo.dynamic_update_slice"(%20, %35, %32, %36) : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    "func.return"(%37) : (tensor<2x3xf32>) -> ()
  }
}
