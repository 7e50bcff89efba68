// How many threads libtorch uses inside one operator, on every thread that runs nodes.
#pragma once

namespace kpt::aten {

// For the whole process: libtorch keeps the number itself.
void set_thread_count(int threads);

// Makes that number hold on this thread, which it does not by itself: OpenMP's and MKL's are each thread's own,
// libtorch sets them when its first parallel loop runs there, and a product or convolution before that takes the
// machine's number. Call it before work of libtorch; nearly free after the first time. A thread that took it in the
// module of a GPU keeps it there when another is set later.
void take_thread_count();

}  // namespace kpt::aten
