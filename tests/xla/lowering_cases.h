// Graphs of lowering_numbers_test.cpp, by family. {a}: a size from 0; {p} and {q}: from 1; {t}: a float type.
#pragma once

namespace kpt::xla_test {

struct LoweringCase {
  const char* name;
  const char* text;  // for ir::read_graph(), without its first line
};

inline constexpr LoweringCase kLoweringCases[] = {
    {"Arithmetic",
     "input x: {t}[{a}, {q}]\ninput y: {t}[{q}]\ninput n: int64[{a}, 1]\n"
     "v0: {t}[{a}, {q}] = aten.add.Tensor(self=%x, other=%y, alpha=2)\n"
     "v1: {t}[{a}, {q}] = aten.sub.Tensor(self=%v0, other=0.1)\n"
     "v2: {t}[{a}, {q}] = aten.mul.Tensor(self=%v1, other=%n)\n"
     "v3: {t}[{a}, {q}] = aten.rsub.Scalar(self=%v2, other=3)\n"
     "v4: {t}[{a}, {q}] = aten.div.Tensor(self=%v3, other=3)\n"
     "v5: {t}[{a}, {q}] = aten.pow.Tensor_Scalar(self=%x, exponent=3)\n"
     "output %v4 \"o4\"\noutput %v5 \"o5\"\n"},
    {"IntegerDivision",
     "input n: int64[{a}, {p}]\ninput m: int64[{p}]\n"
     "z: int64[{p}] = aten.mul.Tensor(self=%m, other=2)\nd: int64[{p}] = aten.add.Tensor(self=%z, other=1)\n"
     "v0: int64[{a}, {p}] = aten.remainder.Tensor(self=%n, other=%d)\n"
     "v1: int64[{a}, {p}] = aten.floor_divide.default(self=%n, other=%d)\n"
     "v2: int64[{a}, {p}] = aten.fmod.Tensor(self=%n, other=%d)\n"
     "v3: int64[{a}, {p}] = aten.div.Tensor_mode(self=%n, other=%d, rounding_mode=\"trunc\")\n"
     "v4: int64[{a}, {p}] = aten.div.Tensor_mode(self=%n, other=-3, rounding_mode=\"floor\")\n"
     "v5: float32[{a}, {p}] = aten.div.Tensor(self=%n, other=%d)\n"
     "v6: int64[{a}, {p}] = aten.pow.Tensor_Scalar(self=%n, exponent=5)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\noutput %v5 "
     "\"o5\"\noutput %v6 \"o6\"\n"},
    {"Promotion",
     "input x: bfloat16[{a}, {p}]\ninput n: int32[{p}]\ninput w: bool[{a}, 1]\ninput s: float64[]\n"
     "v0: bfloat16[{a}, {p}] = aten.mul.Tensor(self=%x, other=%n)\n"
     "v1: int64[{a}, 1] = aten.add.Tensor(self=%w, other=2)\n"
     "v2: bfloat16[{a}, {p}] = aten.add.Tensor(self=%x, other=%s)\n"
     "v3: float32[{p}] = aten.mul.Tensor(self=%n, other=0.5)\n"
     "v4: bool[{a}, 1] = aten.mul.Tensor(self=%w, other=%w)\n"
     "v5: float64[{p}] = aten.add.Tensor(self=%n, other=%s)\n"
     "v6: bool[{a}, {p}] = aten.gt.Tensor(self=%x, other=%n)\n"
     "v7: bool[{p}] = aten.ge.Scalar(self=%n, other=0.5)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\noutput %v5 "
     "\"o5\"\noutput %v6 \"o6\"\noutput %v7 \"o7\"\n"},
    {"Unary",
     "input x: {t}[{a}, {p}]\n"
     "p: {t}[{a}, {p}] = aten.abs.default(self=%x)\nq: {t}[{a}, {p}] = aten.add.Tensor(self=%p, other=0.5)\n"
     "v0: {t}[{a}, {p}] = aten.exp.default(self=%x)\nv1: {t}[{a}, {p}] = aten.log.default(self=%q)\n"
     "v2: {t}[{a}, {p}] = aten.sin.default(self=%x)\nv3: {t}[{a}, {p}] = aten.cos.default(self=%x)\n"
     "v4: {t}[{a}, {p}] = aten.tanh.default(self=%x)\nv5: {t}[{a}, {p}] = aten.sigmoid.default(self=%x)\n"
     "v6: {t}[{a}, {p}] = aten.rsqrt.default(self=%q)\nv7: {t}[{a}, {p}] = aten.erf.default(self=%x)\n"
     "v8: {t}[{a}, {p}] = aten.reciprocal.default(self=%q)\nv9: {t}[{a}, {p}] = aten.sqrt.default(self=%q)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\n"
     "output %v5 \"o5\"\noutput %v6 \"o6\"\noutput %v7 \"o7\"\noutput %v8 \"o8\"\noutput %v9 \"o9\"\n"},
    {"Activations",
     "input x: {t}[{a}, {p}]\n"
     "v0: {t}[{a}, {p}] = aten.gelu.default(self=%x)\nv1: {t}[{a}, {p}] = aten.gelu.default(self=%x, "
     "approximate=\"tanh\")\n"
     "v2: {t}[{a}, {p}] = aten.silu.default(self=%x)\nv3: {t}[{a}, {p}] = aten.relu.default(self=%x)\n"
     "v4: {t}[{a}, {p}] = aten.hardswish.default(self=%x)\nv5: {t}[{a}, {p}] = aten.hardtanh.default(self=%x, "
     "min_val=0.0, max_val=6.0)\n"
     "v6: {t}[{a}, {p}] = aten.leaky_relu.default(self=%x)\nv7: {t}[{a}, {p}] = aten.softplus.default(self=%x)\n"
     "v8: {t}[{a}, {p}] = aten.elu.default(self=%x, alpha=0.7)\nv9: {t}[{a}, {p}] = aten.dropout.default(input=%x, "
     "p=0.5, train=false)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\n"
     "output %v5 \"o5\"\noutput %v6 \"o6\"\noutput %v7 \"o7\"\noutput %v8 \"o8\"\noutput %v9 \"o9\"\n"},
    {"Comparison",
     "input x: float32[{a}, {p}]\ninput y: float32[{p}]\ninput m: bool[{a}, 1]\n"
     "v0: bool[{a}, {p}] = aten.lt.Tensor(self=%x, other=%y)\nv1: bool[{a}, {p}] = aten.logical_not.default(self=%v0)\n"
     "v2: bool[{a}, {p}] = aten.__and__.Tensor(self=%v1, other=%m)\n"
     "v3: float32[{a}, {p}] = aten.where.self(condition=%v2, self=%x, other=%y)\n"
     "v4: float32[{a}, {p}] = aten.masked_fill.Scalar(self=%x, mask=%m, value=-inf)\n"
     "v5: float32[{a}, {p}] = aten.clamp.default(self=%x, min=-1, max=1.5)\n"
     "v6: float32[{a}, {p}] = aten.minimum.default(self=%x, other=%y)\n"
     "v7: bool[{a}, {p}] = aten.eq.Scalar(self=%x, other=0)\n"
     "output %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\noutput %v5 \"o5\"\noutput %v6 \"o6\"\noutput %v7 "
     "\"o7\"\n"},
    {"Reduction",
     "input x: {t}[{a}, {p}, {q}]\n"
     "v0: {t}[{a}, 1, {q}] = aten.sum.dim_IntList(self=%x, dim=[1], keepdim=true)\n"
     "v1: {t}[{a}] = aten.mean.dim(self=%x, dim=[-1, 1])\n"
     "v2: {t}[{a}, {p}] = aten.amax.default(self=%x, dim=[2])\n"
     "v3: int64[{a}, {q}] = aten.argmax.default(self=%x, dim=1)\n"
     "v4: bool[{p}, {q}] = aten.any.dim(self=%x, dim=0)\nv5: bool[] = aten.all.default(self=%x)\n"
     "v6: {t}[{a}, {p}, {q}] = aten.softmax.int(self=%x, dim=1)\n"
     "v7: {t}[{a}, {p}, {q}] = aten.log_softmax.int(self=%x, dim=-1)\n"
     "v8: {t}[{a}, {q}] = aten.linalg_vector_norm.default(self=%x, ord=2, dim=[1])\n"
     "v9: {t}[] = aten.sum.default(self=%x)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\n"
     "output %v5 \"o5\"\noutput %v6 \"o6\"\noutput %v7 \"o7\"\noutput %v8 \"o8\"\noutput %v9 \"o9\"\n"},
    {"SoftmaxOfHiddenRows",
     "input x: float32[{p}, {q}]\ninput m: bool[{p}, 1]\n"
     "h: float32[{p}, {q}] = aten.masked_fill.Scalar(self=%x, mask=%m, value=-inf)\n"
     "v0: float32[{p}, {q}] = aten.softmax.int(self=%h, dim=-1)\noutput %v0 \"o0\"\n"},
    {"CumulativeAndOrder",
     "input x: {t}[{a}, {p}]\ninput n: int64[{a}, {p}]\n"
     "v0: {t}[{a}, {p}] = aten.cumsum.default(self=%x, dim=1)\nv1: int64[{a}, {p}] = aten.cumsum.default(self=%n, "
     "dim=0)\n"
     "v2: {t}[{a}, {p}], i2: int64[{a}, {p}] = aten.sort.stable(self=%x, stable=true, dim=1, descending=true)\n"
     "v3: {t}[{a}, 1], i3: int64[{a}, 1] = aten.topk.default(self=%x, k=1, dim=-1)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %i2 \"i2\"\noutput %v3 \"o3\"\n"},
    {"ViewsAndJoins",
     "input x: {t}[{a}, {p}, 6]\n"
     "v0: {t}[{a}, 6, {p}]{{strides=[{p} * 6, 1, 6]}} = aten.transpose.int(self=%x, dim0=1, dim1=2)\n"
     "c0: {t}[{a}, 6, {p}] = aten.clone.default(self=%v0, memory_format=memory_format(contiguous))\n"
     "v1: {t}[{a}, 3, 2, {p}] = aten.view.default(self=%c0, size=[{a}, 3, 2, {p}])\n"
     "v2: {t}[{a}, 2, {p}] = aten.select.int(self=%v1, dim=1, index=-1)\n"
     "v3: {t}[{a}, 6, {p}] = aten.cat.default(tensors=[%v2, %v2, %v2], dim=-2)\n"
     "v4: {t}[2, {a}, 6, {p}] = aten.stack.default(tensors=[%v3, %c0])\n"
     "v5: {t}[2, {a}, 3, {p}] = aten.slice.Tensor(self=%v4, dim=2, start=1, end=6, step=2)\n"
     "v6: {t}[2, {a}, 5, {p}] = aten.pad.default(self=%v5, pad=[0, 0, 1, 1], mode=\"constant\", value=1.5)\n"
     "v7: {t}[2, {a}, 5, {p}] = aten.flip.default(self=%v6, dims=[0, -1])\n"
     "output %v3 \"o3\"\noutput %v7 \"o7\"\n"},
    {"Indexing",
     "input table: {t}[5, {p}]\ninput n: int64[{a}, 3]\n"
     "i: int64[{a}, 3] = aten.remainder.Scalar(self=%n, other=5)\n"
     "j: int64[{a}, 3] = aten.sub.Tensor(self=%i, other=5)\n"
     "v0: {t}[{a}, 3, {p}] = aten.embedding.default(weight=%table, indices=%i, padding_idx=0)\n"
     "v1: {t}[{a}, 3, {p}] = aten.index.Tensor(self=%table, indices=[%j])\n"
     "k: int64[5, {p}] = aten.full.default(size=[5, {p}], fill_value=2, dtype=dtype(int64))\n"
     "v2: {t}[5, {p}] = aten.gather.default(self=%table, dim=0, index=%k)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\n"},
    {"TwoIndices",
     "input x: {t}[4, 3, {p}]\ninput n: int64[2, 1]\ninput m: int64[3]\n"
     "i: int64[2, 1] = aten.remainder.Scalar(self=%n, other=4)\nj: int64[3] = aten.remainder.Scalar(self=%m, other=3)\n"
     "v0: {t}[2, 3, {p}] = aten.index.Tensor(self=%x, indices=[%i, %j])\n"
     "k: int64[3] = aten.remainder.Scalar(self=%m, other={p})\n"
     "v1: {t}[2, 3, 3] = aten.index.Tensor(self=%x, indices=[%i, none, %k])\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\n"},
    {"WritesByIndex",
     "input x: {t}[6, {p}]\ninput y: {t}[1, {p}]\ninput z: {t}[2, {p}]\ninput n: int64[1]\n"
     "i: int64[1] = aten.remainder.Scalar(self=%n, other=6)\n"
     "v0: {t}[6, {p}] = aten.index_copy.default(self=%x, dim=0, index=%i, source=%y)\n"
     "two: int64[2] = aten.arange.start_step(start=1, end=5, step=2)\n"
     "v1: {t}[6, {p}] = aten.index_copy.default(self=%v0, dim=0, index=%two, source=%z)\n"
     "v2: {t}[6, {p}] = aten.index_put.default(self=%v1, indices=[%two], values=%y)\n"
     "v3: {t}[6, {p}] = aten.slice_scatter.default(self=%v2, src=%z, dim=0, start=0, end=4, step=2)\n"
     "row: {t}[{p}] = aten.select.int(self=%x, dim=0, index=0)\n"
     "v4: {t}[6, {p}] = aten.select_scatter.default(self=%v3, src=%row, dim=0, index=-1)\n"
     "v5: {t}[6, {p}] = aten.index_put.default(self=%x, indices=[%two], values=%y, accumulate=true)\n"
     "output %v4 \"o4\"\noutput %v5 \"o5\"\n"},
    {"WritesInPlace",
     "input x: {t}[4, {p}]\ninput y: {t}[{p}]\n"
     "base: {t}[4, {p}] = aten.clone.default(self=%x)\n"
     "flat: {t}[4, {p}] = aten.alias.default(self=%base)\n"
     "row: {t}[{p}] = aten.select.int(self=%base, dim=0, index=0)\n"
     "before: {t}[{p}] = aten.mul.Tensor(self=%row, other=1)\n"
     "w0: {t}[{p}] = aten.add_.Tensor(self=%row, other=%y)\n"
     "odd: {t}[2, {p}]{{strides=[{p} * 2, 1]}} = aten.slice.Tensor(self=%base, dim=0, start=0, end=4, step=2)\n"
     "w1: {t}[2, {p}]{{strides=[{p} * 2, 1]}} = aten.mul_.Tensor(self=%odd, other=0.5)\n"
     "w2: {t}[4, {p}] = aten.clamp_.default(self=%flat, min=-1)\n"
     "output %base \"o0\"\noutput %before \"o1\"\noutput %w0 \"o2\"\n"},
    {"Products",
     "input x: {t}[{a}, {p}, {q}]\ninput w: {t}[3, {q}]\ninput b: {t}[3]\ninput m: {t}[{q}, 2]\ninput n: {t}[{a}, {q}, "
     "2]\n"
     "v0: {t}[{a}, {p}, 3] = aten.linear.default(input=%x, weight=%w, bias=%b)\n"
     "v1: {t}[{a}, {p}, 2] = aten.matmul.default(self=%x, other=%m)\n"
     "v2: {t}[{a}, {p}, 2] = aten.bmm.default(self=%x, mat2=%n)\n"
     "v3: {t}[3, 2] = aten.mm.default(self=%w, mat2=%m)\n"
     "c: {t}[2] = aten.select.int(self=%m, dim=0, index=0)\n"
     "v4: {t}[3, 2] = aten.addmm.default(self=%c, mat1=%w, mat2=%m, beta=0.5, alpha=2)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\n"},
    // Whole numbers, which FP8 holds: what is rounded before a product is not the product's affair.
    {"ScaledProducts",
     "input x: {t}[{a}, {q}]\ninput w: float32[3, {q}]\ninput r: float32[{a}, 1]\ninput c: float32[1, 3]\ninput s: "
     "float32[]\ninput b: bfloat16[3]\n"
     "xr: {t}[{a}, {q}] = aten.round.default(self=%x)\n"
     "wr: float32[3, {q}] = aten.round.default(self=%w)\n"
     "x8: float8_e4m3fn[{a}, {q}] = aten.to.dtype(self=%xr, dtype=dtype(float8_e4m3fn))\n"
     "w8: float8_e5m2[3, {q}] = aten.to.dtype(self=%wr, dtype=dtype(float8_e5m2))\n"
     "t: float8_e5m2[{q}, 3]{{strides=[1, {q}]}} = aten.t.default(self=%w8)\n"
     "v0: float32[{a}, 3] = aten._scaled_mm.default(self=%x8, mat2=%t, scale_a=%r, scale_b=%c, bias=%b, "
     "out_dtype=dtype(float32))\n"
     "v1: bfloat16[{a}, 3] = aten._scaled_mm.default(self=%x8, mat2=%t, scale_a=%s, scale_b=%s, "
     "out_dtype=dtype(bfloat16))\n"
     "v2: float32[{a}, {q}] = aten.to.dtype(self=%x8, dtype=dtype(float32))\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\n"},
    {"Convolution",
     "input x: {t}[{p}, 4, 9, 7]\ninput w: {t}[6, 2, 3, 3]\ninput b: {t}[6]\ninput d: {t}[4, 1, 3, 2]\n"
     "v0: {t}[{p}, 6, 5, 4] = aten.conv2d.default(input=%x, weight=%w, bias=%b, stride=[2, 2], padding=[1, 1], "
     "groups=2)\n"
     "v1: {t}[{p}, 4, 5, 8] = aten.conv2d.default(input=%x, weight=%d, padding=[0, 1], dilation=[2, 1], groups=4)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\n"},
    {"ConvolutionOfLines",
     "input x: {t}[{p}, 3, 11]\ninput w: {t}[5, 3, 3]\ninput b: {t}[5]\n"
     "v0: {t}[{p}, 5, 6] = aten.conv1d.default(input=%x, weight=%w, bias=%b, stride=[2], padding=[1])\n"
     "v1: {t}[{p}, 5, 11] = aten.conv1d.padding(input=%x, weight=%w, padding=\"same\")\noutput %v0 \"o0\"\noutput %v1 "
     "\"o1\"\n"},
    {"TransposedConvolution",
     "input x: float32[{p}, 4, 5]\ninput w: float32[4, 3, 3]\n"
     "v0: float32[{p}, 6, 10] = aten.convolution.default(input=%x, weight=%w, bias=none, stride=[2], padding=[1], "
     "dilation=[1], transposed=true, output_padding=[1], groups=2)\noutput %v0 \"o0\"\n"},
    {"Pooling",
     "input x: {t}[{p}, {q}, 9, 7]\n"
     "v0: {t}[{p}, {q}, 5, 4] = aten.max_pool2d.default(self=%x, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])\n"
     "v1: {t}[{p}, {q}, 5, 4] = aten.avg_pool2d.default(self=%x, kernel_size=[2, 2], stride=[2, 2], ceil_mode=true)\n"
     "v2: {t}[{p}, {q}, 5, 4] = aten.avg_pool2d.default(self=%x, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], "
     "count_include_pad=false)\n"
     "v3: {t}[{p}, {q}, 1, 1] = aten.adaptive_avg_pool2d.default(self=%x, output_size=[1, 1])\n"
     "v4: {t}[{p}, {q}, 4, 3] = aten.adaptive_avg_pool2d.default(self=%x, output_size=[4, 3])\n"
     "v5: {t}[{p}, {q}, 3, 9] = aten.adaptive_avg_pool2d.default(self=%x, output_size=[3, 9])\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\noutput %v5 "
     "\"o5\"\n"},
    {"Resizing",
     "input x: {t}[{p}, {q}, 3, 4]\n"
     "v0: {t}[{p}, {q}, 7, 2] = aten.upsample_bilinear2d.vec(input=%x, output_size=[7, 2], align_corners=false, "
     "scale_factors=none)\n"
     "v1: {t}[{p}, {q}, 5, 9] = aten.upsample_bilinear2d.vec(input=%x, output_size=[5, 9], align_corners=true, "
     "scale_factors=none)\n"
     "v2: {t}[{p}, {q}, 6, 3] = aten.upsample_nearest2d.vec(input=%x, output_size=[6, 3], scale_factors=none)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\n"},
    {"Norms",
     "input x: {t}[{p}, 6, {q}]\ninput w: {t}[{q}]\ninput b: {t}[{q}]\ninput c: {t}[6]\ninput d: {t}[6]\ninput u: "
     "{t}[6]\n"
     "v: {t}[6] = aten.abs.default(self=%u)\n"
     "v0: {t}[{p}, 6, {q}] = aten.layer_norm.default(input=%x, normalized_shape=[{q}], weight=%w, bias=%b, eps=1e-06)\n"
     "v1: {t}[{p}, 6, {q}] = aten.rms_norm.default(input=%x, normalized_shape=[{q}], weight=%w, eps=1e-05)\n"
     "v2: {t}[{p}, 6, {q}] = aten.batch_norm.default(input=%x, weight=%c, bias=%d, running_mean=%c, running_var=%v, "
     "training=false, momentum=0.1, eps=0.001, cudnn_enabled=false)\n"
     "v3: {t}[{p}, 6, {q}] = aten.group_norm.default(input=%x, num_groups=2, weight=%c, bias=%d)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\n"},
    {"Attention",
     "input q: {t}[{p}, 4, {q}, 8]\ninput k: {t}[{p}, 4, 5, 8]\ninput v: {t}[{p}, 4, 5, 8]\ninput m: bool[{p}, 1, {q}, "
     "5]\ninput a: {t}[{q}, 5]\n"
     "v0: {t}[{p}, 4, {q}, 8] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, attn_mask=%m)\n"
     "v1: {t}[{p}, 4, {q}, 8] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, is_causal=true)\n"
     "v2: {t}[{p}, 4, {q}, 8] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, attn_mask=%a, "
     "scale=0.3)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\n"},
    {"AttentionOfGroups",
     "input q: {t}[{p}, 6, {q}, 4]\ninput k: {t}[{p}, 2, 7, 4]\ninput v: {t}[{p}, 2, 7, 4]\n"
     "v0: {t}[{p}, 6, {q}, 4] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, "
     "enable_gqa=true)\n"
     "output %v0 \"o0\"\n"},
    {"Creation",
     "input x: {t}[{a}, {p}]\n"
     "v0: int64[{p}] = aten.arange.default(end={p})\nv1: float32[{p}] = aten.arange.start_step(start=0, end={p}, "
     "step=1, "
     "dtype=dtype(float32))\n"
     "v2: {t}[{a}, {p}] = aten.full_like.default(self=%x, fill_value=3)\nv3: bool[2] = aten.new_ones.default(self=%x, "
     "size=[2], dtype=dtype(bool))\n"
     "v4: {t}[{a}, {p}] = aten.triu.default(self=%x, diagonal=1)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\n"},
    {"Casts",
     "input x: {t}[{a}, {p}]\ninput n: int64[{a}]\n"
     "v0: int64[{a}, {p}] = aten.to.dtype(self=%x, dtype=dtype(int64))\nv1: bool[{a}, {p}] = aten.to.dtype(self=%x, "
     "dtype=dtype(bool))\n"
     "v2: bfloat16[{a}, {p}] = aten.to.dtype(self=%x, dtype=dtype(bfloat16))\n"
     "v3: uint8[{a}] = aten.to.dtype(self=%n, dtype=dtype(uint8))\nv4: float64[{a}] = aten.to.dtype(self=%n, "
     "dtype=dtype(float64))\n"
     "v5: {t}[{a}] = aten.type_as.default(self=%n, other=%x)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\noutput %v3 \"o3\"\noutput %v4 \"o4\"\noutput %v5 "
     "\"o5\"\n"},
    {"OwnOperators",
     "input x: float32[{p}, 3, 8]\ninput w: float32[6, 8]\ninput b: float32[6]\ninput r: float32[{p}, 3, 6]\n"
     "input n: float32[6]\n"
     "v0: float32[{p}, 3, 6] = kpt.linear.default(input=%x, weight=%w, bias=%b, residual=%r, activation=\"gelu\")\n"
     "v1: float32[{p}, 3, 6], s1: float32[{p}, 3, 6] = kpt.add_norm.default(input=%v0, residual=%r, weight=%n, "
     "bias=%b, "
     "epsilon=1e-05, kind=\"layer\")\n"
     "v2: float32[{p}, 3, 6], s2: float32[{p}, 3, 6] = kpt.add_norm.default(input=%v1, residual=none, weight=%n, "
     "bias=none, epsilon=1e-05, kind=\"rms\")\n"
     "v3: float32[{p}, 3, 3] = kpt.glu.default(input=%v2, activation=\"silu\")\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %s1 \"o2\"\noutput %v3 \"o3\"\n"},
    {"OwnAttention",
     "input q: float32[{p}, 4, {q}, 6]\ninput k: float32[{p}, 2, 5, 6]\ninput m: bool[{p}, 1, {q}, 5]\n"
     "input c: float32[{q}, 6]\ninput s: float32[{q}, 6]\n"
     "v0: float32[{p}, 4, {q}, 6] = kpt.rotary.default(input=%q, cos=%c, sin=%s)\n"
     "v1: float32[{p}, {q}, 4, 6] = kpt.attention.default(query=%v0, key=%k, value=%k, mask=%m, scale=0.25, "
     "causal=false)\n"
     "v2: float32[{p}, {q}, 4, 6] = kpt.attention.default(query=%v0, key=%k, value=%k, mask=none, scale=0.25, "
     "causal=true)\n"
     "output %v0 \"o0\"\noutput %v1 \"o1\"\noutput %v2 \"o2\"\n"},
    {"OwnConvolution",
     "input x: float32[{p}, 4, 9, 7]\ninput w: float32[6, 2, 3, 3]\ninput b: float32[6]\ninput r: float32[{p}, 6, 5, "
     "4]\n"
     "v0: float32[{p}, 6, 5, 4] = kpt.conv2d.default(input=%x, weight=%w, bias=%b, residual=%r, stride=[2, 2], "
     "padding=[1, 1], dilation=[1, 1], groups=2, activation=\"relu6\")\noutput %v0 \"o0\"\n"},
};

}  // namespace kpt::xla_test
