// Static objects of this library are never destroyed: at exit, daemon threads may still use them. Compilers register
// destructors with this function; a definition inside the library takes precedence over the C library's, and does
// nothing. The memory is freed with the process.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
