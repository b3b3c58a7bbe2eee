// glibc before 2.32 does not have this variable, which libstdc++ of GCC 12 reads before it counts a
// reference without atomic operations. 0: there may be other threads, so it always uses them.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
