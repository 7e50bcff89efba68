// Lists the devices of this machine, then asks for one by name.
//   list_devices [NAME]
#include <cstdlib>
#include <iostream>

#include "kpt/device.h"
#include "kpt/device_figures.h"
#include "kpt/errors.h"
#include "kpt/version.h"

int main(int argc, char** argv) {
  std::cout << "KernelPyTorch " << kpt::version() << "\n";
  const kpt::Result<std::vector<kpt::DeviceInfo>> devices = kpt::list_devices();
  if (!devices.ok()) {
    std::cerr << devices.status().message() << "\n";
    return EXIT_FAILURE;
  }
  for (const kpt::DeviceInfo& device : *devices) {
    std::cout << device.name << "  " << device.description << "  " << device.architecture << "  "
              << (device.usable ? "usable" : device.reason) << "\n";
  }
  if (argc < 2) return EXIT_SUCCESS;
  try {
    std::cout << "using " << kpt::require_device(argv[1]).description << "\n";
    const kpt::DeviceLoad load = kpt::read_device_load(argv[1]).value();
    if (load.utilization_percent) std::cout << *load.utilization_percent << " % busy\n";
    const kpt::Result<kpt::DeviceMemoryFigures> memory = kpt::read_device_memory(argv[1]);
    if (memory.ok() && memory->free_bytes) std::cout << *memory->free_bytes << " bytes free\n";
  } catch (const kpt::CudaNotAvailableError& error) {
    std::cerr << "no CUDA: " << error.what() << "\n";
    return EXIT_FAILURE;
  } catch (const kpt::Error& error) {
    std::cerr << "failed: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
