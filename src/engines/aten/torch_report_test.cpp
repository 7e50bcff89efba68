#include "engines/aten/torch_report.h"

#include <gtest/gtest.h>

#include "device/hardware_json.h"

namespace kpt {
namespace {

TorchReport full_report() {
  TorchReport report;
  report.finding = {Presence::kPresent, "reason", "remedy"};
  report.torch_dir = "/opt/torch";
  report.source = "build";
  report.library_version = "2.15.0";
  report.flavour = "13.2";
  report.cudnn_version = "9.26.0";
  report.module_path = "/opt/kpt/lib/kpt/kpt_aten_2_15.so";
  report.module_version = "2.15.0";
  report.threads = 2;
  report.cpu_capability = "SVE256";
  report.blas = "nvpl";
  report.checks = {{"cpu", "float32", 0xffffffffffffffffULL, 33, 44, 55, 1.5e-7, 1e-5, true},
                   {"cuda:0", "bfloat16", 7, 1, 2, 3, std::nullopt, 1e-2, false}};
  report.cuda = {Presence::kBroken, "why", "what"};
  report.cuda_module_path = "/opt/kpt/lib/kpt/kpt_aten_cuda_2_15.so";
  report.cuda_own_kernels = true;
  report.cuda_devices = {{0, "NVIDIA H200", 9, 0, 132, 150754820096, 150000000000, std::nullopt}};
  report.open_seconds = 0.25;
  report.cuda_open_seconds = 0.5;
  report.notes = {"one", "two"};
  return report;
}

TEST(TorchReportJson, RoundTripIsExact) {
  const TorchReport report = full_report();
  const std::string text = nlohmann::ordered_json(report).dump();
  EXPECT_EQ(parse_report<TorchReport>(text, "test").value(), report) << text;
}

TEST(TorchReportJson, EmptyReportRoundTrips) {
  const TorchReport report;
  EXPECT_EQ(parse_report<TorchReport>(nlohmann::ordered_json(report).dump(), "test").value(), report);
}

TEST(TorchReportJson, WrongTypesAreCorruptDataNotACrash) {
  for (const char* text :
       {"", "[]", "{\"threads\": \"many\"}", "{\"checks\": [1]}", "{\"cuda_devices\": {\"a\": 1}}"}) {
    EXPECT_EQ(parse_report<TorchReport>(text, "the probe").status().code(), StatusCode::kCorruptData) << text;
  }
}

}  // namespace
}  // namespace kpt
