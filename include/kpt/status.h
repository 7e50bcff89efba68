// How expected failures travel: a code, the vendor whose stack failed, and one sentence.
//
// Functions that can fail return `Status` or `Result<T>`; both are [[nodiscard]]. Exceptions are for callers who
// prefer them (see errors.h, a typed tree over the same codes) and for broken invariants.
//
// Thread safety: all types here are values.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kpt/export.h"

namespace kpt {

// One row per kind of failure: X(enumerator, text, exception class, parent exception class, meaning).
// The exception classes are declared in errors.h; a row's parent must stand above it. The text is stable: reports, JSON
// and logs carry it. docs/reference/errors.md is made from this table.
#define KPT_STATUS_CODES(X)                                                                                           \
  X(kInternal, "internal", InternalError, Error, "an invariant of this library broke; please report it")              \
  X(kInvalidArgument, "invalid_argument", InvalidArgumentError, Error, "the caller passed something unusable")        \
  X(kNotFound, "not_found", NotFoundError, Error, "a file, name or entry is not there")                               \
  X(kAlreadyExists, "already_exists", AlreadyExistsError, Error, "the thing to be created is there already")          \
  X(kPermissionDenied, "permission_denied", PermissionDeniedError, Error, "the system refuses access")                \
  X(kIo, "io", IoError, Error, "reading or writing failed")                                                           \
  X(kCorruptData, "corrupt_data", CorruptDataError, Error, "a file or message breaks its own format")                 \
  X(kUnsupported, "unsupported", UnsupportedError, Error, "understood, but this build or hardware cannot do it")      \
  X(kVersionMismatch, "version_mismatch", VersionMismatchError, Error, "two parts were built for different versions") \
  X(kDeadlineExceeded, "deadline_exceeded", DeadlineExceededError, Error, "the time limit passed")                    \
  X(kCancelled, "cancelled", CancelledError, Error, "the caller asked to stop")                                       \
  X(kConfiguration, "configuration", ConfigurationError, Error, "a configuration file, variable or flag is wrong")    \
  X(kValidation, "validation", ValidationError, Error, "a check of results or of a model failed")                     \
  X(kDevice, "device", DeviceError, Error, "a device reported a failure")                                             \
  X(kDeviceNotAvailable, "device_not_available", DeviceNotAvailableError, DeviceError, "no such device can be used")  \
  X(kInvalidArchitecture, "invalid_architecture", InvalidArchitectureError, DeviceError,                              \
    "the architecture or compute capability is unknown or too old")                                                   \
  X(kMatrixUnit, "matrix_unit", MatrixUnitError, DeviceError, "matrix units lack the precision asked for")            \
  X(kMemory, "memory", MemoryError, Error, "any failure of memory: one of the three below")                           \
  X(kOutOfMemory, "out_of_memory", OutOfMemoryError, MemoryError, "not enough memory on the device or the host")      \
  X(kMemoryAllocation, "memory_allocation", MemoryAllocationError, MemoryError,                                       \
    "an allocation failed though memory is left, or memory could not be pinned")                                      \
  X(kMemoryPool, "memory_pool", MemoryPoolError, MemoryError, "a pool has all that it may take of a device's memory") \
  X(kCompilation, "compilation", CompilationError, Error, "a compiler rejected its input")                            \
  X(kKernelCompilation, "kernel_compilation", KernelCompilationError, CompilationError, "a kernel did not compile")   \
  X(kPrecisionCompilation, "precision_compilation", PrecisionCompilationError, CompilationError,                      \
    "a low-precision (FP8, INT8, INT4) form of the model could not be made")                                          \
  X(kCompilationTimeout, "compilation_timeout", CompilationTimeoutError, CompilationError,                            \
    "a compiler ran past its time limit")                                                                             \
  X(kCache, "cache", CacheError, Error, "the folder of the compile cache cannot be made, read, written or locked")    \
  X(kOptimization, "optimization", OptimizationError, Error, "any failure to optimize: one of the two below")         \
  X(kModelOptimization, "model_optimization", ModelOptimizationError, OptimizationError,                              \
    "the model cannot be optimized as asked")                                                                         \
  X(kModelPreparation, "model_preparation", ModelPreparationError, OptimizationError,                                 \
    "the model could not be placed on a device or prepared for it")                                                   \
  X(kKernel, "kernel", KernelError, Error, "a kernel failed")                                                         \
  X(kKernelLaunch, "kernel_launch", KernelLaunchError, KernelError, "a kernel could not be launched")                 \
  X(kAttention, "attention", AttentionError, KernelError, "an attention kernel cannot serve these shapes or masks")   \
  X(kVendorLibrary, "vendor_library", VendorLibraryError, Error,                                                      \
    "a vendor's library (cuBLAS, MIOpen, rocBLAS, …) failed")                                                         \
  X(kDistributed, "distributed", DistributedError, Error, "processes or devices cannot communicate; not raised yet")  \
  X(kCheckpoint, "checkpoint", CheckpointError, Error, "a checkpoint could not be written or read; not raised yet")

enum class StatusCode : std::uint8_t {
  kOk,
#define KPT_DECLARE_CODE(enumerator, text, exception, parent, meaning) enumerator,
  KPT_STATUS_CODES(KPT_DECLARE_CODE)
#undef KPT_DECLARE_CODE
};

// Whose stack failed. `kNone` is our own code or the operating system.
enum class Vendor : std::uint8_t { kNone, kNvidia, kAmd, kTpu };

// "ok", "out_of_memory", …: the stable text of a code.
KPT_API std::string_view to_string(StatusCode code);
// "", "nvidia", "amd", "tpu".
KPT_API std::string_view to_string(Vendor vendor);

// A named fact about a failure, e.g. {"requested_bytes", "4096"}.
struct StatusDetail {
  std::string key;
  std::string value;
  bool operator==(const StatusDetail&) const = default;
};

// The outcome of an operation that yields no value. Cheap when ok.
class [[nodiscard]] KPT_API Status {
 public:
  Status() = default;
  // `message` is one sentence: what failed, where, and how to mend it if that is known. `code` must not be kOk.
  Status(StatusCode code, std::string message, Vendor vendor = Vendor::kNone);

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  Vendor vendor() const { return vendor_; }
  const std::string& message() const& { return message_; }
  std::string message() && { return std::move(message_); }  // result.status().message() outlives the temporary
  const std::vector<StatusDetail>& details() const { return details_; }

  // Adds a fact; keeps insertion order. Returns *this so that it reads as one expression.
  Status& with(std::string key, std::string value) &;
  Status&& with(std::string key, std::string value) &&;

  // The message followed by the details as "(key=value, …)".
  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  Vendor vendor_ = Vendor::kNone;
  std::string message_;
  std::vector<StatusDetail> details_;
};

// Throws the exception of errors.h that belongs to `status`; defined there so that this header stays small.
[[noreturn]] KPT_API void throw_status(const Status& status);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (std::get<Status>(state_).ok()) {
      state_ = Status(StatusCode::kInternal, "a Result was built from an ok Status without a value");
    }
  }

  // A pointer or number would silently become `true` in a Result<bool>.
  template <typename Other>
    requires std::same_as<T, bool> && std::is_scalar_v<std::decay_t<Other>> &&
                 (!std::same_as<std::decay_t<Other>, bool>)
  Result(Other&&) = delete;

  bool ok() const { return std::holds_alternative<T>(state_); }
  // Not for Result<bool>, where `if (result)` would read as a question about the value.
  explicit operator bool() const
    requires(!std::same_as<T, bool>)
  {
    return ok();
  }

  // The failure; an ok Status when there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  // The value. Without one, throws what throw_status() throws: ask ok() first, or mean the exception.
  // A temporary gives its value away, so `for (auto& x : *list())` and `auto&& x = *list()` hold no dead reference.
  const T& value() const& {
    require();
    return std::get<T>(state_);
  }
  T& value() & {
    require();
    return std::get<T>(state_);
  }
  T value() && {
    require();
    return std::get<T>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  T value_or(T fallback) const& {
    if (ok()) return std::get<T>(state_);
    return fallback;
  }

 private:
  void require() const {
    if (!ok()) throw_status(std::get<Status>(state_));
  }
  std::variant<T, Status> state_;
};

}  // namespace kpt

// Returns the failure of `expression` (a Status) to the caller.
#define KPT_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                   \
    if (::kpt::Status kpt_status_ = (expression); !kpt_status_.ok()) return kpt_status_; \
  } while (false)

#define KPT_CONCAT_INNER_(a, b) a##b
#define KPT_CONCAT_(a, b) KPT_CONCAT_INNER_(a, b)

// KPT_ASSIGN_OR_RETURN(auto text, read_text_file(path)): declares `text`, or returns the failure to the caller.
#define KPT_ASSIGN_OR_RETURN(declaration, expression) \
  KPT_ASSIGN_OR_RETURN_(KPT_CONCAT_(kpt_result_, __LINE__), declaration, expression)
#define KPT_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) return result.status();                    \
  declaration = std::move(result).value()
