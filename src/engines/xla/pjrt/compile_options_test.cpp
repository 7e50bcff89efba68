#include "engines/xla/pjrt/compile_options.h"

#include <gtest/gtest.h>

namespace kpt::pjrt {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST(CompileOptions, OneReplicaIsSixBytes) { EXPECT_EQ(encode_compile_options({}), from_hex("1a0420012801")); }

// The bytes below were made by protoc from the same field numbers.
TEST(CompileOptions, ReplicasOnNamedDevices) {
  CompileSettings settings;
  settings.replicas = 2;
  settings.device_ids = {0, 1};
  EXPECT_EQ(encode_compile_options(settings), from_hex("1a1b08ffffffffffffffffff01200228014a0a080210011a040a020001"));
}

TEST(CompileOptions, PartitionsOnNamedDevicesWithShardy) {
  CompileSettings settings;
  settings.partitions = 2;
  settings.device_ids = {0, 1};
  settings.shardy = true;
  EXPECT_EQ(encode_compile_options(settings), from_hex("1a2408ffffffffffffffffff01200128023001"
                                                       "4a0e080110021a030a01001a030a0101980101"));
}

TEST(CompileOptions, FlagsAreAppendedByName) {
  CompileSettings settings;
  settings.flags = {{"xla_dump_to", std::string("./dump")}};
  EXPECT_EQ(encode_compile_options(settings),
            from_hex("1a0420012801") + from_hex("3a170a0b") + "xla_dump_to" + from_hex("12080a06") + "./dump");
  settings.flags = {{"f", true}, {"n", std::int64_t{300}}};
  EXPECT_EQ(encode_compile_options(settings), from_hex("1a0420012801") + from_hex("3a070a0166") + from_hex("12021001") +
                                                  from_hex("3a080a016e") + from_hex("120318ac02"));
}

}  // namespace
}  // namespace kpt::pjrt
