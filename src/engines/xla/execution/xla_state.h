// The buffers that a model writes, in a plugin's memory: each run takes them and gives new ones.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/call_threads.h"
#include "device/execution.h"
#include "engines/xla/execution/device_parts.h"
#include "engines/xla/pjrt/client.h"

namespace kpt {

class XlaState final : public State {
 public:
  // `owner` tells states of different executables apart. `originals`: what the file holds, whole on each device, shared
  // with all states; `devices`: where they are. Reading, writing and letting go go through `threads`, `limit` long.
  XlaState(const void* owner, std::shared_ptr<const pjrt::Client> client, DeviceRange devices,
           const std::map<std::string, DeviceParts, std::less<>>& originals, std::shared_ptr<CallThreads> threads,
           std::chrono::milliseconds limit);

  XlaState(const XlaState&) = delete;
  XlaState& operator=(const XlaState&) = delete;
  ~XlaState() override;

  Status reset() override;
  std::vector<std::string> names() const override;
  Result<Tensor> read(std::string_view name) const override;
  Status write(std::string_view name, const Tensor& value) override;

  const void* owner() const { return owner_; }
  // Fails with kInvalidArgument after a run that failed once it had given the buffers away.
  Status check_usable() const;
  const DeviceParts& current(const std::string& name) const;
  // Whether nobody else has a share in the buffers: only then may a run overwrite them.
  bool is_own(const std::string& name) const;
  void replace(const std::string& name, DeviceParts content);
  // What replace() took out: buffers that the run before overwrote, for the thread of the next one to let go.
  std::vector<DeviceParts> take_replaced() { return std::exchange(replaced_, {}); }
  // A run has been given buffers to overwrite and failed.
  void mark_lost() { lost_ = true; }

 private:
  struct Entry {
    DeviceParts original;
    DeviceParts current;
  };
  void let_go(std::vector<DeviceParts> parts) const;

  const void* owner_;
  std::shared_ptr<const pjrt::Client> client_;
  DeviceRange devices_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<DeviceParts> replaced_;
  std::shared_ptr<CallThreads> threads_;
  std::chrono::milliseconds limit_;
  bool lost_ = false;
};

}  // namespace kpt
