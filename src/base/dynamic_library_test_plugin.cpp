// What dynamic_library_test opens.
extern "C" [[gnu::visibility("default")]] int kpt_test_plugin_answer(int question) { return question + 1; }
