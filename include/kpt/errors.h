// The exception tree over StatusCode, for callers who prefer exceptions.
//
// Two questions can be asked of any failure, and `catch` answers both:
//   what kind?   catch (const kpt::OutOfMemoryError&)   every vendor's out-of-memory
//   whose?       catch (const kpt::NvidiaError&)        every failure of the NVIDIA stack
//   both?        catch (const kpt::VendorOutOfMemoryError<kpt::NvidiaError>&), or the alias kpt::NvidiaOutOfMemoryError
//
// throw_status(status) throws exactly the type that (vendor, code) names; docs/reference/errors.md lists them.
#pragma once

#include <exception>
#include <string>

#include "kpt/export.h"
#include "kpt/status.h"

namespace kpt {

// The root. Virtual inheritance below makes `catch (const Error&)` unambiguous for every leaf.
class KPT_API Error : public std::exception {
 public:
  explicit Error(Status status) : status_(std::move(status)), text_(status_.to_string()) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const Status& status() const noexcept { return status_; }

 protected:
  // Intermediate classes reach this constructor only on paper: the most derived class builds the virtual base.
  Error() = default;

 private:
  Status status_;
  std::string text_;
};

// Failure families, one class per status code.
#define KPT_DECLARE_ERROR(enumerator, text, exception, parent, meaning) \
  class KPT_API exception : public virtual parent {                     \
   public:                                                              \
    explicit exception(const Status& status) : Error(status) {}         \
                                                                        \
   protected:                                                           \
    exception() = default;                                              \
  };
KPT_STATUS_CODES(KPT_DECLARE_ERROR)
#undef KPT_DECLARE_ERROR

// Vendor roots.
class KPT_API NvidiaError : public virtual Error {
 public:
  explicit NvidiaError(const Status& status) : Error(status) {}

 protected:
  NvidiaError() = default;
};
class KPT_API AmdError : public virtual Error {
 public:
  explicit AmdError(const Status& status) : Error(status) {}

 protected:
  AmdError() = default;
};
class KPT_API TpuError : public virtual Error {
 public:
  explicit TpuError(const Status& status) : Error(status) {}

 protected:
  TpuError() = default;
};

// A failure family within one vendor's stack.
template <typename Family, typename VendorRoot>
class VendorFailure final : public Family, public VendorRoot {
 public:
  explicit VendorFailure(const Status& status) : Error(status) {}
};

// The names that users of the predecessor look for.
using CudaNotAvailableError = VendorFailure<DeviceNotAvailableError, NvidiaError>;
using CudaDeviceError = VendorFailure<DeviceError, NvidiaError>;
using NvidiaFp8CompilationError = VendorFailure<PrecisionCompilationError, NvidiaError>;
using NvidiaFlashAttentionError = VendorFailure<AttentionError, NvidiaError>;
using NvidiaMemoryAllocationError = VendorFailure<MemoryAllocationError, NvidiaError>;
using NvidiaOutOfMemoryError = VendorFailure<OutOfMemoryError, NvidiaError>;
using NvidiaInvalidComputeCapabilityError = VendorFailure<InvalidArchitectureError, NvidiaError>;
using NvidiaKernelLaunchError = VendorFailure<KernelLaunchError, NvidiaError>;
using NvidiaModelOptimizationError = VendorFailure<ModelOptimizationError, NvidiaError>;
using NvidiaConfigurationError = VendorFailure<ConfigurationError, NvidiaError>;

using TpuNotAvailableError = VendorFailure<DeviceNotAvailableError, TpuError>;
using XlaCompilationError = VendorFailure<CompilationError, TpuError>;
using XlaCompilationTimeoutError = VendorFailure<CompilationTimeoutError, TpuError>;
using TpuMemoryError = VendorFailure<MemoryError, TpuError>;
using TpuOutOfMemoryError = VendorFailure<OutOfMemoryError, TpuError>;
using TpuMemoryPoolError = VendorFailure<MemoryPoolError, TpuError>;
using TpuCacheError = VendorFailure<CacheError, TpuError>;
using TpuModelPreparationError = VendorFailure<ModelPreparationError, TpuError>;
using TpuOptimizationError = VendorFailure<OptimizationError, TpuError>;
using TpuValidationError = VendorFailure<ValidationError, TpuError>;
using TpuDistributedError = VendorFailure<DistributedError, TpuError>;
using TpuCheckpointError = VendorFailure<CheckpointError, TpuError>;
using TpuConfigurationError = VendorFailure<ConfigurationError, TpuError>;
using TpuDeviceError = VendorFailure<DeviceError, TpuError>;

using RocmNotAvailableError = VendorFailure<DeviceNotAvailableError, AmdError>;
using HipCompilationError = VendorFailure<KernelCompilationError, AmdError>;
using RocmMemoryError = VendorFailure<MemoryError, AmdError>;
using AmdLibraryError = VendorFailure<VendorLibraryError, AmdError>;  // MIOpen and rocBLAS
using AmdDeviceError = VendorFailure<DeviceError, AmdError>;
using AmdConfigurationError = VendorFailure<ConfigurationError, AmdError>;
using AmdMatrixCoreError = VendorFailure<MatrixUnitError, AmdError>;
using AmdOptimizationError = VendorFailure<OptimizationError, AmdError>;
using HipKernelError = VendorFailure<KernelError, AmdError>;

}  // namespace kpt
