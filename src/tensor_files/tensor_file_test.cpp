#include "tensor_files/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "support/hardware_fixture.h"
#include "tensor_files/random_tensor.h"

namespace kpt {
namespace {

using testing::expect_same;
using ::testing::HasSubstr;

class TensorFiles : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(TensorFiles, ExtensionChoosesTheFormat) {
  const std::uint64_t seed = testing::draw_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<NamedTensor> tensors{{"x", testing::random_tensor(random, DType::kFloat32)}};
  for (const char* name : {"x.npy", "x.npz", "x.safetensors", "x.NPY", "x.SafeTensors"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(write_tensors(path(name), tensors).ok());
    const auto found = read_tensors(path(name));
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ((*found)[0].name, "x");
    expect_same((*found)[0].tensor, tensors[0].tensor);
  }
  EXPECT_TRUE(read_text_file(path("x.npy"), 10000).value().starts_with("\x93NUMPY"));
  EXPECT_TRUE(read_text_file(path("x.npz"), 10000).value().starts_with("PK"));
}

TEST_F(TensorFiles, OtherExtensionsAreRefusedWithTheKnownOnes) {
  for (const char* name : {"x.pt", "x", "x.npy.gz", ".npy"}) {
    EXPECT_EQ(read_tensors(path(name)).status().code(), StatusCode::kUnsupported) << name;
    const Status status = write_tensors(path(name), {});
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr(".npy, .npz or .safetensors"));
  }
}

TEST_F(TensorFiles, NpyHoldsExactlyOneTensor) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Tensor tensor = testing::random_tensor(random, DType::kInt8);
  EXPECT_EQ(write_tensors(path("x.npy"), {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(write_tensors(path("x.npy"), std::vector<NamedTensor>{{"a", tensor}, {"b", tensor}}).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TensorFiles, MissingFilesAreNotFound) {
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    EXPECT_EQ(read_tensors(path(name)).status().code(), StatusCode::kNotFound) << name;
  }
}

}  // namespace
}  // namespace kpt
