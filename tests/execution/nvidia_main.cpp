// Runs the tests of this program on the first NVIDIA GPU. Ends with 77 (skipped) and the reason where there is none.
#include <cstdio>

#include <gmock/gmock.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "bert_graph.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const kpt::Environment environment = kpt::Environment::from_process();
  const auto context = kpt::make_backend_context(kpt::load_config({}, environment).value(), environment).value();
  const auto placed = kpt::find_runnable_device("nvidia:0", context);
  if (!placed.ok()) {
    std::printf("skipped: %s\n", placed.status().message().c_str());
    return 77;
  }
  kpt::execution_test::choose_device("nvidia:0");
  // What these ask is the CPU's: names of its kernels. Operators that a device lacks are left out by the tests.
  testing::GTEST_FLAG(filter) += std::string(testing::GTEST_FLAG(filter).find('-') == std::string::npos ? "-" : ":") +
                                 "*PlanNames*:*TargetSays*:*WhatDoesNotFit*:*RecordedTypes*:*RecordedSizes*:"
                                 "*OperandsThatAreNotAsRecorded*:*EightThreadsShareThePackedWeights*";
  return RUN_ALL_TESTS();
}
