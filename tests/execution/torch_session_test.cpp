// kpt/torch.h around a session, in a program that links libtorch itself: at::Tensor in and out, and whose memory it is.
#include <random>

#include <gtest/gtest.h>

#include "kpt/model.h"
#include "kpt/torch.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

// It writes its row into a cache and doubles the input in place, which shows whether that was copied; gives cache + 1.
Model load_writer() { return load_model(source_dir() + "/tests/golden/pt2/2.15.0/writes_plain.pt2").value(); }

at::Tensor expected_row(const at::Tensor& x) { return at::layer_norm(x.to(at::kDouble), {3}) + 1; }

TEST(TorchSession, InputsAreTheCallersMemory) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  at::manual_seed(seed);
  Session session = load_writer().start_session().value();
  const at::Tensor x = at::randn({1, 3});
  const at::Tensor before = x.clone();
  const void* const address = x.data_ptr();
  const at::Tensor position = at::full({1}, 2, at::kLong);
  const auto outputs = session.run({{"x", from_torch(x).value()}, {"position", from_torch(position).value()}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(x.data_ptr(), address);
  EXPECT_TRUE(at::equal(x, before * 2)) << "the model wrote a copy";
  const at::Tensor cache = to_torch(outputs->front().tensor).value();
  EXPECT_TRUE(at::allclose(cache[2].to(at::kDouble), expected_row(before)[0], 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(cache[0], at::ones({3})));
}

// A view in the middle of a larger tensor: its strides and offset must reach the model, and what is around it must
// stay.
TEST(TorchSession, ViewsAreSharedWithTheirStrides) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  at::manual_seed(seed);
  Session session = load_writer().start_session().value();
  const at::Tensor base = at::randn({3, 5});
  const at::Tensor before = base.clone();
  const at::Tensor column = base.t().slice(0, 2, 3);  // [1, 3], strides [1, 5], offset 2
  ASSERT_FALSE(column.is_contiguous());
  const at::Tensor position = at::zeros({1}, at::kLong);
  const Tensor inputs[] = {from_torch(column).value(), from_torch(position).value()};
  EXPECT_EQ(inputs[0].data(), column.data_ptr());
  std::vector<Tensor> outputs;
  const Status status = session.run(inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  at::Tensor wanted = before.clone();
  wanted.select(1, 2).mul_(2);
  EXPECT_TRUE(at::equal(base, wanted));
  const at::Tensor row = to_torch(outputs[0]).value()[0].to(at::kDouble);
  EXPECT_TRUE(at::allclose(row, expected_row(before.t().slice(0, 2, 3))[0], 1e-5, 1e-5));
}

TEST(TorchSession, OutputsAreTheRunsMemoryAndOutliveIt) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  at::manual_seed(seed);
  const at::Tensor x = at::randn({1, 3});
  const at::Tensor first_row = expected_row(x);
  const at::Tensor position = at::zeros({1}, at::kLong);
  at::Tensor kept;
  at::Tensor again;
  {
    Session session = load_writer().start_session().value();
    const Tensor inputs[] = {from_torch(x).value(), from_torch(position).value()};
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    kept = to_torch(outputs[0]).value();
    EXPECT_EQ(kept.data_ptr(), outputs[0].data());
    EXPECT_EQ(from_torch(kept)->data(), outputs[0].data());
    ASSERT_TRUE(session.run(inputs, outputs).ok());  // the same vector, while `kept` still looks at the first answer
    again = to_torch(outputs[0]).value();
    EXPECT_NE(again.data_ptr(), kept.data_ptr());
    // An output goes into the next run where it lies.
    const at::Tensor row = kept.slice(0, 1, 2);
    const Tensor chained[] = {from_torch(row).value(), from_torch(position).value()};
    EXPECT_EQ(chained[0].data(), static_cast<const float*>(kept.data_ptr()) + 3);
    ASSERT_TRUE(session.run(chained, outputs).ok());
  }
  EXPECT_TRUE(at::allclose(kept[0].to(at::kDouble), first_row[0], 1e-5, 1e-5)) << "the session and the model are gone";
  EXPECT_TRUE(at::equal(kept[1], at::full({3}, 2.0))) << "written by the last run, which got it as its input";
  EXPECT_TRUE(at::equal(again[1], at::ones({3})));
}

TEST(TorchSession, RunsOnTensorsByPosition) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  at::manual_seed(seed);
  Session session = load_writer().start_session().value();
  const at::Tensor inputs[] = {at::randn({1, 3}), at::full({1}, 1, at::kLong)};
  const at::Tensor before = inputs[0].clone();
  const auto outputs = run_torch(session, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_TRUE(at::equal(inputs[0], before * 2)) << "the model wrote a copy";
  EXPECT_TRUE(at::allclose(outputs->front()[1].to(at::kDouble), expected_row(before)[0], 1e-5, 1e-5));
  const at::Tensor swapped[] = {inputs[1], inputs[0]};
  EXPECT_EQ(run_torch(session, swapped).status().code(), StatusCode::kInvalidArgument);
  const at::Tensor sparse[] = {at::randn({1, 3}).to_sparse(), inputs[1]};
  EXPECT_EQ(run_torch(session, sparse).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace kpt
