#include "kpt/status.h"

#include "kpt/errors.h"

namespace kpt {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
#define KPT_CODE_TEXT(enumerator, text, exception, parent, meaning) \
  case StatusCode::enumerator: return text;
      KPT_STATUS_CODES(KPT_CODE_TEXT)
#undef KPT_CODE_TEXT
  }
  return "unknown";
}

std::string_view to_string(Vendor vendor) {
  switch (vendor) {
    case Vendor::kNone: return "";
    case Vendor::kNvidia: return "nvidia";
    case Vendor::kAmd: return "amd";
    case Vendor::kTpu: return "tpu";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message, Vendor vendor)
    : code_(code), vendor_(vendor), message_(std::move(message)) {
  if (code == StatusCode::kOk) {
    code_ = StatusCode::kInternal;
    message_ = "a failure was reported with the code ok: " + message_;
  }
}

Status& Status::with(std::string key, std::string value) & {
  details_.push_back({std::move(key), std::move(value)});
  return *this;
}

Status&& Status::with(std::string key, std::string value) && {
  details_.push_back({std::move(key), std::move(value)});
  return std::move(*this);
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string text = message_;
  for (std::size_t i = 0; i < details_.size(); ++i) {
    text += i == 0 ? " (" : ", ";
    text += details_[i].key + "=" + details_[i].value;
  }
  if (!details_.empty()) text += ")";
  return text;
}

namespace {

template <typename Family>
[[noreturn]] void throw_family(const Status& status) {
  switch (status.vendor()) {
    case Vendor::kNvidia: throw VendorFailure<Family, NvidiaError>(status);
    case Vendor::kAmd: throw VendorFailure<Family, AmdError>(status);
    case Vendor::kTpu: throw VendorFailure<Family, TpuError>(status);
    case Vendor::kNone: break;
  }
  throw Family(status);
}

}  // namespace

void throw_status(const Status& status) {
  switch (status.code()) {
#define KPT_THROW_CODE(enumerator, text, exception, parent, meaning) \
  case StatusCode::enumerator: throw_family<exception>(status);
    KPT_STATUS_CODES(KPT_THROW_CODE)
#undef KPT_THROW_CODE
    case StatusCode::kOk: break;
  }
  throw InternalError(Status(StatusCode::kInternal, "throw_status was called with an ok status"));
}

}  // namespace kpt
