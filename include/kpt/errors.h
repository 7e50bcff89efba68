// The exception tree over StatusCode, for callers who prefer exceptions.
//
// Two questions can be asked of any failure, and `catch` answers both:
//   what kind?   catch (const kpt::OutOfMemoryError&)   every vendor's out-of-memory
//   whose?       catch (const kpt::NvidiaError&)        every failure of the NVIDIA stack
//   both?        catch (const kpt::NvidiaOutOfMemoryError&), or its parent: catch (const kpt::RocmMemoryError&)
// The last are the aliases below; for other pairs there is VendorFailure<Family, VendorRoot>.
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

// The family above a family.
template <typename Family>
struct ParentFamily;
#define KPT_DECLARE_PARENT(enumerator, text, exception, parent, meaning) \
  template <>                                                            \
  struct ParentFamily<exception> {                                       \
    using type = parent;                                                 \
  };
KPT_STATUS_CODES(KPT_DECLARE_PARENT)
#undef KPT_DECLARE_PARENT

// A failure family within one vendor's stack. It is also that vendor's failure of the family above.
template <typename Family, typename VendorRoot>
class KPT_API VendorFailure : public virtual Family,
                              public virtual VendorFailure<typename ParentFamily<Family>::type, VendorRoot> {
 public:
  explicit VendorFailure(const Status& status) : Error(status) {}

 protected:
  VendorFailure() = default;
};
template <typename VendorRoot>
class KPT_API VendorFailure<Error, VendorRoot> : public virtual VendorRoot {
 protected:
  VendorFailure() = default;
};

// The names that users of the predecessor look for: X(name, family, vendor root). AmdLibraryError is MIOpen and
// rocBLAS.
#define KPT_VENDOR_ERRORS(X)                                                    \
  X(CudaNotAvailableError, DeviceNotAvailableError, NvidiaError)                \
  X(CudaDeviceError, DeviceError, NvidiaError)                                  \
  X(NvidiaFp8CompilationError, PrecisionCompilationError, NvidiaError)          \
  X(NvidiaFlashAttentionError, AttentionError, NvidiaError)                     \
  X(NvidiaMemoryAllocationError, MemoryAllocationError, NvidiaError)            \
  X(NvidiaOutOfMemoryError, OutOfMemoryError, NvidiaError)                      \
  X(NvidiaInvalidComputeCapabilityError, InvalidArchitectureError, NvidiaError) \
  X(NvidiaKernelLaunchError, KernelLaunchError, NvidiaError)                    \
  X(NvidiaModelOptimizationError, ModelOptimizationError, NvidiaError)          \
  X(NvidiaConfigurationError, ConfigurationError, NvidiaError)                  \
  X(TpuNotAvailableError, DeviceNotAvailableError, TpuError)                    \
  X(XlaCompilationError, CompilationError, TpuError)                            \
  X(XlaCompilationTimeoutError, CompilationTimeoutError, TpuError)              \
  X(TpuMemoryError, MemoryError, TpuError)                                      \
  X(TpuOutOfMemoryError, OutOfMemoryError, TpuError)                            \
  X(TpuMemoryPoolError, MemoryPoolError, TpuError)                              \
  X(TpuCacheError, CacheError, TpuError)                                        \
  X(TpuModelPreparationError, ModelPreparationError, TpuError)                  \
  X(TpuOptimizationError, OptimizationError, TpuError)                          \
  X(TpuValidationError, ValidationError, TpuError)                              \
  X(TpuDistributedError, DistributedError, TpuError)                            \
  X(TpuCheckpointError, CheckpointError, TpuError)                              \
  X(TpuConfigurationError, ConfigurationError, TpuError)                        \
  X(TpuDeviceError, DeviceError, TpuError)                                      \
  X(RocmNotAvailableError, DeviceNotAvailableError, AmdError)                   \
  X(HipCompilationError, KernelCompilationError, AmdError)                      \
  X(RocmMemoryError, MemoryError, AmdError)                                     \
  X(AmdLibraryError, VendorLibraryError, AmdError)                              \
  X(AmdDeviceError, DeviceError, AmdError)                                      \
  X(AmdConfigurationError, ConfigurationError, AmdError)                        \
  X(AmdMatrixCoreError, MatrixUnitError, AmdError)                              \
  X(AmdOptimizationError, OptimizationError, AmdError)                          \
  X(HipKernelError, KernelError, AmdError)

#define KPT_DECLARE_VENDOR_ERROR(name, family, vendor) using name = VendorFailure<family, vendor>;
KPT_VENDOR_ERRORS(KPT_DECLARE_VENDOR_ERROR)
#undef KPT_DECLARE_VENDOR_ERROR

}  // namespace kpt
