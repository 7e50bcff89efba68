#include "tensor_files/npy.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/child_process.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "support/hardware_fixture.h"
#include "tensor_files/npy_header.h"
#include "tensor_files/random_tensor.h"

namespace kpt {
namespace {

using testing::bytes_as_text;
using testing::draw_seed;
using testing::expect_same;
using ::testing::HasSubstr;
using testing::test_data;

class Npy : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name = "file.npy") const { return folder_.path() / name; }

 private:
  testing::TemporaryFolder folder_;
};

Result<Tensor> parse(const std::string& text) { return parse_npy(std::as_bytes(std::span(text)), "file.npy"); }

std::string with_header(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string text = std::string("\x93NUMPY") + version + '\0';
  if (version == 1) {
    append_little_endian(text, static_cast<std::uint16_t>(dictionary.size()));
  } else {
    append_little_endian(text, static_cast<std::uint32_t>(dictionary.size()));
  }
  return text + dictionary + data;
}

bool known(DType dtype) { return make_npy_header(dtype, {}, false).ok(); }

TEST_F(Npy, WhatIsWrittenIsRead) {
  const std::uint64_t seed = draw_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 10; ++round) {
    for (const DType dtype : testing::kAllDTypes) {
      SCOPED_TRACE(to_string(dtype));
      Tensor tensor = testing::random_tensor(random, dtype);
      if (random() % 2 == 0) tensor = testing::transposed(tensor);
      const Status status = write_npy(path(), tensor);
      if (!known(dtype)) {
        EXPECT_EQ(status.code(), StatusCode::kUnsupported);
        EXPECT_THAT(status.message(), HasSubstr("safetensors"));
        continue;
      }
      ASSERT_TRUE(status.ok()) << status.to_string();
      const auto found = read_npy(MappedFile::open(path()).value());
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      EXPECT_TRUE(found->is_contiguous());
      expect_same(*found, tensor);
    }
  }
}

TEST_F(Npy, FourteenTypesAreKnown) { EXPECT_EQ(std::ranges::count_if(testing::kAllDTypes, known), 14); }

TEST_F(Npy, RowMajorArraysAreUsedInPlace) {
  const auto file = MappedFile::open(test_data("c_order.npy")).value();
  const Tensor tensor = read_npy(file).value();
  EXPECT_TRUE(testing::lies_in(tensor, *file));
  EXPECT_FALSE(tensor.buffer()->writable());
}

TEST_F(Npy, ColumnMajorTensorsStayColumnMajorInTheFile) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Tensor rows = Tensor::empty(DType::kInt16, {{3, 2}}).value();
  for (std::size_t i = 0; i < 6; ++i) rows.elements<std::int16_t>()[i] = static_cast<std::int16_t>(i);
  ASSERT_TRUE(write_npy(path(), testing::transposed(rows)).ok());
  const std::string text = read_text_file(path(), 1000).value();
  EXPECT_THAT(text, HasSubstr("'fortran_order': True, 'shape': (2, 3)"));
  EXPECT_EQ(text.substr(text.size() - 12), bytes_as_text(rows));
}

TEST_F(Npy, GoldenFilesOfNumPyAreRead) {
  for (const char* name : {"c_order.npy", "fortran_order.npy", "version2.npy", "version3.npy"}) {
    SCOPED_TRACE(name);
    const auto found = read_npy(MappedFile::open(test_data(name)).value());
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->dims(), (Dims{2, 3}));
    EXPECT_THAT(found->elements<float>(), ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
  }
  const Tensor scalar = read_npy(MappedFile::open(test_data("scalar.npy")).value()).value();
  EXPECT_TRUE(scalar.dims().empty());
  EXPECT_EQ(scalar.elements<double>()[0], 2.5);
  const Tensor empty = read_npy(MappedFile::open(test_data("empty.npy")).value()).value();
  EXPECT_EQ(empty.dims(), (Dims{0, 3}));
  EXPECT_EQ(empty.dtype(), DType::kInt16);
}

TEST_F(Npy, WhatNumPyCanAndWeCannotIsRefusedByName) {
  const auto message_of = [](const char* name) {
    const auto status = read_npy(MappedFile::open(test_data(name)).value()).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    return status.message();
  };
  EXPECT_THAT(message_of("big_endian.npy"), HasSubstr("'>f4'; only little endian"));
  EXPECT_THAT(message_of("object.npy"), HasSubstr("pickle"));
  EXPECT_THAT(message_of("structure.npy"), HasSubstr("structures"));
}

TEST_F(Npy, UnusualButSoundHeadersAreRead) {
  for (const char* dictionary :
       {"{'shape':(3,),'descr':'|u1','fortran_order':False}",
        "{\"descr\": \"<u1\", 'fortran_order': True, 'shape': (3,)}",
        " {'descr':'|u1', 'fortran_order':False, 'shape':(3L,), } \n",
        "{'descr':'>u1','fortran_order':False,'shape':(3 , )}", "{'descr':'|u1','fortran_order':False,'shape':(1,3)}",
        "{'descr':'|i1','fortran_order':False,'shape':(1,3,)}",
        "{'descr':'|u1','fortran_order':False,'shape':(3, 1),}\t"}) {
    for (const char version : {'\1', '\2', '\3'}) {
      EXPECT_TRUE(parse(with_header(dictionary, "abc", version)).ok()) << dictionary;
    }
  }
  EXPECT_TRUE(parse(with_header("{'descr':'=i2','fortran_order':False,'shape':()}", "ab")).ok());
}

struct Malformed {
  std::string text;
  StatusCode code = StatusCode::kCorruptData;
};

std::string shaped(const std::string& shape) { return "{'descr':'<f4','fortran_order':False,'shape':" + shape + "}"; }

std::string typed(const std::string& descr) { return "{'descr':" + descr + ",'fortran_order':False,'shape':(2,)}"; }

std::vector<Malformed> malformed_files() {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const std::string sound = shaped("(2,)");
  const std::string eight(8, 'x');
  std::vector<Malformed> cases{
      {""},
      {"\x93"},
      {"\x93NUMPX\1" + std::string(60, ' ')},
      {"PK\3\4"},
      {std::string("\x93NUMPY")},
      {std::string("\x93NUMPY\1", 7)},
      {std::string("\x93NUMPY\1\0", 8)},
      {std::string("\x93NUMPY\1\0\5", 9)},
      {std::string("\x93NUMPY\1\0\5\0", 10)},
      {std::string("\x93NUMPY\2\0\5\0\0", 11)},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)},
      {std::string("\x93NUMPY\0\0\0\0", 10), kUnsupported},
      {std::string("\x93NUMPY\4\0\0\0", 10), kUnsupported},
      {std::string("\x93NUMPY\1\1\0\0", 10), kUnsupported},
      {with_header(std::string(70000, ' ') + sound, eight, 2)},
      {with_header(sound, "")},
      {with_header(sound, "1234567")},
      {with_header(sound, eight + "x")},
  };
  return cases;
}

std::vector<Malformed> malformed_dictionaries() {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const std::string eight(8, 'x');
  std::vector<Malformed> cases;
  for (const char* dictionary : {"",
                                 "{",
                                 "}",
                                 "{}",
                                 "[]",
                                 "None",
                                 "{'descr'}",
                                 "{'descr':}",
                                 "{'descr':'<f4'}",
                                 "{'descr':'<f4',}",
                                 "{'descr':'<f4','fortran_order':False}",
                                 "{'descr':'<f4','shape':(2,)}",
                                 "{'fortran_order':False,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':False,'shape':(2,)",
                                 "{'descr':'<f4','fortran_order':False,'shape':(2,)}x",
                                 "{'descr':'<f4','fortran_order':False,'shape':(2,)}{}",
                                 "{'descr':'<f4' 'fortran_order':False,'shape':(2,)}",
                                 "{,'descr':'<f4','fortran_order':False,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':0,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':false,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':'False','shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':False,'shape':(2,),'more':1}",
                                 "{descr:'<f4','fortran_order':False,'shape':(2,)}",
                                 "{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':False,'fortran_order':False,'shape':(2,)}",
                                 "{'descr':'<f4','fortran_order':False,'shape':(2,),'shape':(2,)}",
                                 "{'desc\\x72':'<f4','fortran_order':False}",
                                 "{'descr':'<f4','fortran_order':False,'shape':__import__('os')}"}) {
    cases.push_back({with_header(dictionary, eight)});
  }
  for (const char* shape : {"",
                            "2",
                            "(2)",
                            "[2]",
                            "(2,",
                            "2,)",
                            "(,)",
                            "(,2)",
                            "(2,,)",
                            "(2 1)",
                            "(-2,)",
                            "(+2,)",
                            "(2.0,)",
                            "(2e0,)",
                            "('2',)",
                            "(None,)",
                            "(0x2,)",
                            "(3,)",
                            "(1,)",
                            "()",
                            "(2,0)",
                            "(2,2)",
                            "(4294967296,4294967296)",
                            "(9223372036854775807,)",
                            "(9223372036854775808,)",
                            "(4611686018427387906,)",
                            "(99999999999999999999999,)",
                            "(2,(1,))"}) {
    cases.push_back({with_header(shaped(shape), eight)});
  }
  cases.push_back({with_header(shaped("(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2)"), eight), kUnsupported});
  return cases;
}

std::vector<Malformed> malformed_types() {
  const std::string eight(8, 'x');
  std::vector<Malformed> cases;
  for (const char* descr : {"'>f4'", "'|f4'", "'<f3'", "'<f16'", "'<c32'", "'|V4'", "'|S4'", "'<U1'", "'<M8[ns]'",
                            "'<m8'", "'|O'", "'O8'", "'<f4", "'|O4'", "[('a','<f4')]", "'ff4'", "'<f44'", "'<i4 '"}) {
    cases.push_back({with_header(typed(descr), eight), StatusCode::kUnsupported});
  }
  for (const char* descr : {"''", "'<'", "4", "None", "<f4", "b'<f4'", "('<f4',(2,))", "'<\\x664'"}) {
    cases.push_back({with_header(typed(descr), eight)});
  }
  return cases;
}

TEST_F(Npy, EveryMalformedFileIsATypedError) {
  std::vector<Malformed> cases = malformed_files();
  std::ranges::move(malformed_dictionaries(), std::back_inserter(cases));
  std::ranges::move(malformed_types(), std::back_inserter(cases));
  ASSERT_GE(cases.size(), 60U);
  for (const Malformed& bad : cases) {
    const Status status = parse(bad.text).status();
    EXPECT_EQ(status.code(), bad.code) << bad.text.substr(0, 200) << "\n" << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("file.npy"));
  }
}

TEST_F(Npy, EveryTruncationIsRefused) {
  const std::string text = with_header(shaped("(2,)"), "12345678");
  ASSERT_TRUE(parse(text).ok());
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(parse(text.substr(0, size)).ok()) << size;
}

TEST_F(Npy, TensorWithoutMemoryCannotBeWritten) {
  EXPECT_EQ(write_npy(path(), Tensor()).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// NumPy itself reads what we write and says the same bytes in its own words.
TEST_F(Npy, NumPyReadsOurFiles) {
  const std::uint64_t seed = draw_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::string expected;
  std::vector<std::string> arguments{KPT_TEST_PYTHON, "-c",
                                     "import sys, numpy\n"
                                     "for path in sys.argv[1:]:\n"
                                     "    a = numpy.load(path)\n"
                                     "    print(a.dtype.name, list(a.shape), a.tobytes().hex())"};
  for (const DType dtype : testing::kAllDTypes) {
    if (!known(dtype)) continue;
    const Tensor tensor = testing::transposed(testing::random_tensor(random, dtype));
    arguments.push_back(path(std::string(to_string(dtype)) + ".npy").string());
    ASSERT_TRUE(write_npy(arguments.back(), tensor).ok());
    expected += std::string(to_string(dtype)) + " " + tensor.dims().to_string() + " ";
    for (const char byte : bytes_as_text(tensor)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      expected += kDigits[static_cast<unsigned char>(byte) >> 4U];
      expected += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
    expected += "\n";
  }
  const auto probe = run_child({{KPT_TEST_PYTHON, "-c", "import numpy"}, {}, std::chrono::seconds(60)});
  if (!probe.ok() || !probe->succeeded()) GTEST_SKIP() << "no Python with NumPy";
  const auto run = run_child({arguments, {}, std::chrono::seconds(60)});
  ASSERT_TRUE(run.ok() && run->succeeded()) << run->standard_error;
  EXPECT_EQ(run->standard_output, expected);
}

}  // namespace
}  // namespace kpt
