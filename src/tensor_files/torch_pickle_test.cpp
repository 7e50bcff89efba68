#include "tensor_files/torch_pickle.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/zip.h"
#include "archive/zip_forge.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"
#include "tensor_files/random_tensor.h"

namespace kpt {
namespace {

using testing::as_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::test_data;

// An archive as torch.save() makes it, around any pickle.
std::string archive_of(const std::string& pickle, const std::string& storage = "12345678",
                       const std::string& byte_order = "little") {
  ZipBuilder builder;
  builder.add("archive/data.pkl", as_bytes(pickle));
  builder.add("archive/byteorder", as_bytes(byte_order));
  builder.add("archive/data/0", as_bytes(storage));
  return builder.serialize().value();
}

Result<PickleValue> read(const std::string& pickle, const std::string& storage = "12345678") {
  const std::string text = archive_of(pickle, storage);
  return read_torch_pickle(as_bytes(text), "test.pt");
}

// Pieces of pickles.
const std::string kStart("\x80\x02");
std::string text(const std::string& value) {
  std::string made = "X";
  append_little_endian(made, static_cast<std::uint32_t>(value.size()));
  return made + value;
}
std::string integer(std::int32_t value) {
  std::string made = "J";
  append_little_endian(made, static_cast<std::uint32_t>(value));
  return made;
}
std::string global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string storage(const std::string& type = global("torch", "FloatStorage"), std::int32_t count = 2,
                    const std::string& key = "0") {
  return "(" + text("storage") + type + text(key) + text("cpu") + integer(count) + "tQ";
}
const std::string kNoHooks = global("collections", "OrderedDict") + ")R";
// One float tensor of the extents (2,); every part can be replaced.
struct TensorParts {
  std::string function = global("torch._utils", "_rebuild_tensor_v2");
  std::string storage_part = storage();
  std::string offset = integer(0);
  std::string dims = integer(2) + "\x85";
  std::string strides = integer(1) + "\x85";
  std::string hooks = kNoHooks;
  std::string more;
  std::string build() const {
    return kStart + function + "(" + storage_part + offset + dims + strides + "\x89" + hooks + more + "tR.";
  }
};
std::string tensor_with(const std::function<void(TensorParts&)>& change) {
  TensorParts parts;
  change(parts);
  return parts.build();
}

TEST(TorchPickle, GoldenFileOfNestedValuesIsRead) {
  const auto file = MappedFile::open(test_data("nested.pt")).value();
  for (const bool in_place : {false, true}) {
    const auto found = read_torch_pickle(file->bytes(), "nested.pt", in_place ? file : nullptr);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    const Tensor& tensor = *found->find("tensor")->get<Tensor>();
    EXPECT_EQ(tensor.dims(), (Dims{3, 4}));
    EXPECT_EQ(tensor.elements<float>()[11], 11.0F);
    EXPECT_EQ(testing::lies_in(tensor, *file), in_place);
    const Tensor& view = *found->find("view")->get<Tensor>();
    EXPECT_EQ(view.dims(), (Dims{3, 2}));
    EXPECT_EQ(view.strides(), (Dims{1, 4}));
    EXPECT_EQ(view.buffer(), tensor.buffer()) << "a view shares its storage";
    EXPECT_THAT(view.contiguous_copy()->elements<float>(), ElementsAre(1, 5, 2, 6, 3, 7));
    EXPECT_EQ(found->find("parameter")->get<Tensor>()->elements<double>()[1], 1.0);
    EXPECT_EQ(found->find("scalar")->get<Tensor>()->dtype(), DType::kBool);
    EXPECT_EQ(found->find("empty")->get<Tensor>()->dims(), (Dims{0, 5}));
    EXPECT_EQ(found->find("float8")->get<Tensor>()->dtype(), DType::kFloat8E4M3FN);
    EXPECT_EQ(found->find("uint16")->get<Tensor>()->elements<std::uint16_t>()[0], 65535);
    EXPECT_EQ(found->find("ordered")->find("x")->get<Tensor>()->dtype(), DType::kBFloat16);
    EXPECT_EQ(*found->find("dtype")->get<DType>(), DType::kFloat16);
    EXPECT_EQ(*found->find("device")->get<PickleDevice>(), (PickleDevice{"cuda", 1}));
    EXPECT_EQ(found->find("size")->items().size(), 2U);
    EXPECT_EQ(found->find("missing"), nullptr);

    const std::span<const PickleValue> nested = found->find("nested")->items();
    ASSERT_EQ(nested.size(), 3U);
    EXPECT_EQ(*nested[0].get<std::int64_t>(), 1);
    EXPECT_EQ(nested[1].kind(), "a tuple");
    EXPECT_EQ(*nested[1].items()[0].get<double>(), 2.5);
    EXPECT_EQ(nested[1].items()[1].kind(), "None");
    EXPECT_EQ(*nested[1].items()[2].items()[0].get<bool>(), true);
    EXPECT_EQ(*nested[2].get<PickleValue::Dict>()->keys[0].get<std::int64_t>(), 3);
    EXPECT_EQ(*nested[2].find("\xc3\xa4")->get<std::int64_t>(), -(std::int64_t{1} << 40U));
  }
}

TEST(TorchPickle, StateDictIsReadAsDict) {
  const auto file = MappedFile::open(test_data("state_dict.pt")).value();
  const auto found = read_torch_pickle(file->bytes(), "state_dict.pt");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->find("weight")->get<Tensor>()->dims(), (Dims{1, 2}));
  EXPECT_EQ(found->find("bias")->get<Tensor>()->dims(), (Dims{1}));
  EXPECT_EQ(found->get<PickleValue::Dict>()->keys.size(), 2U);
}

TEST(TorchPickle, SampleInputsInsideAnExportedModelAreRead) {
  const auto file = MappedFile::open(std::filesystem::path(source_dir()) / "src/archive/test_data/linear.pt2").value();
  const auto archive = ZipArchive::open(file).value();
  const ZipEntry* entry = archive.find("linear/data/sample_inputs/model.pt");
  ASSERT_NE(entry, nullptr);
  const auto found = read_torch_pickle(archive.view(*entry).value(), "linear.pt2: " + entry->name, file);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->items().size(), 2U);
  const Tensor& input = *found->items()[0].items()[0].get<Tensor>();
  EXPECT_EQ(input.dims(), (Dims{1, 3}));
  EXPECT_TRUE(testing::lies_in(input, *file));
}

TEST(TorchPickle, HandMadeTensorIsRead) {
  const auto found = read(tensor_with([](TensorParts&) {}));
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(testing::bytes_as_text(*found->get<Tensor>()), "12345678");
}

TEST(TorchPickle, SharedAndRepeatedValuesFollowPython) {
  // d = {}; d[1] = 2; d[1] = 3; [d, d]
  const auto shared =
      read(kStart + "]" + "}q" + std::string(1, '\0') + "(K\1K\2K\1K\3u" + "a" + "h" + std::string(1, '\0') + "a.");
  ASSERT_TRUE(shared.ok()) << shared.status().to_string();
  ASSERT_EQ(shared->items().size(), 2U);
  for (const PickleValue& item : shared->items()) {
    ASSERT_EQ(item.get<PickleValue::Dict>()->keys.size(), 1U);
    EXPECT_EQ(*item.get<PickleValue::Dict>()->values[0].get<std::int64_t>(), 3);
  }
}

TEST(TorchPickle, IntegersOfAllLengths) {
  const auto value_of = [](const std::string& operation) {
    return *read(kStart + operation + ".")->get<std::int64_t>();
  };
  EXPECT_EQ(value_of(std::string("\x8a\x00", 2)), 0);
  EXPECT_EQ(value_of(std::string("\x8a\x01\xff", 3)), -1);
  EXPECT_EQ(value_of(std::string("\x8a\x02\xff\x00", 4)), 255);
  EXPECT_EQ(value_of(std::string("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10)),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value_of(std::string("J\xfe\xff\xff\xff")), -2);
  EXPECT_EQ(value_of("M\xff\xff"), 65535);
  EXPECT_EQ(value_of("K\xff"), 255);
  EXPECT_EQ(*read(kStart + std::string("G\xc0\x04\0\0\0\0\0\0", 9) + ".")->get<double>(), -2.5);
}

struct MalformedPickle {
  std::string pickle;
  const char* message;
  StatusCode code = StatusCode::kCorruptData;
};

std::vector<MalformedPickle> malformed_pickles() {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const std::string zero(1, '\0');
  return {
      {"", "cut short"},
      {kStart, "cut short"},
      {kStart + "N", "cut short"},
      {kStart + ".", "stack runs empty"},
      {kStart + "NN.", "more than one value"},
      {kStart + "(N.", "more than one value"},
      {kStart + "N.N", "follows its end"},
      {kStart + "0.", "stack runs empty"},
      {kStart + "1.", "mark is missing"},
      {kStart + "2.", "stack runs empty"},
      {kStart + "t.", "mark is missing"},
      {kStart + "e.", "mark is missing"},
      {kStart + "u.", "mark is missing"},
      {kStart + "]N(0a.", "stack runs empty"},
      {kStart + "(]Nea.", "stack runs empty"},
      {kStart + "\x85.", "stack runs empty"},
      {kStart + "N\x86.", "stack runs empty"},
      {kStart + "NN\x87.", "stack runs empty"},
      {kStart + "NNa.", "other than a list"},
      {kStart + "N(Ne.", "other than a list"},
      {kStart + "]NNs.", "other than a dict"},
      {kStart + "](NNu.", "other than a dict"},
      {kStart + "}(Nu.", "other than a dict"},
      {kStart + "h" + zero + ".", "never stored"},
      {kStart + std::string("j\0\0\0\1", 5) + ".", "never stored"},
      {kStart + "q" + zero + ".", "stack runs empty"},
      {kStart + "q", "cut short"},
      {kStart + "Nq", "cut short"},
      {kStart + "Nr" + zero, "cut short"},
      {kStart + "h", "cut short"},
      {kStart + "j" + zero, "cut short"},
      {kStart + "K", "cut short"},
      {kStart + "M" + zero, "cut short"},
      {kStart + "J" + zero, "cut short"},
      {kStart + "G1234567", "cut short"},
      {kStart + "\x8a", "cut short"},
      {kStart + "\x8a\x04" + "123", "cut short"},
      {kStart + "\x8a\x09" + "123456789.", "64 bits", kUnsupported},
      {kStart + "X" + zero, "cut short"},
      {kStart + std::string("X\xff\xff\xff\xff") + "abc", "cut short"},
      {kStart + "ctorch", "cut short"},
      {kStart + "ctorch\nfloat32", "cut short"},
      {"\x80", "cut short"},
      {"\x80\x03N.", "protocol 3", kUnsupported},
      {"\x80\x04N.", "protocol 4", kUnsupported},
      {kStart + "I1\n.", "0x49", kUnsupported},
      {kStart + "\x95" + std::string(8, '\0') + "N.", "0x95", kUnsupported},
      {kStart + "\x81.", "0x81", kUnsupported},
      {kStart + "i" + "os\nsystem\n.", "0x69", kUnsupported},
      {kStart + "o.", "0x6f", kUnsupported},
      {kStart + "\x82\x01.", "0x82", kUnsupported},
      {kStart + "P0\n.", "0x50", kUnsupported},
  };
}

std::vector<MalformedPickle> malformed_calls() {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const std::string zero(1, '\0');
  return {
      {kStart + global("os", "system") + text("true") + "\x85R.", "os.system", kUnsupported},
      {kStart + global("builtins", "eval") + ".", "builtins.eval", kUnsupported},
      {kStart + global("__builtin__", "complex") + ".", "complex", kUnsupported},
      {kStart + global("torch._utils", "_rebuild_sparse_tensor") + ".", "_rebuild_sparse_tensor", kUnsupported},
      {kStart + global("torch", "QInt8Storage") + ".", "QInt8Storage", kUnsupported},
      {kStart + global("torch", "float33") + ".", "float33", kUnsupported},
      {kStart + global("torch.float32", "") + ".", "torch.float32.", kUnsupported},
      {kStart + global("torch", "FloatStorage") + ".", "bare storage", kUnsupported},
      {kStart + global("torch", "device") + ".", "class or function", kUnsupported},
      {kStart + storage() + ".", "bare storage", kUnsupported},
      {kStart + "N)R.", "not a known function", kUnsupported},
      {kStart + global("torch", "FloatStorage") + ")R.", "not a known function", kUnsupported},
      {kStart + global("torch.storage", "UntypedStorage") + ")R.", "UntypedStorage", kUnsupported},
      {kStart + global("torch", "Size") + "NR.", "no tuple"},
      {kStart + global("torch", "Size") + ")R.", "torch.Size"},
      {kStart + global("torch", "Size") + "N\x85R.", "torch.Size"},
      {kStart + global("torch", "device") + ")R.", "device"},
      {kStart + global("torch", "device") + "N\x85R.", "device"},
      {kStart + global("torch", "device") + text("cpu") + "N\x86R.", "device"},
      {kStart + global("torch", "device") + text("cpu") + "K\1K\1\x87R.", "device"},
      {kStart + global("collections", "OrderedDict") + "]\x85R.", "OrderedDict", kUnsupported},
      {kStart + "]}b.", "attributes", kUnsupported},
      {kStart + "}b.", "stack runs empty"},
      {kStart + "NQ.", "persistent id"},
      {kStart + ")Q.", "persistent id"},
      {kStart + "(" + text("module") + global("torch", "FloatStorage") + text("0") + text("cpu") + "K\2tQ.",
       "persistent id"},
      {kStart + "(" + text("storage") + global("torch", "Size") + text("0") + text("cpu") + "K\2tQ.", "persistent id"},
      {kStart + "(" + text("storage") + global("torch", "FloatStorage") + "K" + zero + text("cpu") + "K\2tQ.",
       "persistent id"},
      {kStart + storage(global("torch", "FloatStorage"), 3) + ".", "not 3 elements"},
      {kStart + storage(global("torch", "FloatStorage"), -2) + ".", "not -2 elements"},
      {kStart + storage(global("torch", "FloatStorage"), 2, "1") + ".", "no storage 1"},
      {kStart + storage(global("torch", "FloatStorage"), 2, "../data.pkl") + ".", "no storage"},
      {kStart + storage(global("torch.storage", "UntypedStorage"), 2) + ".", "not 2 elements"},
  };
}

std::vector<MalformedPickle> malformed_tensors() {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const auto changed = [](auto change) { return tensor_with(change); };
  std::string rank17;
  for (int i = 0; i < 17; ++i) rank17 += "K\1";
  return {
      {changed([](TensorParts& t) { t.storage_part = "N"; }), "wrong types"},
      {changed([](TensorParts& t) { t.storage_part = storage(global("torch.storage", "UntypedStorage"), 8); }),
       "no element type"},
      {changed([](TensorParts& t) { t.offset = "N"; }), "wrong types"},
      {changed([](TensorParts& t) { t.offset = integer(1); }), "does not fit"},
      {changed([](TensorParts& t) { t.offset = integer(-1); }), "negative"},
      {changed([](TensorParts& t) { t.offset = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"; }), "does not fit"},
      {changed([](TensorParts& t) { t.dims = integer(3) + "\x85"; }), "does not fit"},
      {changed([](TensorParts& t) { t.dims = integer(-2) + "\x85"; }), "negative"},
      {changed([](TensorParts& t) { t.dims = "]"; }), "no tuple"},
      {changed([](TensorParts& t) { t.dims = "N\x85"; }), "no integers"},
      {changed([](TensorParts& t) { t.dims = ")"; }), "number of strides"},
      {changed([](TensorParts& t) { t.strides = integer(2) + "\x85"; }), "does not fit"},
      {changed([](TensorParts& t) { t.strides = integer(-1) + "\x85"; }), "negative"},
      {changed([](TensorParts& t) { t.strides = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"; }), "does not fit"},
      {changed([](TensorParts& t) { t.hooks = "N"; }), "wrong types"},
      {changed([](TensorParts& t) { t.hooks = "}K\1K\1s"; }), "hooks", kUnsupported},
      {changed([](TensorParts& t) { t.more = "}" + text("conj") + "\x88s"; }), "metadata", kUnsupported},
      {changed([](TensorParts& t) { t.more = "K\1"; }), "metadata", kUnsupported},
      {changed([](TensorParts& t) { t.more = "NN"; }), "8 arguments"},
      {changed([](TensorParts& t) { t.function = global("torch._utils", "_rebuild_tensor_v3"); }), "6 arguments"},
      {changed([](TensorParts& t) {
         t.function = global("torch._utils", "_rebuild_tensor_v3");
         t.more = "N";
       }),
       "wrong types"},
      {changed([](TensorParts& t) {
         t.function = global("torch._utils", "_rebuild_tensor_v3");
         t.more = global("torch", "complex128");
       }),
       "does not fit"},
      {changed([](TensorParts& t) { t.function = global("torch._utils", "_rebuild_parameter"); }), "parameter"},
      {kStart + global("torch._utils", "_rebuild_parameter") + "N\x88N\x87R.", "parameter"},
      {changed([&](TensorParts& t) { t.dims = t.strides = "(" + rank17 + "t"; }), "rank", kUnsupported},
  };
}

TEST(TorchPickle, DeepAndCircularValuesAreRefused) {
  const Status deep = read(kStart + std::string(1000, ']') + std::string(999, 'a') + ".").status();
  EXPECT_EQ(deep.code(), StatusCode::kUnsupported);
  EXPECT_THAT(deep.message(), HasSubstr("nested deeper"));
  const Status circle = read(kStart + std::string("]q\0h\0a.", 7)).status();
  EXPECT_EQ(circle.code(), StatusCode::kUnsupported) << circle.to_string();
  EXPECT_THAT(circle.message(), HasSubstr("circle"));
}

TEST(TorchPickle, EveryMalformedPickleIsATypedError) {
  std::vector<MalformedPickle> cases = malformed_pickles();
  std::ranges::move(malformed_calls(), std::back_inserter(cases));
  std::ranges::move(malformed_tensors(), std::back_inserter(cases));
  ASSERT_GE(cases.size(), 60U);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << i << " " << cases[i].message);
    const Status status = read(cases[i].pickle).status();
    EXPECT_EQ(status.code(), cases[i].code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(cases[i].message));
    EXPECT_THAT(status.message(), HasSubstr("test.pt"));
  }
}

TEST(TorchPickle, ExponentialTreesAreRefused) {
  // Each list holds the one before it twice: 2^40 values from 250 bytes.
  std::string pickle = kStart + "]q" + std::string(1, '\0');
  for (char i = 0; i < 40; ++i) {
    const std::string before(1, i);
    const std::string after(1, static_cast<char>(i + 1));
    pickle += "]h" + before + "ah" + before + "aq" + after;
  }
  for (int i = 0; i < 40; ++i) pickle += "a";  // all lists made are still on the stack
  const Status status = read(pickle + ".").status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("values"));
  // One long text, many times.
  std::string texts = kStart + "](" + text(std::string(1U << 20U, 'x')) + "q" + std::string(1, '\0');
  for (int i = 0; i < 1000; ++i) texts += std::string("h\0", 2);
  EXPECT_THAT(read(texts + "e.").status().message(), HasSubstr("of text"));
}

TEST(TorchPickle, EveryTruncationIsRefused) {
  const std::string pickle = tensor_with([](TensorParts&) {});
  for (std::size_t size = 0; size < pickle.size(); ++size) {
    EXPECT_FALSE(read(pickle.substr(0, size)).ok()) << size;
  }
}

TEST(TorchPickle, WhatIsNoSuchArchiveIsRefused) {
  const auto status_of = [](const std::string& content) {
    return read_torch_pickle(as_bytes(content), "test.pt").status();
  };
  EXPECT_EQ(status_of("").code(), StatusCode::kCorruptData);
  EXPECT_THAT(status_of("\x80\x02N.").message(), HasSubstr("before 1.6"));
  EXPECT_EQ(status_of(archive_of(kStart + "N.", "", "big")).code(), StatusCode::kUnsupported);
  EXPECT_TRUE(status_of(archive_of(kStart + "N.")).ok());
  ZipBuilder builder;
  builder.add("archive/version", as_bytes("3"));
  EXPECT_THAT(status_of(builder.serialize().value()).message(), HasSubstr("without data.pkl"));
  testing::ForgedEntry entry;
  entry.name = "a/data.pkl";
  entry.content = tensor_with([](TensorParts&) {});
  testing::ForgedZip zip({entry, entry});
  zip.entries[1].name = "a/data/0";
  zip.entries[1].content = "12345678";
  EXPECT_TRUE(status_of(zip.build()).ok()) << status_of(zip.build()).to_string();
  zip.entries[0].deflate = true;
  EXPECT_TRUE(status_of(zip.build()).ok()) << "the pickle itself may be deflated";
  zip.entries[1].deflate = true;
  EXPECT_EQ(status_of(zip.build()).code(), StatusCode::kUnsupported);
}

// Fresh values by torch.save(), written again as text by both sides.
constexpr const char* kSave = R"python(
import random, sys, torch
random.seed(int(sys.argv[2]))
torch.manual_seed(int(sys.argv[2]))
kinds = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
         torch.int64, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.float8_e5m2]
def tensor():
    dims = [random.randint(0, 4) for _ in range(random.randint(0, 4))]
    made = torch.randint(0, 2, dims).to(random.choice(kinds))
    if len(dims) > 1 and random.random() < 0.5: made = made.transpose(0, 1)
    if len(dims) > 0 and random.random() < 0.3: made = made[1:]
    return made
def value(depth):
    kind = random.randint(0, 8 if depth < 4 else 5)
    if kind == 0: return None
    if kind == 1: return random.random() < 0.5
    if kind == 2: return random.choice([0, -1, 255, 256, 65536, -2**31, 2**31, 2**62, -2**63])
    if kind == 3: return random.choice([0.0, -1.5, 1e300])
    if kind == 4: return random.choice(["", "text", "\u00e4\u20ac"])
    if kind == 5: return tensor()
    items = [value(depth + 1) for _ in range(random.randint(0, 6))]
    if kind == 6: return items
    if kind == 7: return tuple(items)
    return {"k%d" % i: item for i, item in enumerate(items)}
def show(v):
    if isinstance(v, torch.Tensor):
        dense = torch.empty(v.shape, dtype=v.dtype).copy_(v).flatten()  # contiguous() leaves odd strides of one element
        data = bytes(dense.view(torch.uint8).tolist()) if v.numel() else b""
        return "%s%s:%s" % (str(v.dtype)[6:], list(v.shape), data.hex())
    if isinstance(v, bool) or v is None: return str(v)
    if isinstance(v, float): return v.hex()
    if isinstance(v, (int, str)): return str(v)
    if isinstance(v, list): return "[" + ";".join(map(show, v)) + "]"
    if isinstance(v, tuple): return "(" + ";".join(map(show, v)) + ")"
    return "{" + ";".join(k + "=" + show(x) for k, x in v.items()) + "}"
made = [value(0) for _ in range(60)]
torch.save(made, sys.argv[1])
sys.stdout.buffer.write(show(made).encode())
)python";

std::string join_shown(std::span<const PickleValue> items, char open, char close);

std::string show(const PickleValue& value) {
  if (const auto* tensor = value.get<Tensor>()) {
    std::string hex;
    for (const char byte : testing::bytes_as_text(*tensor)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      hex += kDigits[static_cast<unsigned char>(byte) >> 4U];
      hex += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
    return std::string(to_string(tensor->dtype())) + tensor->dims().to_string() + ":" + hex;
  }
  if (value.get<PickleValue::None>() != nullptr) return "None";
  if (const auto* truth = value.get<bool>()) return *truth ? "True" : "False";
  if (const auto* number = value.get<std::int64_t>()) return std::to_string(*number);
  if (const auto* number = value.get<double>()) {
    return *number == 0 ? "0x0.0p+0" : *number < 0 ? "-0x1.8000000000000p+0" : "0x1.7e43c8800759cp+996";
  }
  if (const auto* letters = value.get<std::string>()) return *letters;
  if (value.get<PickleValue::List>() != nullptr) return join_shown(value.items(), '[', ']');
  if (value.get<PickleValue::Tuple>() != nullptr) return join_shown(value.items(), '(', ')');
  const auto* dict = value.get<PickleValue::Dict>();
  if (dict == nullptr) return "?";
  std::string shown;
  for (std::size_t i = 0; i < dict->keys.size(); ++i) {
    shown += (i > 0 ? ";" : "") + show(dict->keys[i]) + "=" + show(dict->values[i]);
  }
  return "{" + shown + "}";
}

std::string join_shown(std::span<const PickleValue> items, char open, char close) {
  std::string shown(1, open);
  for (std::size_t i = 0; i < items.size(); ++i) shown += (i > 0 ? ";" : "") + show(items[i]);
  return shown + close;
}

TEST(TorchPickle, RandomValuesOfTorchSaveAreRead) {
  const std::uint64_t seed = testing::draw_seed() % 1'000'000'000;
  SCOPED_TRACE(seed);
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "values.pt";
  const auto probe = run_child({{KPT_TEST_PYTHON, "-c", "import torch"}, {}, std::chrono::seconds(120)});
  if (!probe.ok() || !probe->succeeded()) GTEST_SKIP() << "no Python with torch";
  const auto run =
      run_child({{KPT_TEST_PYTHON, "-c", kSave, path.string(), std::to_string(seed)}, {}, std::chrono::seconds(120)});
  ASSERT_TRUE(run.ok() && run->succeeded()) << (run.ok() ? run->standard_error : run.status().message());
  const auto file = MappedFile::open(path).value();
  const auto found = read_torch_pickle(file->bytes(), path.string(), file);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(show(*found), run->standard_output);
}

}  // namespace
}  // namespace kpt
