#include "kpt/errors.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

// What one (code, vendor) pair must do when it is thrown.
struct Case {
  StatusCode code;
  Vendor vendor;
  const std::type_info* type;
  // Each rethrows the current exception and answers whether `catch` of that class takes it.
  std::function<bool()> by_exact_type, by_family, by_parent, by_vendor_root;
};

template <typename Wanted>
bool caught_by() {
  try {
    throw;
  } catch (const Wanted&) {
    return true;
  } catch (...) {
    return false;
  }
}

template <typename Family, typename Parent>
void add_cases(std::vector<Case>& cases, StatusCode code) {
  cases.push_back({code, Vendor::kNone, &typeid(Family), caught_by<Family>, caught_by<Family>, caught_by<Parent>,
                   caught_by<Error>});
  const auto add_vendor = [&]<typename Root>(Vendor vendor, const Root*) {
    cases.push_back({code, vendor, &typeid(VendorFailure<Family, Root>), caught_by<VendorFailure<Family, Root>>,
                     caught_by<Family>, caught_by<Parent>, caught_by<Root>});
  };
  add_vendor(Vendor::kNvidia, static_cast<const NvidiaError*>(nullptr));
  add_vendor(Vendor::kAmd, static_cast<const AmdError*>(nullptr));
  add_vendor(Vendor::kTpu, static_cast<const TpuError*>(nullptr));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
#define KPT_ADD_CASES(enumerator, text, exception, parent, meaning) \
  add_cases<exception, parent>(cases, StatusCode::enumerator);
  KPT_STATUS_CODES(KPT_ADD_CASES)
#undef KPT_ADD_CASES
  return cases;
}

TEST(Errors, EveryCodeOfEveryVendorThrowsExactlyItsTypeAndIsCaughtByItsRelatives) {
  const std::vector<Case> cases = all_cases();
  ASSERT_EQ(cases.size() % 4, 0u);
  for (const Case& c : cases) {
    const std::string name = std::string(to_string(c.code)) + "/" + std::string(to_string(c.vendor));
    const Status status = Status(c.code, "it broke", c.vendor).with("where", name);
    try {
      throw_status(status);
    } catch (const Error& error) {
      EXPECT_EQ(typeid(error), *c.type) << name;
      EXPECT_TRUE(c.by_exact_type()) << name;
      EXPECT_TRUE(c.by_family()) << name;
      EXPECT_TRUE(c.by_parent()) << name;
      EXPECT_TRUE(c.by_vendor_root()) << name;
      EXPECT_TRUE(caught_by<std::exception>()) << name;
      EXPECT_EQ(caught_by<NvidiaError>(), c.vendor == Vendor::kNvidia) << name;
      EXPECT_EQ(caught_by<AmdError>(), c.vendor == Vendor::kAmd) << name;
      EXPECT_EQ(caught_by<TpuError>(), c.vendor == Vendor::kTpu) << name;
      EXPECT_EQ(error.status().code(), c.code);
      EXPECT_EQ(error.status().vendor(), c.vendor);
      EXPECT_EQ(std::string(error.what()), "it broke (where=" + name + ")");
    }
  }
}

TEST(Errors, EveryFamilyIsItsOwnType) {
  std::set<std::string> names;
  for (const Case& c : all_cases()) names.insert(c.type->name());
  EXPECT_EQ(names.size(), all_cases().size());
}

// What a backend raises is a leaf; who catches the vendor's family above it catches all of its leaves.
TEST(Errors, AVendorsFamilyCatchesWhatLiesBelowItAndNoOtherVendors) {
  const auto raise = [](StatusCode code, Vendor vendor, const auto& check) {
    try {
      throw_status(Status(code, "it broke", vendor));
    } catch (const Error&) {
      check();
    }
  };
  for (const StatusCode code :
       {StatusCode::kMemory, StatusCode::kOutOfMemory, StatusCode::kMemoryAllocation, StatusCode::kMemoryPool}) {
    raise(code, Vendor::kAmd, [] {
      EXPECT_TRUE(caught_by<RocmMemoryError>());
      EXPECT_FALSE(caught_by<TpuMemoryError>());
    });
    raise(code, Vendor::kTpu, [] { EXPECT_TRUE(caught_by<TpuMemoryError>()); });
    raise(code, Vendor::kNone, [] { EXPECT_FALSE(caught_by<RocmMemoryError>()); });
  }
  for (const StatusCode code : {StatusCode::kModelOptimization, StatusCode::kModelPreparation}) {
    raise(code, Vendor::kAmd, [] { EXPECT_TRUE(caught_by<AmdOptimizationError>()); });
    raise(code, Vendor::kTpu, [] { EXPECT_TRUE(caught_by<TpuOptimizationError>()); });
  }
  raise(StatusCode::kCompilationTimeout, Vendor::kTpu, [] { EXPECT_TRUE(caught_by<XlaCompilationError>()); });
  raise(StatusCode::kKernelLaunch, Vendor::kAmd, [] { EXPECT_TRUE(caught_by<HipKernelError>()); });
  raise(StatusCode::kDeviceNotAvailable, Vendor::kNvidia, [] { EXPECT_TRUE(caught_by<CudaDeviceError>()); });
}

TEST(Errors, SiblingsDoNotCatchEachOther) {
  try {
    throw_status(Status(StatusCode::kOutOfMemory, "full", Vendor::kNvidia));
  } catch (const Error&) {
    EXPECT_TRUE(caught_by<NvidiaOutOfMemoryError>());
    EXPECT_TRUE(caught_by<MemoryError>());
    EXPECT_FALSE(caught_by<MemoryAllocationError>());
    EXPECT_FALSE(caught_by<TpuOutOfMemoryError>());
    EXPECT_FALSE(caught_by<NvidiaMemoryAllocationError>());
    EXPECT_FALSE(caught_by<DeviceError>());
  }
}

// The names that users of the predecessor rely on, each with the code that must raise it.
TEST(Errors, VendorNamesStandForTheDocumentedCodes) {
  const auto expect = [](StatusCode code, Vendor vendor, const std::type_info& type) {
    try {
      throw_status(Status(code, "it broke", vendor));
    } catch (const Error& error) {
      EXPECT_EQ(typeid(error), type) << to_string(code) << " of " << to_string(vendor);
    }
  };
  expect(StatusCode::kDeviceNotAvailable, Vendor::kNvidia, typeid(CudaNotAvailableError));
  expect(StatusCode::kDevice, Vendor::kNvidia, typeid(CudaDeviceError));
  expect(StatusCode::kPrecisionCompilation, Vendor::kNvidia, typeid(NvidiaFp8CompilationError));
  expect(StatusCode::kAttention, Vendor::kNvidia, typeid(NvidiaFlashAttentionError));
  expect(StatusCode::kInvalidArchitecture, Vendor::kNvidia, typeid(NvidiaInvalidComputeCapabilityError));
  expect(StatusCode::kKernelLaunch, Vendor::kNvidia, typeid(NvidiaKernelLaunchError));
  expect(StatusCode::kCompilation, Vendor::kTpu, typeid(XlaCompilationError));
  expect(StatusCode::kCompilationTimeout, Vendor::kTpu, typeid(XlaCompilationTimeoutError));
  expect(StatusCode::kMemoryPool, Vendor::kTpu, typeid(TpuMemoryPoolError));
  expect(StatusCode::kCheckpoint, Vendor::kTpu, typeid(TpuCheckpointError));
  expect(StatusCode::kKernelCompilation, Vendor::kAmd, typeid(HipCompilationError));
  expect(StatusCode::kVendorLibrary, Vendor::kAmd, typeid(AmdLibraryError));
  expect(StatusCode::kMatrixUnit, Vendor::kAmd, typeid(AmdMatrixCoreError));
  expect(StatusCode::kKernel, Vendor::kAmd, typeid(HipKernelError));
}

TEST(Errors, ThrowingAnOkStatusIsABrokenInvariant) { EXPECT_THROW(throw_status(Status()), InternalError); }

TEST(Errors, CopyKeepsTextAndStatus) {
  auto original = std::make_unique<NvidiaOutOfMemoryError>(Status(StatusCode::kOutOfMemory, "full", Vendor::kNvidia));
  const NvidiaOutOfMemoryError copy(*original);
  original.reset();
  EXPECT_STREQ(copy.what(), "full");
  EXPECT_EQ(copy.status().code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace kpt
