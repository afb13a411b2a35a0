// The sizes of the structs that cross the C interface; a test compares them with the other side's.
#include <cstddef>
#include <cstring>

#include "../include/launch.h"
#include "../include/params.h"
#if defined(LONGWICK_EMU)
#include "../emu/context.h"
#endif

#define LONGWICK_STRUCTS(X)                                                                                        \
    X(LongwickStream) X(LongwickRmsNormParams) X(LongwickRopeAnglesParams) X(LongwickRopeParams) X(LongwickGatedParams) \
    X(LongwickPagedKv) X(LongwickKvWriteParams) X(LongwickAttentionItem) X(LongwickMergeItem) X(LongwickAttentionParams)

// 0 for an unknown name.
extern "C" std::size_t longwick_struct_size(const char* name) {
#define LONGWICK_SIZE(Struct) \
    if (std::strcmp(name, #Struct) == 0) return sizeof(Struct);
    LONGWICK_STRUCTS(LONGWICK_SIZE)
#if defined(LONGWICK_EMU)
    LONGWICK_SIZE(LongwickEmuContext)
#endif
    return 0;
}
