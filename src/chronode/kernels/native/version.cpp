// What the loader asks a library before it uses it.

extern "C" {

// The instruction set this library was compiled for.
__attribute__((visibility("default"))) const char* chronode_isa() { return CHRONODE_ISA; }

// Raised whenever the signature of an exported function changes; kernels/_library.py holds the same number.
__attribute__((visibility("default"))) int chronode_abi() { return 6; }

}
