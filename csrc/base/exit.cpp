// Static objects of this library are never destroyed: at exit, daemon threads may still compute with them. Compilers
// register the destructors with this function; a definition inside the library is found before the C library's, and
// does nothing. Memory goes with the process.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
