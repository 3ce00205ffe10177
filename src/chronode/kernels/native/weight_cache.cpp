// Creation and deletion of the cache that a caller keeps between calls of one kernel; see entry.h.
#include "entry.h"
#include "simd.h"

// Null if there is no memory: the kernels then pack their weights at each call.
CHRONODE_EXPORT chronode::WeightCache* chronode_new_weight_cache() { return new (std::nothrow) chronode::WeightCache(); }

CHRONODE_EXPORT void chronode_delete_weight_cache(chronode::WeightCache* cache) { delete cache; }
